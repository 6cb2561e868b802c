"""Any order of two Managers, of leases that end, and of answers late or twice: of the double, and of the real etcd."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from itertools import count, product
from pathlib import Path
from typing import Final

import pytest
from hypothesis import HealthCheck, example, given, settings

from taskd_net.job.keep import leader
from taskd_net.job.keep.client import Etcd, EtcdClient, EtcdError
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import created, holds, written
from taskd_net.net.wire import etcd_pb2 as wire
from tests.etcd.double import OPERATIONS, REQUEST_BYTES, Double
from tests.etcd.plays import STEPS, Play, Step
from tests.etcd.server import ETCD, WHY_NOT, etcd_server

PREFIXES: Final = count()

OK: Final = ("ok",) * 20
REPLACED: Final[list[Step]] = [("run", 0, OK), ("end", 0, OK), ("run", 1, OK), ("run", 0, OK)]
"""The lease of the first Manager ends, and the second one decides before the first one knows."""

SLOW: Final[list[Step]] = [("run", 0, ("slow",)), *REPLACED[1:]]
"""The same, where the answer to a commit of the first Manager comes after that."""


class OverDouble:
    """The double, whose clock is that of the Managers."""

    by_time = True

    def __init__(self) -> None:
        self.etcd = Double()

    async def end(self, lease: int) -> None:
        """Let so much time pass that every lease ends."""
        self.etcd.now += EtcdLimits().lease_s + 1.0


class OverEtcd:
    """A real etcd. A lease is ended there, and its holder's clock tells nothing."""

    by_time = False

    def __init__(self, etcd: EtcdClient) -> None:
        self.etcd = etcd

    async def end(self, lease: int) -> None:
        """End a lease; it may have ended already."""
        renewed = await self.etcd.keep_alive(wire.LeaseKeepAliveRequest(ID=lease))
        if renewed.TTL:
            await self.etcd.revoke(wire.LeaseRevokeRequest(ID=lease))


@given(STEPS)
@example(REPLACED)
@example(SLOW)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_one_history_whatever_happens(steps: list[Step]) -> None:
    played(steps)


@pytest.mark.parametrize("done", range(6))
def test_takeover_at_each_point_of_a_commit(done: int) -> None:
    """The first Manager goes on with its commit after each request of the one that takes over, and reads the state.

    Args:
        done: transactions of the commit before the takeover.
    """
    for taken, requests in product(range(4, 12), (0, 1, 2, 3, 6)):
        begun: list[Step] = [("run", 0, OK[:done]), ("end", 0, OK), ("run", 1, OK[:taken])]
        played([*begun, ("run", 0, OK[:requests]), ("run", 1, OK)])


# `make etcd` has all; the places that are left out here are between two others.
@pytest.mark.parametrize(
    "requests", [pytest.param(number, marks=[pytest.mark.more] if number % 3 else []) for number in range(7)]
)
@pytest.mark.parametrize("answer", ["late", "slow", "lost", "twice", "away"])
def test_each_request_of_a_commit_without_an_answer_in_time(answer: str, requests: int) -> None:
    """The request arrives again, or its answer does, after each number of further requests, and beside a takeover."""
    for more in range(14):
        begun: list[Step] = [("run", 0, (*OK[:requests], answer, *OK[:more])), ("late", 0, OK)]
        played(begun)
        played([*begun, ("end", 0, OK), ("run", 1, OK), ("run", 0, OK)])


def played(steps: list[Step]) -> None:
    """A play with the double, whose clock is that of the Managers."""
    ground = OverDouble()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leader, "clock", lambda: ground.etcd.now)
        asyncio.run(Play(ground, place("127.0.0.1:1")).run(steps))


@pytest.mark.skipif(ETCD is None, reason=WHY_NOT)
def test_one_history_with_the_real_etcd(tmp_path: Path) -> None:
    """All examples share one loop, one etcd, and a client of it."""
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        member = runner.run(stack.enter_async_context(etcd_server(tmp_path)))
        client = EtcdClient(place(member.address))
        stack.push_async_callback(client.close)

        @given(STEPS)
        @example(REPLACED)
        @example(SLOW)
        @settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
        def play(steps: list[Step]) -> None:
            runner.run(Play(OverEtcd(client), place(member.address)).run(steps))

        try:
            play()
        finally:
            runner.run(stack.aclose())


@pytest.mark.skipif(ETCD is None, reason=WHY_NOT)
async def test_real_etcd_and_the_double_answer_alike(tmp_path: Path) -> None:
    """Transactions, versions and revisions after the end of a lease."""
    async with etcd_server(tmp_path) as real:
        client = EtcdClient(place(real.address))
        try:
            assert [each async for each in answers(client)] == [each async for each in answers(Double())]
        finally:
            await client.close()


async def answers(etcd: Etcd) -> AsyncIterator[object]:
    """The answers of an etcd without keys, as far as they are used."""
    granted = await etcd.grant(wire.LeaseGrantRequest(TTL=5))
    bound = put("leader", "a", granted.ID)
    for request in (
        wire.TxnRequest(compare=[created(b"leader", 0)], success=[bound, put("b", "1")], failure=[read("leader")]),
        wire.TxnRequest(compare=[created(b"leader", 0)], success=[bound], failure=[read("leader"), read("b")]),
        wire.TxnRequest(compare=[holds(b"b", "1"), written(b"b", 2)], success=[put("b", "2"), put("c", "3")]),
        wire.TxnRequest(compare=[holds(b"d", "1")], success=[put("d", "2")], failure=[read("d")]),
        wire.TxnRequest(compare=[holds(b"d", "")], success=[put("d", ""), read("b", "e")]),
        wire.TxnRequest(success=[put("d", "1"), put("d", "2")]),
        wire.TxnRequest(success=[put(f"many/{number}", "") for number in range(OPERATIONS + 1)]),
        wire.TxnRequest(success=[put("large", "x" * REQUEST_BYTES)]),
        wire.TxnRequest(success=[wire.RequestOp(request_delete_range=wire.DeleteRangeRequest(key=b"c"))]),
    ):
        yield await carried_out(etcd, request)
    yield (await etcd.keep_alive(wire.LeaseKeepAliveRequest(ID=granted.ID))).TTL
    await etcd.revoke(wire.LeaseRevokeRequest(ID=granted.ID))
    yield (await etcd.keep_alive(wire.LeaseKeepAliveRequest(ID=granted.ID))).TTL
    yield await carried_out(etcd, wire.TxnRequest(compare=[created(b"leader", 0)], success=[bound]))
    found = await etcd.range(wire.RangeRequest(key=b"a", range_end=b"z", limit=1))
    yield found.more, found.header.revision, [seen(each) for each in found.kvs]
    yield [seen(each) for each in (await etcd.range(wire.RangeRequest(key=b"a", range_end=b"z"))).kvs]


async def carried_out(etcd: Etcd, request: wire.TxnRequest) -> object:
    """The answer to a transaction, or the kind of its refusal."""
    try:
        answer = await etcd.txn(request)
    except EtcdError as error:
        return type(error)
    read = [[seen(each) for each in one.response_range.kvs] for one in answer.responses]
    return answer.succeeded, answer.header.revision, read


def seen(found: wire.KeyValue) -> tuple[bytes, bytes, int, int, int, bool]:
    """A key as etcd gives it."""
    return found.key, found.value, found.create_revision, found.mod_revision, found.version, bool(found.lease)


def put(key: str, value: str, lease: int = 0) -> wire.RequestOp:
    """The operation that writes a key."""
    return wire.RequestOp(request_put=wire.PutRequest(key=key.encode(), value=value.encode(), lease=lease))


def read(key: str, end: str = "") -> wire.RequestOp:
    """The operation that reads a key, or a range of keys."""
    return wire.RequestOp(request_range=wire.RangeRequest(key=key.encode(), range_end=end.encode()))


def place(member: str) -> Place:
    """A prefix of a play's own."""
    return Place.parse(f"etcd://{member}/play/{next(PREFIXES)}")
