"""Admission of received messages: whose they are, the wait for an announcement, and copies of broadcasts."""

from __future__ import annotations

from typing import Any

import pytest

from taskd_net.base import limits
from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core import admission
from taskd_net.core.admission import WAITING_BYTES, Quarantine, Quarantined
from taskd_net.core.frame import Ack
from taskd_net.core.identity import Credentials, Violation
from taskd_net.core.links import UP, Link
from taskd_net.core.ready import Announce, Kind, Lost, ReportViolation
from tests.core.driven import Answer, Deliver, Driven, Forward
from tests.core.odd import LEAF, add_odd_child, below_an_odd_parent, forwards, sent, went_up
from tests.core.routers import (
    Caller,
    accused,
    add_child,
    answered,
    at,
    child_from,
    everybody,
    frame,
    join,
    joined,
    router,
)

HERE, THERE = Credentials("10.0.0.1"), Credentials("10.0.0.2")


@pytest.mark.parametrize("src", ["Worker/0/1", "Worker/9/9", "Proxy/0", "Mgr", "Agent/0"])
@pytest.mark.parametrize("batched", [True, False])
def test_leaf_sends_as_itself_alone(src: str, batched: bool) -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    add_child(proxy, "Worker/0/1")
    liar = add_child(proxy, "Worker/0/0")
    message = frame("Worker/0/1", src)
    if batched:
        actions = proxy.frames_arrived(0.0, liar.id, [(message, ask, 1.0)])
    else:
        actions = proxy.frame_arrived(0.0, liar.id, message, ask, 1.0)
    assert accused(actions) == [("Worker/0/0", Code.NIL_POSITION)]
    assert answered(actions) == [Code.NIL_POSITION]
    assert (len(actions), proxy.statistics.violations, proxy.statistics.forwarded) == (2, 1, 0)


def test_lie_that_nobody_waits_for_is_counted_alone() -> None:
    mgr = router("Mgr")
    liar = add_child(mgr, "Worker/0/0")
    actions = mgr.frames_arrived(0.0, liar.id, [(frame("Mgr", "Worker/0/1", sync=False), None, None)])
    assert (accused(actions), len(actions), mgr.statistics.lost) == ([("Worker/0/0", 4002)], 1, 0)


def test_what_the_parent_sends_is_its_own_affair() -> None:
    proxy = joined("Proxy/0")
    add_child(proxy, "Worker/0/0")
    (deliver, _) = proxy.frames_arrived(0.0, UP, [(frame("Proxy/0", "Worker/0/0"), Caller(), 1.0)])
    assert isinstance(deliver, Deliver)


def test_sender_may_be_written_with_a_process_rank_of_its_own() -> None:
    mgr = router("Mgr")
    agent = mgr.register(0.0, at("Agent/0/start-time"))
    mgr.link_up(0.0, agent, "s")
    (deliver, _) = mgr.frame_arrived(0.0, agent.id, frame("Mgr", "Agent/0/start-time"), Caller())
    assert isinstance(deliver, Deliver)


@pytest.mark.parametrize("src", ["Mgr", "Proxy/9"])
def test_nobody_sends_as_the_parent(src: str) -> None:
    parent = joined("Proxy/9")
    liar = add_child(parent, "Proxy/0", "Worker/0/0")
    actions = parent.frame_arrived(0.0, liar.id, frame("Agent/7", src), Caller())
    assert (accused(actions), answered(actions)) == ([("Proxy/0", 4002)], [4002])


def test_proxy_does_not_send_as_a_child_that_is_connected_here_from_elsewhere() -> None:
    mgr = router("Mgr")
    worker = child_from(mgr, "Worker/0/0", HERE)
    liar = child_from(mgr, "Proxy/1", THERE)
    actions = mgr.frame_arrived(0.0, liar.id, frame("Mgr", "Worker/0/0"), Caller())
    assert answered(actions) == [Code.NIL_POSITION]
    # And claiming it changes nothing, as long as it is connected.
    claims = mgr.announced(0.0, liar, Kind.ADD, everybody("Worker/0/0", "Worker/1/1"), Caller(), "a")
    assert (accused(claims), answered(claims)) == ([("Proxy/1", Code.DST_TYPE_ILLEGAL)], [0])
    assert mgr.routes.next_hop(at("Worker/0/0")) == worker.id
    assert mgr.routes.next_hop(at("Worker/1/1")) == liar.id
    assert answered(mgr.frame_arrived(0.0, liar.id, frame("Mgr", "Worker/0/0", uuid="v"), Caller())) == [4002]
    # A node that has really moved gets there as soon as its old connection is known to be dead; and back again.
    mgr.link_down(7.0, worker, "Worker/0/0", ())
    assert mgr.routes.next_hop(at("Worker/0/0")) == liar.id
    assert answered(mgr.frame_arrived(7.0, liar.id, frame("Mgr", "Worker/0/0", uuid="w"), Caller())) == [0]
    mgr.link_up(8.0, worker, "anew")
    assert mgr.routes.next_hop(at("Worker/0/0")) == worker.id


def test_violation_outside_the_router_is_counted_too() -> None:
    mgr = router("Mgr")
    violation = Violation(Code.NIL_POSITION, "x")
    assert mgr.report_violation("10.0.0.1", violation) == [ReportViolation("10.0.0.1", violation)]
    assert mgr.statistics.violations == 1


def test_message_may_come_before_the_announcement_of_its_sender() -> None:
    """They travel beside each other; a sender that nobody knows takes nobody's place."""
    mgr = router("Mgr")
    proxy = add_child(mgr, "Proxy/0")
    assert answered(mgr.frame_arrived(0.0, proxy.id, frame("Mgr", "Worker/0/0"), Caller())) == [0]


def moving() -> tuple[Driven, Link, Link]:
    """A Mgr that knows Worker/0/0 below Proxy/0, and Proxy/1, below which it has joined a moment ago."""
    mgr = router("Mgr", inbox=2000)
    return mgr, add_child(mgr, "Proxy/0", "Worker/0/0"), add_child(mgr, "Proxy/1")


def test_message_of_a_node_that_has_moved_waits_for_its_announcement() -> None:
    mgr, _, new = moving()
    first, second = (frame("Mgr", "Worker/0/0", uuid=uuid) for uuid in "ab")
    ask = Caller()
    assert mgr.frames_arrived(0.0, new.id, [(first, ask, 1.0), (second, ask, None)]) == []
    # An unrelated announcement changes nothing.
    mgr.announced(0.1, new, Kind.ADD, everybody("Worker/1/1"), Caller(), "x")
    actions = mgr.announced(0.2, new, Kind.ADD, everybody("Worker/0/0"), Caller(), "y")
    assert [action.frame for action in actions if isinstance(action, Deliver)] == [first, second]
    assert answered(actions) == [0, 0, 0]
    assert mgr.statistics.violations == 0
    assert mgr.next_deadline() == float("inf") or mgr.tick(10.0) == []


def test_answer_to_it_still_comes_in_time() -> None:
    proxy = joined("Proxy/9")
    add_child(proxy, "Proxy/0", "Worker/0/0")
    new = add_child(proxy, "Proxy/1")
    proxy.frame_arrived(10.0, new.id, frame("Agent/7", "Worker/0/0"), Caller(), 2.0)
    actions = proxy.announced(10.5, new, Kind.ADD, everybody("Worker/0/0"), Caller(), "y")
    (forward,) = [action for action in actions if isinstance(action, Forward)]
    assert forward.patience == pytest.approx(0.95 * 1.5)


@pytest.mark.parametrize(
    ("budget", "until"), [(None, limits.QUARANTINE_S), (10.0, limits.QUARANTINE_S), (0.5, 0.95 * 0.5)]
)
def test_sender_that_is_not_announced_in_time_is_refused(budget: float | None, until: float) -> None:
    mgr, _, liar = moving()
    ask = Caller()
    assert mgr.frame_arrived(0.0, liar.id, frame("Mgr", "Worker/0/0"), ask, budget) == []
    assert mgr.next_deadline() == until
    actions = mgr.tick(until)
    assert (accused(actions), answered(actions)) == ([("Proxy/1", 4002)], [4002])
    assert mgr.statistics.delivered == 0


def test_older_claim_is_one_too() -> None:
    """Two Proxies claim one node: each brings its messages."""
    mgr, old, new = moving()
    mgr.announced(0.0, new, Kind.ADD, everybody("Worker/0/0"), Caller(), "y")
    for uuid, link in (("a", old), ("b", new)):
        arrival = (frame("Mgr", "Worker/0/0", uuid=uuid), Caller(), 1.0)
        assert answered(mgr.frames_arrived(0.0, link.id, [arrival])) == [0]


def test_line_of_those_who_wait_is_bounded() -> None:
    mgr, _, liar = moving()
    for i in range(admission.QUARANTINE_MESSAGES):
        assert mgr.frame_arrived(0.0, liar.id, frame("Mgr", "Worker/0/0", uuid=str(i)), Caller()) == []
    actions = mgr.frame_arrived(0.0, liar.id, frame("Mgr", "Worker/0/0", uuid="more"), Caller())
    assert answered(actions) == [Code.RECV_BUF_BUSY]
    other = add_child(mgr, "Proxy/2")
    assert mgr.frame_arrived(0.0, other.id, frame("Mgr", "Worker/0/0", uuid="o"), Caller()) == []
    assert len(answered(mgr.tick(limits.QUARANTINE_S))) == admission.QUARANTINE_MESSAGES + 1


def test_who_waits_is_answered_when_the_link_breaks_or_the_node_closes() -> None:
    mgr, _, new = moving()
    mgr.call_arrived(0.0, new.id, frame("Mgr", "Worker/0/0"), Caller(), 1.0)
    mgr.frames_arrived(0.0, new.id, [(frame("Mgr", "Worker/0/0", uuid="x"), Caller(), 1.0)])
    mgr.frames_arrived(0.0, new.id, [(frame("Mgr", "Worker/0/0", uuid="v", sync=False), None, None)])
    actions = mgr.link_down(0.1, new, "Proxy/1", ())
    assert answered(actions) == [Code.NETWORK_ACK_LOST], "a stream that has ended takes no answer"
    assert len([action for action in actions if isinstance(action, Lost)]) == 1
    mgr.link_up(0.2, new, "anew")
    mgr.frames_arrived(0.2, new.id, [(frame("Mgr", "Worker/0/0", uuid="w"), Caller(), 1.0)])
    assert answered(mgr.close()) == [Code.NETWORK_ACK_LOST]


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
    # A later repetition is a new message.
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


def waiting(link: Link, *, deadline: float = 1.0, size: int = 10) -> Quarantined:
    """A message that has come on a link, and whose sender is not announced."""
    return Quarantined(link, frame("Mgr", size=size), None, None, 0.0, deadline)


def test_messages_of_one_link_are_bounded_for_that_link_alone() -> None:
    line, one, other = Quarantine(2, 10_000), Link(1, at("Proxy/0")), Link(2, at("Proxy/1"))
    assert [line.add(waiting(link)) for link in (one, one, one, other)] == [True, True, False, True]
    assert len(line.take_link(one)) == 2
    assert [line.add(waiting(link)) for link in (one, one, one, other)] == [True, True, False, True]


def test_bytes_are_bounded_over_all_links() -> None:
    most = 100 + WAITING_BYTES
    line, one, other = Quarantine(10, most), Link(1, at("Proxy/0")), Link(2, at("Proxy/1"))
    assert not line.add(waiting(one, size=101))
    assert line.add(waiting(one, size=100)), "the last byte is there for use"
    assert not line.add(waiting(other, size=0))
    line.take_due(1.0)
    assert line.add(waiting(other, size=100))


def test_small_messages_count_with_what_they_take_besides_their_data() -> None:
    line, links = Quarantine(256, 1 << 20), [Link(number, at(f"Proxy/{number}")) for number in range(1000)]
    came = sum(line.add(waiting(link)) for _ in range(256) for link in links)
    assert 0.9 * (1 << 20) < came * (10 + WAITING_BYTES) <= 1 << 20


def test_link_has_as_many_bytes_as_are_left_so_that_the_next_one_has_room() -> None:
    each = 10 + WAITING_BYTES
    line, links = Quarantine(256, 60 * each), [Link(number, at(f"Proxy/{number}")) for number in range(4)]
    taken = [sum(line.add(waiting(link)) for _ in range(256)) for link in links]
    assert taken == [30, 15, 7, 4]
    line.take_link(links[0])
    assert line.add(waiting(links[3]))


def test_messages_are_taken_in_the_order_in_which_they_came() -> None:
    line, one, other = Quarantine(10, 10_000), Link(1, at("Proxy/0")), Link(2, at("Proxy/1"))
    came = [waiting(link, deadline=deadline) for link, deadline in ((one, 3.0), (other, 1.0), (one, 2.0), (other, 4.0))]
    for message in came:
        line.add(message)
    assert line.take_due(2.0) == [came[1], came[2]], "the earliest deadline first"
    assert line.take_link(other) == [came[3]]
    assert line.take_all() == [came[0]]
    assert (line.take_all(), line.take_link(one), line.take_due(9.0)) == ([], [], [])


def test_next_deadline_is_the_earliest_of_those_that_wait() -> None:
    line, link = Quarantine(10, 10_000), Link(1, at("Proxy/0"))
    assert line.next_deadline() == float("inf")
    for deadline in (3.0, 2.0, 4.0):
        line.add(waiting(link, deadline=deadline))
    assert line.next_deadline() == 2.0
    line.take_due(2.0)
    assert line.next_deadline() == 3.0
    line.take_all()
    assert line.next_deadline() == float("inf")


def test_place_that_becomes_free_is_one_place() -> None:
    line, link = Quarantine(2, 10_000), Link(1, at("Proxy/0"))
    assert line.add(waiting(link, deadline=1.0)) and line.add(waiting(link, deadline=2.0))
    assert len(line.take_due(1.0)) == 1
    assert [line.add(waiting(link)) for _ in range(2)] == [True, False]


class Watched(Quarantined):
    """A message that tells when it is looked at."""

    looks = 0

    def __getattribute__(self, name: str) -> Any:
        Watched.looks += 1
        return super().__getattribute__(name)


def test_messages_of_a_thousand_other_links_cost_an_announcement_and_a_deadline_nothing() -> None:
    line, links = Quarantine(256, 1 << 22), [Link(number, at(f"Proxy/{number}")) for number in range(1000)]
    for deadline in (3.0, 5.0):
        for link in links:
            line.add(Watched(link, frame("Mgr", src="Worker/0/0"), None, None, 0.0, deadline))
    first = waiting(links[7], deadline=1.0)
    line.add(first)
    Watched.looks = 0
    assert (line.next_deadline(), line.take_due(1.0), line.next_deadline()) == (1.0, [first], 3.0)
    assert line.take_link(Link(1000, at("Proxy/1000"))) == []
    assert Watched.looks == 0
    assert line.take_link(links[7], lambda one: one.deadline == 5.0) and line.take_link(links[7])
    assert Watched.looks <= 10, "its own two"


def test_messages_that_may_not_go_on_keep_their_places_and_deadlines() -> None:
    line, link = Quarantine(2, 10_000), Link(1, at("Proxy/0"))
    came = [waiting(link, deadline=deadline) for deadline in (2.0, 1.0)]
    assert all(line.add(one) for one in came)
    assert line.take_link(link, lambda one: one is came[1]) == [came[1]]
    assert line.next_deadline() == 2.0
    assert line.add(waiting(link, deadline=3.0)) and not line.add(waiting(link))
    assert line.take_due(2.0) == [came[0]]
