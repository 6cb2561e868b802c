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
    upward.pass_on(link, [link.position], ask, "a", 0.0)
    assert actions == [Announce(Kind.ADD, [at("Worker/0/0"), at("Proxy/0")])]
    assert link.announcing == 1
    upward.answered(5003, at("Mgr"))
    assert (answers(actions[1:]), link.announcing) == ([(5003, "Mgr/0")], 0)


def test_parent_that_goes_answers_nobody() -> None:
    upward, link, actions = below_a_parent()
    for uuid in "ab":
        upward.pass_on(link, [link.position], Caller(), uuid, 0.0)
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


# ---- waiting for a parent


def without_a_parent(*until: float) -> tuple[Upward, Link, list[Action], list[Caller]]:
    """A Proxy that has no parent, with announcements of a child that can wait until then."""
    upward, link, actions = below_a_parent()
    topology = upward._topology
    assert topology.up is not None
    topology.up.session = None
    asked = [Caller(str(i)) for i in range(len(until))]
    for ask, time in zip(asked, until, strict=True):
        upward.pass_on(link, [link.position], ask, ask.name, time)
    return upward, link, actions, asked


def test_announcement_that_can_wait_goes_with_all_that_is_said_to_the_next_parent() -> None:
    upward, link, actions, asked = without_a_parent(2.0, 3.0)
    assert (actions, link.announcing, upward.next_deadline()) == ([], 2, 2.0)
    up = upward._topology.up
    assert up is not None
    up.session = "up"
    upward.came_up(withdraws=True, manners=None)
    assert (actions, upward.next_deadline()) == ([], float("inf"))
    upward.everything(Kind.COMPLETE, Caller(), "all")
    assert actions == [Announce(Kind.COMPLETE, [at("Worker/0/0"), at("Proxy/0")])]
    upward.answered(0, at("Mgr"))
    assert [action.reply for action in actions[1:] if isinstance(action, Answer)][:2] == asked
    assert (answers(actions[1:]), link.announcing) == ([(0, "Mgr/0")] * 3, 0)


def test_announcement_whose_time_is_up_is_answered_4999() -> None:
    upward, link, actions, asked = without_a_parent(2.0, 3.0)
    upward.give_up(1.9)
    assert actions == []
    upward.give_up(2.0)
    assert [action.reply for action in actions if isinstance(action, Answer)] == asked[:1]
    assert (answers(actions), link.announcing, upward.next_deadline()) == ([(4999, "Proxy/0")], 1, 3.0)


def test_node_that_closes_answers_those_who_wait() -> None:
    upward, link, actions, _ = without_a_parent(2.0, 3.0)
    upward.went_down()
    assert (answers(actions), link.announcing) == ([(4999, "Proxy/0")] * 2, 0)


def test_node_that_has_gone_meanwhile_is_not_announced() -> None:
    upward, link, actions, _ = without_a_parent(2.0)
    upward._topology.routes.drop_link(link.id)
    up = upward._topology.up
    assert up is not None
    up.session = "up"
    upward.came_up(withdraws=True, manners=None)
    upward.everything(Kind.COMPLETE, Caller(), "all")
    assert actions == [Announce(Kind.COMPLETE, [at("Proxy/0")])]
