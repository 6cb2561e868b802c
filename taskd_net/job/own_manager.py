"""The Manager that `taskd-net run` starts, in a process of its own.

It ends with its launcher, however that happens: its standard input is a pipe that the launcher holds. Signals that
reach all processes of the launcher do nothing to it, since the launcher still needs it to end the job in good order. A
thread of the launcher starts it, watches it, and starts it again with its state when it dies. Training goes on
meanwhile.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import Final

from taskd_net.base import logs, threads
from taskd_net.base.address import Address
from taskd_net.base.codes import TaskdNetError
from taskd_net.base.job_id import NO_ID
from taskd_net.base.limits import KILLED_S, NODE_S
from taskd_net.base.logger import late_logger
from taskd_net.base.vocabulary import FAILED_START, JOB
from taskd_net.base.waiting import EndFlag, taken
from taskd_net.job.arguments import MGR_PORT_SET, NODE_TIMEOUT, joined
from taskd_net.job.manager.config import STATE_FILE
from taskd_net.job.manager_place import MGR_END_S, await_free
from taskd_net.job.member import signal_of
from taskd_net.job.run_folder import KEEP_S, RunFolder

READY_S: Final = 60.0
"""Seconds that the Manager has to listen after its start: an import takes many on a busy machine."""

STEADY_S: Final = 60.0
"""Seconds after which an end of the Manager is the first one again."""

STARTS: Final = 8
"""Starts of the Manager in a row, of which each ended before it had lived for `STEADY_S`."""

PAUSE_S: Final = 1.0
"""Seconds before the third of them; the second comes at once. Each further pause is twice as long."""

PAUSE_MOST_S: Final = 30.0
"""The longest pause."""

REASON_BYTES: Final = 1024
"""Bytes of that line that are read."""

STATE: Final = "TASKD_NET_STATE"
"""Variable of a setting of the Manager."""

ROUTINE: Final = frozenset(
    {
        *("child_joined", "child_lost", "child_moved", "closed", "command", "controller_called", "draining", "joined"),
        *("listening", "manager_started", "moved", "stream_released", "stream_taken"),
    }
)
"""Events of a mesh and a Manager in good order: twenty lines of a start and an end, where torchrun has none."""

LOOK_S: Final = 2.0
"""Seconds between two looks whether a launcher has to start the Manager: each looks a name up."""

log: Final = late_logger()


def routine() -> Collection[str]:
    """The events that a launcher and its Manager leave out on stderr: none where the environment names its level."""
    return () if os.environ.get(logs.STD_LEVEL) else ROUTINE


class NoManager(TaskdNetError):
    """The Manager of the job cannot be started, or not again; its own line says why."""


@contextmanager
def own_manager(size: str, job_id: str, *, restarts_itself: bool, host: str = "") -> Iterator[None]:
    """The Manager of the job, at a host of this machine and the port of the environment.

    Its state stays for the next start where this one is killed, or leaves its place by a signal.

    Args:
        size: of the job, as `--expect` has it.
        job_id: empty for none.
        restarts_itself: it restarts processes, and no platform does.
        host: to listen at; empty for `POD_IP` or `MASTER_ADDR`.

    Raises:
        ConfigError: the Mgr of another job has its address.
        NoManager: it cannot be started. One that cannot be started again later ends the block by SIGTERM before.
    """
    host = host or os.environ.get("POD_IP") or os.environ["MASTER_ADDR"]
    listen = joined(host, "MASTER_ADDR", os.environ[MGR_PORT_SET], MGR_PORT_SET)
    await_free(Address.parse(listen), job_id)
    command = [sys.executable, "-m", "taskd_net.cli", "mgr", "--until-eof", "--listen", listen, "--expect", size]
    command += ["--job-id", job_id or NO_ID]
    if not logs.wants_file():
        command += ["--log-file", "none"]
    with ExitStack() as stack:
        if restarts_itself:
            command += ["--restarts", JOB]
        keep: Callable[[], object] = list
        if not os.environ.get(STATE):
            run = RunFolder(job_id, listen, size, _node_timeout())
            keep = run.keep
            stack.push(partial(_over, run))
            command += ["--state", str(run.path / STATE_FILE)]
        stack.enter_context(watched(command, partial(os.kill, os.getpid(), signal.SIGTERM), keep))
        yield


def _over(run: RunFolder, kind: object, error: BaseException | None, traceback: object) -> None:
    """Remove the state of a run, unless its other nodes wait for the return of this one."""
    number = signal_of(error) if isinstance(error, Exception) else None
    if not isinstance(error, NoManager) and number in (None, signal.SIGINT):
        run.remove()


def _node_timeout() -> float:
    """The setting of the Manager; what it refuses, its line says."""
    with suppress(ValueError):
        return float(os.environ.get(NODE_TIMEOUT, NODE_S))
    return NODE_S


@contextmanager
def watched(command: Sequence[str], give_up: Callable[[], object], keep: Callable[[], object] = list) -> Iterator[None]:
    """A process that says a line when it is ready, ends with its input, and is started again when it dies.

    Args:
        command: of the process.
        give_up: ends the block where it cannot be started again. It is called in another thread.
        keep: called there every `KEEP_S` seconds.

    Raises:
        NoManager: it cannot be started, or not again.
    """
    watch = _Watch(command, give_up, keep)
    thread = threads.start(watch.run, "watches the Manager")
    try:
        if (trouble := taken(watch.first)) is not None:
            raise trouble
        yield
    except BaseException as error:
        if watch.trouble is not None and error is not watch.trouble:
            raise watch.trouble from error
        raise
    finally:
        watch.end()
        thread.join(MGR_END_S)
        watch.kill()
        thread.join(KILLED_S)


@contextmanager
def later(find: Callable[[], AbstractContextManager[object] | None], seconds: float) -> Iterator[None]:
    """A Manager that is started within the block, as soon as this launcher is the one to start it.

    Args:
        find: gives the Manager; None where another process is to start it, as far as is known. It is called in another
            thread, every `LOOK_S` seconds.
        seconds: for which it is called.
    """
    late = _Late(find, seconds)
    thread = threads.start(late.run, "starts the Manager later")
    try:
        yield
    except BaseException as error:
        late.error = error
        raise
    finally:
        late.ending.set()
        thread.join(MGR_END_S + KILLED_S)


class _Late:
    """The thread of `later`.

    Args:
        find, seconds: as there.

    Attributes:
        ending: the block is at its end.
        error: of the block; None without one. A Manager keeps its state for the next start by it.
    """

    def __init__(self, find: Callable[[], AbstractContextManager[object] | None], seconds: float) -> None:
        self.ending = EndFlag()
        self.error: BaseException | None = None
        self._find = find
        self._seconds = seconds

    def run(self) -> None:
        """Look, and hold the Manager until the end of the block."""
        give_up_at = time.monotonic() + self._seconds
        while time.monotonic() < give_up_at:
            self.ending.wait(LOOK_S)
            if self.ending.is_set():
                return
            try:
                if (found := self._find()) is not None:
                    self._hold(found)
            except TaskdNetError as error:
                log.error("manager_not_started", reason=str(error))

    def _hold(self, manager: AbstractContextManager[object]) -> None:
        manager.__enter__()
        while not self.ending.is_set():
            self.ending.wait(KEEP_S)
        error = self.error  # shown to the Manager's block, as if it were in this thread
        manager.__exit__(None if error is None else type(error), error, None if error is None else error.__traceback__)


class _Watch:
    """The thread around the Manager. A thread of this package's blocks signals, so its children begin with that.

    Args:
        command, give_up, keep: as of `watched`.

    Attributes:
        first: the outcome of the first start, when it is known.
        trouble: the reason to give up.
    """

    def __init__(self, command: Sequence[str], give_up: Callable[[], object], keep: Callable[[], object]) -> None:
        self.first: SimpleQueue[NoManager | None] = SimpleQueue()
        self.trouble: NoManager | None = None
        self._command = command
        self._give_up = give_up
        self._keep = keep
        self._ending = EndFlag()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_been_ready = False

    def run(self) -> None:
        """Start it, and again, until `end` is called or it cannot be started."""
        in_row = 0
        while True:
            began = time.monotonic()
            how = self._live()
            if self._ending.is_set():
                return
            if not self._has_been_ready:
                self.first.put(NoManager(f"the Manager of the job cannot start: {how}"))
                return
            in_row = 1 if time.monotonic() - began >= STEADY_S else in_row + 1
            if in_row > STARTS:
                self.trouble = NoManager(f"the Manager of the job has ended {in_row} times in a row: {how}")
                self._give_up()
                return
            pause = min(PAUSE_S * 2.0 ** (in_row - 2), PAUSE_MOST_S) if in_row > 1 else 0.0
            log.error("manager_ended", reason=how, seconds=pause)
            self._ending.wait(pause)
            if self._ending.is_set():
                return

    def end(self) -> None:
        """Have it end in good order, and start it no more."""
        self._ending.set()
        self._close_input()

    def kill(self) -> None:
        """End it at once, if it runs still."""
        if self._process is not None:
            self._process.kill()

    def _live(self) -> str:
        """One life of the Manager. Returns the cause of its end."""
        try:
            self._process = process = subprocess.Popen(  # noqa: S603 - our own command
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True
            )
        except OSError as error:
            return str(error)
        with process:
            if self._ending.is_set():
                self._close_input()
            assert process.stdout is not None
            readable, _, _ = select.select([process.stdout], [], [], READY_S)
            if not readable:
                process.kill()
                return f"it did not listen within {READY_S:g} s"
            line = process.stdout.read(REASON_BYTES).decode(errors="replace").partition("\n")[0]
            if line and not line.startswith(FAILED_START):
                self._is_ready(process.pid)
            self._keep_until_end(process.pid)
            reason = f": {line.removeprefix(FAILED_START)}" if line.startswith(FAILED_START) else ""
            return f"{_how(process.wait())}{reason}"

    def _keep_until_end(self, pid: int) -> None:
        """Say that the run lives, until a process has ended."""
        descriptor = os.pidfd_open(pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while not poll.poll(KEEP_S * 1000):
                with suppress(OSError):  # a full disk: the state is older than it might be
                    self._keep()
        finally:
            os.close(descriptor)

    def _is_ready(self, pid: int) -> None:
        if not self._has_been_ready:
            self._has_been_ready = True
            self.first.put(None)
        elif not self._ending.is_set():
            log.info("manager_started_again", pid=pid)

    def _close_input(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()


def _how(status: int) -> str:
    """The end of a process, for people."""
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"
