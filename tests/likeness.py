"""A process that tells all that it has from its starter, and ends as it is told: `tests/test_fork_server.py`."""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import random
import resource
import signal
import sys
import threading
from pathlib import Path
from typing import Final
from uuid import uuid4

import taskd_net  # noqa: F401 - sets the variables of gRPC

# Handlers of faulthandler. They count as unknown ones or as none, which depends on the order of two imports.
_OF_FAULTS: Final = {signal.SIGSEGV, signal.SIGFPE, signal.SIGABRT, signal.SIGBUS, signal.SIGILL}


def told() -> dict[str, object]:
    """The state of this process that must not depend on the way of its start."""
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    limits = [getattr(resource, name) for name in sorted(vars(resource)) if name.startswith("RLIMIT_")]
    return {
        "environment": dict(sorted(os.environ.items())),
        "arguments": sys.argv,
        "command": sys.orig_argv,
        "path": sys.path,
        "name": __name__,
        "folder": str(Path.cwd()),
        "files": sorted(path.name for path in Path("/proc/self/fd").iterdir()),
        "kinds": [str(Path(f"/proc/self/fd/{number}").readlink()).partition(":")[0] for number in range(3)],
        "signals": {name: status[name].strip() for name in ("SigBlk", "SigIgn", "SigCgt")},
        "handlers": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals() - _OF_FAULTS)],
        "parent": os.getppid(),
        "session": [os.getsid(0) == os.getpid() or os.getsid(0), os.getpgid(0) == os.getpid() or os.getpgid(0)],
        "threads": [threading.active_count(), status["Threads"], status["Pid"] == str(threading.get_native_id())],
        "umask": status["Umask"],
        "limits": [resource.getrlimit(limit) for limit in limits],
        "nice": os.nice(0),
        "streams": [
            [stream.encoding, stream.errors, getattr(stream, "line_buffering", None), stream.isatty()]
            for stream in (sys.stdin, sys.stdout, sys.stderr)
        ],
        "faulthandler": faulthandler.is_enabled(),
        "flags": str(sys.flags),
        "garbage": [gc.isenabled(), gc.get_threshold()],
    }


def main(end: str) -> None:
    """Tell it, echo the input, and end."""
    print(json.dumps({**told(), "random": [random.random(), uuid4().hex, os.urandom(8).hex()]}))
    sys.stdout.write(sys.stdin.read())
    sys.stdout.flush()
    print("the end", file=sys.stderr)
    if end == "raise":
        raise RuntimeError(end)
    if end == "abort":
        signal.raise_signal(signal.SIGABRT)
    if end == "pthread_kill":  # by the number that the C library has of the thread
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
        signal.pause()
    sys.exit(int(end))


if __name__ == "__main__":
    main(sys.argv[1])
