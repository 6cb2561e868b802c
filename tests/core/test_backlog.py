"""The pool of all queues: bytes that each sender may have in it, and what goes back."""

from __future__ import annotations

import tracemalloc
from collections import Counter

import pytest

from taskd_net.base.codes import Code
from taskd_net.base.limits import MESSAGE_BYTES
from taskd_net.base.peer_limits import Limits
from taskd_net.base.position import Destination
from taskd_net.core.backlog import LINK_GRANT_BYTES, Backlog
from taskd_net.core.forwarding import BRANCH_BYTES, FEW_BRANCHES
from taskd_net.core.frame import Probe
from taskd_net.core.links import LINK_FREE_BYTES, UP, Link
from taskd_net.core.router import RouterConfig
from taskd_net.core.topology import LOCAL
from tests.core.driven import Asked, Driven, Forward
from tests.core.routers import Caller, add_child, answered, at, frame, join

UNIT = LINK_GRANT_BYTES


def link(number: int = 1) -> Link:
    """A link without a queue."""
    return Link(number, at("Worker/0/0"))


def queue(backlog: Backlog, to: Link, sender: int, size: int) -> bool:
    """Queue a message, if the pool has room."""
    granted = to.queued_bytes + size <= to.granted or backlog.grant(to, sender, size)
    to.queued_bytes += size * granted
    return granted


def test_one_sender_has_half_and_two_have_a_third_each() -> None:
    backlog, to = Backlog(12 * UNIT), link()
    while queue(backlog, to, 7, UNIT):
        pass
    assert backlog.of[7] == 6 * UNIT
    while queue(backlog, to, 8, UNIT):
        pass
    assert backlog.of[8] == 3 * UNIT, "and what is left of the first one's is shared when it goes back"
    assert queue(backlog, link(2), 9, UNIT), "there is room for the next one"


def test_application_may_have_all() -> None:
    backlog, to = Backlog(4 * UNIT), link()
    while queue(backlog, to, LOCAL, UNIT):
        pass
    assert backlog.size == 4 * UNIT
    assert not queue(backlog, link(2), 7, LINK_FREE_BYTES + 1)
    assert queue(backlog, link(2), 7, LINK_FREE_BYTES), "each link has some bytes of its own"


def test_link_takes_a_unit_at_least_where_there_is_one() -> None:
    backlog, one, two = Backlog(2 * UNIT), link(1), link(2)
    assert queue(backlog, one, 7, LINK_FREE_BYTES + 1)
    assert backlog.size == UNIT
    assert queue(backlog, two, 8, LINK_FREE_BYTES + 1)
    assert backlog.size == UNIT + UNIT // 2, "no more than its share"


def test_shorter_queue_gives_back_what_it_took_first() -> None:
    backlog, to = Backlog(100 * UNIT), link()
    for sender in (7, 8, 7):
        assert queue(backlog, to, sender, 2 * UNIT)
    to.queued_bytes -= UNIT
    backlog.give_back(to)
    assert (backlog.of[7], backlog.of[8]) == (4 * UNIT - LINK_FREE_BYTES, 2 * UNIT)
    to.queued_bytes -= UNIT
    backlog.give_back(to)
    assert (backlog.of[7], backlog.of[8]) == (2 * UNIT, 2 * UNIT)
    to.queued_bytes = 0
    backlog.give_back(to)
    assert (backlog.size, dict(backlog.of), to.granted) == (0, {}, LINK_FREE_BYTES)


def small(position: str) -> Driven:
    """A node whose links may have two of the largest messages in all."""
    config = RouterConfig(limits=Limits(total_bytes=4 * MESSAGE_BYTES))
    return Driven(at(position), upstream=position != "Mgr", config=config)


def test_message_beyond_the_pool_is_refused_on_its_link_alone() -> None:
    node = small("Mgr")
    sender = add_child(node, "Proxy/0")
    for rank in range(3):
        add_child(node, f"Worker/1/{rank}")
    size, to = MESSAGE_BYTES - 1, Caller()
    actions = node.frame_arrived(0.0, sender.id, frame("Worker/1/All", "Proxy/0", size=size), to)
    assert len([action for action in actions if isinstance(action, Forward)]) == 1
    # A message of another sender still fits, because it is small.
    other = add_child(node, "Proxy/1")
    assert len(node.frame_arrived(0.0, other.id, frame("Worker/1/2", "Proxy/1", uuid="v"), to)) == 1
    refused = node.frame_arrived(0.0, sender.id, frame("Worker/1/2", "Proxy/0", uuid="w", size=size), to)
    assert answered(refused) == [Code.RECV_BUF_BUSY]
    # The application's own may use all.
    assert len(node.send(0.0, frame("Worker/1/1", uuid="x", size=size), to, 1.0)) == 1
    assert answered(node.send(0.0, frame("Worker/1/2", uuid="y", size=size), to, 1.0)) == [Code.RECV_BUF_BUSY]
    for number in (2, 3):
        written = node.children.by_id[number]
        if written.queued_messages:
            node.written(written.id, written.session, 1, size)
    assert len(node.send(0.0, frame("Worker/1/2", uuid="z", size=size), to, 1.0)) == 1


def test_messages_from_above_are_the_parents() -> None:
    node = small("Proxy/0")
    join(node)
    child = add_child(node, "Worker/0/0")
    node.frame_arrived(0.0, UP, frame("Worker/0/0", "Mgr", size=MESSAGE_BYTES // 2), Caller())
    assert list(node._forwarding.backlog.of) == [UP]
    node.link_down(0.0, child, "Worker/0/0", [])
    assert not node._forwarding.backlog.of


def test_last_bytes_of_the_pool_are_taken() -> None:
    backlog, to = Backlog(UNIT), link()
    assert queue(backlog, to, LOCAL, LINK_FREE_BYTES + UNIT)
    assert backlog.size == UNIT


CHILDREN = 32


def broad() -> tuple[Driven, Link]:
    """A Mgr with a sender, and more children than `FEW_BRANCHES`."""
    config = RouterConfig(limits=Limits(total_bytes=4 * MESSAGE_BYTES))
    node = Driven(at("Mgr"), upstream=False, config=config, checked=False)
    for rank in range(CHILDREN):
        add_child(node, f"Worker/1/{rank}")
    return node, add_child(node, "Proxy/0")


@pytest.mark.parametrize("end", ["answers", "deadline", "streams"])
def test_broadcast_takes_bytes_for_each_link_until_its_last_answer(end: str) -> None:
    node, sender = broad()
    sent = node.frame_arrived(0.0, sender.id, frame("Worker/1/All", "Proxy/0"), Caller())
    pool = node._forwarding.backlog
    assert (pool.size, dict(pool.of)) == (CHILDREN * BRANCH_BYTES, {sender.id: CHILDREN * BRANCH_BYTES})
    *first, last = [action for action in sent if isinstance(action, Forward)]
    for each in first:
        node.accepted(0.0, each.link, [each.number or "u"])
    assert pool.size == CHILDREN * BRANCH_BYTES, "one node has not answered"
    if end == "answers":
        outcome = node.accepted(0.0, last.link, [last.number or "u"])
    elif end == "deadline":
        outcome = node.tick(60.0)
    else:
        link = node.children.by_id[last.link]
        outcome = node.link_down(0.0, link, link.session, [])
    assert len(answered(outcome)) == 1
    assert (pool.size, dict(pool.of)) == (0, {})
    node.check()


def test_cancelled_broadcast_gives_its_bytes_back() -> None:
    node, _ = broad()
    asked = Asked(frame("Worker/1/All"), Caller(), 1.0)
    sent = [action for action in node.submit(0.0, asked) if isinstance(action, Forward)]
    pool = node._forwarding.backlog
    assert (len(sent), dict(pool.of)) == (CHILDREN, {LOCAL: CHILDREN * BRANCH_BYTES})
    node.accepted(0.0, sent[0].link, [sent[0].number or "u"])
    node.cancel(asked)
    assert (pool.size, dict(pool.of)) == (0, {})
    for late in sent[1:]:
        node.accepted(0.0, late.link, [late.number or "u"])
    assert pool.size == 0
    node.check()


@pytest.mark.parametrize("asks", ["message", "probe"])
def test_broadcast_beyond_the_senders_share_is_refused_whole(asks: str) -> None:
    node, sender = broad()
    sender.probes = 1
    pool, share = node._forwarding.backlog, MESSAGE_BYTES
    assert pool.reserve(sender.id, share), "half of the pool"
    to = Destination.of(at("Worker/1/All"))
    asked = frame("Worker/1/All", "Proxy/0") if asks == "message" else Probe("p", True, at("Proxy/0"), to, b"", None)
    assert answered(node.frame_arrived(0.0, sender.id, asked, Caller())) == [Code.RECV_BUF_BUSY]
    other = add_child(node, "Proxy/1")
    assert len(node.frame_arrived(0.0, other.id, frame("Worker/1/All", "Proxy/1"), Caller())) == CHILDREN, "has its own"
    pool.release(sender.id, share)
    assert len(node.frame_arrived(0.0, sender.id, frame("Worker/1/All", "Proxy/0", uuid="v"), Caller())) == CHILDREN


def test_own_broadcast_is_refused_where_the_pool_is_used_up() -> None:
    node, _ = broad()
    assert node._forwarding.backlog.reserve(LOCAL, 2 * MESSAGE_BYTES)
    assert answered(node.send(0.0, frame("Worker/1/All"), Caller(), 1.0)) == [Code.RECV_BUF_BUSY]
    ranks = ",".join(str(rank) for rank in range(FEW_BRANCHES))
    assert len(node.send(0.0, frame(f"Worker/1/{ranks}", uuid="v"), Caller(), 1.0)) == FEW_BRANCHES, "few need none"


def test_bytes_of_broadcasts_are_no_less_than_what_they_take() -> None:
    """One sender, and children that read everything and answer nothing."""
    node, sender = broad()
    pool, codes = node._forwarding.backlog, Counter[int]()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for number in range(1500):
        ready = node.core.messages_arrived(
            0.0, sender.id, [frame("Worker/1/All", "Proxy/0", uuid=f"{number:036}")], [number], [3.0]
        )
        for link, writes in ready.writes.items():
            if link != sender.id:
                name = node.children.by_id[link].session
                node.core.written(link, name, len(writes.frames), sum(len(each.data) for each in writes.frames))
            codes.update(each.ack.code for each in writes.answers)
        del ready
    took = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert codes[Code.RECV_BUF_BUSY] > 0
    assert took <= pool.size <= MESSAGE_BYTES
