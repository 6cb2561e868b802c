"""The functions that a training framework registers for the Agent, and the commands made of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Final

from taskd_net.api.member import Refused
from taskd_net.codes import ConfigError
from taskd_net.untrusted import shown

KILL_WORKER: Final = "KILL_WORKER"
START_ALL_WORKER: Final = "START_ALL_WORKER"
START_WORKER_LIST: Final = "START_WORKER_LIST"
MONITOR: Final = "MONITOR"
RESTART: Final = "RESTART"
NAMES: Final = (KILL_WORKER, START_ALL_WORKER, START_WORKER_LIST, MONITOR, RESTART)

ALL: Final = -1
"""All processes, in place of a list of some."""

NO_PID: Final = 300
"""MindSpore's pid for no process."""

_ALIVE: Final = (None, 1)


class Operators:
    """The registered functions, and the steps made of them.

    They take the arguments of MindSpore's: `KILL_WORKER(pids)`, `START_ALL_WORKER()`, `START_WORKER_LIST(local_ranks)`
    and `MONITOR(pids)`, where `[-1]` stands for all, and `RESTART()`. MONITOR answers `{local_rank: {"pid": int,
    "status": int | None, "global_rank": int}}`; a status of None or 1: it runs.
    """

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
        """True when this one is registered."""
        return operator in self._functions

    def start_all(self) -> None:
        """Start every worker of this node."""
        self._call(START_ALL_WORKER)

    def kill_all(self) -> None:
        """End every worker of this node."""
        self._call(KILL_WORKER, [ALL])

    def restart_all(self) -> None:
        """End every worker of this node and start it again."""
        if self.has(RESTART):
            self._call(RESTART)
        else:
            self.kill_all()
            self.start_all()

    def kill(self, ranks: Collection[int]) -> list[int]:
        """End the workers with these global ranks, as far as they are on this node. Returns their local ranks."""
        here = {local: worker for local, worker in self._workers().items() if worker.get("global_rank") in ranks}
        pids = [pid for worker in here.values() if (pid := _pid(worker)) is not None]
        if pids:
            self._call(KILL_WORKER, pids)
        return sorted(here)

    def restart(self, ranks: Collection[int]) -> None:
        """End the workers with these global ranks, as far as they are on this node, and start them again."""
        local_ranks = self.kill(ranks)
        if local_ranks:
            self._call(START_WORKER_LIST, local_ranks)

    def ask_to_end(self) -> None:
        """Send SIGTERM to every worker of this node."""
        for pid in self._alive():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def all_ended(self) -> bool:
        """True when no worker of this node runs."""
        return not self._alive()

    def _alive(self) -> list[int]:
        workers = (worker for worker in self._workers().values() if worker.get("status") in _ALIVE)
        return [pid for worker in workers if (pid := _pid(worker)) is not None]

    def _workers(self) -> Mapping[int, Mapping[str, object]]:
        workers = self._call(MONITOR, [ALL])
        if not isinstance(workers, Mapping):
            raise Refused(f"{MONITOR} answered {shown(workers)}; expected a dict by local rank")
        return workers

    def _call(self, operator: str, *arguments: object) -> object:
        func = self._functions.get(operator)
        if func is None:
            raise Refused(f"no function is registered for {operator}")
        return func(*arguments)


def _pid(worker: Mapping[str, object]) -> int | None:
    pid = worker.get("pid")
    # The system takes numbers below 1 for groups of processes.
    return pid if isinstance(pid, int) and pid > 0 and pid != NO_PID else None
