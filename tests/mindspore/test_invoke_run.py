"""PyTorch's elastic agent under the platform's files: the results that torch gets."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from taskd_net.mindspore import Paths, invoke_run
from tests.api.frameworks import FINISHES, Double, RunResult, SimpleElasticAgent, WorkerState
from tests.mindspore.test_plugin import SOON, TIMES, soon


class Spec(str):
    """torch's WorkerSpec, as far as it is used."""

    __slots__ = ()
    local_world_size = 2


class Agent(SimpleElasticAgent):
    """The double under torch's own names."""

    def __init__(self) -> None:
        super().__init__()
        self.barriers = 0
        self._worker_group.spec = Spec("spec")
        self._initialize_workers = self.start_all
        self._stop_workers = self.kill
        self._restart_workers = self.restart
        self._monitor_workers = self.monitor

    def monitor(self, worker_group: Any) -> RunResult:
        """`_monitor_workers`, which torch's agent has none of before the start."""
        assert self.processes
        return super().monitor(worker_group)

    def _exit_barrier(self) -> None:
        self.barriers += 1


Start = Callable[..., tuple[Agent, Future[Any]]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reset.json"


@pytest.fixture
def start(path: Path, frameworks: list[Double]) -> Iterator[Start]:
    with ThreadPoolExecutor() as threads:

        def started(program: str = "") -> tuple[Agent, Future[Any]]:
            agent = Agent()
            agent.program = program or agent.program
            frameworks.append(agent)
            paths = Paths(path, path.with_name("version"))
            return agent, threads.submit(invoke_run, agent, paths=paths, times=TIMES)

        yield started
        path.write_text('{"RankList": [{"RankId": 8, "Status": "fault"}]}')


def test_workers_to_their_end(start: Start) -> None:
    agent, result = start(FINISHES)  # before its thread starts the workers
    assert agent.called() == ("START_ALL_WORKER", 3)
    assert result.result(SOON).state is WorkerState.SUCCEEDED
    assert agent.barriers == 1


def test_gate_holds_for_the_ranks_of_this_node(
    start: Start, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("RANK", "4")
    path.write_text('{"RankList": [{"RankId": 9, "Status": "fault"}]}')
    agent, _ = start()
    soon(lambda: "ranks 9 are faulty" in caplog.text)
    assert agent.calls.empty()
    path.write_text('{"RankList": [{"RankId": 7, "Status": "fault"}]}')
    assert agent.called() == ("START_ALL_WORKER", 3)


def test_workers_that_fail_are_torchs_to_report(start: Start) -> None:
    agent, result = start()
    assert agent.called() == ("START_ALL_WORKER", 3)
    agent.processes[1].kill()
    assert agent.called() == ("KILL_WORKER", [8, 9])
    assert result.result(SOON).state is WorkerState.FAILED
    assert result.result().failures == {9: -9} and agent.barriers == 0


def test_fault_of_this_node(start: Start, path: Path) -> None:
    agent, result = start()
    assert agent.called() == ("START_ALL_WORKER", 3)
    path.write_text(json.dumps({"RankList": [{"RankId": 9, "Status": "fault"}], "RestartFaultProcess": True}))
    assert agent.called() == ("KILL_WORKER", [8, 9])
    error = result.exception(SOON)
    assert isinstance(error, SystemExit) and error.code == 1


def test_new_retry_time(start: Start, path: Path) -> None:
    agent, _ = start()
    assert agent.called() == ("START_ALL_WORKER", 3)
    path.write_text('{"RetryTime": 1}')
    assert agent.called() == ("KILL_WORKER", [8, 9])
    assert agent.called() == ("START_ALL_WORKER", 3)


def test_signal_of_torchs_is_the_callers(path: Path, frameworks: list[Double]) -> None:
    class SignalException(Exception):
        sigval = signal.SIGTERM

    agent = Agent()
    frameworks.append(agent)

    def interrupted(worker_group: Any) -> RunResult:
        raise SignalException

    agent._initialize_workers = interrupted  # type: ignore[assignment]
    with pytest.raises(SignalException):
        invoke_run(agent, paths=Paths(path, path), times=TIMES)
