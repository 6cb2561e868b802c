"""RestartPlugin, where signals end Agents: the node comes back, or the job ends."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.base import vocabulary
from taskd_net.job.decide.plugins.restarts import TELL_S
from taskd_net.job.decide.traffic import Command
from tests.jobs.plugins.test_restarts import JOB, Nodes, at_work, codes, steps, training


def leave(nodes: Nodes, rank: int, *, job: bool) -> list[Command]:
    """A signal ends an Agent, which leaves the mesh; what is sent then."""
    word = {"message": vocabulary.JOB, "Reason": "SIGINT"} if job else {"message": "", "Reason": "SIGTERM"}
    nodes.scene.report(f"Agent/{rank}", "STATUS", vocabulary.LEAVES, word["message"], Reason=word["Reason"])
    nodes.scene.away.add(f"Agent/{rank}")
    return nodes.settle()


def test_a_node_that_leaves_is_waited_for_at_once_and_costs_no_restart() -> None:
    nodes = at_work(restarts=0)
    assert codes(leave(nodes, 1, job=False)) == [("Agent/0", 208), ("Agent/1", 208)]
    nodes.scene.fault(0, 0, after="")  # its processes have lost their peers
    assert nodes.settle() == []
    nodes.ready(2, 0)
    nodes.tick(1.0)
    told = nodes.tick(TELL_S)
    assert [(each.to, each.extension["Missing"]) for each in told if each.code == 305] == [("Agent/0", "1")]
    nodes.scene.away.clear()
    nodes.come(1)
    assert ("Agent/1", 210) in codes(nodes.settle())
    nodes.ready(2, 1)
    assert codes(nodes.settle()) == [("Agent/0", 305), ("Agent/1", 305)]


def test_a_node_that_was_ready_and_leaves_is_waited_for() -> None:
    nodes = at_work()
    nodes.scene.fault(1, 2)
    nodes.settle()
    nodes.ready(2, 1)
    leave(nodes, 1, job=False)
    nodes.ready(2, 0)
    assert not [each for each in nodes.tick(1.0) if "Store" in each.extension]


def test_a_node_that_leaves_before_the_first_go_is_waited_for() -> None:
    nodes = Nodes()
    nodes.come(0)
    nodes.settle()
    leave(nodes, 0, job=False)
    nodes.tick(50.0)
    nodes.come(1)
    nodes.settle()
    assert ("Agent/1", 203) not in codes(nodes.tick(60.0)), "its wait is its own"
    nodes.scene.away.clear()
    nodes.come(0)
    assert codes(nodes.settle()) == [("Agent/0", 210), ("Agent/1", 210)]


def test_a_node_that_leaves_after_its_work_lets_the_others_finish() -> None:
    nodes = at_work()
    nodes.scene.report("Agent/1", "STATUS", vocabulary.FINISHED, "1")
    nodes.settle()
    assert leave(nodes, 1, job=False) == []
    for _ in range(8):
        nodes.beat(0)
        assert nodes.tick(10.0) == []
    nodes.scene.report("Agent/0", "STATUS", vocabulary.FINISHED, "1")
    assert codes(nodes.settle()) == [("Agent/0", 307)]
    assert not nodes.scene.job.state.records.rounds.open


def test_ranks_that_rejoin_keep_their_processes_while_a_node_may_come_back() -> None:
    nodes = training()
    assert steps(leave(nodes, 1, job=False)) == []
    nodes.tick(1.0)
    assert nodes.scene.job.state.records.rounds.missing == {1}


@pytest.mark.parametrize("rank", [0, 1])
def test_a_signal_that_ends_the_job_ends_all_nodes(rank: int) -> None:
    nodes = at_work()
    sent = leave(nodes, rank, job=True)
    assert ("Agent/" + str(1 - rank), 203) in codes(sent)
    assert {each.extension["Reason"] for each in sent} == {f"node {rank} has got 'SIGINT'"}
    assert not nodes.scene.job.state.records.rounds.open
    assert nodes.tick(1.0) == [] or {each.code for each in nodes.tick(1.0)} == {203}


def test_a_signal_that_ends_the_job_ends_a_wait_for_nodes() -> None:
    nodes = Nodes(config=replace(JOB, nodes=3))
    nodes.come(0, 1)
    nodes.settle()
    assert ("Agent/1", 203) in codes(leave(nodes, 0, job=True))
    nodes.scene.away.clear()
    nodes.come(0, 1, 2)
    assert codes(nodes.settle()) == [("Agent/0", 210), ("Agent/1", 210), ("Agent/2", 210)]
