"""Node 0 of a job without a Manager: the client of ClusterD, its controller, and killMaster."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from taskd_net.job.clusterd import HandlerController, Reports, rpcs
from taskd_net.job.clusterd.launcher import LauncherClient
from taskd_net.mindspore import MSRunPlugin, Paths
from taskd_net.net.wire import recover_pb2 as wire
from tests.api.frameworks import FINISHES, Double, Msrun
from tests.mindspore.test_plugin import SOON, TIMES, soon
from tests.peers.clusterd import ClusterD


class Controller(HandlerController):
    """A controller that notes its life."""

    def __init__(self) -> None:
        super().__init__()
        self.life: list[str] = []

    def start(self, reports: Reports) -> None:
        """Begin."""
        super().start(reports)
        self.life.append("start")

    def close(self) -> None:
        """End."""
        self.life.append("close")


@pytest.fixture
def clusterd(monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterD]:
    """A ClusterD at the address that the platform's variables lead to."""
    with ClusterD() as server:
        monkeypatch.setenv("MINDX_TASK_ID", "J")
        monkeypatch.setenv("TASKD_NET_CLUSTERD_ADDR", server.address)
        yield server


def signal(kind: str) -> wire.ProcessManageSignal:
    """A signal for the job."""
    return wire.ProcessManageSignal(uuid=kind, jobId="J", signalType=kind, actions=[])


@pytest.fixture
def framework(frameworks: list[Double]) -> Msrun:
    made = Msrun()
    frameworks.append(made)
    return made


def plugin(framework: Msrun, path: Path, controller: Controller) -> MSRunPlugin:
    """A plugin with all functions."""
    made = MSRunPlugin(paths=Paths(path, path), times=replace(TIMES, failed=SOON), controller=controller)
    made.register_callbacks("KILL_WORKER", framework.kill)
    made.register_callbacks("START_ALL_WORKER", framework.start_all)
    made.register_callbacks("START_WORKER_LIST", framework.start_list)
    made.register_callbacks("MONITOR", framework.monitor)
    return made


def test_kill_master_ends_the_node_and_a_new_retry_time_starts_the_controller_anew(
    clusterd: ClusterD, framework: Msrun, tmp_path: Path
) -> None:
    controller, path = Controller(), tmp_path / "reset.json"
    with ThreadPoolExecutor() as threads:
        result = threads.submit(plugin(framework, path, controller).start)
        assert framework.called() == ("START_ALL_WORKER",)
        clusterd.wait_for_stream(rpcs.SIGNALS)
        assert clusterd.requests(rpcs.REGISTER)[0] == wire.ClientInfo(jobId="J", role="master agent")
        path.write_text('{"RetryTime": 1}')
        assert framework.called() == ("KILL_WORKER", [-1])
        assert framework.called() == ("START_ALL_WORKER",)
        soon(lambda: controller.life == ["start", "close", "start"])
        clusterd.send(rpcs.SIGNALS, signal("keep-alive"), signal("killMaster"))
        assert framework.called() == ("KILL_WORKER", [-1])
        error = result.exception(SOON)
        assert isinstance(error, SystemExit) and error.code == 1
    assert controller.life[3:] in (["close"], ["close", "close"])
    assert clusterd.names.count("Register") == 1


def test_end_of_the_work_ends_the_client(clusterd: ClusterD, framework: Msrun, tmp_path: Path) -> None:
    framework.program = FINISHES
    controller = Controller()
    with pytest.raises(SystemExit) as left:
        plugin(framework, tmp_path / "reset.json", controller).start()
    assert left.value.code == 0


def test_other_nodes_have_no_client(
    clusterd: ClusterD, framework: Msrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MS_NODE_RANK", "1")
    framework.program = FINISHES
    with pytest.raises(SystemExit):
        plugin(framework, tmp_path / "reset.json", Controller()).start()
    assert clusterd.calls == []


def test_recovery_that_is_switched_off(
    clusterd: ClusterD, framework: Msrun, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    clusterd.answers["Init"].append(403)
    made = LauncherClient.of_environment("mindspore")
    assert made is not None
    made.start(lambda: None)
    soon(lambda: "recovery is switched off for the job" in caplog.text)
    made.close()


@pytest.mark.parametrize(
    ("missing", "named"), [("MINDX_TASK_ID", "MINDX_TASK_ID"), ("TASKD_NET_CLUSTERD_ADDR", "MINDX_SERVER_IP")]
)
def test_no_client_without_a_job_and_an_address(
    missing: str, named: str, clusterd: ClusterD, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.delenv(missing)
    assert LauncherClient.of_environment("mindspore") is None
    assert "no_clusterd" in caplog.text and f"{named} is not set" in caplog.text


def test_address_that_is_none_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    made = LauncherClient("J", "a b", "mindspore")
    made.start(lambda: None)
    made.close()
    assert caplog.text.count("clusterd_failed") == 1


def test_clusterd_that_is_away_holds_up_nobody(
    framework: Msrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDX_TASK_ID", "J")
    monkeypatch.setenv("TASKD_NET_CLUSTERD_ADDR", "127.0.0.1:1")
    framework.program = FINISHES
    with pytest.raises(SystemExit) as left:
        plugin(framework, tmp_path / "reset.json", Controller()).start()
    assert left.value.code == 0
