"""A Manager with MindIO's controller: processes for the Manager, the controller and the training, and ClusterD."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from taskd_net import Node
from taskd_net.job.clusterd import rpcs
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.net.wire import recover_pb2 as wire
from tests import mindio as double
from tests.cli.processes import ROOT, Daemon, run
from tests.manager.cluster import Leaf, agent, managed
from tests.peers.clusterd import ClusterD
from tests.polling import asked_until, until
from tests.ports import free_port

pytestmark = pytest.mark.oldest

LONG_S = 60.0
"""Seconds for processes on a busy machine."""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[double.Job]:
    with double.job(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def clusterd() -> Iterator[ClusterD]:
    with ClusterD() as server:
        yield server


def mgr(job: double.Job, clusterd: ClusterD | None, port: int = 0, **variables: str) -> Daemon:
    """The Mgr of a job, as a command."""
    options = ["--job-id", "J", "--expect", "2x2", "--fault-recover", "on", "--listen", f"127.0.0.1:{port}"]
    if clusterd is not None:
        options += ["--clusterd-addr", clusterd.address]
    environment = {**job.environment, "PYTHONPATH": f"{ROOT}:{double.PATH}", **variables}
    return Daemon("mgr", *options, logs=job.folder / "mgr", env=environment, executed=True)


@asynccontextmanager
async def agents(port: int) -> AsyncIterator[list[Leaf]]:
    """The two Agents of a job, which have their go."""
    upstream = f"127.0.0.1:{port}"
    async with Node(agent(0)(upstream)) as zero, Node(agent(1)(upstream)) as one:
        leaves = [Leaf(zero), Leaf(one)]
        for each in leaves:
            await each.node.joined(LONG_S)
            await each.register(Incarnation=str(each.node.position))
            assert (await each.command()).code == 210
        yield leaves


async def trains(job: double.Job) -> None:
    """Start the training, and wait for it."""
    await until(lambda: "start_controller" in job.names, LONG_S)
    job.train()
    await until(lambda: job.all_are("trains"), LONG_S)


async def order(clusterd: ClusterD, kind: str, action: str, rank: int = 3, **fields: object) -> None:
    """Send a signal."""
    faults = [wire.FaultRank(rankId=str(rank), faultType="1")]
    uuid = str(fields.pop("uuid", "u"))
    message = wire.ProcessManageSignal(
        uuid=uuid,
        jobId="J",
        signalType=kind,
        actions=[action],
        faultRanks=faults,
        **fields,  # type: ignore[arg-type]
    )
    await asyncio.to_thread(clusterd.send, rpcs.SIGNALS, message)


async def stopped(clusterd: ClusterD, number: int = 1) -> wire.StopCompleteRequest:
    """The last of some ReportStopCompletes."""
    found: list[wire.StopCompleteRequest] = await asyncio.to_thread(clusterd.wait_for, rpcs.STOP_COMPLETE, number)
    return found[-1]


async def view(address: str) -> dict[str, object]:
    """The state of the job, as the command says it."""
    code, output, errors = await run("job", "--at", address, "--json")
    assert code in (0, 1), errors
    found: dict[str, object] = json.loads(output)
    return found


async def test_a_round_reaches_mindio_and_its_reports_reach_clusterd(job: double.Job, clusterd: ClusterD) -> None:
    async with mgr(job, clusterd):
        await trains(job)
        await order(clusterd, "stopTrain", "stop_train")
        assert (await stopped(clusterd)).status.code == 0
        await order(clusterd, "globalFault", "on_global_rank", timeout=7200)
        (chosen,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
        assert list(chosen.strategies) == ["recover", "dump", "exit"]
        await order(clusterd, "changeStrategy", "change_strategy", changeStrategy="recover")
        (ended,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STATUS)
        assert (ended.status.code, ended.strategy) == (0, "recover")
        await until(lambda: job.all_are("trains"), LONG_S)
    assert ["on_global_rank", [[3, 1]], 3600] in job.calls


async def test_refusals_are_reported_at_once(job: double.Job, clusterd: ClusterD) -> None:
    async with mgr(job, clusterd) as process:
        await trains(job)
        await order(clusterd, "stopTrain", "stop_train", rank=9)
        assert (await stopped(clusterd)).status.code == 499
        await order(clusterd, "globalFault", "on_global_rank", rank=9)
        (chosen,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
        assert list(chosen.strategies) == ["exit"]
        await order(clusterd, "changeStrategy", "change_strategy", changeStrategy="upgrade")
        (ended,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STATUS)
        assert (ended.status.code, ended.strategy) == (499, "upgrade")
        await process.said("MindIO has refused stop_train: it returned 1, expected 0")


async def test_a_second_stop_in_a_round_leads_to_a_failure_and_a_new_controller(
    job: double.Job, clusterd: ClusterD
) -> None:
    async with mgr(job, clusterd):
        await trains(job)
        await order(clusterd, "stopTrain", "stop_train")
        assert (await stopped(clusterd)).status.code == 0
        await order(clusterd, "stopTrain", "stop_train", uuid="v")
        assert (await stopped(clusterd, 2)).status.code == 499
        assert job.names.count("start_controller") == 2
        await until(lambda: job.all_are("ended"), LONG_S)
        await order(clusterd, "globalFault", "on_global_rank", uuid="v")
        (chosen,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
        assert list(chosen.strategies) == ["exit"]
        await order(clusterd, "changeStrategy", "change_strategy", changeStrategy="exit", uuid="v")
        await until(lambda: job.names.count("start_controller") == 3, LONG_S)
        await trains(job)
        await order(clusterd, "stopTrain", "stop_train", uuid="w")
        assert (await stopped(clusterd, 3)).status.code == 0


@pytest.mark.parametrize("in_round", [False, True])
async def test_training_that_has_lost_its_manager_is_unprotected_until_it_is_started_again(
    job: double.Job, clusterd: ClusterD, in_round: bool
) -> None:
    port = free_port()
    async with mgr(job, clusterd, port) as first, agents(port) as (zero, one):
        await trains(job)
        if in_round:
            await order(clusterd, "stopTrain", "stop_train")
            assert (await stopped(clusterd)).status.code == 0
        first.signal(signal.SIGKILL)
        await first.exit_code()
        await until(lambda: job.all_are("unprotected"), LONG_S)
        async with mgr(job, clusterd, port) as second:
            await second.said("training_unprotected")
            found = await view(second.address)
            assert found["unprotected"] == 2
            assert any("unprotected" in text for text in found["trouble"])  # type: ignore[attr-defined]
            if in_round:  # it reports the ranks of the round, and ClusterD begins another one
                await asyncio.to_thread(clusterd.wait_for, rpcs.PROCESS_FAULT)
            seen = len(clusterd.requests(rpcs.STOP_COMPLETE))
            await order(clusterd, "stopTrain", "stop_train", uuid="v")
            assert (await stopped(clusterd, seen + 1)).status.code == 499
            await order(clusterd, "globalFault", "on_global_rank", uuid="v")
            (chosen,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
            assert list(chosen.strategies) == ["exit"]
            await order(clusterd, "changeStrategy", "change_strategy", changeStrategy="exit", uuid="v")
            for each in (zero, one):
                assert (await each.command()).code == 208
            await second.said("training_protected")
            await until(lambda: job.names[-1] == "start_controller", LONG_S)
            assert (await view(second.address))["unprotected"] == 0
            await trains(job)
            await order(clusterd, "stopTrain", "stop_train", uuid="w")
            assert (await stopped(clusterd, seen + 2)).status.code == 0


async def test_an_abort_of_mindio_is_reported_and_leaves_the_manager(job: double.Job, clusterd: ClusterD) -> None:
    port = free_port()
    async with mgr(job, clusterd, port, MINDIO_FAULT="abort on_global_rank") as process, agents(port):
        await trains(job)
        await order(clusterd, "stopTrain", "stop_train")
        assert (await stopped(clusterd)).status.code == 0
        await order(clusterd, "globalFault", "on_global_rank")
        (chosen,) = await asyncio.to_thread(clusterd.wait_for, rpcs.RECOVER_STRATEGY)
        assert list(chosen.strategies) == ["exit"]
        await process.said("training_unprotected")

        async def is_unprotected() -> bool:
            return (await view(process.address))["unprotected"] == 2

        assert await asked_until(is_unprotected, LONG_S)


async def test_sigterm_ends_the_manager_although_mindio_takes_long(job: double.Job, clusterd: ClusterD) -> None:
    async with mgr(job, clusterd, MINDIO_SPEED="1") as process:
        await trains(job)
        await order(clusterd, "stopTrain", "stop_train")
        await stopped(clusterd)
        begun = time.monotonic()
        process.signal(signal.SIGTERM)
        assert await process.exit_code() == 0
        assert time.monotonic() - begun < 25.0, "MindIO takes 30 s"
    assert job.names[-1] == "destroy_controller"


async def test_without_clusterd_the_survivors_save_their_checkpoint(job: double.Job) -> None:
    async with mgr(job, None):
        await trains(job)
        job.kill(3)
        await until(lambda: job.states[:3] == ["saved"] * 3, LONG_S)
    assert job.names.count("dump") == 1


async def test_the_survivors_save_their_checkpoint_where_clusterd_sends_no_order(
    job: double.Job, clusterd: ClusterD
) -> None:
    config = ManagerConfig(job_id="J", clusterd_addr=clusterd.address, fault_recover="on")
    async with managed(config, limits=ManagerLimits(checkpoint_s=0.2)):
        await trains(job)
        job.kill(3)
        await until(lambda: job.states[:3] == ["saved"] * 3, LONG_S)
        await asyncio.to_thread(clusterd.wait_for, rpcs.PROCESS_FAULT)
        await order(clusterd, "stopTrain", "stop_train")
        assert (await stopped(clusterd)).status.code == 499, "the training has ended"
    assert job.names.count("dump") == 1
    assert clusterd.requests(rpcs.RECOVER_STATUS) == [], "ClusterD has ordered no checkpoint"


async def test_an_order_after_a_fault_needs_no_checkpoint(
    job: double.Job, clusterd: ClusterD, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ManagerConfig(job_id="J", clusterd_addr=clusterd.address, fault_recover="on")
    async with managed(config) as (_, manager):
        await trains(job)
        job.kill(3)
        await asyncio.to_thread(clusterd.wait_for, rpcs.PROCESS_FAULT)
        framework = manager._clusterd._framework  # type: ignore[union-attr]
        await until(lambda: framework._dump is not None)
        await order(clusterd, "stopTrain", "stop_train")
        assert (await stopped(clusterd)).status.code == 0
        assert framework._dump is None


async def test_scripts_that_rejoin_have_no_controller_of_mindio_and_one_line_says_so(
    job: double.Job, clusterd: ClusterD, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = ManagerConfig(job_id="J", clusterd_addr=clusterd.address, fault_recover="on", in_place=True)
    async with managed(config):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
    assert caplog.text.count("in_place_without_mindio") == 1
    monkeypatch.delenv("TTP_PORT")
    caplog.clear()
    async with managed(config):
        await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
    assert "in_place_without_mindio" not in caplog.text
    assert job.calls == []


@pytest.mark.parametrize("config", [ManagerConfig(), ManagerConfig(job_id="J", taskd_enable=False)])
async def test_mindio_is_not_started_without_a_job_or_taskd_enable(job: double.Job, config: ManagerConfig) -> None:
    async with managed(config):
        pass
    assert job.calls == []
