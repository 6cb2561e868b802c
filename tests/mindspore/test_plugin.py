"""`MSRunPlugin` around processes and files, with short times."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.job.member import Refused
from taskd_net.mindspore import MSRunPlugin, Paths, Times
from tests.api.frameworks import FINISHES, Double, Msrun

SOON = 10.0
TIMES = Times(look=0.03, gate_look=0.05, gate=SOON, restart=0.05, replace=SOON, failed=0.1, finish=0.05, grace=SOON)


def soon(true: Callable[[], object]) -> None:
    """Wait until a condition holds."""
    give_up_at = time.monotonic() + SOON
    while not true():
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


@dataclass
class Node:
    """A launcher in a thread, its files, and its workers, which have the global ranks 8 and 9."""

    framework: Msrun
    path: Path
    result: Future[object]

    def file(self, *listed: tuple[int, str], **fields: object) -> None:
        """Replace the reset file."""
        ranks = [{"RankId": rank, "Status": status} for rank, status in listed]
        new = self.path.with_suffix(".new")
        new.write_text(json.dumps({"RankList": ranks, "RetryTime": 0, **fields}))
        new.rename(self.path)

    def status(self) -> object:
        """The status with which the launcher leaves."""
        error = self.result.exception(SOON)
        assert isinstance(error, SystemExit), error
        return error.code


class Nodes:
    """Starts launchers."""

    def __init__(self, folder: Path, threads: ThreadPoolExecutor, frameworks: list[Double]) -> None:
        self.path = folder / "reset.json"
        self._threads = threads
        self._frameworks = frameworks

    def __call__(self, times: Times = TIMES, *, partial: bool = True, program: str = "") -> Node:
        framework = Msrun()
        framework.program = program or framework.program
        self._frameworks.append(framework)
        plugin = MSRunPlugin(paths=Paths(self.path, self.path.with_name("version")), times=times)
        plugin.register_callbacks("KILL_WORKER", framework.kill)
        plugin.register_callbacks("START_ALL_WORKER", framework.start_all)
        plugin.register_callbacks("MONITOR", framework.monitor)
        if partial:
            plugin.register_callbacks("START_WORKER_LIST", framework.start_list)
        return Node(framework, self.path, self._threads.submit(plugin.start))


@pytest.fixture
def launch(tmp_path: Path, frameworks: list[Double]) -> Iterator[Nodes]:
    """Launchers that end with the test: all their workers are killed, and the platform says fault."""
    with ThreadPoolExecutor() as threads:
        nodes = Nodes(tmp_path, threads, frameworks)
        yield nodes
        nodes.path.write_text('{"RankList": [{"RankId": 8, "Status": "fault"}]}')


def test_workers_to_their_end(launch: Nodes) -> None:
    node = launch(program=FINISHES)
    assert node.framework.called() == ("START_ALL_WORKER",)
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.status() == 0


def test_worker_that_fails_ends_the_node(launch: Nodes) -> None:
    node = launch()
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.framework.processes[1].kill()
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.status() == 1
    assert [process.wait(SOON) for process in node.framework.processes] == [-9, -9]


def test_fault_of_this_node_ends_it(launch: Nodes) -> None:
    node = launch()
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.file((7, "fault"))
    node.framework.looked()
    assert not node.result.done()
    node.file((9, "fault"))
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.status() == 1


def test_gate(launch: Nodes) -> None:
    launch.path.write_text('{"FaultFlushing": true}')
    node = launch()
    node.framework.looked()
    assert node.framework.calls.empty()
    node.file()
    assert node.framework.called() == ("START_ALL_WORKER",)


def test_gate_that_stays_closed(launch: Nodes) -> None:
    launch.path.write_text('{"FaultFlushing": true}')
    node = launch(replace(TIMES, gate=0.1))
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.status() == 1


def test_reset_of_devices(launch: Nodes) -> None:
    node = launch()
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.file((3, "unrecovered"))
    assert node.framework.called() == ("KILL_WORKER", [-1])
    node.framework.looked()
    assert node.framework.calls.empty()
    node.file((3, "recovered"))
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.framework.looked()
    assert node.framework.calls.empty()


def test_new_retry_time(launch: Nodes) -> None:
    node = launch()
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.file(RetryTime=1)
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.framework.called() == ("START_ALL_WORKER",)


def test_graceful_exit_waits_for_the_workers(launch: Nodes) -> None:
    """Both end by SIGTERM with 7; nothing kills them before."""
    node = launch()
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.file(GracefulExit=1)
    assert [process.wait(SOON) for process in node.framework.processes] == [7, 7]
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.status() == 1


def test_graceful_exit_of_workers_that_stay(launch: Nodes) -> None:
    program = "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); sys.stdin.read()"
    node = launch(replace(TIMES, grace=0.3), program=program)
    assert node.framework.called() == ("START_ALL_WORKER",)
    began = time.monotonic()
    node.file(GracefulExit=1)
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert time.monotonic() - began >= 0.3
    assert [process.wait(SOON) for process in node.framework.processes] == [-signal.SIGKILL] * 2


def test_faulty_rank_is_restarted_alone(launch: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MS_NODE_RANK", "1")
    monkeypatch.setenv("ENABLE_RESTART_FAULT_PROCESS", "on")
    node = launch()
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.framework.processes[1].kill()
    node.file((9, "fault"), RestartFaultProcess=True)
    assert node.framework.called() == ("KILL_WORKER", ["pid of 1"])
    assert node.framework.called() == ("START_WORKER_LIST", [1])
    node.framework.looked()
    assert node.framework.calls.empty() and node.framework.processes[0].poll() is None


@pytest.mark.parametrize(("rank", "variable", "partial"), [("0", "on", True), ("1", "off", True), ("1", "on", False)])
def test_no_rank_is_restarted_alone(
    rank: str, variable: str, partial: bool, launch: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On node 0, without the variable, or by an msrun without START_WORKER_LIST."""
    monkeypatch.setenv("MS_NODE_RANK", rank)
    monkeypatch.setenv("ENABLE_RESTART_FAULT_PROCESS", variable)
    node = launch(partial=partial)
    assert node.framework.called() == ("START_ALL_WORKER",)
    node.file((9, "fault"), RestartFaultProcess=True)
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.status() == 1


def test_workers_that_cannot_be_started(launch: Nodes, frameworks: list[Double]) -> None:
    launch.path.write_text('{"FaultFlushing": true}')
    node = launch()
    node.framework.answer = 1
    node.file()
    assert node.framework.called() == ("START_ALL_WORKER",)
    assert node.framework.called() == ("KILL_WORKER", [-1])
    assert node.status() == 1


def test_answers_of_monitor_that_are_none(launch: Nodes, caplog: pytest.LogCaptureFixture) -> None:
    """One line for each kind, and the next look."""
    launch.path.write_text('{"FaultFlushing": true}')
    node = launch()
    for answer in ([0], [1], {"0": None}, {0: {"pid": 5}}):
        node.framework.malformed = answer
        for _ in range(3):
            node.framework.looked()
    node.framework.malformed = None
    node.file()
    assert node.framework.called() == ("START_ALL_WORKER",)
    assert caplog.text.count("MONITOR answered") == 2
    node.framework.processes[0].kill()
    assert node.framework.called() == ("KILL_WORKER", [-1])


def test_functions_that_are_missing() -> None:
    plugin = MSRunPlugin()
    plugin.register_callbacks("MONITOR", print)
    with pytest.raises(Refused, match=r"no function is registered for KILL_WORKER, START_ALL_WORKER$"):
        plugin.start()


@pytest.mark.parametrize(("operator", "func"), [("KILL", print), (None, print), ("MONITOR", None)])
def test_functions_that_are_none(operator: object, func: object) -> None:
    with pytest.raises(ConfigError, match="expected"):
        MSRunPlugin().register_callbacks(operator, func)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variable", "value"),
    [("MS_NODE_RANK", "first"), ("MS_LOCAL_WORKER", "many"), ("TASKD_NET_START_WAIT", "long")],
)
def test_variables_that_are_none(variable: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    plugin = MSRunPlugin()
    for operator in ("KILL_WORKER", "START_ALL_WORKER", "MONITOR"):
        plugin.register_callbacks(operator, print)
    with pytest.raises(ConfigError, match=f"{variable} is '{value}'; expected"):
        plugin.start()
