"""Resets of devices, which a hook of the user's carries out."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from shutil import which
from typing import Any, Final

from taskd_net.base.codes import TaskdNetError
from taskd_net.base.limits import KILLED_S
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.traffic import Reset
from taskd_net.job.manager.threads import described

END_S: Final = 3 * KILLED_S
"""Seconds for the resets under way when their Manager ends: a hook is killed, then its shell, which is waited for."""

OnReset = Callable[[Reset], Awaitable[bool]]
"""Resets a device; returns whether the device is back. It is cancelled when its time has passed."""

Ended = Callable[[str, bool, str], None]

TAIL_CHARS: Final = 200
"""Last characters of a program's stderr that are told, in the log and on the page."""

READ_BYTES: Final = 65_536
"""Bytes of one read of a pipe, which holds no more."""

REAP_PAUSE_S: Final = 0.005
"""Seconds between two looks at a shell that has told its end."""

_STATUS: Final = 3
"""The descriptor over which the shell above a program tells its pid and exit status."""

_SHELL: Final = "/bin/sh"

_SCRIPT: Final = f"""{_SHELL} -c 'echo $$ >&{_STATUS}; exec "$0" "$@" {_STATUS}>&-' "$0" "$@"; echo $? >&{_STATUS}"""

_DESCRIPTORS: Final = Path("/proc/self/fd")


class ResetFailed(TaskdNetError):
    """A device was not reset; the text says why."""


class Resets:
    """The resets under way, each with a time limit of its own.

    Args:
        hook: carries them out.
        ended: takes the uuid of a reset, whether the device is back, and the reason if it is not.
        log: takes the lines.
        patience: seconds for their end, when the Manager ends.
    """

    def __init__(self, hook: OnReset, ended: Ended, log: Any, patience: float = END_S) -> None:
        self._patience = patience
        self._hook = hook
        self._ended = ended
        self._log = log
        self._running: dict[str, asyncio.Task[None]] = {}

    def begin(self, reset: Reset) -> None:
        """Begin a reset."""
        task = asyncio.create_task(self._reset(reset), name=f"resets {reset.device}")
        self._running[reset.uuid] = task

    async def close(self) -> None:
        """End all that run. A hook in Python that does not end is left."""
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        if tasks:
            _, left = await asyncio.wait(tasks, timeout=self._patience)
            for task in left:
                self._log.error("reset_hook_stuck", task=task.get_name())

    async def _reset(self, reset: Reset) -> None:
        self._log.info("reset_begins", device=reset.device, seconds=reset.limit)
        done, reason, time = False, "", asyncio.timeout(reset.limit)
        try:
            async with time:
                done = bool(await self._hook(reset))
                reason = "" if done else "the hook says that the device is not back"
        except ResetFailed as error:
            reason = str(error)
        except BaseException as error:
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise
            reason = f"the device is not back within {reset.limit:g} s" if time.expired() else described(error)
        finally:
            del self._running[reset.uuid]
        if done:
            self._log.info("reset_done", device=reset.device)
        else:
            self._log.error("reset_failed", device=reset.device, reason=reason)
        self._ended(reset.uuid, done, reason)


def program(path: str, killed_s: float = KILLED_S) -> OnReset:
    """A hook that runs a program: `PROGRAM HOST NAME`, with exit status 0 when the device is back.

    Its environment has `TASKD_NET_RESET_UUID`, which is another one for each reset, and `TASKD_NET_RESET_RANKS`. No
    signal is blocked in it, and SIGCHLD has its default, whatever this process has.

    Args:
        path: of the program.
        killed_s: seconds from SIGKILL to its end.
    """

    async def run(reset: Reset) -> bool:
        host, _, name = reset.device.rpartition("/")
        ranks = ",".join(map(str, reset.ranks))
        variables = {**os.environ, "TASKD_NET_RESET_UUID": reset.uuid, "TASKD_NET_RESET_RANKS": ranks}
        try:
            _require_program(path)
            running = _Program([path, host, name], variables, killed_s)
        except OSError as error:
            raise ResetFailed(f"{path} cannot be run: {error.strerror}") from error
        try:
            code = await running.code()
            said = running.last_words()
        finally:
            if not await running.end():
                get_logger().error("reset_hook_stuck", device=reset.device, pid=running.pid)
        if code != "0":
            raise ResetFailed(f"{path} has ended with {code}{': ' if said else ''}{said}")
        return True

    return run


def _require_program(path: str) -> None:
    """Raise an OSError for a path that is no program."""
    if which(path) is None:
        Path(path).stat()
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


class _Program:
    """A program below a shell that tells the program's pid and exit status over a pipe.

    The kernel gives this process no exit status where the application ignores SIGCHLD, or waits for any child.

    Args:
        command: the program and its arguments.
        variables: its environment.
        killed_s: seconds from SIGKILL to its end.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], variables: Mapping[str, str], killed_s: float) -> None:
        self._killed_s = killed_s
        self._loop = asyncio.get_running_loop()
        self._told, self._said = b"", b""
        self._over = asyncio.Event()
        with ExitStack() as theirs, ExitStack() as ours:
            (self._status, status), (self._stderr, stderr) = (_pipe(ours, theirs) for _ in range(2))
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
                (os.POSIX_SPAWN_DUP2, status, _STATUS),
                *((os.POSIX_SPAWN_CLOSE, number) for number in _inherited()),
            ]
            self._shell = os.posix_spawn(
                _SHELL,
                [_SHELL, "-c", _SCRIPT, *command],
                variables,
                file_actions=actions,
                setpgroup=0,
                setsigmask=(),
                setsigdef=(signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
            )
            self._files = ours.pop_all()
        self._loop.add_reader(self._status, self._read_status)
        self._loop.add_reader(self._stderr, self._read_stderr)

    @property
    def pid(self) -> int:
        """The program's process; that of the shell until it has told the other."""
        told = self._told.split()
        return int(told[0]) if told else self._shell

    async def code(self) -> str:
        """Wait for the exit status as the shell tells it: 128 and its number for a signal."""
        await self._over.wait()
        return b" ".join(self._told.split()[1:]).decode() or "its shell"

    def last_words(self) -> str:
        """The end of its stderr so far, in one line. A child that it has left may write on."""
        self._read_stderr()  # a pipe holds no more than one read takes
        return " ".join(self._said.decode(errors="replace").split())[-TAIL_CHARS:]

    async def end(self) -> bool:
        """Kill the program if it runs, and then its children, such as the ssh of a script.

        Returns False for a program that outlives that, as a driver holds it: it is left.
        """
        try:
            ended = self._over.is_set()
            if not ended:
                ended = await self._killed(self._kill_program)
                await self._killed(self._kill_group)
            await self._reaped()
        finally:
            for number in (self._status, self._stderr):
                self._loop.remove_reader(number)
            self._files.close()
        return ended

    async def _killed(self, kill: Callable[[], None]) -> bool:
        with suppress(ProcessLookupError):
            kill()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._killed_s):
                await self._over.wait()
        return self._over.is_set()

    def _kill_program(self) -> None:
        """Kill the program, whose shell takes note of it and ends."""
        if self.pid == self._shell:
            self._kill_group()
        else:
            os.kill(self.pid, signal.SIGKILL)

    def _kill_group(self) -> None:
        os.killpg(self._shell, signal.SIGKILL)

    async def _reaped(self) -> None:
        """Take the exit status of the shell, which has closed its files, so that it does not stay as a zombie."""
        with suppress(ChildProcessError, TimeoutError):
            async with asyncio.timeout(self._killed_s):
                while not self._is_reaped():  # noqa: ASYNC110 - no event tells of it
                    await asyncio.sleep(REAP_PAUSE_S)

    def _is_reaped(self) -> bool:
        return os.waitpid(self._shell, os.WNOHANG) != (0, 0)

    def _read_status(self) -> None:
        if part := os.read(self._status, READ_BYTES):
            self._told += part
        else:
            self._loop.remove_reader(self._status)
            self._over.set()

    def _read_stderr(self) -> None:
        with suppress(BlockingIOError):
            if part := os.read(self._stderr, READ_BYTES):
                self._said = (self._said + part)[-4 * TAIL_CHARS :]
            else:
                self._loop.remove_reader(self._stderr)


def _pipe(ours: ExitStack, theirs: ExitStack) -> tuple[int, int]:
    """A pipe to us that does not block; the end for the shell is above all descriptors that the shell gets."""
    read, write = os.pipe()
    ours.callback(os.close, read)
    try:
        above = fcntl.fcntl(write, fcntl.F_DUPFD_CLOEXEC, _STATUS + 1)
    finally:
        os.close(write)
    theirs.callback(os.close, above)
    os.set_blocking(read, False)
    return read, above


def _inherited() -> Iterator[int]:
    """Descriptors of the application that a program would inherit, beyond those that it gets."""
    for number in [int(entry.name) for entry in _DESCRIPTORS.iterdir()] if _DESCRIPTORS.exists() else ():
        with suppress(OSError):  # that of the list itself
            if number > _STATUS and os.get_inheritable(number):
                yield number
