"""A fork server: processes of Python that begin with their imports done, for tests that start many.

An interpreter with gRPC, click and rich needs 0.3 s of a processor until its first line. The server has imported
the modules in `IMPORTED`, and runs nothing: no thread, no loop, no channel. Within `with forked()`, `subprocess` and
asyncio let it start each `python -m MODULE` whose module is in `RUN`. The new process is a child of the test, as an
executed one is, so its number, signals, pipes and exit code are as ever. It has its own arguments, environment, folder,
standard files and session, and runs the module as `__main__`. `/proc/PID/cmdline` and `environ` are the server's.

`tests/test_fork_server.py` holds both ways to the same. Python is executed where its start could make a difference: for
options of Python, a wrapper, another tree, and variables that an interpreter or gRPC reads once (`READ_AT_START`). So
it is outside of `with forked()`, in runs that write figures into documents, and where the system has no such fork.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import inspect
import io
import json
import os
import platform
import re
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Final, TextIO

ROOT: Final = Path(__file__).resolve().parents[1]

RUN: Final = (
    "taskd_net.cli",
    "tests.etcd.killed",
    "tests.faults.crowd",
    "tests.faults.member",
    "tests.guide.trainee",
    "tests.likeness",
    "tests.manager.killed",
)
"""The modules that may run in a forked process."""

IMPORTED: Final = (
    *(
        f"taskd_net.cli.{name}"
        for name in ("daemon", "send", "listen", "tree", "job", "ping", "trace", "forget", "health")
    ),
    "taskd_net.cli.unreached",
    "taskd_net.observe.service",
    "taskd_net.net.links.direct_acceptor",
    "taskd_net.net.joining.serve",
    "taskd_net.job.manager.keeping",
    "tests.faults.member",
)
"""Beside their imports, those that a node and its commands make later."""

READ_AT_START: Final = re.compile(
    r"PYTHON(?!PATH$|FAULTHANDLER$)|GRPC_|TASKD_NET_GRPC_ENV$|LD_|MALLOC_|GLIBC_|LC_|LANG|TZ$|COVERAGE|OTEL_|OPENSSL_"
)
"""Variables without effect in a process that has begun: one that has any of them is executed."""

_CLONE: Final = {"x86_64": 56, "aarch64": 220}
"""The system call, by machine."""
_PARENT: Final = 0x00008000 | 0x00200000 | 0x01000000 | signal.SIGCHLD
"""A child of the caller's parent, which has its thread's number where glibc keeps it, as with fork()."""
_TID_ADDRESS: Final = 40
"""Of prctl(2): the place where glibc keeps that number."""
_REQUEST_BYTES: Final = 128 * 1024

_wanted: ContextVar[bool] = ContextVar("wanted", default=False)
_execute: Final = subprocess.Popen._execute_child  # type: ignore[attr-defined]
_parameters: Final = inspect.signature(_execute)


@contextlib.contextmanager
def forked() -> Iterator[None]:
    """Let the server of this process fork what is started meanwhile, where there is a server, and it can."""
    with _set(True):
        yield


@contextlib.contextmanager
def _set(wanted: bool) -> Iterator[None]:
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)


class ForkServer:
    """The server of this process. As a context it is ready to start, which it does with the first process to fork.

    It has the session and process group of its starter, as have the processes that it forks.
    """

    def __init__(self) -> None:
        self._asking = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        # Opened here, not at the start, which may be within a test that must leave no file open.
        self._control, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        server = self

        def execute_child(process: subprocess.Popen[Any], *given: object) -> None:
            if not _wanted.get() or not server._fork(process, _parameters.bind(process, *given).arguments):
                _execute(process, *given)

        subprocess.Popen._execute_child = execute_child  # type: ignore[attr-defined]

    def __exit__(self, *_: object) -> None:
        subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]
        self._control.close()
        self._theirs.close()
        if self._process is not None:
            self._process.wait()

    def _start(self) -> None:
        number = self._theirs.fileno()
        command = [sys.executable, "-m", "tests.fork_server", str(number)]
        env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
        with _set(False):
            self._process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=subprocess.DEVNULL, pass_fds=[number])
        self._theirs.close()
        assert self._control.recv(1) == b"+", "the fork server has not started"

    def _fork(self, process: subprocess.Popen[Any], given: Mapping[str, Any]) -> bool:
        """Have it forked if it can be. The rest of `Popen` is the same for both."""
        args, env = given["args"], given["env"]
        if not _forkable(args, env, given):
            return False
        request = {
            "module": args[2],
            "arguments": [*map(str, args[3:])],
            "env": dict(env),
            "cwd": str(given["cwd"]),
            "session": given["start_new_session"],
            "group": given["process_group"],
        }
        ours = [given[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        files = [standard if file == -1 else file for standard, file in enumerate(ours)]
        with self._asking:
            if self._process is None:
                self._start()
            socket.send_fds(self._control, [json.dumps(request).encode()], files)
            pid = int(self._control.recv(32))
        if pid <= 0:
            return False
        process.pid = pid
        process._child_created = True  # type: ignore[attr-defined]
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        process._close_pipe_fds(*(given[name] for name in pipes))  # type: ignore[attr-defined]
        return True


def _forkable(args: object, env: Mapping[str, str] | None, given: Mapping[str, Any]) -> bool:
    """True if it is a module of ours with the interpreter of the tests, and nothing is read at the start."""
    return (
        isinstance(args, Sequence)
        and [*args[:2]] == [sys.executable, "-m"]
        and args[2] in RUN
        and env is not None
        and env.get("PYTHONPATH") == str(ROOT)
        and not any(READ_AT_START.match(name) for name in env)
        and given["cwd"] is not None
        and not given["shell"]
        and given["executable"] is None
        and given["preexec_fn"] is None
        and not given["pass_fds"]
        and given["restore_signals"]
        and given["close_fds"]
        and (given["gid"], given["gids"], given["uid"], given["umask"]) == (None, None, None, -1)
    )


def _serve(control: socket.socket) -> dict[str, Any]:
    """Fork at each request. Returns in each forked process, with the request, whose files are the standard ones."""
    control.send(b"+")
    while True:
        data, files, _, _ = socket.recv_fds(control, _REQUEST_BYTES, 3)
        if not data:
            sys.exit(0)
        pid = _fork_sibling()
        if pid == 0:
            control.close()
            for standard, file in enumerate(files):
                os.dup2(file, standard)
                os.close(file)
            request: dict[str, Any] = json.loads(data)
            return request
        for file in files:
            os.close(file)
        control.send(str(pid).encode())


def _fork_sibling() -> int:
    """`os.fork`, but the new process is a child of this one's parent. Returns -1 where that cannot be."""
    libc, python = ctypes.PyDLL(None), ctypes.pythonapi
    place = ctypes.c_void_p()
    number = _CLONE.get(platform.machine())
    if number is None or libc.prctl(_TID_ADDRESS, ctypes.byref(place), 0, 0, 0) != 0:
        return -1
    assert len([*Path("/proc/self/task").iterdir()]) == 1, "a forked process would lack the other threads"
    libc.syscall.restype = ctypes.c_long
    # The last two arguments have another order on each machine; the other one is not read.
    words = [ctypes.c_long(word) for word in (number, _PARENT, 0, 0, place.value or 0, place.value or 0)]
    python.PyOS_BeforeFork()
    pid = int(libc.syscall(*words))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return pid


def _become(request: Mapping[str, Any]) -> None:
    """Take on all that a process has from its starter."""
    if request["session"]:
        os.setsid()
    if request["group"] >= 0:
        os.setpgid(0, request["group"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["cwd"])
    sys.path[0] = request["cwd"]
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}  # by Python, at its start
    os.environ.clear()
    os.environ.update(request["env"] | coerced)
    _prepare_grpc(request)
    sys.argv[1:] = request["arguments"]
    sys.orig_argv[1:] = ["-m", request["module"], *request["arguments"]]
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        vars(sys)[name] = vars(sys)[f"__{name}__"] = _text(getattr(sys, name), mode)
    if request["env"].get("PYTHONFAULTHANDLER"):
        faulthandler.enable()


def _prepare_grpc(request: Mapping[str, Any]) -> None:
    """Set the variables of gRPC, which reads them with its first channel or server."""
    from taskd_net.base import environment

    grpc = sys.modules.pop("grpc")
    environment._SET_HERE.clear()
    environment.prepare()
    if request["module"] == "taskd_net.cli" and request["arguments"][:1] != ["run"]:
        environment.silence()
    sys.modules["grpc"] = grpc


def _text(stream: TextIO, mode: str) -> TextIO:
    """A standard file as Python opens it, with the encoding and the errors of the server's."""
    assert isinstance(stream, io.TextIOWrapper)
    number = stream.fileno()
    line_buffering = mode == "w" and (number == 2 or os.isatty(number))
    binary = open(number, mode + "b", closefd=False)  # noqa: SIM115 - for the life of the process
    return io.TextIOWrapper(binary, stream.encoding, stream.errors, line_buffering=line_buffering)


if __name__ == "__main__":
    # Ctrl-C is for the tests, which then end the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with socket.socket(fileno=int(sys.argv[1])) as _control:
        for _name in IMPORTED:
            importlib.import_module(_name)
        # A collection in a forked process would write into each of these objects, and so copy their memory.
        gc.collect()
        gc.freeze()
        _request = _serve(_control)
    _become(_request)
    _module = _request["module"]
    if not hasattr(sys.modules.get(_module), "__path__"):
        sys.modules.pop(_module, None)
    runpy.run_module(_module, run_name="__main__", alter_sys=True)
