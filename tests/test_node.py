"""Node: results of its calls, and its counters."""

import asyncio
from collections.abc import AsyncIterator
from itertools import count
from typing import Any

import pytest

from taskd_net import (
    Ack,
    ArgumentTypeError,
    BlockingNode,
    MeshError,
    Message,
    NetworkError,
    Node,
    NodeClosed,
    NodeConfig,
    Position,
    Retry,
)
from taskd_net.core.frame import Frame
from taskd_net.net.wire.codec import write_message
from tests.peers.mesh import Mesh, soon
from tests.ports import free_address

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "direct")) as mesh:
        yield mesh


async def test_raise_for_code(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, free_address(), join=False)
    ack = await worker.send("x", to="Mgr", timeout=0.01)
    with pytest.raises(NetworkError, match="6002 NET_STREAM_NOT_INITED") as error:
        ack.raise_for_code()
    assert (error.value.code, error.value.src, error.value.uuid) == (6002, worker.position, ack.uuid)
    assert isinstance(error.value, MeshError)


async def test_statistics_count(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    for _ in range(3):
        assert (await worker.send("x", to="Mgr", uuid="one")).ok
    assert (worker.statistics.sent, worker.statistics.forwarded) == (3, 3)
    assert (proxy.statistics.sent, proxy.statistics.forwarded, proxy.statistics.delivered) == (0, 3, 0)
    assert (mgr.statistics.delivered, mgr.statistics.duplicates) == (1, 2)


async def test_message_that_nobody_on_the_way_looked_into_harms_nobody(mesh: Mesh) -> None:
    """The receiver is the first to read a body on the batched link; it drops what it cannot read, and goes on."""
    mesh.expected_errors.add("message_unreadable")
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    good = write_message(Message("u-1", "", True, worker.position, Position.mgr(), 0, "x"))
    answers: list[Ack] = []
    bad = Frame("u-1", True, worker.position, good.dst, good.data[:-1] + b"\xff")

    async def one() -> list[Message]:
        return [await mgr.take()]

    for number, together in enumerate((one, mgr.receive_all), 1):
        worker.driver.perform(
            worker.driver.router.submit(worker.driver.now(), bad, worker.driver.request(answers.append), 1.0)
        )
        await mesh.until(lambda: mgr.waiting() == 1)
        taking = asyncio.create_task(together())
        await mesh.until(lambda: not mgr.waiting())
        assert (await worker.send("readable", to="Mgr")).ok
        assert [message.body for message in await soon(taking)] == ["readable"]
        assert len(answers) == mesh.count("message_unreadable") == number
        bad = Frame("u-2", True, worker.position, good.dst, bad.data.replace(b"u-1", b"u-2"))
    assert [ack.uuid for ack in answers] == ["u-1", "u-2"]


@pytest.mark.oldest
@pytest.mark.both_loops
async def test_receiving_that_is_cancelled_loses_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, inbox=4096)
    received: list[str] = []

    async def read_impatiently() -> None:
        for attempt in count():
            if len(received) == 200:
                return
            task = asyncio.create_task(worker.receive())
            for _ in range(attempt % 4):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task])
            received.extend(task.result().body for task in done if not task.cancelled())

    reading = asyncio.create_task(read_impatiently())
    for i in range(200):
        assert (await mgr.send(str(i), to=worker.position)).ok
    await soon(reading)
    assert received == [str(i) for i in range(200)]


async def test_cancelled_receive_leaves_nothing_behind(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    receiving = [asyncio.create_task(mgr.receive()) for _ in range(100)]
    await asyncio.sleep(0)  # each begins
    assert len(mgr.driver._delivered._waiters) == 100
    for task in receiving:
        task.cancel()
    await asyncio.wait(receiving)
    assert not mgr.driver._delivered._waiters
    assert (await mgr.send("x", to="Mgr")).ok
    assert (await mgr.take()).body == "x"


async def test_all_messages_are_taken_at_once_and_make_room(mesh: Mesh) -> None:
    mgr = await mesh.mgr(inbox=2)
    worker = await mesh.worker(0, 0, mgr)
    again = Retry(attempts=1000)
    sends = [asyncio.create_task(worker.send(str(i), to="Mgr", timeout=20, retry=again)) for i in range(5)]
    received: list[str] = []
    while len(received) < 5:
        messages = await soon(mgr.receive_all())
        assert 0 < len(messages) <= 2
        received += [message.body for message in messages]
    assert sorted(received) == ["0", "1", "2", "3", "4"]
    assert {ack.code for ack in await soon(asyncio.gather(*sends))} == {0}
    waiting = asyncio.create_task(mgr.receive_all())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert (await worker.send("last", to="Mgr")).ok
    await mgr.close()
    assert [message.body for message in await mgr.receive_all()] == ["last"]
    with pytest.raises(NodeClosed):
        await mgr.receive_all()


async def test_two_receivers_share_the_inbox(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    both = [asyncio.create_task(worker.receive()) for _ in range(2)]
    await asyncio.sleep(0)
    for body in ("a", "b"):
        assert (await mgr.send(body, to=worker.position)).ok
    assert sorted(message.body for message in await soon(asyncio.gather(*both))) == ["a", "b"]


@pytest.mark.parametrize("kind", [Node, BlockingNode])
def test_configuration_of_a_wrong_kind_is_an_error(kind: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=r"config is 'Worker/0/0'; expected a NodeConfig"):
        kind("Worker/0/0")


def test_confirmed_and_refused_messages_of_a_wrong_kind_are_an_error() -> None:
    node: Any = Node(NodeConfig.mgr(listen="127.0.0.1:0"))
    with pytest.raises(ArgumentTypeError, match=r"messages is 3; expected received Messages"):
        node.confirm(3)
    with pytest.raises(ArgumentTypeError, match=r"message is 'uuid'; expected a received Message"):
        node.confirm(["uuid"])
    with pytest.raises(ArgumentTypeError, match=r"message is None; expected a received Message"):
        node.refuse(None, "no")
    with pytest.raises(ArgumentTypeError, match=r"reason is 4; expected a text"):
        node.refuse(None, 4)
