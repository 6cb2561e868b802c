"""ClusterD's orders for scripts that rejoin, through real sockets: a Manager, its ClusterD, and Workers that play."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from taskd_net.job import profiling_switch
from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.decide.epochs import LEFT, NEW, RUNNING, Part
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.net.wire import recover_pb2 as wire
from tests.manager.cluster import Leaf, agent, leaves, managed, worker
from tests.peers.clusterd import ClusterD
from tests.polling import until

FAULTS = [wire.FaultRank(rankId="1", faultType="1")]


QUICK = ManagerLimits(clusterd=ClusterdTimes(init=0.25, pause=0.05, look=0.05, fragile=0.3), reply_pause_s=0.05)


@pytest.fixture
def clusterd(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ClusterD]:
    monkeypatch.setenv(profiling_switch.PATH, str(tmp_path / "profilingSwitch"))
    with ClusterD() as server:
        yield server


class Job:
    """Two nodes with a Worker each, whose rank is that of its node."""

    def __init__(self, clusterd: ClusterD, manager: Manager, agent1: Leaf, workers: list[Leaf]) -> None:
        self.clusterd, self.manager, self.agent1, self.workers = clusterd, manager, agent1, workers

    async def part(self, phase: str, *ranks: int, epoch: int = 0) -> None:
        for rank in ranks:
            if phase == NEW:
                await self.workers[rank].report("REGISTER", 101)
            body = Part(phase, epoch, 2, 1).report()
            await self.workers[rank].report(body.msg_type, body.code, body.message, **body.extension)

    async def begun(self, number: str, *ranks: int) -> None:
        for rank in ranks:
            body = await self.workers[rank].command()
            assert (body.code, body.message) == (302, number)

    async def ended(self, number: str, *ranks: int) -> None:
        for rank in ranks:
            body = await self.workers[rank].command()
            assert (body.code, body.message) == (303, number)

    async def order(self, kind: str, *actions: str, uuid: str = "u", **fields: Any) -> None:
        signal = wire.ProcessManageSignal(uuid=uuid, jobId="J", signalType=kind, actions=actions, **fields)
        await asyncio.to_thread(self.clusterd.send, rpcs.SIGNALS, signal)

    async def reported(self, rpc: rpcs.Rpc[Any, Any], count: int = 1) -> Any:
        return (await asyncio.to_thread(self.clusterd.wait_for, rpc, count))[-1]


@asynccontextmanager
async def training(clusterd: ClusterD, timeout: float = 60.0) -> AsyncIterator[Job]:
    """Both train in epoch 1."""
    address = clusterd.address
    config = ManagerConfig(
        job_id="J", clusterd_addr=address, fault_recover="on", in_place=True, in_place_timeout=timeout
    )
    async with (
        managed(config, limits=QUICK) as (node, manager),
        leaves(node, agent(1), worker(0, 0), worker(1, 1)) as (agent1, *workers),
    ):
        await agent1.register()
        assert (await agent1.command()).extension["InPlace"] == "on"
        job = Job(clusterd, manager, agent1, workers)
        await job.part(NEW, 0, 1)
        await job.begun("1", 0, 1)
        await job.part(RUNNING, 0, 1, epoch=1)
        yield job


async def test_round_in_place_from_a_dead_process_to_the_next_epoch(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.agent1.fault(1)
        assert list((await job.reported(rpcs.PROCESS_FAULT)).faultRanks) == FAULTS
        await job.order("stopTrain", "stop_train", faultRanks=FAULTS)
        await job.ended("1", 0)
        assert "ReportStopComplete" not in clusterd.names, "rank 0 is in the epoch"
        await job.part(LEFT, 0, epoch=1)
        assert (await job.reported(rpcs.STOP_COMPLETE)).status.code == 0
        actions = ("on_global_rank", "fault_nodes_restart")
        await job.order("globalFault", *actions, nodeRankIds=["1"], faultRanks=FAULTS)
        assert list((await job.reported(rpcs.RECOVER_STRATEGY)).strategies) == ["retry", "recover", "exit"]
        assert (await job.agent1.command()).code == 209
        order: dict[str, Any] = {"changeStrategy": "recover", "extraParams": "recover-in-place", "nodeRankIds": ["1"]}
        await job.order("changeStrategy", "change_strategy", faultRanks=FAULTS, **order)
        await job.part(NEW, 1)
        await job.begun("2", 0, 1)
        await job.part(RUNNING, 0, epoch=2)
        assert "ReportRecoverStatus" not in clusterd.names, "rank 1 has not joined"
        await job.part(RUNNING, 1, epoch=2)
        ended = await job.reported(rpcs.RECOVER_STATUS)
        assert (ended.status.code, ended.strategy) == (0, "recover")
        assert clusterd.names.count("ReportProcessFault") == 1
        await job.agent1.fault(1)
        await job.reported(rpcs.PROCESS_FAULT, 2)


async def test_retry_is_offered_and_answered_with_405_so_that_clusterd_decides_again(clusterd: ClusterD) -> None:
    """A client that does not offer it is left with dump or exit."""
    async with training(clusterd) as job:
        await job.order("stopTrain", "stop_train", faultRanks=FAULTS)
        await job.ended("1", 0)
        await job.part(LEFT, 0, 1, epoch=1)
        await job.reported(rpcs.STOP_COMPLETE)
        await job.order("globalFault", "on_global_rank", faultRanks=FAULTS)
        assert list((await job.reported(rpcs.RECOVER_STRATEGY)).strategies) == ["retry", "recover", "exit"]
        await job.order("changeStrategy", "change_strategy", faultRanks=FAULTS, changeStrategy="retry")
        ended = await job.reported(rpcs.RECOVER_STATUS)
        assert (ended.status.code, ended.strategy) == (405, "retry")
        await job.order("globalFault", "on_global_rank", "fault_nodes_exit", faultRanks=FAULTS)
        assert "exit" in (await job.reported(rpcs.RECOVER_STRATEGY, 2)).strategies


async def restarting(job: Job) -> None:
    """Rank 1 has died; ClusterD has decided to restart it in place, and its Agent has the 209."""
    await job.agent1.fault(1)
    await job.reported(rpcs.PROCESS_FAULT)
    await job.order("stopTrain", "stop_train", faultRanks=FAULTS)
    await job.ended("1", 0)
    await job.part(LEFT, 0, epoch=1)
    await job.reported(rpcs.STOP_COMPLETE)
    await job.order("globalFault", "on_global_rank", "fault_nodes_exit", faultRanks=FAULTS)
    await job.reported(rpcs.RECOVER_STRATEGY)
    order: dict[str, Any] = {"changeStrategy": "recover", "extraParams": "recover-in-place", "nodeRankIds": ["1"]}
    actions = ("change_strategy", "fault_nodes_restart")
    await job.order("changeStrategy", *actions, faultRanks=FAULTS, **order)
    assert (await job.agent1.command()).code == 209


async def test_a_rank_that_dies_again_after_its_209_is_restarted_once_more(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await restarting(job)
        await job.agent1.fault(1)
        again = await job.agent1.command()
        assert (again.code, again.message) == (209, '["1"]')
        await job.part(NEW, 1)
        await job.begun("2", 0, 1)
        await job.part(RUNNING, 0, 1, epoch=2)
        assert (await job.reported(rpcs.RECOVER_STATUS)).status.code == 0


async def test_a_rank_that_dies_a_third_time_fails_the_strategy_at_once(clusterd: ClusterD) -> None:
    """The Manager waited for two minutes, though it had the Agent's report."""
    async with training(clusterd) as job:
        await restarting(job)
        await job.agent1.fault(1)
        assert (await job.agent1.command()).code == 209
        await until(lambda: not job.manager.job.state.dirty and not job.manager.job.state.outbox.sending)
        await job.agent1.fault(1)
        ended = await job.reported(rpcs.RECOVER_STATUS)
        assert (ended.status.code, "failed again" in ended.status.info) == (499, True)


async def test_pause_and_continue(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.order("stopTrain", "pause_train")
        await job.ended("1", 0, 1)
        await job.part(LEFT, 0, 1, epoch=1)
        assert (await job.reported(rpcs.STOP_COMPLETE)).status.code == 0
        await job.order("changeStrategy", "change_strategy", changeStrategy="continue")
        await job.begun("2", 0, 1)
        await job.part(RUNNING, 0, 1, epoch=2)
        ended = await job.reported(rpcs.RECOVER_STATUS)
        assert (ended.status.code, ended.strategy) == (0, "continue")


async def test_workers_that_do_not_leave_or_join_in_time_are_a_failed_order(clusterd: ClusterD) -> None:
    async with training(clusterd, timeout=0.5) as job:
        await job.order("stopTrain", "stop_train", faultRanks=FAULTS)
        assert (await job.reported(rpcs.STOP_COMPLETE)).status.code == 499
        order: dict[str, Any] = {"changeStrategy": "recover", "extraParams": "recover-in-place"}
        await job.order("changeStrategy", "change_strategy", **order)
        assert (await job.reported(rpcs.RECOVER_STATUS)).status.code == 499


async def test_another_stop_ends_the_wait_for_the_one_before(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.order("stopTrain", "stop_train", uuid="u1", faultRanks=FAULTS)
        await job.ended("1", 0)
        await job.order("stopTrain", "stop_train", uuid="u2", faultRanks=FAULTS)
        assert (await job.reported(rpcs.STOP_COMPLETE)).status.code == 499


@pytest.mark.parametrize("strategy", ["recover", "dump"])
async def test_other_strategies_fail(strategy: str, clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.order("changeStrategy", "change_strategy", changeStrategy=strategy)
        assert (await job.reported(rpcs.RECOVER_STATUS)).status.code == 499


async def test_hot_switch_and_save_are_refused_and_an_exit_needs_no_answer(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.order("hot-switch", "hot switch", uuid="u1", faultRanks=FAULTS)
        assert list((await job.reported(rpcs.RECOVER_STRATEGY)).strategies) == ["exit"]
        await job.order("saveAndExit", "save_and_exit", uuid="u2")
        ended = await job.reported(rpcs.RECOVER_STATUS)
        assert (ended.status.code, ended.strategy) == (499, "dump")
        await job.order("changeStrategy", "change_strategy", uuid="u3", changeStrategy="exit")
        await until(lambda: job.manager.job.state.signal.strategy == "exit")
    assert clusterd.names.count("ReportRecoverStatus") == 1


async def test_a_dead_rank_is_reported_again_to_a_clusterd_that_has_forgotten_it(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.agent1.fault(1)
        await job.reported(rpcs.PROCESS_FAULT)
        await asyncio.to_thread(clusterd.stop)
        await asyncio.to_thread(clusterd.start)
        await job.reported(rpcs.PROCESS_FAULT, 2)


async def test_ranks_that_have_left_without_a_dead_process_are_reported_in_time(clusterd: ClusterD) -> None:
    """A collective has failed, and ClusterD hears of it from nobody else."""
    async with training(clusterd, timeout=0.5) as job:
        for rank in (1, 0):
            await job.part(LEFT, rank, epoch=1)
            await until(lambda: not job.manager.job.state.dirty)
        ranks = [each.rankId for each in (await job.reported(rpcs.PROCESS_FAULT)).faultRanks]
        assert ranks == ["1"], "the first one, as ClusterD restarts no processes of two pods in place"


async def test_a_manager_that_ends_waits_for_no_worker(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.order("stopTrain", "stop_train", faultRanks=FAULTS)
        await job.ended("1", 0)
        await until(lambda: bool(job.manager.job.state.calls))
        clusterd.answers["ReportStopComplete"].clear()


@pytest.mark.parametrize("broken", [False, True], ids=["taken-over", "broken"])
async def test_a_pause_whose_stream_ends_leads_to_the_next_epoch(clusterd: ClusterD, broken: bool) -> None:
    async with training(clusterd) as job:
        await job.order("stopTrain", "pause_train")
        await job.ended("1", 0, 1)
        await job.part(LEFT, 0, epoch=1)
        await asyncio.to_thread(clusterd.end, rpcs.SIGNALS, grpc.StatusCode.UNAVAILABLE if broken else None)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 2)
        await asyncio.to_thread(clusterd.end, rpcs.SIGNALS, None)  # while the training continues
        await job.part(LEFT, 1, epoch=1)
        await job.begun("2", 0, 1)
        await job.part(RUNNING, 0, 1, epoch=2)
        await until(lambda: not job.manager.job.state.open_faults.forgotten)
    assert not {"ReportStopComplete", "ReportRecoverStatus", "ReportProcessFault"}.intersection(clusterd.names)


async def test_a_stop_before_the_training_continues_is_carried_out_at_once(clusterd: ClusterD) -> None:
    async with training(clusterd) as job:
        await job.order("stopTrain", "pause_train")
        await job.ended("1", 0, 1)
        await asyncio.to_thread(clusterd.end, rpcs.SIGNALS, None)
        await until(lambda: job.manager.job.state.open_faults.forgotten)
        await asyncio.to_thread(clusterd.wait_for, rpcs.SIGNALS, 2)
        await job.order("stopTrain", "stop_train", uuid="v", faultRanks=FAULTS)
        await job.part(LEFT, 0, epoch=1)
        assert (await job.reported(rpcs.STOP_COMPLETE)).status.code == 0
