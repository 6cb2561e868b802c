"""Connections to the parent: registering, and the first offered kind of link that can be reached."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import grpc
import pytest

from taskd_net import Position
from taskd_net.base.address import Address
from taskd_net.net.joining.connecting import Connector, Stay
from taskd_net.net.links import peer as peers
from taskd_net.net.links.kind import Failed, LinkKind, Opened, Unreachable, Way
from tests.links import memory
from tests.links.pipes import FakeNode
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, soon
from tests.peers.parent import RawParent

PARENT = peers.of_parent(dict(peers.parent_metadata(0, ())))


class FakeKind(LinkKind):
    """A kind that opens what the test says, and counts how often."""

    name, probed = "fake", 9

    def __init__(self, outcome: Opened | Failed, *, offers: bool = True) -> None:
        self.ways: list[Way] = []
        self._outcome = outcome
        self._offers = offers

    def offered(self, peer: peers.Peer) -> bool:
        """As the test says."""
        return self._offers

    async def open(self, way: Way) -> Opened:
        """Open it, or fail."""
        self.ways.append(way)
        if isinstance(self._outcome, Failed):
            raise self._outcome
        return self._outcome


def opened() -> Opened:
    """A link of which nothing is used."""
    return Opened(cast(Any, SimpleNamespace()), cast(Any, object()))


async def connect(*kinds: LinkKind, continues: bool = False) -> Any:
    """Open a link with the first kind that works; gRPC is never asked."""
    connector = Connector(FakeNode("Worker/0/0"), Address("127.0.0.1", 1), 3.0, None, kinds, lambda: "", service=False)
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        return await connector.open(channel, None, Position.mgr(), PARENT, continues=continues)


async def test_first_kind_that_is_offered_is_opened() -> None:
    other, first, second = FakeKind(opened(), offers=False), FakeKind(link := opened()), FakeKind(opened())
    connection = await connect(other, first, second, continues=True)
    assert connection.opened is link
    assert [len(kind.ways) for kind in (other, first, second)] == [0, 1, 0]
    (way,) = first.ways
    assert (way.parent, way.peer, way.ack_timeout, way.continues) == (Position.mgr(), PARENT, 3.0, True)


async def test_kind_that_cannot_be_reached_leaves_it_to_the_next() -> None:
    blocked, plain = FakeKind(Unreachable("no such port")), FakeKind(link := opened())
    assert (await connect(blocked, plain)).opened is link
    assert len(blocked.ways) == len(plain.ways) == 1


async def test_last_kind_that_cannot_be_reached_is_the_reason() -> None:
    with pytest.raises(Unreachable, match="no such port"):
        await connect(FakeKind(Unreachable("nor such a host")), FakeKind(Unreachable("no such port")))


async def test_parent_that_refuses_a_link_is_asked_for_no_other_kind() -> None:
    plain = FakeKind(opened())
    with pytest.raises(Failed, match="registry is full"):
        await connect(FakeKind(Failed("the registry is full")), plain)
    assert plain.ways == []


async def test_parent_that_offers_nothing() -> None:
    with pytest.raises(Failed, match="no kind of link that this node uses"):
        await connect(FakeKind(opened(), offers=False))


@pytest.mark.parametrize("mesh", ["memory"], indirect=True)
async def test_node_joins_over_the_next_kind_where_the_offered_one_is_not_there(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a child of another process, which cannot present the token that it is offered."""
    mgr = await mesh.mgr()
    near = await mesh.worker(0, 0, mgr)
    monkeypatch.setattr(memory.MemoryAcceptor, "offer", lambda *_: ((memory.KEY, "of another process"),))
    far = await mesh.worker(0, 1, mgr)
    assert mesh.count("joined", node=near.position, link="memory") == 1
    assert mesh.count("joined", node=far.position, link="direct") == 1
    assert mesh.count("join_failed") == 0
    assert (await soon(mgr.send("x", to=far.position))).ok


async def test_stay_keeps_its_work_until_that_ends() -> None:
    stay = Stay(cast(Any, None), Position.mgr(), PARENT)
    end = asyncio.Event()

    async def work() -> None:
        await end.wait()

    stay.spawn(work())
    (task,) = stay.tasks
    end.set()
    await soon(task)
    await asyncio.sleep(0)
    assert not stay.tasks


@pytest.mark.oldest
@pytest.mark.timeout(180)
async def test_connecting_has_an_end_of_its_own(mesh: Mesh) -> None:
    """A frozen parent's kernel accepts connections. The attempt ends by itself, long before the answer is given up."""
    with socket.create_server(("127.0.0.1", 0)) as frozen:
        worker = await mesh.worker(0, 0, f"127.0.0.1:{frozen.getsockname()[1]}", join=False, ack_timeout=60.0)
        await mesh.logged("join_failed", node=worker.position)
        with pytest.raises(TimeoutError, match=r"Register: 127\.0\.0\.1:\d+ accepts connections, and does not answer"):
            await worker.joined(0.01)


@pytest.mark.timeout(180)
async def test_parent_is_asked_for_pings_only_where_it_permits_them(mesh: Mesh) -> None:
    """A parent permits pings in its answer to Register, so a foreign parent sees one registration more."""
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        assert parent.requests["Register"].qsize() == 2
        assert worker.driver.joiner is not None and worker.driver.joiner._connector.pings is False
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert worker.driver.joiner is not None and worker.driver.joiner._connector.pings is True
    async with RawChild("Worker/0/1") as child:
        await child.join(mgr.address or "")
