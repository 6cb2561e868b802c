"""The Manager at work: decisions on reports, over real sockets."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from taskd_net.job.decide.events import Event, RetryTime, Signal
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.snapshot import JobTimes
from taskd_net.job.decide.traffic import Call, Command, Outcome, Reply
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.dispatch import Dispatch
from taskd_net.job.manager.keeping import Store
from taskd_net.job.manager.kept import NotKept
from taskd_net.job.manager.limits import ManagerLimits
from tests.manager.cluster import SOON, agent, leaves, managed, worker
from tests.polling import until


async def test_a_fault_becomes_a_round() -> None:
    async with managed(ManagerConfig(job_id="J")) as (node, _), leaves(node, agent(0), agent(1)) as (zero, one):
        for each in (zero, one):
            await each.register()
            start = await each.command()
            assert (start.code, start.message) == (210, "3")
        await one.fault(3)
        assert (await one.command()).code == 203
        restart = await zero.command()
        assert (restart.code, restart.message) == (208, "2")
        assert node.driver.job_view is not None
        await until(lambda: node.driver.job_view and node.driver.job_view().decisions[-1].acknowledged == 2)
        view = node.driver.job_view()
        assert (view.job_id, view.restarts_left, [each.exited for each in view.agents]) == ("J", 2, [False, True])
        round_ = view.decisions[-1]
        assert (round_.plugin, round_.restarts, round_.sent, round_.lost) == ("PodReschedulingPlugin", 2, 2, 0)
        assert round_.cause.startswith("Agent/1 STATUS 202") and round_.calls == ("controller restart",)
        messages = [(each.to, each.code, each.answer) for each in round_.messages]
        assert messages == [("Agent/1", 203, 0), ("Agent/0", 208, 0)]
        assert view.counters.rounds == 1 and view.counters.fault_to_command_count == 1
        await one.register()
        assert ((await one.command()).code, node.driver.job_view().restarts_left) == (210, 2)
        await until(lambda: node.driver.job_view and not any(stream.owner for stream in node.driver.job_view().streams))
    assert node.driver.job_view is None


class Doubtful(NotKept):
    """A state under a lease that is not confirmed at present."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.answer = asyncio.Event()
        self.leads = False

    async def confirmed(self) -> bool:
        self.asked.set()
        await self.answer.wait()
        return self.leads


@pytest.mark.parametrize("leads", [True, False])
async def test_calls_and_replies_wait_for_the_lease(*, leads: bool) -> None:
    """The process may have been stopped after the commit: others would take them from anybody."""
    done: list[object] = []
    outcome = Outcome(calls=[Call("stop_train")], replies=[Reply("ReplySwitchNicResult", "true", "u")])
    config = ManagerConfig(job_id="J")

    def replied(reply: Reply) -> bool:
        done.append(reply)
        return False

    async with managed(config, controller=done.append, reply=replied) as (_, manager):
        manager._keeping = keeping = Doubtful()
        keeping.leads = leads
        carrying = asyncio.create_task(manager._carry_out(outcome))
        await keeping.asked.wait()
        assert not done
        keeping.answer.set()
        await carrying
        assert done == ([*outcome.calls, *outcome.replies] if leads else [])


async def test_what_is_no_report_is_refused() -> None:
    async with managed(ManagerConfig(job_id="J")) as (node, manager), leaves(node, worker(0, 0)) as (one,):
        await one.node.send("no JSON", to="Mgr", timeout=0.2, wait=False)
        await one.report("REGISTER", 101)
        assert manager.view().workers == 1 and manager.view().counters.reports == 1


async def test_an_idle_manager_does_not_tick() -> None:
    async with managed(ManagerConfig(job_id="J")) as (node, manager), leaves(node, agent(0)) as (zero,):
        await zero.register()
        await zero.command()
        await until(lambda: manager.job.wake == float("inf"))
        ticks = manager.view().counters.ticks
        for _ in range(20):
            await zero.report("KEEP_ALIVE", 0)
        assert manager.view().counters.ticks == ticks


async def test_broadcast_after_a_restart_reaches_those_that_rejoin_late(
    tmp_path: Path,
) -> None:
    limits = ManagerLimits(job=JobTimes(retry=0.5))
    config = ManagerConfig(job_id="J", state=str(tmp_path / "state"))
    async with managed(config) as (node, _), leaves(node, worker(0, 0), worker(1, 8)) as both:
        for each in both:
            await each.report("REGISTER", 101)
    signals, replies = asyncio.Queue[Event](), asyncio.Queue[Reply]()

    def reply(each: Reply) -> bool:
        replies.put_nowait(each)
        return True

    async with managed(config, signals=signals, reply=reply, limits=limits) as (node, manager):
        signals.put_nowait(SwitchNic((0,), (True,)))
        async with leaves(node, worker(0, 0)) as (zero,):
            first, _ = await zero.take()
            assert manager.job.state.outbox.commands() == [first.uuid]
            async with leaves(node, worker(1, 8)) as (one,):
                late, body = await one.take()
                assert (late.uuid, body.code) == (first.uuid, 204)
                for each in (zero, one):
                    await each.report("ACTION", 204, "switchOK", switchNicUUID=body.extension["switchNicUUID"])
                async with asyncio.timeout(SOON):
                    assert (await replies.get()).result == "true"
                held = [each.node.driver.router.gate.held for each in (zero, one)]
                assert held == [0, 0], "each has it once"
                assert manager.view().decisions[-2].acknowledged == 1


async def test_manager_with_an_old_state_gives_no_uuid_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Receivers would take its commands for those that they have, and acknowledge them."""

    def full(store: Store, parts: Mapping[str, str | None]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    config = ManagerConfig(job_id="J", state=str(tmp_path / "state"))
    async with managed(config) as (node, manager):
        address = node.address or ""
        async with leaves(node, agent(0), agent(1)) as (zero, one):
            for each in (zero, one):
                await each.register(Incarnation="first")
                assert (await each.command()).code == 210
            await until(lambda: not manager.job.state.outbox.sending)
            monkeypatch.setattr(Store, "write", full)
            await one.fault(3)
            assert (await zero.command()).code == 208
            assert (await one.command()).code == 203
            await manager.close()
            monkeypatch.undo()
            await node.close()
            async with managed(config, listen=address):
                await one.fault(3)
                assert (await zero.command()).code == 208
                assert (await one.command()).code == 203


async def test_command_that_is_repeated_after_a_restart_names_the_process_that_it_was_for(tmp_path: Path) -> None:
    """The process was replaced meanwhile, and the next one gets the 208 before it has registered."""
    config = ManagerConfig(job_id="J", state=str(tmp_path / "state"))
    async with managed(config) as (node, manager), leaves(node, agent(0), agent(1)) as (zero, one):
        for each, process in ((zero, "zero"), (one, "one")):
            await each.register(Incarnation=process)
            assert (await each.command()).code == 210
        manager.signal(RetryTime(0))
        await one.node.close()
        manager.signal(RetryTime(1))
        assert (await zero.command()).extension == {"MeantFor": "zero"}
    async with managed(config) as (node, manager), leaves(node, agent(1)) as (one,):
        late = await one.command()
        assert (late.code, late.extension) == (208, {"MeantFor": "one"})
        await one.register(Incarnation="next")
        go = await one.command()
        assert (go.code, go.message, go.extension["MeantFor"]) == (210, "2", "next")


async def test_signals_become_commands_and_calls() -> None:
    signals, calls = asyncio.Queue[Event](), list[Call]()
    config = ManagerConfig(job_id="J", fault_recover="on", clusterd=True)
    async with (
        managed(config, signals=signals, controller=calls.append) as (node, manager),
        leaves(node, agent(0), agent(1)) as (zero, one),
    ):
        for each in (zero, one):
            await each.register()
            assert (await each.command()).code == 210
        await one.fault(3)
        signals.put_nowait(Signal("a", "stopTrain", ("stop_train",), {3: 1}))
        actions = ("on_global_rank", "fault_nodes_restart")
        signals.put_nowait(Signal("b", "globalFault", actions, {3: 1}, node_rank_ids=(1,)))
        command = await one.command()
        assert (command.code, command.message, command.extension["FaultRanks"]) == (209, '["3"]', '{"3": 1}')
        signals.put_nowait(Signal("c", "changeStrategy", (), {3: 1}, "exit", node_rank_ids=(1,)))
        assert (await one.command()).code == 203
        assert (await zero.command()).code == 208
        assert [call.name for call in calls] == ["stop_train", "on_global_rank", "restart"]
        assert manager.view().counters.signals == 3


async def test_commands_of_a_large_round_leave_the_loop_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    turn = 0
    send = Dispatch.send

    async def count() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def sent(self: Dispatch, command: Command) -> None:
        turns.append(turn)
        send(self, command)

    limits = ManagerLimits(commands_a_turn=1)
    async with (
        managed(ManagerConfig(job_id="J"), limits=limits) as (node, _),
        leaves(node, *map(agent, range(3))) as made,
    ):
        for each in made:
            await each.register()
            assert (await each.command()).code == 210
        monkeypatch.setattr(Dispatch, "send", sent)
        counting = asyncio.create_task(count())
        await made[1].fault(3)
        assert [(await each.command()).code for each in made] == [208, 203, 208]
        counting.cancel()
        await asyncio.wait([counting])
    assert len(set(turns)) == len(turns) == 3
