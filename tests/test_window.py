"""A window over many sends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import Literal

import pytest

from taskd_net import Ack, ArgumentError, Code, Node, NodeConfig, Position, Retry
from taskd_net.base import limits
from taskd_net.node.window import Window, send_all
from tests.peers.mesh import Mesh, soon

pytestmark = [pytest.mark.timeout(180), pytest.mark.oldest]

MANY = 2000


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


class Sender:
    """Answers sends with the codes of a list, 0 after it, after some turns of the loop."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.sent: list[tuple[str, str, str | None]] = []
        self.in_flight = 0
        self.most = 0

    async def __call__(
        self, body: str, *, to: Position | str, uuid: str | None = None, retry: Retry | None = None
    ) -> Ack:
        self.sent.append((str(to), body, uuid))
        code = self.codes.pop(0) if self.codes else 0
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            for _ in range(1 + len(self.sent) % 7):  # so that they end in another order
                await asyncio.sleep(0)
        finally:
            self.in_flight -= 1
        if to == "wrong":
            raise ArgumentError("to is wrong")
        return Ack(uuid or body, code, Position.mgr())


def numbered(count: int) -> Iterator[tuple[str, str]]:
    """So many messages."""
    return ((f"Worker/0/{number}", str(number)) for number in range(count))


@pytest.mark.parametrize("width", [1, 3, 50])
async def test_so_many_are_in_flight_and_no_more(width: int) -> None:
    send, taken = Sender(), 0

    def messages() -> Iterator[tuple[str, str]]:
        nonlocal taken
        for message in numbered(200):
            assert send.in_flight < width  # taken when there is room for it, and not before
            taken += 1
            yield message

    acks = await send_all(send, messages(), None, Window(width))
    assert [ack.uuid for ack in acks] == [str(number) for number in range(200)]
    assert (taken, send.most) == (200, width)
    assert await send_all(send, (), None, Window(width)) == []


async def test_window_is_halved_by_a_full_receiver_and_grows_again() -> None:
    window = Window(8)
    busy, ok = (Ack("u", code, Position.mgr()) for code in (Code.RECV_BUF_BUSY, Code.OK))
    for _ in range(8):
        await window.enter()
    waiting = asyncio.create_task(window.enter())
    window.answered(busy)
    for left in range(7, 3, -1):
        window.leave()
        await asyncio.sleep(0)
        assert waiting.done() is (left < 4)
    window.leave()
    await waiting
    for _ in range(10):
        window.answered(busy)
    for _ in range(3):
        window.leave()
    waiting = asyncio.create_task(window.enter())
    await asyncio.sleep(0)
    assert not waiting.done()  # one is in flight still, and there is room for one
    window.leave()
    await waiting
    for _ in range(40):
        window.answered(ok)
    for _ in range(7):
        await window.enter()
    waiting = asyncio.create_task(window.enter())
    await asyncio.sleep(0)
    assert not waiting.done()  # never more than its width
    waiting.cancel()


async def test_what_is_refused_is_sent_again_with_the_same_uuid() -> None:
    send = Sender(Code.RECV_BUF_BUSY, Code.OK, Code.DST_ROLE_ILLEGAL)
    acks = await send_all(send, numbered(3), Retry(), Window(1))
    assert [ack.code for ack in acks] == [0, 4003, 0]
    assert [uuid for _, _, uuid in send.sent] == [None, "0", None, None]
    send = Sender(Code.RECV_BUF_BUSY)
    assert [ack.code for ack in await send_all(send, numbered(2), None, Window(1))] == [5001, 0]


async def test_first_that_raises_ends_it() -> None:
    send = Sender()
    with pytest.raises(ArgumentError, match="to is wrong"):
        await send_all(send, [("Mgr", "x")] * 5 + [("wrong", "x")] + [("Mgr", "x")] * 95, None, Window(3))
    assert len(send.sent) < 20 and send.in_flight == 0


@pytest.mark.parametrize("width", [0, -1, 1.5, True, None])
def test_width_that_is_none(width: object) -> None:
    with pytest.raises(ArgumentError, match=f"in_flight is {width!r}; expected a whole number, at least 1"):
        Window(width)


@pytest.mark.parametrize("links", ["batched", pytest.param("tasknet", marks=pytest.mark.more)])
async def test_two_thousand_sends_arrive(links: Literal["batched", "tasknet"]) -> None:
    """All at once they are refused in part; with `send_all` every one is acknowledged, also into an inbox of 8."""

    async def take(node: Node) -> list[str]:
        return [(await node.receive()).body for _ in range(MANY)]

    # Plain nodes: those of a `Mesh` check themselves at every event.
    async with AsyncExitStack() as nodes:
        mgr = await nodes.enter_async_context(Node(NodeConfig.mgr(listen="127.0.0.1:0")))
        config = NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=mgr.address or "", links=links)
        proxy = await nodes.enter_async_context(Node(config))
        sender, receiver = [
            await nodes.enter_async_context(
                Node(NodeConfig.worker(server_rank=0, rank=rank, upstream=proxy.address or "", links=links))
            )
            for rank in range(2)
        ]
        for node in (sender, receiver):
            await soon(node.joined())
        for node in (mgr, receiver):
            reading = asyncio.create_task(take(node))
            acks = await sender.send_all(((node.position, str(number)) for number in range(MANY)), timeout=10)
            assert [ack.code for ack in acks] == [Code.OK] * MANY
            assert sorted(await soon(reading), key=int) == [str(number) for number in range(MANY)]
        at_once = await asyncio.gather(*(sender.send("x", to="Mgr", timeout=10) for _ in range(MANY)))
        assert {ack.code for ack in at_once} == {Code.OK, Code.RECV_BUF_BUSY}


async def test_acks_of_what_did_not_arrive(mesh: Mesh) -> None:
    mgr = await mesh.mgr(inbox=2)
    acks = await mgr.send_all([("Mgr", "x")] * 3 + [("Boss/1", "x")], retry=None, timeout=0.2)
    assert [ack.code for ack in acks] == [0, 0, Code.RECV_BUF_BUSY, Code.DST_ROLE_ILLEGAL]
    assert all(isinstance(ack, Ack) for ack in acks) and limits.SEND_ALL_IN_FLIGHT < limits.LINK_MESSAGES
    with pytest.raises(ArgumentError, match="'nobody' is not a position"):
        await mgr.send_all([("nobody", "x")])
