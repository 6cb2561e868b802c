"""PyTorch's functions: called as its elastic agent expects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

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


def test_look_reads_no_other_processes(node: PyTorchWorkers, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host has thousands of them, and a look comes several times a second."""
    monkeypatch.setattr("taskd_net.job.frameworks.pytorch.workers.Path", None)
    node.start_all(2)
    assert node.look().running


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


SAVES = """
import signal, sys, time
def save(*_):
    time.sleep(0.5)
    with open("saved", "w") as file:
        file.write("saved")
    sys.exit()
signal.signal(signal.SIGTERM, save)
print("begun", flush=True)
signal.pause()
"""
"""A training that takes its time to write a checkpoint."""


def test_training_of_a_shell_gets_sigterm_and_time(tmp_path: Path) -> None:
    """The shell ends at once. What it has left behind is ended by MONITOR, as soon as it is asked."""
    script = tmp_path / "train.py"
    script.write_text(SAVES)
    asked: list[object] = []

    def monitor(group: object) -> RunResult:
        asked.append(group)
        return RunResult(WorkerState.HEALTHY)

    command = ["sh", "-c", f"{sys.executable} train.py; true"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True) as shell:
        assert shell.stdout is not None and shell.stdout.readline() == b"begun\n"
        elastic = SimpleNamespace(_worker_group=SimpleNamespace(workers=[SimpleNamespace(id=shell.pid, global_rank=8)]))
        operators = Operators()
        operators.register("MONITOR", monitor)
        node = PyTorchWorkers(operators, elastic)
        node.ask_to_end()
        os.waitid(os.P_PID, shell.pid, os.WEXITED | os.WNOWAIT)
        give_up_at = time.monotonic() + SOON
        while node.look().running:
            assert time.monotonic() < give_up_at and not asked
            time.sleep(0.02)
    assert (tmp_path / "saved").read_text() == "saved"


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
