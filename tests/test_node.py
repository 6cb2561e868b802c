"""Node: results of its calls, and its counters."""

from collections.abc import AsyncIterator

import pytest

from taskd_net import Ack, MeshError, Message, NetworkError, Position
from taskd_net.core.frame import Frame
from taskd_net.wire.codec import write_message
from tests.peers.mesh import Mesh, free_address

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def mesh(request: pytest.FixtureRequest) -> AsyncIterator[Mesh]:
    """Close every node at the end, and fail if anything went wrong on the side."""
    async with Mesh(getattr(request, "param", "batched")) as mesh:
        yield mesh


async def test_raise_for_code(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, await free_address(), join=False)
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
    worker.perform(worker.router.submit(worker.now(), bad, worker.request(answers.append), 1.0))
    assert (await worker.send("readable", to="Mgr")).ok
    assert (await mgr.take()).body == "readable"
    assert [ack.uuid for ack in answers] == ["u-1"]
    assert mesh.count("message_unreadable", uuid="u-1") == 1
