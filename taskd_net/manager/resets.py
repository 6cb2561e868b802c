"""Resets of devices, which a hook of the user's carries out."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from taskd_net.codes import TaskdNetError
from taskd_net.jobs.traffic import Reset

OnReset = Callable[[Reset], Awaitable[bool]]
"""Resets a device; returns whether the device is back. It is cancelled when its time has passed."""

Ended = Callable[[str, bool, str], None]

TAIL_CHARS: Final = 200
"""Last characters of a program's stderr that are told, in the log and on the page."""

READ_BYTES: Final = 65_536


class ResetFailed(TaskdNetError):
    """A device was not reset; the text says why."""


class Resets:
    """The resets under way, each with a time limit of its own.

    Args:
        hook: carries them out.
        ended: takes the uuid of a reset, whether the device is back, and the reason if it is not.
        log: takes the lines.
    """

    def __init__(self, hook: OnReset, ended: Ended, log: Any) -> None:
        self._hook = hook
        self._ended = ended
        self._log = log
        self._running: dict[str, asyncio.Task[None]] = {}

    def begin(self, reset: Reset) -> None:
        """Begin a reset."""
        task = asyncio.create_task(self._reset(reset), name=f"resets {reset.device}")
        self._running[reset.uuid] = task

    async def close(self) -> None:
        """End all that run."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _reset(self, reset: Reset) -> None:
        self._log.info("reset_begins", device=reset.device, seconds=reset.limit)
        done, reason = False, ""
        try:
            async with asyncio.timeout(reset.limit):
                done = await self._hook(reset)
                reason = "" if done else "the hook says that the device is not back"
        except TimeoutError:
            reason = f"the device is not back within {reset.limit:g} s"
        except ResetFailed as error:
            reason = str(error)
        except Exception as error:  # noqa: BLE001 - a hook of the user's ends no Manager
            reason = f"{type(error).__name__}: {error}"
        finally:
            del self._running[reset.uuid]
        if done:
            self._log.info("reset_done", device=reset.device)
        else:
            self._log.error("reset_failed", device=reset.device, reason=reason)
        self._ended(reset.uuid, done, reason)


def program(path: str) -> OnReset:
    """A hook that runs a program: `PROGRAM HOST NAME`, with exit status 0 when the device is back.

    Its environment has `TASKD_NET_RESET_UUID`, which is another one for each reset, and `TASKD_NET_RESET_RANKS`.
    """

    async def run(reset: Reset) -> bool:
        host, _, name = reset.device.rpartition("/")
        ranks = ",".join(map(str, reset.ranks))
        variables = {**os.environ, "TASKD_NET_RESET_UUID": reset.uuid, "TASKD_NET_RESET_RANKS": ranks}
        try:
            process = await asyncio.create_subprocess_exec(
                path,
                *(host, name),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env=variables,
            )
        except OSError as error:
            raise ResetFailed(f"{path} cannot be run: {error.strerror}") from error
        try:
            said = await _last_words(process)
            code = await process.wait()
        finally:
            if process.returncode is None:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if code:
            raise ResetFailed(f"{path} has ended with {code}{': ' if said else ''}{said}")
        return True

    return run


async def _last_words(process: asyncio.subprocess.Process) -> str:
    """The end of a process's stderr, in one line; all of it is read, so that the process does not wait."""
    assert process.stderr is not None
    said = b""
    while part := await process.stderr.read(READ_BYTES):
        said = (said + part)[-4 * TAIL_CHARS :]
    return " ".join(said.decode(errors="replace").split())[-TAIL_CHARS:]
