"""A child's claims: its position, its messages' senders, the nodes below it."""

from __future__ import annotations

import pytest

from taskd_net import limits
from taskd_net.codes import Code, Refusal
from taskd_net.core.frame import Ack
from taskd_net.core.identity import UNSHOWN, Credentials, Violation, ViolationReports
from taskd_net.core.links import UP, Link
from taskd_net.core.names import CertificateName
from taskd_net.core.quarantine import Quarantine, Quarantined
from taskd_net.core.ready import Announce, Kind, Lost, ReportViolation
from taskd_net.core.router import RouterConfig
from tests.core.driven import Action, Answer, Deliver, Driven, Forward
from tests.core.routers import Caller, add_child, at, everybody, frame, joined, router

HERE, THERE = Credentials("10.0.0.1"), Credentials("10.0.0.2")


def certificate(*names: str, host: str = "10.0.0.1") -> Credentials:
    """The credentials of a connection with such a certificate."""
    return Credentials(host, frozenset(CertificateName.parse(name) for name in names))


def child_from(node: Driven, position: str, credentials: Credentials, *behind: str) -> Link:
    """Let a child join with these credentials, with these nodes behind it."""
    link = node.register(0.0, at(position), None, credentials)
    node.link_up(0.0, link, position)
    if behind:
        node.announced(0.0, link, Kind.ADD, everybody(*behind), Caller(), "announces")
    return link


def accused(actions: list[Action]) -> list[tuple[str, int]]:
    """The reported peers among the actions, with the code."""
    return [(action.peer, action.refusal.code) for action in actions if isinstance(action, ReportViolation)]


def answered(actions: list[Action]) -> list[int]:
    """The codes that are answered."""
    return [action.ack.code for action in actions if isinstance(action, Answer)]


# ---- credentials


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (HERE, HERE, True),
        (HERE, THERE, False),
        (UNSHOWN, UNSHOWN, True),
        (certificate("taskd://j/Worker/0/0"), certificate("taskd://j/Worker/0/0", host="10.0.0.2"), True),
        (certificate("taskd://j/Worker/0/0"), certificate("taskd://j/Worker/0/*"), False),
        (certificate("taskd://j/Worker/0/0"), HERE, False),
        (HERE, certificate("taskd://j/Worker/0/0"), False),
        (certificate(), certificate(), True),
    ],
)
def test_same_peer(one: Credentials, other: Credentials, same: bool) -> None:
    assert one.same_peer(other) == same


def test_names_cover_positions_of_their_job() -> None:
    held = certificate("taskd://j/Worker/0/0", "taskd://j/Agent/0")
    covered = [held.covers("j", at(text)) for text in ("Worker/0/0", "Agent/0/start-time", "Worker/0/1", "Proxy/0")]
    assert covered == [True, True, False, False]
    assert not held.covers("other", at("Worker/0/0"))
    assert HERE.covers("j", at("Worker/0/0"))
    assert not certificate().covers("j", at("Worker/0/0"))


# ---- a position, and who may take it


def refused_position(node: Driven, position: str, credentials: Credentials) -> int:
    """The code that a registration is refused with as a violation; 0 for a good one."""
    try:
        node.register(1.0, at(position), None, credentials)
    except Violation as violation:
        return violation.code
    return 0


def test_position_of_a_connected_child_is_for_the_same_peer_alone() -> None:
    mgr = router("Mgr")
    link = child_from(mgr, "Worker/0/0", HERE)
    assert refused_position(mgr, "Worker/0/0", THERE) == Code.NIL_POSITION
    assert (link.credentials, link.epoch) == (HERE, 1)
    assert refused_position(mgr, "Worker/0/0", HERE) == 0
    mgr.link_down(1.0, link, "Worker/0/0", ())
    assert refused_position(mgr, "Worker/0/0", THERE) == 0
    assert link.credentials == THERE


def test_place_that_waits_for_its_stream_goes_to_whoever_registers() -> None:
    mgr = router("Mgr")
    link = mgr.register(0.0, at("Worker/0/0"), None, HERE)
    assert refused_position(mgr, "Worker/0/0", THERE) == 0
    assert link.credentials == THERE


def test_certificate_has_to_name_the_position() -> None:
    mgr = Driven(at("Mgr"), upstream=False, config=RouterConfig(job="j"))
    mine = certificate("taskd://j/Worker/0/*")
    assert refused_position(mgr, "Worker/0/5", mine) == 0
    assert refused_position(mgr, "Worker/1/5", mine) == Code.NIL_POSITION
    assert refused_position(mgr, "Worker/0/5", certificate("taskd://other/Worker/0/5")) == Code.NIL_POSITION
    with pytest.raises(Refusal) as malformed:
        mgr.register(0.0, at("Worker/0/x"), None, mine)
    assert malformed.value.code == Code.DST_PROCESS_RANK_ILLEGAL
    # It is said to be no position before anything is said of the certificate.
    with pytest.raises(Refusal) as unnamed:
        mgr.register(0.0, at("Worker/x/5"), None, mine)
    assert unnamed.value.code == Code.DST_SRV_RANK_ILLEGAL


# ---- whose message it is


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


def test_proxy_of_the_same_host_takes_a_position_over_at_once() -> None:
    mgr = router("Mgr")
    child_from(mgr, "Worker/0/0", HERE)
    proxy = child_from(mgr, "Proxy/1", HERE, "Worker/0/0")
    assert mgr.routes.next_hop(at("Worker/0/0")) == proxy.id


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
    # What says nothing of it changes nothing.
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
    for i in range(limits.QUARANTINE_MESSAGES):
        assert mgr.frame_arrived(0.0, liar.id, frame("Mgr", "Worker/0/0", uuid=str(i)), Caller()) == []
    actions = mgr.frame_arrived(0.0, liar.id, frame("Mgr", "Worker/0/0", uuid="more"), Caller())
    assert answered(actions) == [Code.RECV_BUF_BUSY]
    other = add_child(mgr, "Proxy/2")
    assert mgr.frame_arrived(0.0, other.id, frame("Mgr", "Worker/0/0", uuid="o"), Caller()) == []
    assert len(answered(mgr.tick(limits.QUARANTINE_S))) == limits.QUARANTINE_MESSAGES + 1


def test_line_is_bounded_in_bytes() -> None:
    doubts = Quarantine(10, 100)
    link = Link(1, at("Proxy/0"))
    waits = [Quarantined(link, frame("Mgr", size=60, uuid=str(i)), None, None, 0.0, 1.0) for i in range(2)]
    assert [doubts.add(one) for one in waits] == [True, False]
    assert doubts.take_due(0.9) == []
    assert doubts.take_due(1.0) == waits[:1]
    assert doubts.add(waits[1])
    rest = [Quarantined(link, frame("Mgr", size=size, uuid="r"), None, None, 0.0, 1.0) for size in (41, 40, 1)]
    assert [doubts.add(one) for one in rest] == [False, True, False], "the last byte is there for use"


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


# ---- announcements


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("leaf", ["Worker/0/0", "Agent/0"])
def test_leaf_announces_itself_alone(kind: Kind, leaf: str) -> None:
    mgr, ask = router("Mgr"), Caller()
    liar = add_child(mgr, leaf)
    actions = mgr.announced(0.0, liar, kind, everybody(leaf, "Worker/0/7"), ask, "a")
    assert (accused(actions), answered(actions)) == ([(leaf, Code.DST_TYPE_ILLEGAL)], [Code.DST_TYPE_ILLEGAL])
    assert at("Worker/0/7") not in mgr.routes
    assert answered(mgr.announced(0.0, liar, Kind.ADD, everybody(leaf), ask, "b")) == [0]


def test_one_bad_position_does_not_cost_the_others_of_a_proxy_their_routes() -> None:
    proxy = joined("Proxy/9")
    child = add_child(proxy, "Proxy/0")
    actions = proxy.announced(0.0, child, Kind.ADD, everybody("Proxy/9", "Worker/0/0", "Mgr"), Caller(), "a")
    assert accused(actions) == [("Proxy/0", Code.DST_TYPE_ILLEGAL)]
    (announce,) = [action for action in actions if isinstance(action, Announce)]
    assert announce.positions == everybody("Worker/0/0", "Proxy/9")


def test_violation_outside_the_router_is_counted_too() -> None:
    mgr = router("Mgr")
    violation = Violation(Code.NIL_POSITION, "x")
    assert mgr.report_violation("10.0.0.1", violation) == [ReportViolation("10.0.0.1", violation)]
    assert mgr.statistics.violations == 1


def test_announcing_without_a_registration_accuses_nobody() -> None:
    mgr, ask = router("Mgr"), Caller()
    actions = mgr.announced(0.0, None, Kind.ADD, everybody("Worker/0/0"), ask, "a")
    text = "the announcing child is not registered here"
    assert actions == [Answer(ask, Ack("a", Code.CLIENT_ERR, at("Mgr"), text, 0))]


# ---- what is logged


def test_one_line_for_each_peer_and_while() -> None:
    accusations = ViolationReports(60.0, 2)
    assert [accusations.add(now, "a") for now in (0.0, 1.0, 59.9, 60.0, 61.0)] == [1, 0, 0, 3, 0]
    assert accusations.add(61.0, "b") == 1
    # A third name: the oldest is forgotten.
    assert accusations.add(61.0, "c") == 1
    assert len(accusations._known) == 2
    assert accusations.add(62.0, "a") == 1
