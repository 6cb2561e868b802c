"""`taskd-net` as a process, steered from a test: what it says is awaited, never guessed at."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.fork_server import forked
from tests.freezing import freeze
from tests.peers.mesh import soon

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60.0
"""Seconds that anything may take: a command imports gRPC first, on a machine that does other things too."""


class Command:
    """One run of `taskd-net`. As a context it is started, and ended however it stands.

    Args:
        arguments: of the command line.
        env: variables beside those that Python needs.
        stdin: what it reads; None: `/dev/null`.
        stdout: a file descriptor for its output; None: the test reads it.
        cwd: its folder.
        wrapper: a command that runs it, for example in a network namespace.
        executed: with an interpreter of its own, also where there is a fork server.
    """

    program: tuple[str, ...] = ("-m", "taskd_net.cli")
    """The arguments of Python."""

    def __init__(
        self,
        *arguments: object,
        env: Mapping[str, str] | None = None,
        stdin: bytes | None = None,
        stdout: int | None = None,
        cwd: Path | None = None,
        wrapper: Sequence[str] = (),
        executed: bool = False,
    ) -> None:
        self._arguments = [str(argument) for argument in arguments]
        # The contexts of whoever runs the tests are no settings of theirs.
        base = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "XDG_CONFIG_HOME": "/dev/null"}
        base["PYTHONFAULTHANDLER"] = "1"
        self._env = {**base, **(env or {})}
        self._stdin = stdin
        self._stdout = stdout
        self._cwd = cwd
        self._wrapper = wrapper
        self._executed = executed
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._more = asyncio.Event()
        self.errors = ""

    async def __aenter__(self) -> Self:
        pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        with contextlib.nullcontext() if self._executed else forked():
            self._process = await asyncio.create_subprocess_exec(
                *self._wrapper,
                sys.executable,
                *self.program,
                *self._arguments,
                stdin=null if self._stdin is None else pipe,
                stdout=pipe if self._stdout is None else self._stdout,
                stderr=pipe,
                env=self._env,
                cwd=self._cwd or ROOT,
            )
        self._reader = asyncio.create_task(self._read_errors())
        if self._stdin is not None:
            assert self._process.stdin is not None
            self._process.stdin.write(self._stdin)
            self._process.stdin.close()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process is not None and self._reader is not None
        if self._process.returncode is None:
            self._process.kill()
        if self._process.stdout is not None:
            await soon(self._process.stdout.read(), PATIENCE_S)
        await soon(self._process.wait(), PATIENCE_S)
        await soon(self._reader, PATIENCE_S)
        if error is None:
            assert "Traceback" not in self.errors, self.errors

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process is not None
        return self._process.pid

    @property
    def alive(self) -> bool:
        """True while it runs."""
        return self._process is not None and self._process.returncode is None

    async def line(self) -> str:
        """The next line of its standard output, without its end; empty when there is none any more."""
        assert self._process is not None and self._process.stdout is not None
        line = await soon(self._process.stdout.readline(), PATIENCE_S)
        return line.decode().removesuffix("\n")

    async def rest(self) -> str:
        """The rest of its standard output."""
        assert self._process is not None and self._process.stdout is not None
        return (await soon(self._process.stdout.read(), PATIENCE_S)).decode()

    async def said(self, pattern: str) -> re.Match[str]:
        """Wait until this can be found in what it has written on its standard error."""
        async with asyncio.timeout(PATIENCE_S):
            while (found := re.search(pattern, self.errors)) is None:
                assert self._reader is not None and not self._reader.done(), self.errors
                self._more.clear()
                await self._more.wait()
            return found

    def signal(self, number: signal.Signals) -> None:
        """Send this one process a signal."""
        assert self._process is not None
        if number == signal.SIGSTOP:
            freeze(self._process.pid)
        else:
            self._process.send_signal(number)

    async def exit_code(self) -> int:
        """Wait for its end. Minus the signal's number if one ended it. A process that hangs tells where."""
        assert self._process is not None and self._reader is not None
        try:
            code = await soon(self._process.wait(), PATIENCE_S)
        except TimeoutError:
            self._process.send_signal(signal.SIGABRT)  # faulthandler writes the stacks of all threads
            await soon(self._reader, PATIENCE_S)
            raise AssertionError(f"it does not end:\n{self.errors}") from None
        await soon(self._reader, PATIENCE_S)
        return code

    async def _read_errors(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        while data := await self._process.stderr.read(65536):
            self.errors += data.decode()
            self._more.set()
        self._more.set()


class Daemon(Command):
    """`taskd-net mgr` or `taskd-net proxy`, listening on a free port, logging into a folder of the test's.

    Attributes:
        ready: the line that says so.
        address: where it listens.
    """

    def __init__(self, name: str, *arguments: object, logs: Path, **settings: Any) -> None:
        super().__init__(name, "--listen", "127.0.0.1:0", "--log-path", logs, *arguments, **settings)
        self.ready = ""
        self.address = ""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.ready = await self.line()
        found = re.search(r" ready, listening on ([^\s,]+)", self.ready)
        assert found is not None, (self.ready, self.errors)
        self.address = found[1]
        return self


async def run(
    *arguments: object, env: Mapping[str, str] | None = None, stdin: bytes | None = None
) -> tuple[int, str, str]:
    """Run a command to its end: its exit code, its standard output, its standard error."""
    async with Command(*arguments, env=env, stdin=stdin) as command:
        output = await command.rest()
        return await command.exit_code(), output, command.errors


@contextlib.contextmanager
def service_manager(address: str) -> Iterator[socket.socket]:
    """The far end of `NOTIFY_SOCKET`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + address[1:] if address.startswith("@") else address)
        manager.setblocking(False)
        yield manager


async def heard(manager: socket.socket) -> list[str]:
    """The lines of the next datagram."""
    loop = asyncio.get_running_loop()
    return (await soon(loop.sock_recv(manager, 4096), PATIENCE_S)).decode().splitlines()
