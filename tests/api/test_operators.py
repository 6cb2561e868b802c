"""Functions of a training framework, and the commands that are made of them."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from taskd_net import ConfigError
from taskd_net.api.member import Refused
from taskd_net.api.operators import ALL, KILL_WORKER, MONITOR, NAMES, NO_PID, RESTART, Operators

WORKERS = {
    0: {"pid": 100, "status": None, "global_rank": 8},
    1: {"pid": 101, "status": 1, "global_rank": 9},
    2: {"pid": 102, "status": 0, "global_rank": 10},
    3: {"pid": NO_PID, "status": None, "global_rank": 11},
    4: {"pid": -1, "status": None, "global_rank": 12},
}


def recorded(*without: str, workers: Any = WORKERS) -> tuple[Operators, list[tuple[object, ...]]]:
    """Operators that record their calls."""
    operators, calls = Operators(), []

    def function(name: str) -> Any:
        def call(*arguments: object) -> object:
            if name == MONITOR:
                return workers
            calls.append((name, *arguments))
            return None

        return call

    for name in set(NAMES) - set(without):
        operators.register(name, function(name))
    return operators, calls


def test_all_workers() -> None:
    operators, calls = recorded()
    operators.start_all()
    operators.kill_all()
    operators.restart_all()
    assert calls == [("START_ALL_WORKER",), (KILL_WORKER, [ALL]), (RESTART,)]


def test_a_restart_without_a_function_is_an_end_and_a_start() -> None:
    operators, calls = recorded(RESTART)
    operators.restart_all()
    assert calls == [(KILL_WORKER, [ALL]), ("START_ALL_WORKER",)]


def test_ranks_of_this_node_alone_are_ended_and_started() -> None:
    operators, calls = recorded()
    operators.restart({9, 10, 77})
    assert calls == [(KILL_WORKER, [101, 102]), ("START_WORKER_LIST", [1, 2])]
    calls.clear()
    operators.restart({77})
    assert operators.kill({11, 12}) == [3, 4] and calls == []  # they have no process


def test_workers_that_run_get_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        told.append((pid, number))
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", kill)
    operators, _ = recorded()
    operators.ask_to_end()
    assert told == [(100, signal.SIGTERM), (101, signal.SIGTERM)] and not operators.all_ended()
    assert recorded(workers={2: WORKERS[2]})[0].all_ended()


def test_what_cannot_be_done_is_named() -> None:
    operators, _ = recorded(KILL_WORKER, workers=[1])
    with pytest.raises(Refused, match="no function is registered for KILL_WORKER"):
        operators.kill_all()
    with pytest.raises(Refused, match=r"MONITOR answered \[1\]; expected a dict"):
        operators.all_ended()
    for operator, func in (("KILL", print), (7, print), (KILL_WORKER, "print")):
        with pytest.raises(ConfigError):
            operators.register(operator, func)
