"""Faults of devices in a mesh of one process: messages, files, resets, views."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.job.clusterd import rpcs
from taskd_net.job.decide.traffic import Reset
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.resets import OnReset
from taskd_net.net.wire import recover_pb2 as wire
from taskd_net.observe.job_view import DeviceView
from tests.manager.cluster import Leaf, agent, leaves, managed, worker
from tests.peers.clusterd import ClusterD
from tests.polling import until

SEPARATE, RESTART, OFTEN, CALM = "8C000006", "8C000005", "8C0000AA", "8C000001"
CODES = {"NotHandleFaultCodes": [CALM, OFTEN], "RestartNPUCodes": [RESTART], "SeparateNPUCodes": [SEPARATE]}
CUSTOM = {
    "FaultFrequency": [{"EventId": [OFTEN], "TimeWindow": 60, "Times": 2, "FaultHandling": "ManuallySeparateNPU"}]
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """The folder with the rules."""
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "faultCode.json").write_text(json.dumps(CODES))
    (folder / "faultCustomization.json").write_text(json.dumps(CUSTOM))
    return folder


class Job:
    """A Mgr, the Agents of two nodes that run, and the Worker with rank 3."""

    def __init__(self, node: Node, manager: Manager, zero: Leaf, one: Leaf, rank_3: Leaf) -> None:
        self.node = node
        self.manager = manager
        self.zero = zero
        self.one = one
        self.rank_3 = rank_3

    async def fault(self, code: str, kind: int = 1, device: str = "npu-1", **extension: str) -> None:
        """Agent 1 reports a fault of a device of its own."""
        await self.one.report("FAULT", kind, code, Device=device, **extension)

    async def begun(self, leaf: Leaf) -> tuple[int, str]:
        """The next command of an Agent."""
        body = await leaf.command()
        return body.code, body.message

    @property
    def devices(self) -> tuple[DeviceView, ...]:
        """The devices as faces see them."""
        return self.manager.view().devices


@asynccontextmanager
async def job(config: ManagerConfig, on_reset: OnReset | None = None) -> AsyncIterator[Job]:
    """The job, with its rules in force."""
    async with (
        managed(config, on_reset=on_reset) as (node, manager),
        leaves(node, agent(0), agent(1), worker(1, 3)) as (zero, one, rank_3),
    ):
        await rank_3.report("REGISTER", 101)
        for leaf, name in ((zero, "p0"), (one, "p1")):
            await leaf.register(Incarnation=name, Devices='["npu-0", "npu-1"]')
            assert (await leaf.command()).code == 210
        await until(lambda: manager.view().fault_mode)
        yield Job(node, manager, zero, one, rank_3)


def config(files: Path, tmp_path: Path, **more: object) -> ManagerConfig:
    """The settings."""
    given: dict[str, object] = {"processes_per_node": 2, "nodes": 2, "state": str(tmp_path / "state")}
    return ManagerConfig(job_id="J", fault_config=str(files), **given, **more)  # type: ignore[arg-type]


async def test_a_fault_replaces_its_node_and_is_shown(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with job(config(files, tmp_path)) as made:
        await made.fault(SEPARATE)
        assert await made.begun(made.one) == (203, "")
        assert await made.begun(made.zero) == (208, "2")
        (line,) = [line for line in caplog.text.splitlines() if "event=device_fault " in line]
        assert all(part in line for part in ("device=1/npu-1", "device_node=1", "rank=3", "type=SeparateNPU"))
        assert " node=Mgr/0 " in line, "the node that writes the line"
        (device,) = made.devices
        assert (device.device, device.node, device.rank, device.isolated) == ("1/npu-1", 1, 3, True)
        assert (device.level, device.fault_type, device.code) == ("L6", "SeparateNPU", SEPARATE)
        view = made.manager.view()
        assert (view.devices_known, view.devices_isolated, view.fault_mode) == (1, 1, "rescheduling")
        assert view.counters.device_faults == {"L6 SeparateNPU": 1}
        (*_, first, second) = view.decisions
        assert first.plugin == "FaultLevelPlugin" and first.cause == f"device 1/npu-1 {SEPARATE} occurred by Agent/1"
        assert first.calls == ("replace node 1 because of 1/npu-1",)
        assert second.plugin == "PodReschedulingPlugin"


async def test_grace_stops_resets_and_runs_again(files: Path, tmp_path: Path) -> None:
    wanted: asyncio.Queue[Reset] = asyncio.Queue()
    may_end = asyncio.Event()

    async def hook(reset: Reset) -> bool:
        wanted.put_nowait(reset)
        await may_end.wait()
        return True

    async with job(config(files, tmp_path, fault_mode="grace"), hook) as made:
        await made.fault(RESTART)
        assert await made.begun(made.one) == (213, '["3"]')
        (device,) = made.devices
        assert (device.action, device.isolated) == ("stop processes", False)
        await made.one.fault(3)
        reset = await wanted.get()
        assert (reset.device, reset.ranks, reset.limit) == ("1/npu-1", (3,), 60.0)
        may_end.set()
        assert await made.begun(made.one) == (208, "2")
        assert await made.begun(made.zero) == (208, "2")
        await until(lambda: not made.devices)


async def test_a_retry_time_that_changes_during_a_reset_is_the_same_restart(files: Path, tmp_path: Path) -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def hook(reset: Reset) -> bool:
        begun.set()
        await may_end.wait()
        return True

    reset_file = tmp_path / "reset.json"
    reset_file.write_text('{"RankList": [], "RetryTime": 0}')
    async with job(config(files, tmp_path, fault_mode="grace", reset_file=str(reset_file)), hook) as made:
        await until(lambda: made.manager.view().retry_time == 0)
        await made.fault(RESTART)
        assert await made.begun(made.one) == (213, '["3"]')
        await made.one.fault(3)
        await begun.wait()
        reset_file.write_text('{"RankList": [], "RetryTime": 1}')
        await until(lambda: made.manager.view().retry_time == 1)
        may_end.set()
        assert await made.begun(made.one) == (208, "2")
        assert await made.begun(made.zero) == (208, "2")
        await until(lambda: not made.devices)
        await made.fault(SEPARATE)
        assert await made.begun(made.one) == (203, ""), "no 208 comes between"
        assert await made.begun(made.zero) == (208, "1")


async def test_with_clusterd_faults_are_shown_and_nothing_is_sent(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ClusterD() as clusterd:
        settings = config(files, tmp_path, clusterd_addr=clusterd.address, fault_recover="on")
        async with job(settings) as made:
            await made.fault(SEPARATE)
            await until(lambda: made.devices)
            (device,) = made.devices
            assert (device.device, device.isolated) == ("1/npu-1", True)
            assert made.manager.view().fault_mode == "reports"
            assert "event=device_fault " in caplog.text
            faults = [wire.FaultRank(rankId="3", faultType="1")]
            order = wire.ProcessManageSignal(
                uuid="u",
                jobId="J",
                signalType="globalFault",
                actions=["fault_nodes_exit"],
                faultRanks=faults,
                nodeRankIds=["1"],
            )
            await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, order)
            assert await made.begun(made.one) == (203, "")
            orders = [each.plugin for each in made.manager.view().decisions if each.messages]
            assert orders[-1] == "StopTrainPlugin" and set(orders[:-1]) == {""}


async def test_a_change_of_the_files_counts_at_once_and_outlives_the_manager(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = config(files, tmp_path)
    async with job(settings) as made:
        await made.fault(CALM)
        (files / "faultCode.json").write_text(json.dumps({"SeparateNPUCodes": [CALM]}))
        assert await made.begun(made.one) == (203, "")
    (files / "faultCode.json").write_text("{")
    async with managed(settings) as (_, manager):
        await until(lambda: "configmap change failed" in caplog.text)
        assert manager.view().fault_mode == "rescheduling"
        (device,) = manager.view().devices
        assert (device.device, device.isolated) == ("1/npu-1", True)


async def test_paths_stay_after_the_application_has_changed_its_folder(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, elsewhere = tmp_path / "separated", tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    async with job(config(files.relative_to(tmp_path), tmp_path, fault_separated=file.name)) as made:
        monkeypatch.chdir(elsewhere)
        for kind in (1, 0, 1, 0):
            await made.fault(OFTEN, kind)
        await until(lambda: file.exists() and file.read_text() == "1/npu-1\n")
        file.write_text("\n")
        await until(lambda: not made.devices)
        await made.fault(CALM)
        (files / "faultCode.json").write_text(json.dumps({"SeparateNPUCodes": [CALM]}))
        await until(lambda: made.devices)
    assert not list(elsewhere.iterdir())


async def test_the_list_of_separated_devices(files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "separated-devices"
    async with job(config(files, tmp_path)) as made:
        for kind in (1, 0, 1, 0):
            await made.fault(OFTEN, kind)
        await until(lambda: file.exists() and file.read_text() == "1/npu-1\n")
        file.write_text("1/npu-1,9/foreign")
        await until(lambda: file.read_text() == "1/npu-1\n")
        await until(lambda: "separated_names_undone" in caplog.text)
        file.unlink()
        await until(lambda: file.exists() and file.read_text() == "1/npu-1\n")
        assert [device.device for device in made.devices] == ["1/npu-1"], "a file that is missing releases nothing"
        file.write_text("\n")
        await until(lambda: not made.devices)


async def test_a_person_releases_a_device_by_a_message(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "list"
    async with job(config(files, tmp_path, fault_separated=str(file))) as made:
        for kind in (1, 0, 1, 0):
            await made.fault(OFTEN, kind)
        await until(lambda: file.exists() and file.read_text() == "1/npu-1\n")
        await made.rank_3.report("FAULT", 3, "1/npu-1")
        await until(lambda: file.read_text() == "\n")
        assert not made.devices
        assert "separated_names_undone" not in caplog.text


async def test_ranks_of_the_mapping_file(files: Path, tmp_path: Path) -> None:
    mapping = tmp_path / "ranks.json"
    mapping.write_text('{"host-b/npu": 3}')
    async with job(config(files, tmp_path, fault_devices=str(mapping))) as made:
        await until(lambda: made.manager.job.state.devices.ranks)
        await made.fault(SEPARATE, device="host-b/npu")
        assert await made.begun(made.one) == (203, "")
        assert [device.rank for device in made.devices] == [3]


async def test_a_report_that_cannot_be_read_is_said_and_harms_nothing(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with job(config(files, tmp_path)) as made:
        await made.fault("no code")
        await until(lambda: "code is 'no code'; expected 8 or 9" in caplog.text)
        await made.fault(SEPARATE)
        assert await made.begun(made.one) == (203, "")


async def test_a_report_that_is_there_before_the_manager_is_answered_by_the_files(files: Path, tmp_path: Path) -> None:
    (files / "faultCode.json").write_text(json.dumps({"SeparateNPUCodes": [CALM], "NotHandleFaultCodes": [SEPARATE]}))
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0", confirms=True)) as node, leaves(node, agent(0)) as (zero,):
        both = [zero.report("FAULT", 2, code, Device="npu-1", Node="0") for code in (SEPARATE, CALM)]
        waiting = [asyncio.create_task(each) for each in both]
        await until(lambda: node.driver.router.gate.held == 2)
        async with Manager(node, config(files, tmp_path)) as manager:
            await asyncio.gather(*waiting)
            assert manager.view().counters.device_faults == {"L1 NotHandleFault": 1, "L6 SeparateNPU": 1}


async def test_until_the_first_good_files_the_severity_decides(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (files / "faultCode.json").write_text("{")
    async with job(config(files, tmp_path)) as made:
        assert "event=fault_rules_missing" in caplog.text
        await made.fault(CALM, device="npu-0", Severity="minor")
        await made.fault(RESTART, Severity="major")
        assert await made.begun(made.one) == (203, "")
        assert made.manager.view().counters.device_faults == {"L1 NotHandleFault": 1, "L6 SeparateNPU": 1}
        (files / "faultCode.json").write_text(json.dumps(CODES | {"SeparateNPUCodes": [SEPARATE, CALM]}))
        by_the_files = [("1/npu-0", "SeparateNPU"), ("1/npu-1", "RestartNPU")]
        await until(lambda: [(each.device, each.fault_type) for each in made.devices] == by_the_files)


async def test_a_hot_switch_without_clusterd_is_said_and_changes_nothing(
    files: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (files / "faultCode.json").write_text(
        json.dumps({"SubHealthFaultCodes": ["8C0000BB"], "RestartNPUCodes": [RESTART]})
    )
    settings = config(files, tmp_path, fault_edition="current", sub_health="hotSwitch")
    async with job(settings) as made:
        assert "event=hot_switch_without_clusterd" in caplog.text
        await made.fault("8C0000BB")
        await until(lambda: "event=device_fault " in caplog.text)
        (line,) = [line for line in caplog.text.splitlines() if "event=device_fault " in line]
        assert "steps=none" in line and "only ClusterD can switch over" in line
        assert not made.devices and made.manager.job.state.records.restarts == 3


async def test_without_a_folder_reports_are_refused(tmp_path: Path) -> None:
    async with managed(ManagerConfig(job_id="J")) as (node, manager), leaves(node, agent(1)) as (one,):
        await one.report("FAULT", 1, SEPARATE, Device="npu-1")
        await until(lambda: manager.view().counters.refused == 1)
        assert manager.view().fault_mode == ""
