"""What the parent is told, and who waits for its answer; more of it in test_router.py and test_leaving.py."""

from __future__ import annotations

from taskd_net.core.actions import Action, Announce, Answer
from taskd_net.core.announcer import Kind
from taskd_net.core.links import UP, Children, Link
from taskd_net.core.topology import Topology
from taskd_net.core.upward import Upward
from tests.core.routers import Caller, answers, at


def below_a_parent() -> tuple[Upward, Link, list[Action]]:
    """A Proxy that has joined, the link to a child of it, and what it decides."""
    up = Link(UP, at("Mgr"))
    up.session = "up"
    topology = Topology(at("Proxy/0"), up, Children(10, 10.0, 30.0))
    actions: list[Action] = []
    return Upward(topology, actions.append), topology.register(0.0, at("Worker/0/0")), actions


def test_child_is_counted_as_announcing_until_it_is_answered() -> None:
    upward, link, actions = below_a_parent()
    ask = Caller()
    upward.pass_on(link, [link.position], ask, "a")
    assert actions == [Announce(Kind.ADD, [at("Worker/0/0"), at("Proxy/0")])]
    assert link.announcing == 1
    upward.answered(5003, at("Mgr"))
    assert (answers(actions[1:]), link.announcing) == ([(5003, "Mgr/0")], 0)


def test_parent_that_goes_answers_nobody() -> None:
    upward, link, actions = below_a_parent()
    for uuid in "ab":
        upward.pass_on(link, [link.position], Caller(), uuid)
    upward.went_down()
    assert answers([action for action in actions if isinstance(action, Answer)]) == [(4999, "Proxy/0")] * 2
    assert link.announcing == 0


def test_parent_is_told_who_is_gone_only_if_it_understands_that() -> None:
    upward, link, actions = below_a_parent()
    upward.gone([link.position])
    upward.everything(Kind.WITHDRAW, Caller(), "w")
    assert answers(actions) == [(6002, "Proxy/0")]
    upward.came_up(withdraws=True, manners=None)
    upward.gone([link.position])
    upward.gone([])
    assert actions[1:] == [Announce(Kind.WITHDRAW, [at("Worker/0/0")])]
