"""A rank without torch: it steps with all others, and fails as `benchmarks/supervision/script.py` does.

It meets the others at MASTER_ADDR:MASTER_PORT, where `launcher.Collective` answers a byte of each with one for
all.
"""

import atexit
import ctypes
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

RANK = int(os.environ["RANK"])
FILE = os.open(f"events-{RANK}", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
PAUSE_S = 0.02
SLOW_S = 3.0
CONNECT_S = 10.0
STEPS_WITH_BUG = 3
PR_SET_PDEATHSIG = 1


def note(event: str, step: int = 0) -> None:
    """Append an event."""
    where = {"rank": RANK, "pid": os.getpid(), "node": int(os.environ["BENCH_NODE"])}
    os.write(FILE, (json.dumps({"event": event, "at": time.monotonic(), "step": step, **where}) + "\n").encode())


def text_of(name: str) -> str:
    """The text of a file; empty where there is none."""
    try:
        return Path(name).read_text()
    except FileNotFoundError:
        return ""


def fail(step: int) -> None:
    """Fail as the file of this rank says."""
    kind = text_of(f"fault-{RANK}")
    if not kind or (kind == "bug" and step <= STEPS_WITH_BUG):
        return
    if kind != "bug":
        Path(f"fault-{RANK}").rename(f"fault-{RANK}.done")
    note("fault")
    if kind == "exit":
        sys.exit(3)
    if kind == "slow":
        atexit.register(time.sleep, SLOW_S)
    raise ValueError("a failure")


def main() -> None:
    """Step until all shall succeed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    note("process")
    place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    step = 0
    with socket.create_connection(place, CONNECT_S) as peers:
        peers.settimeout(None)
        peers.sendall(bytes([int(os.environ["WORLD_SIZE"])]))
        while not (last := text_of("finish")) or step < int(last):
            peers.sendall(b".")
            if not peers.recv(1):
                sys.exit("a peer is lost")
            step += 1
            note("step", step)
            fail(step)
            time.sleep(PAUSE_S)
    note("done")


if __name__ == "__main__":
    main()
