"""Real processes in real trouble, and what the commands say about it.

Each situation has a `Stage`: it starts nodes, runs commands, and keeps what was to be seen under the names that the
guide has for it. In what is kept, free ports of the moment are replaced by those that a user would take, and the folder
of the test by `/etc/taskd-net`; everything else is as it was printed.
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
    """One situation. As a context, everything that it has started is ended with it.

    Args:
        folder: for files.

    Attributes:
        shown: what was to be seen, by name.
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

    # ---- nodes

    async def mgr(self, *arguments: object) -> str:
        """Start a Mgr: where it listens."""
        return (await self.start(Daemon("mgr", *arguments, logs=self.folder), "127.0.0.1:9601")).address

    async def proxy(self, rank: int, upstream: str, *arguments: object) -> Daemon:
        """Start the Proxy of a node."""
        daemon = Daemon("proxy", "--server-rank", rank, "--upstream", upstream, *arguments, logs=self.folder)
        return await self.start(daemon, f"127.0.0.1:{9602 + rank}")

    async def start(self, daemon: Daemon, name: str) -> Daemon:
        """Start a daemon; its address has this name in what is shown."""
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
        """Start a Worker whose output nobody reads, so that it soon takes no more messages out of its inbox.

        Returns:
            The end of the pipe where that output could be read.
        """
        read, write = os.pipe()
        self._running.callback(os.close, read)
        # The least there is: one message fills it.
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
        worker = Trainee("--as", position, "--upstream", upstream, "--inbox", inbox, stdout=write)
        try:
            await self._running.enter_async_context(worker)
        finally:
            os.close(write)
        await worker.said(" ready")
        return read

    def called(self, address: str, name: str) -> None:
        """An address has this name in what is shown."""
        self._names[address] = name

    # ---- what is to be seen

    async def show(self, name: str, *arguments: object, until: str = "") -> tuple[int, str]:
        """Run a command, and keep what it prints.

        Args:
            name: what the guide calls it; empty: not to be kept.
            arguments: of the command.
            until: a pattern; it is run again until this can be found in what it prints.

        Returns:
            Its exit code and what it printed.
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
        """Run a command: its exit code, and the command with what it prints, as on a terminal."""
        code, output, errors = await run(*arguments, env={"COLUMNS": str(WIDTH)})
        said = f"$ taskd-net {shlex.join(map(str, arguments))}\n{output}{errors}".rstrip("\n") + "\n"
        return code, said + (f"[exit code {code}]\n" if code else "")

    def keep(self, name: str, text: str) -> None:
        """Keep a text."""
        assert name not in self.shown, name
        # The longest first, as one may be the beginning of another.
        for real in sorted(self._names, key=len, reverse=True):
            text = text.replace(real, self._names[real])
        self.shown[name] = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"

    async def keep_log(self, name: str, command: Command, patterns: Sequence[str]) -> None:
        """Keep the first line with each of these patterns of what a daemon logs."""
        lines = [await command.said(rf"(?m)^.*{pattern}.*$") for pattern in patterns]
        self.keep(name, "".join(line[0] + "\n" for line in lines))
