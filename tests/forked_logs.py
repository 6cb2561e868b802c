"""A process that forks while its threads log without pause: `python -m tests.forked_logs FOLDER COUNT`.

Every child logs one line, looks for it in the file, and ends. Prints one JSON object with their
faults on stderr. The files are rotated all the time; the console is the standard output.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import warnings
from pathlib import Path

from taskd_net import limits, logs
from taskd_net.logger import get_logger

CHILD_S = 20
SIDE_BY_SIDE = 4
THREADS = 2
FILE_BYTES = 64 * 1024
LOST = 3


def main(folder: Path, count: int) -> None:
    """Fork `count` times."""
    # Python 3.12 and later warn of a fork beside threads, which is the subject here.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    limits.LOG_FILE_BYTES = FILE_BYTES  # type: ignore[misc]
    limits.LOG_PEER_LINES = limits.LOG_CHANGES = 10**9  # type: ignore[misc]
    sys.setswitchinterval(0.0005)
    logs.start("x.log", path=str(folder), stdout=True)
    over = threading.Event()
    threads = [threading.Thread(target=log_until, args=(over,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    troubles: list[str] = []
    children: list[int] = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            in_child(f"child-{number}-")
        children.append(child)
        if len(children) == SIDE_BY_SIDE:
            troubles += ended(children.pop(0))
    for child in children:
        troubles += ended(child)
    over.set()
    for thread in threads:
        thread.join()
    logs.stop()
    print(json.dumps({"children": count, "troubles": troubles}), file=sys.stderr)


def log_until(over: threading.Event) -> None:
    """Log as fast as possible."""
    log = get_logger(node="Worker/0/3")
    while not over.is_set():
        log.info("state_changed", reason="x" * 40)


def in_child(name: str) -> None:
    """Log a line, and end; a child that hangs is killed by the system, one that raises ends with 1."""
    signal.alarm(CHILD_S)
    status = 1
    try:
        (file,) = (handler._file for handler in logs._handlers if isinstance(handler, logs._File))
        assert file is not None
        # By descriptor, because its name may belong to a newer file after a rotation.
        with Path(f"/proc/self/fd/{file.fileno()}").open("rb", buffering=0) as reader:
            reader.seek(0, os.SEEK_END)
            get_logger().info(name)
            status = 0 if f'"event": "{name}"'.encode() in reader.read() else LOST
    finally:
        os._exit(status)


def ended(child: int) -> list[str]:
    """Wait for a child. Returns its fault."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = {0: [], -signal.SIGALRM: ["hangs"], LOST: ["its line is not in the file"]}
    return said.get(code, [f"exit code {code}"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
