"""Training processes that can be hurt: their events, and the files that tell them how to fail.

Each process appends events to `events-RANK`, as JSON lines with the time (`time.monotonic`): `process`, its first line;
`step`; `fault`, it is about to fail; `done`. The file `fault-RANK` tells a rank how to fail at its next step, and
`finish` after which step all succeed. `hang-RANK` lets a rank hang then.
"""

import atexit
import json
import os
import sys
import time
from pathlib import Path

RANK = int(os.environ["RANK"])
FILE = os.open(f"events-{RANK}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
SLOW_S = 4.0
"""Seconds that a process needs to die, with `slow`: an exporter or a device that is being closed."""

HANG_S = 600.0
"""Seconds for which a rank with a file `hang-RANK` does not end."""

STEPS_WITH_BUG = 3
"""The step of each start after which `bug` raises."""


def note(event: str, step: int = 0) -> None:
    """Append an event."""
    where = {"rank": RANK, "pid": os.getpid(), "node": int(os.environ["BENCH_NODE"])}
    line = {"event": event, "at": time.monotonic(), "step": step, **where}
    os.write(FILE, (json.dumps(line) + "\n").encode())


def is_last(step: int) -> bool:
    """True after the step with which all succeed."""
    text = _text("finish")
    return bool(text) and step >= int(text)


def fail(step: int) -> None:
    """Fail as the file of this rank says. A fault happens once, a bug in each start."""
    kind = _text(f"fault-{RANK}")
    if not kind or (kind == "bug" and step <= STEPS_WITH_BUG):
        return
    if kind != "bug":
        Path(f"fault-{RANK}").rename(f"fault-{RANK}.done")
    note("fault")
    if kind == "memory":
        hog = []
        while True:
            hog.append(bytearray(os.urandom(1 << 20)))
    if kind == "exit":
        sys.exit(3)
    if kind == "slow":
        atexit.register(time.sleep, SLOW_S)
    raise ValueError("a failure")


def done() -> None:
    """Succeed, or hang."""
    note("done")
    if Path(f"hang-{RANK}").exists():
        time.sleep(HANG_S)


def _text(name: str) -> str:
    """The text of a file; empty where there is none."""
    try:
        return Path(name).read_text()
    except FileNotFoundError:
        return ""
