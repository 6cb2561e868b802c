"""The workers of one node, as their training framework runs them: the functions that it registers, and calls of them.

Each framework has its own conventions: its entry in `taskd_net.job.frameworks` makes `LocalWorkers` of the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol, assert_never

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job.agent.messages import Meeting
from taskd_net.job.agent.plans import (
    AskToEnd,
    Call,
    KillAll,
    KillRanks,
    Look,
    Offer,
    StartAll,
    StartRanks,
    TakeMeeting,
)
from taskd_net.job.agent.records import Records
from taskd_net.job.agent.supervision import Offered, WorkerStatus
from taskd_net.job.member import Refused, log

KILL_WORKER: Final = "KILL_WORKER"
START_ALL_WORKER: Final = "START_ALL_WORKER"
START_WORKER_LIST: Final = "START_WORKER_LIST"
MONITOR: Final = "MONITOR"
RESTART: Final = "RESTART"
NAMES: Final = (KILL_WORKER, START_ALL_WORKER, START_WORKER_LIST, MONITOR, RESTART)


class LocalWorkers(Protocol):
    """The workers of this node, as one training framework runs them. Methods raise what its functions raise."""

    ignores_results: bool
    """The framework takes no notice of what `start_taskd_agent` returns, so that only SystemExit ends it."""

    def require(self) -> None:
        """Check that the framework has registered every function that is needed.

        Raises:
            Refused: names those that are missing.
        """

    @property
    def remaining(self) -> str:
        """Restarts that remain, in decimal digits."""

    @property
    def pids(self) -> Collection[int]:
        """Processes of the workers, as they were known after the last call."""

    @property
    def features(self) -> Collection[str]:
        """Features of the workers' framework, by the names of `vocabulary`."""

    @property
    def records(self) -> Records | None:
        """Records of the workers' progress; None where their framework has none."""

    def offer(self) -> Offered:
        """Make ready for a start after a meeting; called only with that feature."""

    def start_all(self, remaining: int | None, meeting: Meeting | None = None) -> None:
        """Start every worker.

        Args:
            remaining: restarts that are left; None: as many as before.
            meeting: the nodes that have met; None where the framework lets them meet.
        """

    def take_meeting(self, meeting: Meeting) -> None:
        """Take a meeting while the workers run; called only with that feature."""

    def kill_all(self) -> None:
        """End every worker."""

    def kill_ranks(self, ranks: Collection[int]) -> None:
        """End the workers with these global ranks; those of other nodes are left out, here and below."""

    def start_ranks(self, ranks: Collection[int]) -> None:
        """Start the workers with these global ranks again."""

    def ask_to_end(self) -> None:
        """Send SIGTERM to every worker that runs."""

    def look(self) -> WorkerStatus:
        """Ask for the state of the workers."""

    def leave(self) -> None:
        """End what the framework leaves behind when its process ends."""


def carry_out(workers: LocalWorkers, call: Call) -> WorkerStatus | Offered | None:
    """Make a call of the framework's functions, and raise what they raise. Returns its answer, if it has one."""
    match call:
        case StartAll(remaining, meeting):
            workers.start_all(remaining, meeting)
        case Offer():
            return workers.offer()
        case TakeMeeting(meeting):
            workers.take_meeting(meeting)
        case KillAll():
            workers.kill_all()
        case KillRanks(ranks):
            workers.kill_ranks(ranks)
        case StartRanks(ranks):
            workers.start_ranks(ranks)
        case AskToEnd():
            workers.ask_to_end()
        case Look():
            return workers.look()
        case _:
            assert_never(call)
    return None


class Operators:
    """The registered functions, by name."""

    def __init__(self) -> None:
        self._functions: dict[str, Callable[..., object]] = {}

    def register(self, operator: object, func: object) -> None:
        """Register a function; one that is registered again replaces the one before.

        Raises:
            ConfigError: not one of the five names, or nothing that can be called.
        """
        if operator not in NAMES or not isinstance(operator, str):
            raise ConfigError(f"operator is {shown(operator)}; expected one of {', '.join(NAMES)}")
        if not callable(func):
            raise ConfigError(f"func is {shown(func)}; expected a function")
        self._functions[operator] = func

    def has(self, operator: str) -> bool:
        """True where a function is registered."""
        return operator in self._functions

    def require(self, operators: Collection[str]) -> None:
        """Check that these are registered.

        Raises:
            Refused: names those that are not.
        """
        if missing := [operator for operator in operators if operator not in self._functions]:
            raise Refused(f"no function is registered for {', '.join(missing)}")

    def call(self, operator: str, *arguments: object) -> object:
        """Call a registered function, and return its answer."""
        return self._functions[operator](*arguments)


class Malformed(Refused):
    """An answer of one of the framework's functions is of no use.

    Args:
        kind: of the fault; a second answer of this kind is no news.
        text: the answer, and the expected one.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class FailedCalls:
    """One line for each failure; of looks, which come every second, one for each kind."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()

    def report(self, call: Call, error: Exception) -> None:
        """Log a failure, unless it is a further one of its kind."""
        if isinstance(call, Look):
            kind = error.kind if isinstance(error, Malformed) else type(error).__name__
            if kind in self._kinds:
                return
            self._kinds.add(kind)
        # A fault of the application's functions, so with a traceback.
        traceback = None if isinstance(error, Refused) else error
        log.error("command_failed", call=type(call).__name__, reason=str(error), exc_info=traceback)
