"""The message path: runs on any link, refused messages, the quota of a child."""

from __future__ import annotations

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.peer_limits import Limits
from taskd_net.base.position import Destination
from taskd_net.core.acks import Pending
from taskd_net.core.frame import Frame, Probe
from taskd_net.core.identity import Violation
from taskd_net.core.in_flight import FlowRun, InFlight
from taskd_net.core.links import VIOLATION_PAUSE_S, Terms
from taskd_net.core.ready import EndStream, Kind, Ready, Reason, ReportViolation
from taskd_net.core.replay import EventRecorder, replay
from taskd_net.core.router import ANSWERS_UNTAKEN, Router, RouterConfig
from taskd_net.core.seen import SeenMessages
from tests.core.invariants import check
from tests.core.routers import at

NUMBERED = Terms(numbered=True, bare=True, counts=True)
MGR = Destination.of(at("Mgr"))
WORKER = at("Worker/0/0")


def proxy(down: Terms = NUMBERED, up: Terms = NUMBERED) -> Router:
    """A Proxy with one Worker."""
    router = Router(at("Proxy/0"), upstream=True)
    router.upstream_up(0.0, "up", at("Mgr"), 1, True, None, True, up)
    router.register(0.0, WORKER)
    router.link_up(0.0, 1, "down", (), down)
    return router


def run(count: int) -> list[Frame]:
    """Messages of one flow."""
    return [Frame(f"u{number}", True, WORKER, MGR, b"x") for number in range(count)]


def arrive(router: Router, count: int = 3, now: float = 1.0) -> None:
    """A run comes in from the Worker."""
    numbers = list(range(1, count + 1))
    assert router.messages_arrived(now, 1, run(count), numbers, [1.0] * count).writes[0].frames


def test_refused_message_is_answered_by_its_name() -> None:
    router = proxy()
    ready = router.messages_arrived(1.0, 1, (), (), (), [(7, Refusal(Code.NIL_HEADER, "words", "u"))])
    (answer,) = ready.writes[1].answers
    assert (answer.key, answer.ack.code, answer.ack.uuid) == (7, Code.NIL_HEADER, "u")
    assert router.children.by_id[1].waiting == 1
    router.written(1, "another stream", 0, 0, 1)
    assert router.children.by_id[1].waiting == 1
    router.written(1, "down", 0, 0, 1)
    assert router.children.by_id[1].waiting == 0
    check(router)


def test_run_from_a_link_that_takes_acks_alone_is_answered_by_acks() -> None:
    router = proxy(down=Terms())
    arrive(router)
    answers = router.answers_arrived(1.1, 0, [1, 2, 3]).writes[1].answers
    assert [(answer.key, answer.ack.uuid, str(answer.ack.src)) for answer in answers] == [
        (1, "u0", "Mgr/0"),
        (2, "u1", "Mgr/0"),
        (3, "u2", "Mgr/0"),
    ]


def test_one_message_of_a_link_is_timed_while_runs_follow_each_other() -> None:
    router = proxy()
    up = router.upstream
    assert up is not None
    timed: list[object] = []
    for now in (1.0, 2.0):
        arrive(router, now=now)
        timed.append(up.timed)
    router.answers_arrived(2.5, 0, [1, 2, 3])
    timed.append(up.timed)
    arrive(router, now=3.0)
    timed.append(up.timed)
    assert timed == [1, 1, None, 7], "the second run does not take the first one's place"
    check(router)


def test_answers_to_a_run_whose_stream_has_ended_go_nowhere() -> None:
    router = proxy()
    arrive(router)
    router.link_down(1.05, 1, "down")
    assert not router.answers_arrived(1.1, 0, [1, 2, 3, 9]).writes
    assert router.statistics.late_acks == 1


def test_run_that_is_not_answered_ends_with_its_deadline() -> None:
    router = proxy()
    arrive(router)
    router.answers_arrived(1.1, 0, [2])
    check(router)
    ready = router.tick(router.next_deadline())
    assert [answer.ack.code for answer in ready.writes[1].answers] == [Code.NETWORK_ACK_LOST] * 2
    assert router.upstream is not None and router.upstream.timed is None
    check(router)


def test_singles_and_runs_are_taken_together() -> None:
    flight = InFlight()
    flight.numbered = True
    single = Pending("s", 1, WORKER, True, None, 5.0)
    assert flight.add("s", single) == 1
    assert list(flight.add_run(FlowRun(0, ["a", "b", "c", "d"], 1, 1, [1, 2, 3, 4], WORKER, MGR.position, 5.0))) == [
        2,
        3,
        4,
        5,
    ]
    assert flight.holds(1) and flight.holds(5) and not flight.holds(6) and not flight.holds(0)
    taken = flight.take_accepted([1, 2, 4, 9])
    assert taken[0] is single and taken[3] is None
    assert [part.uuids for part in taken if isinstance(part, FlowRun)] == [["a"], ["c"]]
    assert [part.uuid for part in flight] == ["b", "d"]
    other = flight.take(3)
    assert other is not None and other.uuid == "b" and flight.take(3) is None
    assert [part.uuid for part in flight.take_due(5.0)] == ["d"] and len(flight) == 0


def test_window_takes_consecutive_numbers_of_one_page_at_once() -> None:
    seen = SeenMessages(100)

    def uuids(first: int, count: int) -> list[str]:
        return [f"tn1-{1:016x}-1-{number:x}-{0:016x}" for number in range(first, first + count)]

    assert seen.add_all(1.0, 1, uuids(1, 4), WORKER)
    assert not seen.add_all(1.0, 1, uuids(4, 2), WORKER), "one is known"
    assert not seen.knows(uuids(5, 1)[0], WORKER)
    assert seen.add_all(100.0, 1, uuids(5, 2), WORKER) and seen.knows(uuids(6, 1)[0], WORKER)
    assert not seen.add_all(1.0, 1, uuids(1020, 10), WORKER), "two pages"
    assert not seen.add_all(1.0, 1, [*uuids(50, 1), *uuids(52, 1)], WORKER), "a gap"
    assert not seen.add_all(1.0, 1, ["a", "b"], WORKER), "of another make"
    assert seen.add_all(1.0, 1, uuids(2048, 1024), WORKER)


def test_inbox_takes_a_run_at_once_or_leaves_it_alone() -> None:
    frames = [Frame(f"tn1-{1:016x}-1-{n:x}-{0:016x}", True, WORKER, MGR, b"x") for n in range(1, 5)]
    mgr = Router(at("Mgr"), upstream=False, config=RouterConfig(inbox=3))
    mgr.register(0.0, WORKER)
    mgr.link_up(0.0, 1, "down", (), NUMBERED)
    first = mgr.messages_arrived(1.0, 1, frames[:2], [1, 2], [1.0] * 2)
    assert (first.deliveries, first.writes[1].accepted) == (frames[:2], [1, 2])
    assert mgr.statistics.delivered == 2
    more = mgr.messages_arrived(1.0, 1, frames[2:], [3, 4], [1.0] * 2)
    assert (more.deliveries, more.writes[1].accepted) == (frames[2:3], [3])
    assert mgr.statistics.delivered == 3


def test_sessions_are_named_in_a_record() -> None:
    lines: list[str] = []
    router = Router(at("Mgr"), upstream=False)
    EventRecorder(router, RouterConfig(), lines.append, 1_000_000)
    router.register(0.0, WORKER)
    one, other = object(), object()
    router.link_up(0.0, 1, one)
    router.link_up(1.0, 1, other, iter(()))
    router.announced(1.0, 1, Kind.ADD, [WORKER], 1, "a")
    router.link_down(2.0, 1, other)
    assert replay(lines) == []


def hoard(router: Router, link: int, count: int) -> Ready:
    """A neighbour sends messages, and takes no answer."""
    frames = [Frame(f"u{number}", True, at("Mgr"), Destination.of(at("Worker/9/9")), b"x") for number in range(count)]
    return router.messages_arrived(1.0, link, frames, range(1, count + 1), [1.0] * count)


def ended(ready: Ready) -> list[object]:
    """The streams that are ended for a violation, each of which is reported."""
    ends = [notice for notice in ready.notices if isinstance(notice, EndStream)]
    assert all(end.reason is Reason.VIOLATION for end in ends)
    assert len(ends) == sum(isinstance(notice, ReportViolation) for notice in ready.notices if "take" in str(notice))
    return [end.session for end in ends]


def test_neighbour_that_takes_no_answers_is_ended_beyond_its_bound() -> None:
    """Either neighbour; and nothing happens below the bound, nor when the answers leave meanwhile."""
    config = RouterConfig(limits=Limits(child_messages=10))
    bound = 10 + ANSWERS_UNTAKEN
    for link in (0, 1):
        router = Router(at("Proxy/0"), upstream=True, config=config)
        router.upstream_up(0.0, "up", at("Mgr"), 1, True, None, True, NUMBERED)
        router.register(0.0, WORKER)
        router.link_up(0.0, 1, "down", (), NUMBERED)
        session = ("up", "down")[link]
        assert ended(hoard(router, link, bound)) == []
        router.written(link, session, 0, 0, 1)
        assert ended(hoard(router, link, 1)) == []
        assert ended(hoard(router, link, 1)) == [session]
        check(router)


def test_hoarder_that_is_gone_is_not_ended_again() -> None:
    router = proxy()
    router.link_down(0.0, 1, "down")
    assert ended(hoard(router, 1, Limits().child_messages + ANSWERS_UNTAKEN + 1)) == []


def test_largest_hoarder_is_ended_where_all_together_are_beyond_their_bound() -> None:
    router = Router(at("Mgr"), upstream=False, config=RouterConfig(limits=Limits(total_messages=100)))
    for link, name in ((1, "Worker/0/0"), (2, "Worker/0/1"), (3, "Worker/0/2")):
        router.register(0.0, at(name))
        router.link_up(0.0, link, name, (), NUMBERED)
    assert ended(hoard(router, 1, 150)) == ended(hoard(router, 2, 40)) == ended(hoard(router, 3, 10)) == []
    assert ended(hoard(router, 3, 1)) == ["Worker/0/0"]
    router.link_down(1.0, 1, "Worker/0/0")
    assert ended(hoard(router, 3, 1)) == []
    check(router)


def test_stream_after_one_that_has_broken_the_bounds_is_held() -> None:
    """Whichever bound it was, on either link; not where the next stream stands already."""
    violation = Violation(Code.NET_ERR, "more than a link takes")
    for link_id, session in ((0, "up"), (1, "down")):
        router = proxy()
        link = router.children.by_id.get(link_id) or router.upstream
        assert link is not None and link.stream_pause(5.0) == 0.0
        assert ended(router.bounds_broken(5.0, link_id, "replaced", violation)) == ["replaced"]
        assert link.stream_pause(5.0) == 0.0
        assert ended(router.bounds_broken(5.0, link_id, session, violation)) == [session]
        assert link.stream_pause(5.0) == VIOLATION_PAUSE_S
        assert link.stream_pause(5.0 + VIOLATION_PAUSE_S) == 0.0
        assert router.statistics.violations == 2
    hoarder = proxy()
    hoard(hoarder, 1, Limits().child_messages + ANSWERS_UNTAKEN + 1)
    assert hoarder.children.by_id[1].stream_pause(1.0) == VIOLATION_PAUSE_S


def test_stream_of_a_forgotten_child_breaks_no_bounds() -> None:
    router = proxy()
    assert not router.bounds_broken(0.0, 7, "gone", Violation(Code.NET_ERR, "x"))


def test_announcement_that_nobody_awaits_waits_for_no_parent() -> None:
    router = Router(at("Proxy/0"), upstream=True)
    router.register(0.0, WORKER)
    router.announced(0.0, 1, Kind.ADD, [WORKER], 7, "u", 86_400.0)
    assert router.children.by_id[1].announcing == 1
    assert [(token, ack.code) for token, ack in router.cancel(7).completed] == [(7, Code.CLIENT_ERR)]
    assert router.children.by_id[1].announcing == 0
    assert not router.cancel(7).completed
    check(router)


def test_probe_that_nobody_awaits_is_not_in_flight() -> None:
    router = proxy(down=NUMBERED._replace(probes=1))
    probe = Probe("u", True, at("Proxy/0"), Destination.of(WORKER), b"", None)
    router.probe(0.0, probe, 7, 86_400.0)
    link = router.children.by_id[1]
    assert link.in_flight.count == 1
    ready = router.cancel(7)
    assert [token for token, _ in ready.completed] == [7]
    assert (link.in_flight.count, router.next_deadline() <= 86_400.0) == (0, True)
    check(router)
