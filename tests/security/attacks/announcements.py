"""Announcements of far more positions than any node has below it, again and again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import partial
from itertools import count, cycle
from typing import Final, TypeAlias

import grpc.aio

from taskd_net import Position
from taskd_net.base.codes import Code
from taskd_net.net.links import batched, tasknet
from taskd_net.net.links import peer as peers
from taskd_net.net.links.direct import NAME
from taskd_net.net.wire.requests import write_announcement
from tests.peers.direct_child import DirectChild
from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import Attack, Strikes
from tests.security.attacks.batches import BATCH
from tests.security.bystander.stand import Stand

AT_ONCE: Final = 4
"""Calls under way. gRPC holds the bytes of each up to three times, before the node sees them."""
PATH: Final = 131_000
"""Positions in each: almost `path_length`."""
SNAPSHOT: Final = 30_000
"""Nodes that one life of a Proxy has below it."""

_Requests: TypeAlias = Callable[[], Iterator[bytes]]
_PLACE: Final = "Proxy/80"
_COMPLETE: Final = ((peers.ROUTES_KEY, "complete"),)
_WITHDRAW: Final = ((peers.ROUTES_KEY, "withdraw"),)


def _announcement(nodes: range) -> bytes:
    return write_announcement("a", Position.parse(_PLACE), (Position.worker(80, rank) for rank in nodes))


def ever_new() -> Iterator[bytes]:
    """Nodes that nobody has announced, each time."""
    return (_announcement(range(first, first + PATH)) for first in count(1_000_000, PATH))


def the_same(nodes: int) -> Iterator[bytes]:
    """The same nodes, which are routed after the first time."""
    return cycle([_announcement(range(nodes))])


def empty() -> Iterator[bytes]:
    """Millions of positions in some bytes each."""
    return cycle([_announcement(range(1)) + b"\x1a\x00" * (BATCH // 2)])


def announces(
    requests: _Requests,
    codes: set[int],
    kind: str = tasknet.NAME,
    *,
    metadata: peers.Metadata = (),
    at_once: int = AT_ONCE,
    joins: bool = True,
) -> Strikes:
    """A peer announces. A strike is a call that is answered, with some under way."""
    # A peer with the four calls alone does not say what it is.
    without = frozenset() if kind != tasknet.NAME else frozenset(key for key, _ in peers.own_metadata())

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        async with DirectChild(_PLACE) if kind == NAME else LinkChild(_PLACE, kind, without=without) as child:
            if joins:
                await child.join(stand.address)
            else:
                child.connect(stand.address)
            made = requests()
            yield
            calls: set[asyncio.Task[int]] = set()
            try:
                while True:
                    while len(calls) < at_once:
                        calls.add(asyncio.create_task(_call(child, next(made), metadata)))
                    answered, calls = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
                    found = {call.result() for call in answered}
                    assert found <= codes, found
                    yield
            finally:
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)

    return strikes


async def _call(child: LinkChild, data: bytes, metadata: peers.Metadata) -> int:
    try:
        return int((await child.call("PathDiscovery", data, metadata)).code)
    except grpc.aio.AioRpcError as error:
        if error.code() is not grpc.StatusCode.DEADLINE_EXCEEDED:
            raise
        return Code.RECV_BUF_BUSY  # it waited for its turn for a minute


async def _lives(stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike is a life of a Proxy: it registers, and announces other nodes than in the life before."""
    register = pb.RegisterReq(uuid="r", pos=position(_PLACE)).SerializeToString()
    snapshots = [_announcement(range(first, first + SNAPSHOT)) for first in (0, SNAPSHOT)]
    async with LinkChild(_PLACE, batched.NAME) as child:
        await child.join(stand.address)
        yield
        for snapshot in cycle(snapshots):
            assert (await child.call("Register", register, peers.own_metadata())).code == 0
            assert await _call(child, snapshot, _COMPLETE) in (0, Code.RECV_BUF_BUSY)
            yield


_KNOWN: Final = {0, int(Code.RECV_BUF_BUSY)}
_TOO_MANY: Final = {int(Code.EXCEED_MAX_REGISTRY_NUM), int(Code.RECV_BUF_BUSY)}
_PACED: Final = "16,384 a second are taken in, further ones wait; 5001 beyond the child's bytes"

ATTACKS: Final[Mapping[str, Attack]] = {
    "announcements": Attack(
        f"{AT_ONCE} announcements at once of {PATH:,} positions, ever new ones, over the four calls",
        "5003 beyond 65,536 nodes; " + _PACED,
        announces(ever_new, _TOO_MANY),
    ),
    "announcements-repeated": Attack(
        f"{AT_ONCE} announcements at once of the same 60,000 nodes, over the four calls",
        _PACED,
        announces(partial(the_same, 60_000), _KNOWN),
    ),
    "announcements-batched": Attack(
        "the same by a node of ours, each as a snapshot",
        _PACED,
        announces(partial(the_same, 60_000), _KNOWN, batched.NAME, metadata=_COMPLETE),
    ),
    "direct-announcements": Attack(
        "the same over a direct link",
        _PACED,
        announces(partial(the_same, 60_000), _KNOWN, NAME, metadata=_COMPLETE),
    ),
    "announcements-of-other-nodes": Attack(
        f"snapshots of {SNAPSHOT:,} nodes, other ones in each life", _PACED + "; old routes go by slices", _lives
    ),
    "withdrawals": Attack(
        f"{AT_ONCE} withdrawals at once of 60,000 nodes that nobody has announced",
        _PACED,
        announces(partial(the_same, 60_000), _KNOWN, batched.NAME, metadata=_WITHDRAW),
    ),
    "announcements-of-a-stranger": Attack(
        f"{AT_ONCE} announcements at once of {PATH:,} positions, by a peer that has not registered",
        "4999, unread",
        announces(partial(the_same, PATH), {int(Code.CLIENT_ERR)}, joins=False),
    ),
    "empty-positions": Attack(
        "announcements with 9 MiB of empty positions",
        "4003",
        announces(empty, {int(Code.DST_ROLE_ILLEGAL)}, at_once=1),
    ),
}
