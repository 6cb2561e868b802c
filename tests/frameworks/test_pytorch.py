"""PyTorch's functions: called as its elastic agent expects."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from taskd_net.job.agent.supervision import WorkerStatus
from taskd_net.job.agent.workers import Operators
from taskd_net.job.frameworks.pytorch.workers import RESTARTED, PyTorchWorkers
from taskd_net.job.member import Refused
from tests.api.conftest import SOON
from tests.api.frameworks import FINISHES, RunResult, SimpleElasticAgent, WorkerState

pytestmark = pytest.mark.oldest


@pytest.fixture
def elastic(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleElasticAgent]:
    """An elastic agent whose workers end with the test."""
    monkeypatch.delenv(RESTARTED, raising=False)
    made = SimpleElasticAgent()
    yield made
    made.end()
    os.environ.pop(RESTARTED, None)


@pytest.fixture
def node(elastic: SimpleElasticAgent) -> PyTorchWorkers:
    """Its node."""
    operators = Operators()
    for name, func in (
        ("KILL_WORKER", elastic.kill),
        ("START_ALL_WORKER", elastic.start_all),
        ("MONITOR", elastic.monitor),
        ("RESTART", elastic.restart),
    ):
        operators.register(name, func)
    return PyTorchWorkers(operators, elastic)


def test_all_workers(elastic: SimpleElasticAgent, node: PyTorchWorkers) -> None:
    assert node.remaining == "3"
    node.start_all(2)
    assert elastic.called() == ("START_ALL_WORKER", 2)
    assert (node.remaining, os.environ[RESTARTED]) == ("2", "pod")
    seen = node.look()
    assert (seen.failed, seen.running, seen.finished) == (frozenset(), True, False)
    node.kill_all()
    assert elastic.called() == ("KILL_WORKER", [8, 9])
    node.start_all(None)
    assert elastic.called() == ("START_ALL_WORKER", 2)


def test_group_holds_only_the_ranks_concerned(elastic: SimpleElasticAgent, node: PyTorchWorkers) -> None:
    node.start_all(None)
    elastic.called()
    before = elastic.pid(8), elastic.pid(9)
    node.kill_ranks({9, 77})
    assert elastic.called() == ("KILL_WORKER", [9])
    seen = node.look()
    assert (seen.failed, seen.running, seen.finished) == (frozenset({9}), True, False)
    node.start_ranks({9, 77})
    assert elastic.called() == ("RESTART", [9])
    assert (elastic.pid(8) == before[0], elastic.pid(9) == before[1]) == (True, False)
    assert os.environ[RESTARTED] == "worker" and node.look().failed == frozenset()
    node.kill_ranks({77})
    node.start_ranks({77})
    assert elastic.calls.empty() and len(elastic._worker_group.workers) == 2


def test_result_of_a_job_that_succeeds(elastic: SimpleElasticAgent, node: PyTorchWorkers) -> None:
    elastic.program = FINISHES
    node.start_all(None)
    for worker in elastic.processes:
        assert worker.wait(SOON) == 0
    expected = RunResult(WorkerState.SUCCEEDED, return_values={8: 0, 9: 0})
    ranks = frozenset({8, 9})
    assert node.look() == WorkerStatus(running=False, finished=True, result=expected, state="SUCCEEDED", ranks=ranks)


def test_workers_that_run_get_sigterm(elastic: SimpleElasticAgent, node: PyTorchWorkers) -> None:
    """The exit status is left for PyTorch."""
    node.start_all(None)
    os.kill(elastic.pid(8), signal.SIGKILL)
    os.waitid(os.P_PID, elastic.pid(8), os.WEXITED | os.WNOWAIT)
    node.ask_to_end()
    os.waitid(os.P_PID, elastic.pid(9), os.WEXITED | os.WNOWAIT)
    assert node.look().running is False
    assert [worker.wait(SOON) for worker in elastic.processes] == [-9, 7]
    assert node.look().running is False
    node.ask_to_end()


def test_worker_that_ends_while_it_is_told_to(
    elastic: SimpleElasticAgent, node: PyTorchWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.start_all(None)

    def kill(pid: int, _: int) -> None:
        raise ProcessLookupError

    with monkeypatch.context() as patch:
        patch.setattr(os, "kill", kill)
        node.ask_to_end()
    assert node.look().running is True


@pytest.mark.parametrize("state", [WorkerState.UNHEALTHY, WorkerState.UNKNOWN, WorkerState.FAILED])
def test_result_without_failures_is_of_all(
    state: WorkerState, elastic: SimpleElasticAgent, node: PyTorchWorkers
) -> None:
    node.start_all(None)
    node._operators.register("MONITOR", lambda _: RunResult(state))
    assert node.look().failed == {8, 9}


@pytest.mark.parametrize("answer", [None, {}, RunResult(WorkerState.INIT)])
def test_answers_that_are_none(answer: object, node: PyTorchWorkers) -> None:
    node._operators.register("MONITOR", lambda _: answer)
    with pytest.raises(Refused, match=r"MONITOR answered .* expected a RunResult of state HEALTHY, SUCCEEDED,"):
        node.look()
