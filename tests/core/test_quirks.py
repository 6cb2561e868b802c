"""Neighbours that do some things otherwise than the contract says, and what a Router makes of it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from taskd_net.codes import Code
from taskd_net.core.adaptation import Copies
from taskd_net.core.frame import Ack, Adapted, Frame
from taskd_net.core.links import UP, Link
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Announce, Kind, Lost
from taskd_net.position import Position
from tests.core.driven import Action, Answer, Driven, Forward
from tests.core.routers import STRANGER, Caller, add_child, answers, at, everybody, frame, join, joined, router

PROXY = Quirks(largest=100, reads_lists=False, acks_broadcasts=False, turn=4.0, announces_again=False)
LEAF = Quirks(largest=100, reads_lists=False)
PARENT = Quirks(reads_lists=False, acks_broadcasts=False, acks_lists=False, repeats=True, announce_positions=3)


def add_odd_child(parent: Driven, position: Position, *behind: Position, quirks: Quirks = PROXY) -> Link:
    """Let a child with quirks of its own join, with these nodes behind it."""
    link = parent.register(0.0, position, quirks)
    assert parent.link_up(0.0, link, str(position)) == []
    if behind:
        parent.announced(0.0, link, Kind.ADD, behind, Caller(), "a")
    return link


def below_an_odd_parent(position: str) -> Driven:
    node = router(position)
    assert node.upstream_up(0.0, "up", at("Mgr"), quirks=PARENT) == []
    node.announce_all(Caller(), "announces")
    node.announce_answered("up", 0, at("Mgr"))
    return node


def forwards(actions: Sequence[Action]) -> list[Forward]:
    """The forwarded frames; there must be no other actions."""
    found = [action for action in actions if isinstance(action, Forward)]
    assert len(found) == len(actions), actions
    return found


def receivers(actions: Sequence[Action]) -> list[int | None]:
    """The receiver counts of the answers among the actions."""
    return [action.ack.receivers for action in actions if isinstance(action, Answer)]


def sent(actions: Sequence[Action]) -> list[tuple[str, bool, float]]:
    """The forwarded frames: destination, sync, and timeout."""
    return [(str(each.frame.dst), each.frame.sync, each.patience) for each in forwards(actions)]


def went_up(actions: Sequence[Action]) -> list[Frame]:
    return [action.frame for action in actions if isinstance(action, Forward) and action.link == UP]


# ---- what it takes


def test_size_beyond_what_it_takes() -> None:
    mgr, ask = router("Mgr"), Caller()
    add_odd_child(mgr, at("Worker/0/0"), quirks=LEAF)
    assert sent(mgr.send(0.0, frame("Worker/0/0", size=100), ask, 3.0))
    assert answers(mgr.send(0.0, frame("Worker/0/0", size=101, uuid="v"), ask, 3.0)) == [(Code.CLIENT_ERR, "Mgr/0")]
    assert answers(mgr.send(0.0, frame("Worker/All/All", size=101), ask, 3.0)) == [(Code.CLIENT_ERR, "Mgr/0")]
    (lost,) = mgr.frame_arrived(0.0, STRANGER, frame("Worker/0/0", "Worker/1/1", size=101, sync=False), None)
    assert isinstance(lost, Lost) and lost.code == Code.CLIENT_ERR


# ---- lists


def test_list_is_expanded_on_its_link_alone() -> None:
    mgr, ask = router("Mgr"), Caller()
    odd = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1", "Worker/0/2"))
    plain = add_child(mgr, "Proxy/1", "Worker/1/3", "Worker/1/4")
    actions = mgr.send(0.0, frame("Worker/All/0,2,3,4"), ask, 3.0)
    assert sent(actions) == [(to, True, 3.0) for to in ("Worker/0/0", "Worker/0/2", "Worker/All/0,2,3,4")]
    kinds = [(each.link, type(each.frame) is Adapted) for each in forwards(actions)]
    assert kinds == [(odd.id, True), (odd.id, True), (plain.id, False)]
    assert mgr.ack_arrived(1.0, odd.id, "u", 0, at("Worker/0/0")) == []
    assert mgr.ack_arrived(1.0, plain.id, "u", 0, at("Worker/1/3")) == []
    assert answers(mgr.ack_arrived(1.0, odd.id, "u", 5001, at("Worker/0/2"))) == [(5001, "Worker/0/2")]


def test_posted_list_is_expanded_too() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"))
    actions = mgr.frame_arrived(0.0, STRANGER, frame("Worker/0/0,1", "Worker/9/9", sync=False), None)
    assert sent(actions) == [("Worker/0/0", False, 0.0), ("Worker/0/1", False, 0.0)]


def test_sender_gets_no_copy_of_its_own_list() -> None:
    mgr = router("Mgr")
    near = add_odd_child(mgr, at("Worker/0/1"), quirks=LEAF)
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    actions = mgr.frame_arrived(0.0, near.id, frame("Worker/0/0,1", "Worker/0/1"), Caller())
    assert [to for to, *_ in sent(actions)] == ["Worker/0/0"]


@pytest.mark.parametrize(
    ("to", "up"),
    [
        ("Worker/1/8,9", ["Worker/1/8", "Worker/1/9"]),
        ("Worker/0,1/8", ["Worker/0/8", "Worker/1/8"]),
        ("Worker/All/0,1,8", ["Worker/All/8"]),
        ("Worker/0,1/All", ["Worker/0/All", "Worker/1/All"]),
        ("Worker/0,1/0,8", ["Worker/0,1/0,8"]),
        ("Proxy/0,1,2", ["Proxy/1", "Proxy/2"]),
        ("Agent/0,1", ["Agent/0", "Agent/1"]),
        ("Worker/All/All", ["Worker/All/All"]),
        ("Worker/1/8", ["Worker/1/8"]),
    ],
)
def test_list_that_goes_up(to: str, up: list[str]) -> None:
    proxy = below_an_odd_parent("Proxy/0")
    add_child(proxy, "Worker/0/0")
    add_child(proxy, "Worker/0/1")
    actions = proxy.send(0.0, frame(to, "Proxy/0"), Caller(), 3.0)
    assert [str(copy.dst) for copy in went_up(actions)] == up


@pytest.mark.parametrize("to", ["Worker/All/All", "Worker/1/8,9", "Worker/All/0,1,8", "Worker/0,1/0,8", "Proxy/0,1"])
def test_nothing_but_unicasts_goes_up_as_sync(to: str) -> None:
    """Such a parent awaits an Ack for each copy, and its other children pay for it."""
    proxy, ask = below_an_odd_parent("Proxy/0"), Caller()
    copies = went_up(proxy.send(0.0, frame(to, "Proxy/0"), ask, 3.0))
    assert copies and {copy.sync for copy in copies} == {False}
    *others, last = copies
    for copy in others:
        assert proxy.post_answered(0.0, UP, copy, 0, at("Mgr")) == []
    assert answers(proxy.post_answered(0.0, UP, last, Code.NO_ROUTE, at("Mgr"))) == [(Code.NO_ROUTE, "Mgr/0")]
    (alone,) = went_up(proxy.send(0.0, frame("Worker/1/8", "Proxy/0", uuid="v"), ask, 3.0))
    assert alone.sync


def test_list_goes_as_it_is_to_who_reads_it() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"), quirks=Quirks())
    assert [to for to, *_ in sent(mgr.send(0.0, frame("Worker/0/0,1"), Caller(), 3.0))] == ["Worker/0/0,1"]


# ---- broadcasts


def test_broadcast_that_is_never_acknowledged_counts_as_taken_when_it_is_written() -> None:
    mgr, ask = router("Mgr"), Caller()
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    actions = mgr.send(0.0, frame("Worker/All/All"), ask, 3.0)
    assert sent(actions) == [("Worker/All/All", False, 3.0)]
    (forward,) = forwards(actions)
    assert answers(mgr.post_answered(0.0, link.id, forward.frame, 0, link.position)) == [(0, "Proxy/0")]
    assert mgr.statistics.lost == 0


def test_broadcast_of_which_the_stream_breaks_before_it_is_written() -> None:
    mgr, ask = router("Mgr"), Caller()
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    (forward,) = forwards(mgr.send(0.0, frame("Worker/All/All"), ask, 3.0))
    assert answers(mgr.link_down(1.0, link, link.session or "", [forward.frame])) == [
        (Code.NETWORK_SEND_LOST, "Proxy/0")
    ]


def test_answer_of_a_leaf_or_to_a_copy_for_one_node_counts_one_receiver() -> None:
    """No other node lies behind a leaf, and a copy for one node has one receiver, whatever lies behind the link."""
    mgr = router("Mgr")
    leaf = add_child(mgr, "Worker/0/0")
    (forward,) = forwards(mgr.send(0.0, frame("Worker/All/All"), Caller(), 3.0))
    assert not forward.frame.dst.unicast
    assert receivers(mgr.accepted(0.1, leaf.id, ["u"])) == [1]
    mgr = router("Mgr")
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"))
    assert len(forwards(mgr.send(0.0, frame("Worker/0/0,1"), Caller(), 3.0))) == 2
    assert receivers(mgr.accepted(0.1, link.id, ["u", "u"])) == [2]


def test_branch_that_tells_no_count_has_an_unknown_number_of_receivers() -> None:
    mgr = router("Mgr")
    link = add_child(mgr, "Proxy/0", "Worker/0/0", "Worker/0/1")
    assert len(forwards(mgr.send(0.0, frame("Worker/All/All"), Caller(), 3.0))) == 1
    assert receivers(mgr.accepted(0.1, link.id, ["u"])) == [None]


def test_posted_broadcast_goes_as_it_is() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    (forward,) = forwards(mgr.send(0.0, frame("Worker/All/All", sync=False), Caller(), 3.0))
    assert type(forward.frame) is not Adapted


def test_copies_that_come_down_are_one_message() -> None:
    proxy = below_an_odd_parent("Proxy/0")
    add_child(proxy, "Worker/0/0")
    message = frame("Worker/All/All", sync=False)
    assert len(sent(proxy.frame_arrived(0.0, UP, message, None))) == 1
    ask = Caller()
    assert proxy.frame_arrived(0.1, UP, message, None) == []
    assert proxy.frame_arrived(0.1, UP, message, ask) == [Answer(ask, Ack("u", 0, at("Proxy/0")))]
    assert proxy.statistics.duplicates == 2
    for other in (frame("Worker/0/All", sync=False), frame("Worker/All/All", "Worker/9/9", sync=False)):
        assert len(sent(proxy.frame_arrived(0.1, UP, other, None))) == 1
    for _ in range(2):
        assert len(sent(proxy.frame_arrived(0.1, UP, frame("Worker/0/0", sync=False), None))) == 1
    # Who sends it again later means to send it again.
    assert len(sent(proxy.frame_arrived(11.0, UP, message, None))) == 1


@pytest.mark.parametrize("to", ["Worker/All/All", "Worker/0,1/All"])
def test_broadcast_that_went_up_does_not_come_back(to: str) -> None:
    proxy = below_an_odd_parent("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    other = add_child(proxy, "Worker/0/1")
    actions = proxy.frame_arrived(0.0, child.id, frame(to, "Worker/0/0", sync=False), Caller())
    assert next(action.link for action in actions if isinstance(action, Forward)) == other.id
    copies = went_up(actions)
    assert copies
    for copy in copies:
        assert proxy.frame_arrived(0.1, UP, copy, None) == []


def test_copies_are_remembered_within_bounds() -> None:
    copies = Copies(2, 10.0)
    one, two, three = (frame("Worker/All/All", uuid=str(i)) for i in range(3))
    assert copies.add(0.0, one) and copies.add(1.0, two)
    assert not copies.add(2.0, two)
    assert copies.add(3.0, one), "forgotten, as the window is full"
    assert copies.add(3.0, three)
    assert copies.add(13.0, three)


# ---- one at a time


def test_turn_begins_when_the_message_before_was_answered() -> None:
    mgr, ask = router("Mgr"), Caller()
    link = add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0", "Worker/0/1"))
    for uuid in "abc":
        message = frame("Worker/0/0", "Worker/9/9", uuid=uuid)
        ((_, _, patience),) = sent(mgr.frame_arrived(0.0, STRANGER, message, ask, 20.0))
        assert patience == (4.0 if uuid == "a" else 19.0)
    assert mgr.next_deadline() == 4.0
    assert answers(mgr.ack_arrived(3.0, link.id, "a", 0, at("Worker/0/0"))) == [(0, "Worker/0/0")]
    assert mgr.tick(6.9) == []
    assert answers(mgr.tick(7.0)) == [(Code.NETWORK_ACK_LOST, "Proxy/0")]
    assert mgr.tick(10.9) == [] and mgr.next_deadline() == 11.0
    assert answers(mgr.tick(11.0)) == [(Code.NETWORK_ACK_LOST, "Proxy/0")]
    # The next one has nobody before it.
    assert mgr.ack_arrived(12.0, link.id, "c", 0, at("Worker/0/0")) == []
    ((_, _, patience),) = sent(mgr.frame_arrived(12.0, STRANGER, frame("Worker/0/0", uuid="d"), ask, 20.0))
    assert patience == 4.0


def test_sender_who_waits_less_is_answered_sooner() -> None:
    mgr, ask = router("Mgr"), Caller()
    add_odd_child(mgr, at("Proxy/0"), *everybody("Worker/0/0"))
    mgr.send(0.0, frame("Worker/0/0", uuid="a"), ask, 20.0)
    mgr.send(0.0, frame("Worker/0/0", uuid="b"), ask, 1.0)
    ((_, _, patience),) = sent(mgr.frame_arrived(0.0, STRANGER, frame("Worker/0/0", uuid="c"), ask))
    assert patience == pytest.approx(3.0)
    assert mgr.next_deadline() == 1.0
    assert answers(mgr.tick(1.0)) == [(Code.NETWORK_ACK_LOST, "Proxy/0")]


# ---- who is behind it


def test_route_is_learnt_from_what_comes_up() -> None:
    proxy = joined("Proxy/9")
    link = add_odd_child(proxy, at("Proxy/0"))
    message = frame("Mgr", uuid="m")
    message.src = Position("Agent", "0", "77")
    actions = proxy.frame_arrived(0.0, link.id, message, Caller())
    assert actions[0] == Announce(Kind.ADD, [at("Agent/0")])
    assert proxy.routes.next_hop(at("Agent/0")) == link.id
    assert proxy.announce_answered("up", 0, at("Mgr")) == []
    assert len(sent(proxy.frame_arrived(0.0, link.id, frame("Mgr", "Agent/0", uuid="n"), Caller()))) == 1
    (down,) = forwards(proxy.frame_arrived(0.0, UP, frame("Agent/0"), Caller()))
    assert down.frame.dst.position.process_rank == "77"


def test_route_that_is_known_is_not_learnt_anew() -> None:
    proxy = joined("Proxy/9")
    link = add_odd_child(proxy, at("Proxy/0"))
    other = add_child(proxy, "Worker/0/0")
    assert len(sent(proxy.frame_arrived(0.0, link.id, frame("Mgr", "Worker/0/0"), Caller()))) == 1
    assert proxy.routes.next_hop(at("Worker/0/0")) == other.id
    for src in ("Proxy/9", "Mgr"):
        proxy.frame_arrived(0.0, link.id, frame("Agent/5", src, uuid=src), Caller())
        assert at(src) not in proxy.routes
    leaf = add_odd_child(proxy, at("Worker/0/7"), quirks=LEAF)
    proxy.frame_arrived(0.0, leaf.id, frame("Mgr", "Worker/3/3", uuid="o"), Caller())
    assert at("Worker/3/3") not in proxy.routes


def test_route_is_learnt_while_nobody_can_be_told() -> None:
    proxy, mgr = router("Proxy/9"), router("Mgr")
    for node in (proxy, mgr):
        link = add_odd_child(node, at("Proxy/0"))
        node.frame_arrived(0.0, link.id, frame("Proxy/0", "Worker/0/0"), Caller())
        assert node.routes.next_hop(at("Worker/0/0")) == link.id
    assert join(proxy) == []
    (announce,) = proxy.announce_all(Caller(), "a")
    assert isinstance(announce, Announce) and at("Worker/0/0") in announce.positions


def test_any_process_rank_is_used_on_its_link_alone() -> None:
    mgr = router("Mgr")
    add_odd_child(mgr, Position("Proxy", "0", "17"), Position("Agent", "0", "99"), at("Worker/0/0"))
    for to, rank in (("Agent/0", "99"), ("Proxy/0", "17"), ("Worker/0/0", "0")):
        for sync in (True, False):
            (forward,) = forwards(mgr.send(0.0, frame(to, uuid=f"{to}{sync}", sync=sync), Caller(), 3.0))
            assert forward.frame.dst.position.process_rank == rank
            assert (type(forward.frame) is Adapted) == (rank != "0")
    mgr.announced(1.0, mgr.children.find(at("Proxy/0")), Kind.ADD, [at("Agent/0")], Caller(), "a")
    (forward,) = forwards(mgr.send(1.0, frame("Agent/0", uuid="again"), Caller(), 3.0))
    assert type(forward.frame) is not Adapted


def test_everything_below_is_announced_in_as_few_requests_as_it_takes() -> None:
    proxy = below_an_odd_parent("Proxy/0")
    add_child(proxy, "Proxy/1", "Worker/1/1", "Worker/1/2", "Worker/1/3")
    requests: list[int] = []
    while actions := proxy.announce_answered("up", 0, at("Mgr")):
        assert actions
    actions = proxy.announce_all(Caller(), "a")
    while actions:
        requests += [len(action.positions) for action in actions if isinstance(action, Announce)]
        actions = proxy.announce_answered("up", 0, at("Mgr"))
    assert requests == [3, 2]


# ---- joining


def test_pause_of_a_position_that_is_fought_for() -> None:
    mgr = router("Mgr")
    position = at("Worker/0/0")
    assert mgr.register_pause(0.0, position) == 0.0
    link = add_odd_child(mgr, position, quirks=LEAF)
    assert mgr.register_pause(1.0, position) == 0.0
    assert mgr.register(1.0, position, LEAF) is link
    assert len(mgr.link_up(1.0, link, "other")) == 1
    assert [mgr.register_pause(1.0 + i, position) for i in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    # The last moment in which it counts as a fight, and the first in which it does not.
    assert mgr.register_pause(11.0, position) == 5.0
    assert mgr.register_pause(11.5, position) == 0.0
    mgr.link_up(12.0, link, "third")
    assert mgr.register_pause(12.0, position) == 1.0


def test_pending_announcement_renews_the_registration() -> None:
    proxy, ask = joined("Proxy/0", registration_hold=1.0), Caller()
    link = proxy.register(0.0, at("Worker/0/0"), LEAF)
    assert proxy.announced(0.0, link, Kind.ADD, [link.position], ask, "a")
    for now in (1.0, 2.0, 3.0):
        assert proxy.tick(now) == []
    assert answers(proxy.announce_answered("up", 0, at("Mgr"))) == [(0, "Mgr/0")]
    assert proxy.children.find(link.position) is link
    proxy.tick(4.0)
    assert proxy.children.find(link.position) is None
