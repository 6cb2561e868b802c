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

from taskd_net.base import logs
from taskd_net.base.logger import get_logger

CHILD_S = 20
SIDE_BY_SIDE = 4
THREADS = 2
FILE_BYTES = 64 * 1024
LOST = 3


def main(folder: Path, count: int) -> None:
    """Fork `count` times."""
    # Python 3.12 and later warn of a fork beside threads, which is the subject here.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    sys.setswitchinterval(0.0005)
    logs.start("x.log", path=str(folder), stdout=True)
    log_file().most = FILE_BYTES
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


def log_file() -> logs._File:
    """The handler of the file."""
    (file,) = (handler for handler in logs._handlers if isinstance(handler, logs._File))
    return file


def log_until(over: threading.Event) -> None:
    """Log as fast as possible."""
    log = get_logger(node="Worker/0/3")
    while not over.is_set():
        log.info("call_failed", reason="x" * 40)  # an event that no budget bounds


def in_child(name: str) -> None:
    """Log a line, and end; a child that hangs is killed by the system, one that raises ends with 1."""
    signal.alarm(CHILD_S)
    status = 1
    try:
        file = log_file()._file
        assert file is not None
        get_logger().info(name)
        # By descriptor, because its name may belong to a newer file after a rotation; and afterwards, because the child
        # has begun another file where its own was removed.
        written = Path(f"/proc/self/fd/{file.fileno()}").read_bytes()
        status = 0 if f'"event": "{name}"'.encode() in written else LOST
    finally:
        os._exit(status)


def ended(child: int) -> list[str]:
    """Wait for a child. Returns its fault."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said = {0: [], -signal.SIGALRM: ["hangs"], LOST: ["its line is not in the file"]}
    return said.get(code, [f"exit code {code}"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
