"""Batches: a run of one flow is decided at once, and as its messages would be one by one."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.peer_limits import Limits
from taskd_net.base.position import Destination, Position
from taskd_net.core.acks import Answer
from taskd_net.core.frame import Frame
from taskd_net.core.links import UP, Terms
from taskd_net.core.ready import Kind, Ready
from taskd_net.core.router import Router, RouterConfig
from taskd_net.core.uuids import Uuids
from tests.core.invariants import check
from tests.core.routers import at, everybody

SOURCES = everybody("Worker/0/0", "Proxy/1", "Worker/1/0", "Worker/7/7")
DESTINATIONS = [Destination.of(at(to)) for to in ("Proxy/0", "Mgr", "Worker/0/1", "Worker/5/5", "Worker/All/All")]
TERMS = [Terms(numbered=True, bare=True, counts=True), Terms(bare=True), Terms()]
BUDGETS = [0.5, 3.0, None]
NOWHERE = 99
"""The link of a child that was forgotten."""

RUN = st.tuples(
    st.integers(0, len(SOURCES) - 1),
    st.integers(0, len(DESTINATIONS) - 1),
    st.booleans() | st.just(True),
    st.booleans() | st.just(True),
    st.integers(0, len(BUDGETS) - 1),
    st.integers(0, 6),
)
"""Sender, destination, sync, whether the answer is awaited, the budget, and how many such messages."""


class Pair:
    """Two Proxies in one state: one gets whole batches, the other one message after the other."""

    def __init__(self, terms: tuple[Terms, Terms], config: RouterConfig, joined: bool) -> None:
        self.whole, self.single = (self._proxy(terms, config, joined) for _ in range(2))
        self.written = 0

    @staticmethod
    def _proxy(terms: tuple[Terms, Terms], config: RouterConfig, joined: bool) -> Router:
        proxy = Router(at("Proxy/0"), upstream=True, config=config)
        for child, behind in (("Worker/0/0", []), ("Worker/0/1", []), ("Proxy/1", ["Worker/1/0"])):
            link = proxy.register(0.0, at(child)).link
            assert link is not None
            proxy.link_up(0.0, link, child, (), terms[0])
            if behind:
                proxy.announced(0.0, link, Kind.ADD, everybody(*behind), 1, "a")
        if joined:
            proxy.upstream_up(0.0, "up", at("Mgr"), 1, True, None, True, terms[1])
        return proxy

    def check(self, whole: Ready, single: list[Ready]) -> None:
        """Assert that both have decided the same, and are in the same state."""
        assert outcome([whole]) == outcome(single)
        assert self.whole.statistics == self.single.statistics
        assert self.whole.next_deadline() == self.single.next_deadline()
        for router in (self.whole, self.single):
            check(router)
        for one, other in zip(self.whole._topology.links(), self.single._topology.links(), strict=True):
            assert (one.queued_messages, one.queued_bytes, one.in_flight.count, one.waiting, one.waiting_bytes) == (
                other.queued_messages,
                other.queued_bytes,
                other.in_flight.count,
                other.waiting,
                other.waiting_bytes,
            )
            assert [part.uuid for part in one.in_flight] == [part.uuid for part in other.in_flight]
            assert one.counters.received == other.counters.received

    def arrive(self, now: float, link: int, frames: list[Frame], keys: list[Any], budgets: list[Any]) -> Ready:
        """A batch comes in."""
        whole = self.whole.messages_arrived(now, link, frames, keys, budgets)
        each = zip(frames, keys, budgets, strict=True)
        single = [self.single.messages_arrived(now, link, [f], [k], [b]) for f, k, b in each]
        self.check(whole, single)
        return whole


def outcome(ready: list[Ready]) -> dict[str, Any]:
    """Everything that was decided, whatever batch it came from."""
    links = sorted({link for one in ready for link in one.writes})
    writes = {link: [one.writes[link] for one in ready if link in one.writes] for link in links}
    return {
        "frames": {
            link: [
                (frame.uuid, round(patience, 9), number)
                for one in known
                for frame, patience, number in zip(one.frames, one.patience, one.numbers, strict=True)
            ]
            for link, known in writes.items()
        },
        "accepted": {link: [key for one in known for key in one.accepted] for link, known in writes.items()},
        "answers": {link: [answer for one in known for answer in one.answers] for link, known in writes.items()},
        "deliveries": [frame.uuid for one in ready for frame in one.deliveries],
        "completed": [answer for one in ready for answer in one.completed],
        "announced": [announce for one in ready for announce in one.announcements],
        "notices": [repr(notice) for one in ready for notice in one.notices],
    }


def messages(
    runs: list[tuple[Any, ...]], resend: int, size: int, last: int | None = None
) -> tuple[list[Frame], list[Any], list[Any]]:
    """The messages of some runs, each run's with consecutive numbers; one of them comes again at the end.

    `size`: bytes of each; `last`: of the last one of each run, where that differs.
    """
    uuids = {src: Uuids(f"{number:016x}", bytes) for number, src in enumerate(SOURCES)}
    frames: list[Frame] = []
    budgets: list[float | None] = []
    awaited: list[bool] = []
    for src, to, sync, wants, budget, count in runs:
        sender, dst = SOURCES[src], DESTINATIONS[to]
        for left in reversed(range(count)):
            data = bytes(size if left or last is None else last)
            frames.append(Frame(uuids[sender].next(dst.position), sync, sender, dst, data))
            budgets.append(BUDGETS[budget])
            awaited.append(wants)
    if frames:
        again = resend % len(frames)
        frames.append(frames[again])
        budgets.append(budgets[again])
        awaited.append(awaited[again])
    return frames, [number if wants else None for number, wants in enumerate(awaited, 1)], budgets


CONFIGS = st.builds(
    RouterConfig,
    inbox=st.sampled_from([0, 3, 100]),
    link_messages=st.sampled_from([4, 1000]),
    link_bytes=st.sampled_from([60, 1_000_000]),
    limits=st.builds(Limits, child_messages=st.sampled_from([5, 1000]), child_bytes=st.sampled_from([9000, 100_000])),
)


@given(
    runs=st.lists(RUN, max_size=6),
    link=st.sampled_from([0, 1, 2, 3, NOWHERE]),
    terms=st.tuples(st.sampled_from(TERMS), st.sampled_from(TERMS)),
    config=CONFIGS,
    joined=st.booleans() | st.just(True),
    resend=st.integers(0, 50),
    sizes=st.sampled_from([(10, 10), (5000, 5000), (5000, 4500), (10, 5000)]),
    answered=st.lists(st.integers(0, 40), max_size=30),
    drained=st.just(False) | st.booleans(),
    silent=st.none() | st.sampled_from([0, 1, 2, 3]),
)
def test_batch_is_decided_as_its_messages_one_by_one(
    runs: list[tuple[Any, ...]],
    link: int,
    terms: tuple[Terms, Terms],
    config: RouterConfig,
    joined: bool,
    resend: int,
    sizes: tuple[int, int],
    answered: list[int],
    drained: bool,
    silent: int | None,
) -> None:
    pair = Pair(terms, config, joined)
    frames, keys, budgets = messages(runs, resend, *sizes)
    if drained:
        pair.check(pair.whole.drain(), [pair.single.drain()])
    if silent is not None:
        for router in (pair.whole, pair.single):
            router.signs_of_life(0.5, silent, _session(router, silent), seen=False)
    ready = pair.arrive(1.0, link, frames, keys, budgets)
    for hop, writes in ready.writes.items():
        numbered = terms[0 if hop else 1].numbered
        sent = zip(writes.frames, writes.numbers, strict=True)
        names = [number or frame.uuid for frame, number in sent if number or not numbered]
        accepted = [names[index] for index in answered if index < len(names)]
        whole = pair.whole.answers_arrived(1.1, hop, accepted)
        pair.check(whole, [pair.single.answers_arrived(1.1, hop, [name]) for name in accepted])
        if names:
            refusal = Answer(names[-1], 5001, at("Worker/0/1"))
            pair.check(
                pair.whole.answers_arrived(1.2, hop, (), [refusal]),
                [pair.single.answers_arrived(1.2, hop, (), [refusal])],
            )
    for later in (1.0 + 0.5, 4.0, 10.0):
        pair.check(pair.whole.tick(later), [pair.single.tick(later)])


@given(runs=st.lists(RUN, max_size=4), answered=st.lists(st.integers(0, 20), max_size=20), up=st.booleans())
def test_broken_stream_ends_a_run_as_its_messages_one_by_one(
    runs: list[tuple[Any, ...]], answered: list[int], up: bool
) -> None:
    pair = Pair((TERMS[0], TERMS[0]), RouterConfig(inbox=100), True)
    frames, keys, budgets = messages(runs, 0, 10)
    ready = pair.arrive(1.0, 1, frames, keys, budgets)
    for hop, writes in ready.writes.items():
        if (hop == 0) is up:
            names = [writes.numbers[index] for index in answered if index < len(writes.numbers)]
            whole = pair.whole.answers_arrived(1.1, hop, names)
            pair.check(whole, [pair.single.answers_arrived(1.1, hop, [name]) for name in names])
            left = list(zip(writes.frames, writes.numbers, strict=True))[len(writes.frames) // 2 :]
            if up:
                ends = [router.upstream_down(1.2, "up", left) for router in (pair.whole, pair.single)]
            else:
                ends = [router.link_down(1.2, hop, _session(router, hop), left) for router in (pair.whole, pair.single)]
            pair.check(ends[0], [ends[1]])
    pair.check(pair.whole.close(2.0), [pair.single.close(2.0)])


def _session(router: Router, link: int) -> object:
    return "up" if link == UP else router.children.by_id[link].session


def test_run_has_one_entry_in_flight_and_is_answered_by_name() -> None:
    pair = Pair((TERMS[0], TERMS[0]), RouterConfig(), True)
    frames, keys, budgets = messages([(0, 1, True, True, 1, 20)], 0, 10)
    ready = pair.whole.messages_arrived(1.0, 1, frames, keys, budgets)
    assert ready.writes[0].numbers == list(range(1, 22))
    up = pair.whole.upstream
    assert up is not None and len(up.in_flight._runs) == 1 and not up.in_flight._by_key
    assert pair.whole.answers_arrived(1.1, 0, [3, 4, 5]).writes[1].accepted == [3, 4, 5]
    assert [len(run) for run in up.in_flight._runs] == [2, 16]
    assert pair.whole.answers_arrived(1.1, 0, [1, 2, 21, 6]).writes[1].accepted == [1, 2, 21, 6]
    assert pair.whole.answers_arrived(1.2, 0, range(7, 21)).writes[1].accepted == list(range(7, 21))
    assert not up.in_flight


def test_large_messages_of_a_run_count_towards_the_quota_until_their_answers() -> None:
    pair = Pair((TERMS[0], TERMS[0]), RouterConfig(limits=Limits(child_bytes=100_000)), True)
    frames, keys, budgets = messages([(0, 1, True, True, 1, 4)], 0, 5000)
    ready = pair.arrive(1.0, 1, frames[:4], keys[:4], budgets[:4])
    up, child = pair.whole.upstream, pair.whole.children.by_id[1]
    assert up is not None and len(up.in_flight._runs) == 1
    assert (child.waiting, child.waiting_bytes) == (4, 20_000)
    pair.check(
        pair.whole.answers_arrived(1.1, 0, ready.writes[0].numbers[:3]),
        [pair.single.answers_arrived(1.1, 0, [number]) for number in ready.writes[0].numbers[:3]],
    )
    assert child.waiting_bytes == 5000
    refusal = Answer(ready.writes[0].numbers[3], 5001, at("Mgr"))
    pair.check(pair.whole.answers_arrived(1.2, 0, (), [refusal]), [pair.single.answers_arrived(1.2, 0, (), [refusal])])
    assert child.waiting_bytes == 0


def test_large_messages_of_several_sizes_are_decided_one_by_one() -> None:
    """So are those that do not fit all together."""
    for sizes in ((5000, 6000), (5000, 10), (60_000, 60_000)):
        pair = Pair((TERMS[0], TERMS[0]), RouterConfig(limits=Limits(child_bytes=100_000)), True)
        frames = [Frame(f"u{size}", True, SOURCES[0], DESTINATIONS[1], bytes(size)) for size in sizes]
        pair.arrive(1.0, 1, frames, [1, 2], [1.0] * 2)
        assert pair.whole.children.by_id[1].waiting == 2


def test_position_of_a_run_may_be_spelt_otherwise() -> None:
    """A sender that is not written as its identity is looked at message by message."""
    pair = Pair((TERMS[0], TERMS[0]), RouterConfig(), True)
    odd = Position("Proxy", "1", "started at noon")
    frames = [Frame(f"u{number}", True, odd, DESTINATIONS[1], b"x") for number in range(3)]
    pair.arrive(1.0, 3, frames, [1, 2, 3], [1.0] * 3)


def test_batch_to_a_silent_child_is_answered_at_once() -> None:
    pair = Pair((TERMS[0], TERMS[0]), RouterConfig(), True)
    for router in (pair.whole, pair.single):
        router.signs_of_life(0.5, 2, _session(router, 2), seen=False)
    frames, keys, budgets = messages([(0, 2, True, True, 1, 3)], 0, 10)
    ready = pair.arrive(1.0, 1, frames[:3], keys[:3], budgets[:3])
    assert [answer.ack.code for answer in ready.writes[1].answers] == [6001] * 3
    assert 2 not in ready.writes


def test_run_from_above_to_nobody_is_refused_message_by_message() -> None:
    pair = Pair((TERMS[0], TERMS[0]), RouterConfig(), True)
    frames, keys, budgets = messages([(3, 3, True, True, 1, 3)], 0, 10)
    ready = pair.arrive(1.0, UP, frames[:3], keys[:3], budgets[:3])
    assert [answer.ack.code for answer in ready.writes[UP].answers] == [5002] * 3


def test_messages_of_4096_bytes_are_large() -> None:
    pair = Pair((TERMS[0], TERMS[0]), RouterConfig(limits=Limits(child_bytes=100_000)), True)
    frames, keys, budgets = messages([(0, 1, True, True, 1, 4)], 0, 4096)
    pair.arrive(1.0, 1, frames[:4], keys[:4], budgets[:4])
    assert pair.whole.children.by_id[1].waiting_bytes == 4 * 4096
