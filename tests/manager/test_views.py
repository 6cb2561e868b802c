"""Agents and books as faces see them."""

from __future__ import annotations

import asyncio

from taskd_net.base.progress import NodeProgress, Spent, write_progress
from taskd_net.base.vocabulary import KEEP_ALIVE, PROGRESS, WORKER_STATE
from taskd_net.job.decide.outbox import Outbox
from taskd_net.job.decide.records import AgentRecord, Fault, KeptReport, Records
from taskd_net.job.decide.traffic import Command
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.views import agent_views
from taskd_net.observe.job_view import RANKS_SHOWN, AgentView
from tests.manager.cluster import Leaf, agent, leaves, managed
from tests.polling import until


def records(agents: int) -> Records:
    """The records of some Agents, all of them running."""
    return Records(agents={rank: AgentRecord(registered=True) for rank in reversed(range(agents))})


def test_an_agent_with_a_fault_and_a_command() -> None:
    known, outbox = records(1), Outbox()
    known.agents[0].fault, known.agents[0].heartbeat = Fault(list(range(100)), 7.0), 8.0
    known.faulty.add(0)
    outbox.add(1.0, Command("Agent/0", 208, "2", uuid="a"))
    ranks = tuple(range(RANKS_SHOWN))
    assert agent_views(known, outbox, {}) == (
        AgentView(0, True, fault=True, fault_ranks=ranks, fault_at=7.0, heartbeat=8.0, commands=(208,)),
    )


def test_an_agent_whose_workers_have_all_succeeded() -> None:
    known = records(3)
    known.rounds.number = 2
    known.agents[0].reports["STATUS/306"] = KeptReport("2", {}, 5.0)
    known.agents[1].reports["STATUS/306"] = KeptReport("1", {}, 5.0)
    known.agents[2].worker_state = "SUCCEEDED"
    assert [each.state for each in agent_views(known, Outbox(), {})] == ["finished", "running", "finished"]


def test_those_in_trouble_are_shown_before_others() -> None:
    known = records(100)
    known.exit(90)
    known.asking |= {7, 90}
    known.faulty.add(3)
    known.agents[3].fault = Fault([1], 1.0)
    shown = agent_views(known, Outbox(), {98: 5.0, 3: 4.0}, most=5)
    assert [each.rank for each in shown] == [3, 7, 90, 98, 99]
    assert [each.fault for each in shown] == [True, False, False, False, False]
    known.faulty |= set(range(40, 60))
    assert [each.silent_since for each in shown] == [4.0, 0.0, 0.0, 5.0, 0.0]
    assert [each.rank for each in agent_views(known, Outbox(), {}, most=5)] == [3, 40, 41, 42, 43]


JOB = ManagerConfig(job_id="J", nodes=1, processes_per_node=2, restarts="job")


async def tell(leaf: Leaf, steps: int, start: float) -> None:
    """An Agent tells of its ranks."""
    spent = {Spent.START: start}
    told = NodeProgress(ranks=2, watched=2, marking=2, highest=steps, steps=steps, of=50, spent=spent)
    await leaf.report(KEEP_ALIVE, 0, **{WORKER_STATE: "HEALTHY", PROGRESS: write_progress(told)})


async def test_books_of_a_run_and_the_phases_of_a_recovery() -> None:
    async with managed(JOB) as (node, manager), leaves(node, agent(0)) as (leaf,):
        await leaf.register()
        await leaf.command()
        await tell(leaf, 0, 0.001)
        await tell(leaf, 5, 0.001)
        await until(lambda: manager.view().books.done == 5)
        books = manager.view().books
        assert (books.step, books.highest, books.of, books.stage) == (5, 5, 50, "steps")
        assert books.goodput is not None and abs(sum(books.seconds.values()) - books.wall) < 1e-6
        await leaf.fault(1)
        assert (await leaf.command()).extension["HighestStep"] == "5"
        await until(lambda: manager.view().books.stage == "restarted")
        await asyncio.sleep(0.01)  # longer than its processes run, as it says
        await tell(leaf, 5, 0.002)
        await tell(leaf, 6, 0.002)
        await until(lambda: manager.view().failures[-1].stepped)
        assert set(manager.view().failures[-1].phases) >= {"restarted", "joined"}
        assert manager.view().books.done == 6
