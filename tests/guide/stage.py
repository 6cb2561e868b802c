"""Real processes in real trouble, and the output of the commands.

Each situation has a `Stage`: it starts nodes, runs commands, and keeps their output under the guide's names. In the
kept output, typical ports replace the free ports of the moment, and `/etc/taskd-net` replaces the folder of the test.
The rest is as printed.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import re
import shlex
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.cli.processes import Command, Daemon, run

PATIENCE_S = 40.0
WIDTH = 118


class Trainee(Command):
    """A training process."""

    program = ("-m", "tests.guide.trainee")


class Stage:
    """One situation. Its processes end with its context.

    Args:
        folder: for files.

    Attributes:
        shown: kept outputs, by name.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown: dict[str, str] = {}
        self._names: dict[str, str] = {str(folder): "/etc/taskd-net"}
        self._running = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._running.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._running.__aexit__(kind, error, traceback)

    async def mgr(self, *arguments: object) -> str:
        """Start a Mgr. Returns its address."""
        return (await self.start(Daemon("mgr", *arguments, logs=self.folder), "127.0.0.1:9601")).address

    async def proxy(self, rank: int, upstream: str, *arguments: object) -> Daemon:
        """Start the Proxy of a node."""
        daemon = Daemon("proxy", "--server-rank", rank, "--upstream", upstream, *arguments, logs=self.folder)
        return await self.start(daemon, f"127.0.0.1:{9602 + rank}")

    async def start(self, daemon: Daemon, name: str) -> Daemon:
        """Start a daemon, with this name for its address in the output."""
        await self._running.enter_async_context(daemon)
        self._names[daemon.address] = name
        return daemon

    async def workers(self, upstream: str, *positions: str) -> list[Command]:
        """Start Workers, and wait until they have joined."""
        workers: list[Command] = [Trainee("--as", position, "--upstream", upstream) for position in positions]
        for worker in workers:
            await self._running.enter_async_context(worker)
        for worker in workers:
            await worker.said(" ready")
        return workers

    async def unread(self, upstream: str, position: str, inbox: int) -> int:
        """Start a Worker with an unread output, so that it soon stops reading its inbox.

        Returns:
            The reading end of its output.
        """
        read, write = os.pipe()
        self._running.callback(os.close, read)
        # The smallest pipe, which one message fills.
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        worker = Trainee("--as", position, "--upstream", upstream, "--inbox", inbox, stdout=write)
        try:
            await self._running.enter_async_context(worker)
        finally:
            os.close(write)
        await worker.said(" ready")
        return read

    def called(self, address: str, name: str) -> None:
        """Name an address in the output."""
        self._names[address] = name

    async def show(self, name: str, *arguments: object, until: str = "") -> tuple[int, str]:
        """Run a command, and keep its output.

        Args:
            name: the guide's name for the output; empty: do not keep it.
            arguments: of the command.
            until: a pattern; the command runs again until its output has it.

        Returns:
            Its exit code and its output.
        """
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            code, text = await self.say(*arguments)
            if re.search(until, text):
                break
            assert time.monotonic() < give_up_at, (until, text)
            await asyncio.sleep(0.2)
        if name:
            self.keep(name, text)
        return code, text.partition("\n")[2]

    async def say(self, *arguments: object) -> tuple[int, str]:
        """Run a command. Returns its exit code, and the command with its output, as on a terminal."""
        code, output, errors = await run(*arguments, env={"COLUMNS": str(WIDTH)})
        said = f"$ taskd-net {shlex.join(map(str, arguments))}\n{output}{errors}".rstrip("\n") + "\n"
        return code, said + (f"[exit code {code}]\n" if code else "")

    def keep(self, name: str, text: str) -> None:
        """Keep a text."""
        assert name not in self.shown, name
        # The longest first, because one may begin another.
        for real in sorted(self._names, key=len, reverse=True):
            text = text.replace(real, self._names[real])
        self.shown[name] = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"

    async def keep_log(self, name: str, command: Command, patterns: Sequence[str]) -> None:
        """Keep the first line of a daemon's log with each of these patterns."""
        lines = [await command.said(rf"(?m)^.*{pattern}.*$") for pattern in patterns]
        self.keep(name, "".join(line[0] + "\n" for line in lines))
