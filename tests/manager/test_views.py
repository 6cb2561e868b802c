"""Agents as faces see them."""

from __future__ import annotations

from taskd_net.job.decide.outbox import Outbox
from taskd_net.job.decide.records import AgentRecord, Fault, KeptReport, Records
from taskd_net.job.decide.traffic import Command
from taskd_net.job.manager.views import agent_views
from taskd_net.observe.job_view import RANKS_SHOWN, AgentView


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
