"""The functions that a training framework registers for the Agent, and the calls made of them.

Each framework has its own conventions: `mindspore` and `pytorch` make `LocalWorkers` of the registered functions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, Protocol

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job.api.agent_events import Looked
from taskd_net.job.api.member import Refused

KILL_WORKER: Final = "KILL_WORKER"
START_ALL_WORKER: Final = "START_ALL_WORKER"
START_WORKER_LIST: Final = "START_WORKER_LIST"
MONITOR: Final = "MONITOR"
RESTART: Final = "RESTART"
NAMES: Final = (KILL_WORKER, START_ALL_WORKER, START_WORKER_LIST, MONITOR, RESTART)


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


class LocalWorkers(Protocol):
    """The workers of this node, as one training framework runs them. Methods raise what its functions raise."""

    needs: Collection[str]
    """Operators that have to be registered."""

    ignores_results: bool
    """The framework takes no notice of what `start_taskd_agent` returns, so that only SystemExit ends it."""

    @property
    def remaining(self) -> str:
        """Restarts that remain, in decimal digits."""

    @property
    def pids(self) -> Collection[int]:
        """Processes of the workers, as they were known after the last call."""

    def start_all(self, remaining: int | None) -> None:
        """Start every worker; `remaining` restarts are left, or as many as before."""

    def kill_all(self) -> None:
        """End every worker."""

    def kill_ranks(self, ranks: Collection[int]) -> None:
        """End the workers with these global ranks; those of other nodes are left out, here and below."""

    def start_ranks(self, ranks: Collection[int]) -> None:
        """Start the workers with these global ranks again."""

    def ask_to_end(self) -> None:
        """Send SIGTERM to every worker that runs."""

    def look(self) -> Looked:
        """Ask for the state of the workers."""

    def leave(self) -> None:
        """End what the framework leaves behind when its process ends."""
