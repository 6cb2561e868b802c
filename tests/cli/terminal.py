"""A command in a terminal of its own: its screen is awaited, its keys are pressed."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import struct
import sys
import termios
from types import TracebackType
from typing import Self

from tests.cli.processes import PATIENCE_S, ROOT
from tests.peers.mesh import soon

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """One run of `taskd-net` in a terminal. As a context it is started, and ended however it stands.

    Attributes:
        program: the command in front of the arguments.

    Args:
        arguments: of the command line.
        width: of the terminal, in columns.
        height: of the terminal, in lines.
        env: variables beside those that Python needs.
    """

    program: tuple[str, ...] = (sys.executable, "-m", "taskd_net.cli")

    def __init__(self, *arguments: object, width: int, height: int, **env: str) -> None:
        self._arguments = [str(argument) for argument in arguments]
        self._size = struct.pack("HHHH", height, width, 0, 0)
        base = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "XDG_CONFIG_HOME": "/dev/null", "TERM": "xterm"}
        self._env = {**base, "LANG": "C.UTF-8", **env}
        self._more = asyncio.Event()
        self._controller = -1
        self.text = ""
        """All that it has written."""

    async def __aenter__(self) -> Self:
        self._controller, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, self._size)
        self._process = await asyncio.create_subprocess_exec(
            *self.program, *self._arguments,
            stdin=terminal, stdout=terminal, stderr=terminal, env=self._env, cwd=ROOT,
        )  # fmt: skip
        os.close(terminal)
        asyncio.get_running_loop().add_reader(self._controller, self._read)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await soon(self._process.wait(), PATIENCE_S)
        asyncio.get_running_loop().remove_reader(self._controller)
        os.close(self._controller)

    def _read(self) -> None:
        try:
            self.text += os.read(self._controller, 65536).decode()
        except OSError:  # the other end is closed
            asyncio.get_running_loop().remove_reader(self._controller)
        self._more.set()

    @property
    def lines(self) -> list[str]:
        """The lines since the last clearing of the screen, without styles."""
        return _CONTROL.sub("", self.text.rpartition("\x1b[2J")[2]).replace("\r\n", "\n").rstrip("\n").split("\n")

    async def shows(self, pattern: str) -> list[str]:
        """Wait until a screen has this. Returns its lines."""
        async with asyncio.timeout(PATIENCE_S):
            while not re.search(pattern, "\n".join(self.lines)):
                self._more.clear()
                await self._more.wait()
        return self.lines

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._controller, keys.encode())

    async def exit_code(self) -> int:
        """Wait for its end."""
        return await soon(self._process.wait(), PATIENCE_S)
