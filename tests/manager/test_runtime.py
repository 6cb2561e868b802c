"""The Manager at work: decisions on reports, over real sockets."""

from __future__ import annotations

from taskd_net.manager import ManagerConfig
from tests.manager.cluster import agent, leaves, managed, until, worker


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
        assert node.job_view is not None
        await until(lambda: node.job_view and node.job_view().decisions[-1].acknowledged == 2)
        view = node.job_view()
        assert (view.job_id, view.restarts_left, [each.exited for each in view.agents]) == ("J", 2, [False, True])
        round_ = view.decisions[-1]
        assert (round_.plugin, round_.restarts, round_.sent, round_.lost) == ("PodReschedulingPlugin", 2, 2, 0)
        assert round_.cause.startswith("Agent/1 STATUS 202") and round_.calls == ("controller restart",)
        messages = [(each.to, each.code, each.answer) for each in round_.messages]
        assert messages == [("Agent/1", 203, 0), ("Agent/0", 208, 0)]
        assert view.counters.rounds == 1 and view.counters.fault_to_command_count == 1
        await one.register()
        assert ((await one.command()).code, node.job_view().restarts_left) == (210, 2)
        await until(lambda: node.job_view and not any(stream.owner for stream in node.job_view().streams))
    assert node.job_view is None


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
