"""MindSpore's functions: called as msrun expects, and MONITOR's answers read as msrun means them."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from taskd_net.base.codes import TaskdNetError
from taskd_net.job.agent.supervision import WorkerStatus
from taskd_net.job.agent.workers import Operators
from taskd_net.job.frameworks.mindspore.workers import MindSporeWorkers
from taskd_net.job.member import Refused

pytestmark = pytest.mark.oldest

WORKERS: dict[int, dict[str, int | None]] = {
    0: {"pid": 300, "status": None, "global_rank": 8},
    1: {"pid": 101, "status": 1, "global_rank": 9},
    2: {"pid": 102, "status": 0, "global_rank": 10},
    3: {"pid": 103, "status": 300, "global_rank": 11},
    4: {"pid": None, "status": 200, "global_rank": 12},
    5: {"pid": 105, "status": -9, "global_rank": 13},
    6: {"pid": 106, "status": 200, "global_rank": 14},
}


def recorded(workers: Any = WORKERS, answer: object = 0) -> tuple[MindSporeWorkers, list[tuple[object, ...]]]:
    """A node whose calls are recorded."""
    operators, calls = Operators(), list[tuple[object, ...]]()

    def function(name: str) -> Any:
        def call(*arguments: object) -> object:
            if name == "MONITOR":
                assert arguments == ([-1],)
                return workers
            calls.append((name, *arguments))
            return answer

        return call

    for name in MindSporeWorkers.needs:
        operators.register(name, function(name))
    return MindSporeWorkers(operators), calls


def test_states_of_workers() -> None:
    """Running, failed (1), finished, vanished, not started, killed, and an exit code of 200."""
    assert recorded()[0].look() == WorkerStatus(
        failed=frozenset({9, 11, 13, 14}), running=True, finished=False, ranks=frozenset(range(8, 15))
    )


@pytest.mark.parametrize(
    ("statuses", "running", "finished"),
    [
        ((0, 0), False, True),
        ((0, None), True, False),
        ((0, 1), False, False),
        ((0, 300), False, False),
        ((), False, False),
    ],
)
def test_end_of_the_work(statuses: tuple[int | None, ...], running: bool, finished: bool) -> None:
    workers = {local: {"pid": 100, "status": status, "global_rank": local} for local, status in enumerate(statuses)}
    seen = recorded(workers)[0].look()
    assert (seen.running, seen.finished) == (running, finished)


def test_all_workers() -> None:
    msrun, calls = recorded()
    msrun.start_all(None)
    msrun.kill_all()
    assert calls == [("START_ALL_WORKER",), ("KILL_WORKER", [-1])]
    assert msrun.remaining == "1"


def test_ranks_of_this_node_alone() -> None:
    """A worker with pid 300 is a worker; one that has vanished keeps its pid; one that never started has none."""
    msrun, calls = recorded()
    msrun.kill_ranks({8, 11, 12, 77})
    msrun.start_ranks({8, 11, 12, 77})
    msrun.kill_ranks({12})
    msrun.start_ranks({77})
    assert calls == [("KILL_WORKER", [300, 103]), ("START_WORKER_LIST", [0, 3, 4])]


def test_workers_that_run_get_sigterm(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []

    def kill(pid: int, number: int) -> None:
        told.append((pid, number))
        raise ProcessLookupError  # it has ended meanwhile

    monkeypatch.setattr(os, "kill", kill)
    recorded()[0].ask_to_end()
    assert told == [(300, signal.SIGTERM)]


@pytest.mark.parametrize(
    ("workers", "reason"),
    [
        ([1], r"MONITOR answered \[1\]; expected a dict by local rank"),
        ({0: {"pid": 0, "status": None, "global_rank": 8}}, "for local rank 0; expected whole numbers"),
        ({0: {"pid": -1, "status": None, "global_rank": 8}}, "expected whole numbers"),
        ({0: {"pid": 1, "status": "dead", "global_rank": 8}}, "'status': 'dead'"),
        ({0: {"pid": 1, "status": None}}, "expected whole numbers"),
        ({"0": {"pid": 1, "status": None, "global_rank": 8}}, "for local rank '0'"),
        ({0: None}, "MONITOR answered None for local rank 0"),
    ],
)
def test_answers_that_are_none(workers: object, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        recorded(workers)[0].look()


@pytest.mark.parametrize("answer", [1, False, None, 0])
def test_function_that_fails_says_so(answer: object) -> None:
    msrun, calls = recorded(answer=answer)
    if answer == 1:
        with pytest.raises(TaskdNetError, match="START_ALL_WORKER answered 1; expected 0"):
            msrun.start_all(None)
    else:
        msrun.start_all(None)
    assert len(calls) == 1
