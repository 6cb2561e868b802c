from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from taskd_net.base.body import Body
from taskd_net.job import profiling_switch
from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.controller import HandlerController, Reports
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.decide.snapshot import JobTimes
from taskd_net.job.decide.traffic import Call
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.net.wire import datatrace_pb2
from taskd_net.net.wire import recover_pb2 as wire
from taskd_net.observe.job_view import ClusterdView
from tests.manager import cluster
from tests.manager.cluster import agent, leaves, worker
from tests.peers.clusterd import ClusterD
from tests.polling import until

pytestmark = pytest.mark.oldest

FAULTS = [wire.FaultRank(rankId="3", faultType="1")]


QUICK = ManagerLimits(clusterd=ClusterdTimes(init=0.25, pause=0.05, look=0.05), off_s=1.5, reply_pause_s=0.05)
managed = partial(cluster.managed, limits=QUICK)


@pytest.fixture
def clusterd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ClusterD]:
    monkeypatch.setenv(profiling_switch.PATH, str(tmp_path / "profilingSwitch"))
    with ClusterD() as server:
        yield server


def config(clusterd: ClusterD, **more: Any) -> ManagerConfig:
    return ManagerConfig(job_id="J", clusterd_addr=clusterd.address, fault_recover="on", **more)


def signal(kind: str, *actions: str, uuid: str = "u", **fields: Any) -> wire.ProcessManageSignal:
    return wire.ProcessManageSignal(uuid=uuid, jobId="J", signalType=kind, actions=actions, faultRanks=FAULTS, **fields)


async def test_a_fault_of_one_uuid_runs_from_stop_to_its_result(clusterd: ClusterD) -> None:
    def stop(call: Call, reports: Reports) -> None:
        reports.stop_complete(0, "stopped", call.ranks)

    def choose(call: Call, reports: Reports) -> None:
        reports.strategies(call.ranks, ["recover", "exit"])

    def change(call: Call, reports: Reports) -> None:
        reports.result(0, "recovered", {}, call.text)

    handlers = {"stop_train": stop, "on_global_rank": choose, "change_strategy": change}
    async with (
        managed(config(clusterd), framework=HandlerController(handlers)) as (node, manager),
        leaves(node, agent(1)) as (agent1,),
    ):
        await agent1.register()
        assert (await agent1.command()).code == 210
        send = clusterd.send
        await asyncio.to_thread(send, rpcs.SIGNALS, signal("stopTrain", "stop_train"))
        (stopped,) = await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE)
        global_fault = signal("globalFault", "on_global_rank", "fault_nodes_restart", nodeRankIds=["1"])
        await asyncio.to_thread(send, rpcs.SIGNALS, global_fault)
        (chosen,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
        assert (await agent1.command()).code == 209
        order = signal("changeStrategy", "change_strategy", changeStrategy="recover", nodeRankIds=["1"])
        await asyncio.to_thread(send, rpcs.SIGNALS, order, order)
        assert (await agent1.command()).code == 203
        (ended,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STATUS)
        await until(lambda: not manager.job.state.calls)
        assert manager.view().counters.signals == 4
    assert (stopped.status.code, list(stopped.faultRanks)) == (0, FAULTS)
    assert list(chosen.strategies) == ["recover", "exit"]
    assert (ended.status.code, ended.strategy) == (0, "recover")
    assert clusterd.names.count("ReportRecoverStatus") == 1
    assert clusterd.requests(rpcs.REGISTER) == [wire.ClientInfo(jobId="J", role="taskd")]


async def test_a_kill_master_that_agent_0_has_not_taken_is_over_when_a_new_round_begins(clusterd: ClusterD) -> None:
    """The link of Agent 0 breaks, and its process goes on. It ended a job whose nodes were all back."""
    async with managed(config(clusterd)) as (node, manager):
        async with leaves(node, agent(0)) as (agent0,):
            await agent0.register(Incarnation="p")
            assert (await agent0.command()).code == 210
            await until(lambda: not manager.job.state.outbox.sending)
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("killMaster"))
        await until(lambda: manager.job.state.outbox.has("Agent/0", 203))
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("stopTrain", "stop_train", uuid="v"))
        await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE)
        async with leaves(node, agent(0)) as (agent0,):
            await agent0.register(Incarnation="p")
            order = signal("globalFault", "fault_nodes_restart", uuid="v", nodeRankIds=["0"])
            await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, order)
            codes = [(await agent0.command()).code]
            while codes[-1] not in (203, 209):
                codes.append((await agent0.command()).code)
    assert codes[-1] == 209


async def test_without_a_controller_clusterd_need_not_wait(clusterd: ClusterD) -> None:
    async with managed(config(clusterd)):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("stopTrain", "stop_train"))
        (stopped,) = await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE)
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("globalFault", "on_global_rank"))
        (chosen,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
    assert stopped.status.code == 404
    assert list(chosen.strategies) == ["exit"]


@pytest.mark.parametrize(("refusals", "calls"), [(6, 7), (100, 8)])
async def test_refused_reports_are_made_four_times(clusterd: ClusterD, refusals: int, calls: int) -> None:
    clusterd.answers["ReportStopComplete"].extend([400] * refusals)
    async with managed(config(clusterd)) as (_, manager):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("stopTrain", "stop_train"))
        await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE, calls)
        await until(lambda: not manager.job.state.calls)
    assert clusterd.names.count("ReportStopComplete") == calls, "each attempt is two calls, with a Register between"


async def test_switch_of_cards_is_answered_until_clusterd_has_it(clusterd: ClusterD) -> None:
    clusterd.answers["ReplySwitchNicResult"].extend([400, grpc.StatusCode.UNKNOWN])
    async with managed(config(clusterd)) as (node, manager), leaves(node, worker(0, 0)) as (one,):
        await one.report("REGISTER", 101)
        order = wire.SwitchRankList(rankID=["0"], op=[True], jobId="J")
        await asyncio.to_thread(clusterd.send, rpcs.SWITCH_NIC_ORDERS, order)
        command = await one.command()
        assert command.code == 204
        await one.report("ACTION", 204, "switchOK", switchNicUUID=command.extension["switchNicUUID"])
        replies = await asyncio.to_thread(clusterd.wait_for, rpcs.REPLY_SWITCH_NIC, 3)
        await until(lambda: not manager.job.state.outbox.sending)
    assert replies == [wire.SwitchResult(jobId="J", result=True)] * 3


async def test_result_is_given_up_after_ten_tries(clusterd: ClusterD, caplog: pytest.LogCaptureFixture) -> None:
    clusterd.answers["ReplySwitchNicResult"].extend([400] * 100)
    async with managed(config(clusterd)) as (_, manager):  # without Workers nothing is switched
        order = wire.SwitchRankList(rankID=["0"], op=[True], jobId="J")
        await asyncio.to_thread(clusterd.send, rpcs.SWITCH_NIC_ORDERS, order)
        await asyncio.to_thread(clusterd.wait_for, rpcs.REPLY_SWITCH_NIC)
        await until(lambda: not manager.job.state.outbox.sending)
    assert clusterd.requests(rpcs.REPLY_SWITCH_NIC) == [wire.SwitchResult(jobId="J", result=False)] * 10
    assert caplog.text.count("clusterd_report_failed") == 1


async def test_stress_test_brings_the_results_of_all(clusterd: ClusterD) -> None:
    async with managed(config(clusterd)) as (node, _), leaves(node, worker(0, 0)) as (one,):
        await one.report("REGISTER", 101)
        params = {"0": wire.StressOpList(ops=[0]), "7": wire.StressOpList(ops=[1])}
        order = wire.StressTestRankParams(stressParam=params, jobId="J")
        await asyncio.to_thread(clusterd.send, rpcs.STRESS_TEST_ORDERS, order)
        uuid = (await one.command()).extension["stressTestUUID"]
        result = '{"rankResult": {"0": {"code": "2", "result": "find fault rank"}}}'
        await one.report("ACTION", 205, result, stressTestUUID=uuid)
        (reply,) = await asyncio.to_thread(clusterd.wait_for, rpcs.REPLY_STRESS_TEST)
    outcomes = {rank: dict(each.rankResult) for rank, each in reply.stressResult.items()}
    assert outcomes == {
        "0": {"0": wire.StressTestOpResult(code="2", result="find fault rank")},
        "7": {"1": wire.StressTestOpResult(code="1", result="execution failed")},
    }


async def test_profiling_file_counts_where_clusterd_says_nothing(clusterd: ClusterD, tmp_path: Path) -> None:
    (tmp_path / "profilingSwitch").write_text('{"Step": "on"}')
    clusterd.answers["Init"].extend([403] * 1000)
    async with (
        managed(config(clusterd, nodes=1, processes_per_node=1)) as (node, _),
        leaves(node, worker(0, 0)) as (one,),
    ):
        await one.report("REGISTER", 101)
        assert (await one.command()).code == 710
        switch = datatrace_pb2.ProfilingSwitch(CommunicationOperator="on")
        message = datatrace_pb2.DataStatusRes(profilingSwitch=switch, code=200)
        await asyncio.to_thread(clusterd.send, rpcs.PROFILING, message)
        assert (await one.command()).code == 711


async def test_profiling_file_is_not_read_while_the_stream_of_the_switch_stands(
    clusterd: ClusterD, tmp_path: Path
) -> None:
    async with (
        managed(config(clusterd, nodes=1, processes_per_node=1)) as (node, manager),
        leaves(node, worker(0, 0)) as (one,),
    ):
        await one.report("REGISTER", 101)
        await until(lambda: manager.view().clusterd.state == "subscribed")
        (tmp_path / "profilingSwitch").write_text('{"Step": "on"}')
        assert manager._clusterd is not None and manager._clusterd.look() is None
        clusterd.answers[rpcs.PROFILING.name].append(grpc.StatusCode.UNIMPLEMENTED)
        clusterd.end(rpcs.PROFILING)
        assert (await one.command()).code == 710


async def test_call_that_was_interrupted_is_reported_and_not_repeated(clusterd: ClusterD, tmp_path: Path) -> None:
    taken: list[Call] = []
    settings = config(clusterd, state=str(tmp_path / "j.sqlite3"))
    framework = HandlerController({"stop_train": lambda call, _: taken.append(call)})  # and never reports
    order = signal("stopTrain", "stop_train")
    async with managed(settings, framework=framework):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, order)
        await until(lambda: taken)
    before = len(clusterd.names)
    clusterd.first[rpcs.SIGNALS.name] = [order, signal("stopTrain", "stop_train", uuid="next")]
    async with managed(settings, framework=framework):
        await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE)
        await until(lambda: len(taken) == 2)
    (failed,) = clusterd.requests(rpcs.STOP_COMPLETE)
    assert (failed.status.code, failed.status.info) == (499, "the Manager was restarted meanwhile")
    operations = (rpcs.PROFILING.name, rpcs.SWITCH_NIC_ORDERS.name, rpcs.STRESS_TEST_ORDERS.name)
    names = [name for name in clusterd.names[before:] if name not in operations]
    assert names[:4] == ["Init", "Register", "ReportStopComplete", "SubscribeProcessManageSignal"]
    assert len(taken) == 2, "the order that came again was carried out once"


async def test_controller_that_raises_is_reported_as_failed(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Call, __: Reports) -> None:
        raise RuntimeError("no checkpoint")

    async with managed(config(clusterd), framework=HandlerController({"save_and_exit": fail})) as (_, manager):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("saveAndExit", "save_and_exit"))
        (status,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STATUS)
        await until(lambda: manager.view().clusterd.reports_sent == 1)
        assert manager.view().clusterd.failed_actions == 1
    assert (status.status.code, status.status.info, status.strategy) == (499, "no checkpoint", "dump")
    assert "clusterd_action_failed" in caplog.text


async def test_unknown_actions_and_repeated_orders_are_said(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    order = signal("stopTrain", "jump")
    async with managed(config(clusterd)) as (_, manager):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, order, order)
        await until(lambda: manager.view().counters.signals == 2)
        seen = manager.view().clusterd
    assert (seen.address, seen.state) == (clusterd.address, "subscribed")
    assert (seen.taken, seen.repeated, seen.unknown_actions) == (1, 1, 1)
    assert caplog.text.count("action=jump") == 1
    assert caplog.text.count("clusterd_order_repeated") == 1


async def test_without_taskd_enable_nobody_subscribes(clusterd: ClusterD) -> None:
    async with managed(config(clusterd, taskd_enable=False)) as (_, manager):
        assert not manager.job.config.recovers
        assert manager.view().clusterd == ClusterdView()
    assert clusterd.calls == []


async def test_report_to_an_order_of_an_ended_stream_is_void(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    codes: list[int] = []
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stop(call: Call, reports: Reports) -> None:
        loop.call_soon_threadsafe(begun.set)
        go.wait()
        codes.append(reports.stop_complete(0, "late", call.ranks))

    async with managed(config(clusterd), framework=HandlerController({"stop_train": stop})) as (_, manager):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("stopTrain", "stop_train"))
        await begun.wait()
        clusterd.end(rpcs.SIGNALS)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 2)
        go.set()
        await until(lambda: codes)
        await until(lambda: not manager.job.state.calls)
        assert (manager.view().clusterd.reports_void, manager.view().clusterd.rounds) == (1, 1)
    assert codes == [599]
    assert clusterd.requests(rpcs.STOP_COMPLETE) == []
    assert "clusterd_report_void" in caplog.text


async def test_a_call_of_an_ended_stream_that_fails_does_not_answer_the_next_order(clusterd: ClusterD) -> None:
    """The next order waits for its turn, which comes before the report of the failure is sent."""
    begun, go = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def stop(call: Call, reports: Reports) -> None:
        if not begun.is_set():
            loop.call_soon_threadsafe(begun.set)
            go.wait()
            raise RuntimeError("ClusterD has sent the next order")
        reports.stop_complete(0, "stopped", call.ranks)

    async with managed(config(clusterd), framework=HandlerController({"stop_train": stop})) as (_, manager):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("stopTrain", "stop_train"))
        await begun.wait()
        clusterd.end(rpcs.SIGNALS)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 2)
        order = signal("stopTrain", "stop_train", uuid="v")
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, order)
        link = manager._clusterd
        assert link is not None
        try:
            await until(link._framework._calls.qsize)
        finally:
            go.set()
        await until(lambda: clusterd.requests(rpcs.STOP_COMPLETE))
        await until(lambda: manager.view().clusterd.reports_void == 1)
    assert [each.status.code for each in clusterd.requests(rpcs.STOP_COMPLETE)] == [0]


async def test_result_to_an_order_of_an_ended_stream_is_void(clusterd: ClusterD) -> None:
    """ClusterD's machine is reset between two streams, and would take it for the result of its next switch."""
    order = wire.SwitchRankList(rankID=["0"], op=[True], jobId="J")

    async def answer(command: Body) -> None:
        await one.report("ACTION", 204, "switchOK", switchNicUUID=command.extension["switchNicUUID"])

    async with managed(config(clusterd)) as (node, manager), leaves(node, worker(0, 0)) as (one,):
        await one.report("REGISTER", 101)
        await asyncio.to_thread(clusterd.send, rpcs.SWITCH_NIC_ORDERS, order)
        first = await one.command()
        clusterd.end(rpcs.SWITCH_NIC_ORDERS)
        clusterd.end(rpcs.SIGNALS)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SWITCH_NIC_ORDERS, 2)
        await asyncio.to_thread(clusterd.send, rpcs.SWITCH_NIC_ORDERS, order)
        second = await one.command()
        await answer(first)
        await until(lambda: not manager.job.state.dirty)
        assert clusterd.requests(rpcs.REPLY_SWITCH_NIC) == []
        await answer(second)
        await asyncio.to_thread(clusterd.wait_for, rpcs.REPLY_SWITCH_NIC)
        await until(lambda: not manager.job.state.outbox.sending)
    assert clusterd.requests(rpcs.REPLY_SWITCH_NIC) == [wire.SwitchResult(jobId="J", result=True)]


async def test_result_whose_stream_ends_while_it_is_sent_is_void(clusterd: ClusterD) -> None:
    clusterd.answers["ReplySwitchNicResult"].extend([400] * 1000)
    async with managed(config(clusterd)) as (node, manager), leaves(node, worker(0, 0)) as (one,):
        await one.report("REGISTER", 101)
        order = wire.SwitchRankList(rankID=["0"], op=[True], jobId="J")
        await asyncio.to_thread(clusterd.send, rpcs.SWITCH_NIC_ORDERS, order)
        uuid = (await one.command()).extension["switchNicUUID"]
        await one.report("ACTION", 204, "switchOK", switchNicUUID=uuid)
        await asyncio.to_thread(clusterd.wait_for, rpcs.REPLY_SWITCH_NIC)
        clusterd.end(rpcs.SIGNALS)
        await until(lambda: not manager.job.state.outbox.sending)
        assert manager.view().clusterd.reports_void == 1


@pytest.mark.parametrize("for_good", [False, True], ids=["again", "for good"])
async def test_starts_are_held_back_for_as_long_as_their_stream_stands(clusterd: ClusterD, for_good: bool) -> None:
    """No ClusterD that has forgotten the stress test, or never comes back, sends continueStartAgent."""
    async with managed(config(clusterd)) as (node, manager), leaves(node, agent(0)) as (one,):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("pauseStartAgent"))
        await until(lambda: manager.job.state.paused)
        await one.register()
        assert (await one.report("STATUS", 1400)).ok, "and the Manager has taken its 201 before"
        assert manager.job.state.records.asking
        if for_good:
            await asyncio.to_thread(clusterd.stop)
        else:
            clusterd.end(rpcs.SIGNALS)
        assert (await one.command()).code == 210


async def test_manager_that_goes_on_without_clusterd_holds_no_start_back(clusterd: ClusterD, tmp_path: Path) -> None:
    settings = config(clusterd, state=str(tmp_path / "j.sqlite3"))
    async with managed(settings) as (_, manager):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("pauseStartAgent"))
        await until(lambda: manager.job.state.paused and not manager.job.state.dirty)
    clusterd.stop()
    async with managed(settings) as (node, _), leaves(node, agent(0)) as (one,):
        await one.register()
        assert (await one.command()).code == 210


def reported(clusterd: ClusterD, number: int) -> list[list[str]]:
    """The ranks of the first reports of faults."""
    return [[each.rankId for each in report.faultRanks] for report in clusterd.wait_for(rpcs.PROCESS_FAULT, number)]


@pytest.mark.parametrize("killed", [False, True], ids=["stream-broken", "manager-killed"])
async def test_a_round_that_is_interrupted_begins_again(clusterd: ClusterD, tmp_path: Path, killed: bool) -> None:
    """ClusterD resets the machine between two streams, and the fault is no news for it: the training stood for good."""

    def stop(call: Call, reports: Reports) -> None:
        reports.stop_complete(0, "", call.ranks)

    settings = config(clusterd, state=str(tmp_path / "j.sqlite3"))
    framework = HandlerController({"stop_train": stop})
    async with managed(settings, framework=framework) as (_, manager):
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("stopTrain", "stop_train"))
        await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE)
        await until(lambda: not manager.job.state.calls and not manager.job.state.dirty)
        if not killed:
            clusterd.end(rpcs.SIGNALS, grpc.StatusCode.UNAVAILABLE)
            assert await asyncio.to_thread(reported, clusterd, 1) == [["3"]]
    async with managed(settings, framework=framework):
        assert (await asyncio.to_thread(reported, clusterd, 1))[-1] == ["3"]
        assert clusterd.names[-1] == "ReportProcessFault", "after the subscription, which resets the machine"


async def test_the_global_fault_of_a_round_that_was_reset_is_dropped_with_one_line(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    async with managed(config(clusterd)):
        ghost = signal("globalFault", "on_global_rank", "fault_nodes_exit", uuid="", nodeRankIds=["1"])
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, ghost, signal("stopTrain", "stop_train"))
        await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE)
    assert "ReportRecoverStrategy" not in clusterd.names
    assert caplog.text.count("clusterd_order_void") == 1


async def test_the_result_of_a_strategy_ends_its_round(clusterd: ClusterD) -> None:
    handlers = {
        "stop_train": lambda call, reports: reports.stop_complete(0, "", call.ranks),
        "change_strategy": lambda call, reports: reports.result(int(call.params), "", {}, call.text),
    }
    async with managed(config(clusterd), framework=HandlerController(handlers)) as (_, manager):
        faults = manager.job.state.open_faults
        for uuid, code, open_ranks in (("u", 499, {3: 1}), ("v", 0, {})):
            await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, signal("stopTrain", "stop_train", uuid=uuid))
            order = signal(
                "changeStrategy", "change_strategy", uuid=uuid, changeStrategy="recover", extraParams=str(code)
            )
            await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, order)
            await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STATUS, 1 if code else 2)
            await until(lambda: not manager.job.state.calls)
            assert faults.ranks == open_ranks
        clusterd.end(rpcs.SIGNALS)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 2)
        await until(lambda: faults.subscribed)
        assert faults.ranks == {}


async def test_ranks_that_the_stop_does_not_name_are_reported_again(clusterd: ClusterD) -> None:
    async def again() -> list[list[str]]:
        return await asyncio.to_thread(reported, clusterd, number)

    began: list[Reports] = []

    class Sees(HandlerController):
        def start(self, reports: Reports) -> None:
            began.append(reports)
            super().start(reports)

    async with managed(config(clusterd), framework=Sees({"stop_train": lambda *_: None})):
        await until(lambda: bool(began))
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
        await asyncio.to_thread(began[0].fault_ranks, {3: 1})
        bare = wire.ProcessManageSignal(uuid="u", jobId="J", signalType="stopTrain", actions=["stop_train"])
        await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, bare)
        number = 2
        assert await again() == [["3"], ["3"]]
        clusterd.end(rpcs.SIGNALS)
        number = 3
        assert await again() == [["3"]] * 3


async def test_a_fault_that_no_framework_reports_is_reported_by_the_manager(
    clusterd: ClusterD,
) -> None:
    limits = replace(QUICK, job=JobTimes(unreported=0.5))
    async with (
        managed(config(clusterd, nodes=2, processes_per_node=2), limits=limits) as (node, _),
        leaves(node, agent(1)) as (one,),
    ):
        await one.register()
        assert (await one.command()).code == 210
        await one.fault(3)
        assert await asyncio.to_thread(reported, clusterd, 1) == [["3"]]
