"""The frame of the documented calls: their failures, and the life of their nodes.

A process has at most one Worker, one Agent, one Proxy and one Mgr of these calls, each from its `init_taskd_…` to its
`destroy_taskd_…`. All of them share one thread with an event loop and one log file.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from functools import partial, wraps
from typing import Final, Generic, ParamSpec, Protocol, TypeVar

from taskd_net.base import fork, limits, logs, threads, unfit
from taskd_net.base.codes import ConfigError, NodeClosed, NodeError, TaskdNetError
from taskd_net.base.logger import get_logger
from taskd_net.node.blocking import BlockingNode, opened

P = ParamSpec("P")
T = TypeVar("T")

log: Final = get_logger()


class Refused(TaskdNetError):
    """A call cannot do what it is asked for; the text says why."""


class LoggedError(TaskdNetError):
    """A call has failed, and the log says why."""


def documented(call: Callable[P, T]) -> Callable[P, T | bool]:
    """Make a documented call of a function: every error becomes False and one line in the log."""

    @wraps(call)
    def safe(*args: P.args, **kwargs: P.kwargs) -> T | bool:
        try:
            with reported(call.__name__):
                return call(*args, **kwargs)
        except LoggedError:  # no error of ours ends a training script
            return False

    return safe


@contextlib.contextmanager
def reported(call: str) -> Iterator[None]:
    """Make every error of a block one line in the log, under the name of a documented call, and `LoggedError`.

    Raises:
        LoggedError: an error, or this process is a forked child.
        The exception of a signal handler of PyTorch's elastic agent.
    """
    try:
        if fork.forked():
            raise Refused(fork.REASON)
        yield
    except LoggedError:
        raise
    except Exception as error:
        if by_signal(error):
            raise
        _report(call, error)
        raise LoggedError(f"{call}: {error}") from error


def by_signal(error: Exception) -> bool:
    """True for the exception that a signal handler of PyTorch's elastic agent raises: it belongs to the caller."""
    return signal_of(error) is not None


def signal_of(error: Exception) -> signal.Signals | None:
    """The signal of such an exception; None for another one."""
    number = getattr(error, "sigval", None)
    return number if isinstance(number, signal.Signals) else None


def _report(call: str, error: Exception) -> None:
    if isinstance(error, ValueError | TypeError | Refused | NodeError):  # a ConfigError is a ValueError
        log.error("call_failed", call=call, reason=str(error))
    else:
        # A fault of this package's, so with a traceback.
        log.error("call_failed", call=call, reason=repr(error), exc_info=error)


class StartGuard:
    """A step that happens once in the life of a member."""

    def __init__(self) -> None:
        self._changing = fork.Lock()
        self._done = False

    def take(self) -> None:
        """Take the step.

        Raises:
            Refused: it has been taken.
        """
        with self.step():
            pass

    @contextlib.contextmanager
    def step(self) -> Iterator[None]:
        """Take the step for a block; an error in there gives it back.

        Raises:
            Refused: it has been taken.
        """
        with self._changing:
            if self._done:
                raise Refused("it has been started already")
            self._done = True
        try:
            yield
        except BaseException:
            self._done = False
            raise


class Closeable(Protocol):
    """The content of a slot."""

    def close(self) -> None:
        """Leave the mesh, and end every thread; closing twice is closing once.

        Raises:
            Refused: a handler of the application does not end; the rest is closed.
        """


M = TypeVar("M", bound=Closeable)


class Singleton(Generic[M]):
    """The place of the one Worker (Agent, Proxy, Mgr) of this process.

    Args:
        role: its name in the calls: `worker`, `agent`, `proxy` or `manager`.
    """

    def __init__(self, role: str) -> None:
        self._role = role
        self._changing = fork.Lock()
        self._member: M | None = None

    def fill(self, make: Callable[[], M], log_file: str) -> M:
        """Make the member, after the log file is open, and return it.

        Raises:
            Refused: there is one already, or the process is `unfit` for a node.
        """
        if reason := unfit.reason():
            raise Refused(reason)
        with self._changing:
            if self._member is not None:
                raise Refused(f"it has been initialised already; destroy_taskd_{self._role} first")
            before = opened()
            _log_file.enter(log_file)
            try:
                self._member = member = make()
            except BaseException as error:
                if self._member is not None:
                    raise
                for node in opened() - before:  # of a member that is half made
                    node.close()
                if not isinstance(error, Exception) or by_signal(error):
                    _log_file.leave()
                    raise
                _report(f"init_taskd_{self._role}", error)
                _log_file.leave()
                raise LoggedError(f"init_taskd_{self._role}: {error}") from error
            return member

    @property
    def filled(self) -> bool:
        """True while there is a member."""
        return self._member is not None

    @property
    def member(self) -> M:
        """The member.

        Raises:
            Refused: there is none.
        """
        member = self._member
        if member is None:
            raise Refused(f"it has not been initialised; init_taskd_{self._role} first")
        return member

    def clear(self, member: M | None = None) -> None:
        """Close the member; with `member`, only if the slot still holds that one.

        Raises:
            Refused: there is none; or it is closed, but a handler of the application does not end.
        """
        with self._changing:
            if member is not None and member is not self._member:
                return
            held, self._member = self.member, None
        # Without the lock: the handler to wait for may be about to call in here.
        try:
            held.close()
        except Refused:
            raise
        except BaseException:
            threads.uninterrupted(held.close)
            raise
        finally:
            _log_file.leave()


def leave(node: BlockingNode) -> None:
    """Close a leaf's node for good, and withdraw it: otherwise every broadcast gets 6002 for the grace time."""
    # The Mgr may know the way to a node before the node knows that.
    with contextlib.suppress(NodeClosed):
        node.withdraw(limits.CLOSE_GRACE_S)
    node.close()


class _LogFile:
    """The log file of this process: opened with its first member, closed with its last."""

    def __init__(self) -> None:
        self._changing = fork.Lock()
        self._users = 0
        self._ours = False

    def enter(self, file_name: str) -> None:
        """Begin to log, unless the application or an earlier member has done so."""
        # The lock of `logging` is one in Python.
        threads.uninterrupted(partial(self._enter, file_name), self._leave)

    def leave(self) -> None:
        """End it with the last member."""
        threads.uninterrupted(self._leave)

    def _enter(self, file_name: str) -> None:
        with self._changing:
            self._users += 1
            if self._users > 1 or logs.started():
                return
            try:
                logs.start(file_name)
                self._ours = True
            except ConfigError as error:
                # A log that cannot be written is no reason to train without a mesh.
                log.warning("no_log_file", reason=str(error))

    def _leave(self) -> None:
        with self._changing:
            self._users -= 1
            if self._users == 0 and self._ours:
                self._ours = False
                logs.stop()


_log_file: Final = _LogFile()


@contextlib.contextmanager
def log_file(file_name: str) -> Iterator[None]:
    """Log into a file for the time of a block, unless this process has one."""
    _log_file.enter(file_name)
    try:
        yield
    finally:
        _log_file.leave()
