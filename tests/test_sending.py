"""Sends of the application, from the call to the Ack."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from taskd_net import Ack, ArgumentError, Code, Node, NodeClosed, NodeConfig, Position, Retry
from taskd_net.base import limits
from taskd_net.base.codes import ArgumentTypeError
from taskd_net.node.driver import Driver
from taskd_net.node.sending import Sender
from tests.peers.mesh import Mesh, soon

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


async def test_sending_that_is_cancelled_disturbs_nobody(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for _ in range(20):
        send = asyncio.create_task(worker.send("x", to="Mgr"))
        await asyncio.sleep(0)
        send.cancel()
        await asyncio.wait([send])
    assert (await worker.send("last", to="Mgr")).ok
    bodies = await mgr.take_all(mgr.waiting())
    assert bodies[-1] == "last"


async def test_node_that_does_not_run_sends_nothing() -> None:
    node = Node(NodeConfig.mgr(listen="127.0.0.1:0"))
    assert (await node.send("x", to="Mgr")).detail == "the node was not started"
    async with node:
        assert (await node.send("x", to="Mgr")).ok
    ack = await node.send("x", to="Mgr", uuid="mine")
    assert (ack.uuid, ack.code, ack.detail, ack.receivers) == ("mine", Code.CLIENT_ERR, "the node is closed", 0)
    with pytest.raises(NodeClosed, match="is not running"):
        await node.ping("Mgr")


async def test_body_and_mtype_are_text(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    with pytest.raises(ArgumentTypeError, match="body and mtype are text; got bytes and str"):
        await mgr.send(b"x", to="Mgr")  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="body and mtype are text; got str and int"):
        await mgr.post("x", to="Mgr", mtype=1)  # type: ignore[arg-type]
    assert (await mgr.send(None, to="Mgr")).code == Code.NIL_MESSAGE


def test_timeouts_are_numbers_of_seconds_within_bounds() -> None:
    sender = Sender(Driver(NodeConfig.mgr(ack_timeout=7.0)))
    assert (sender.seconds(None), sender.seconds(2), sender.seconds(1e9)) == (7.0, 2, limits.TIMEOUT_MAX_S)
    with pytest.raises(ArgumentError, match="timeout is not a number of seconds, but nan"):
        sender.seconds(math.nan)
    with pytest.raises(ArgumentTypeError, match="timeout is not a number of seconds, but '1'"):
        sender.seconds("1")


async def test_every_attempt_has_the_same_uuid_and_what_is_left_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    sender = Sender(Driver(NodeConfig.mgr(ack_timeout=7.0)))
    attempts: list[tuple[str, float]] = []
    codes = iter((Code.RECV_BUF_BUSY, Code.NETWORK_ACK_LOST, Code.OK))

    async def send(
        body: object, to: object, mtype: object, timeout: float, uuid: str, *, sync: bool, wait: bool
    ) -> Ack:
        assert (body, mtype, sync, wait) == ("x", "default", True, False)
        attempts.append((uuid, timeout))
        return Ack(uuid, next(codes), Position.mgr())

    monkeypatch.setattr(sender, "send", send)
    retry = Retry(within=5.0)
    ack = await soon(sender.send_again("x", "Mgr", "default", None, None, retry, wait=False))
    assert ack.ok and len(attempts) == 3
    assert {uuid for uuid, _ in attempts} == {ack.uuid}
    assert 5.0 >= attempts[0][1] >= attempts[1][1] >= attempts[2][1] > 0.0


HUGE = 10**400
WRONG: dict[str, Callable[[Node], Awaitable[object]]] = {
    "seconds is not": lambda node: node.drain("3"),  # type: ignore[arg-type]
    "seconds is not a number of seconds, but nan": lambda node: node.drain(math.nan),
    "seconds is not a number of seconds, but 1000": lambda node: node.drain(HUGE),
    "timeout is not": lambda node: node.send("x", to="Mgr", timeout="3", retry=Retry()),  # type: ignore[arg-type]
    "uuid is 3; expected": lambda node: node.send("x", to="Mgr", uuid=3),  # type: ignore[arg-type]
    "uuid is b'3'; expected": lambda node: node.post("x", to="Mgr", uuid=b"3"),  # type: ignore[arg-type]
    "retry is 3; expected": lambda node: node.send("x", to="Mgr", retry=3),  # type: ignore[arg-type]
    "retry is True; expected": lambda node: node.send_all([], retry=True),  # type: ignore[arg-type]
    "messages is 3; expected": lambda node: node.send_all(3),  # type: ignore[arg-type]
    "a message is 3; expected": lambda node: node.send_all([3]),  # type: ignore[list-item]
    "a message is 'Mgr'; expected": lambda node: node.send_all(["Mgr"]),  # type: ignore[list-item]
}


@pytest.mark.parametrize("text", WRONG)
async def test_argument_of_a_wrong_kind_is_named_and_the_node_goes_on(text: str) -> None:
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        with pytest.raises(ArgumentError, match=re.escape(text)):
            await WRONG[text](node)
        assert (await node.send("x", to="Mgr")).ok


async def test_window_of_any_size_is_bounded() -> None:
    """Each message under way has a task."""
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        assert [ack.code for ack in await node.send_all([("Mgr", "x")], in_flight=HUGE)] == [0]
