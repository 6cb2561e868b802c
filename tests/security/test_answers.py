"""Peers that send messages and never take the answers: they cost their share, and then their stream ends."""

from __future__ import annotations

import asyncio

import pytest

from taskd_net.base.peer_limits import Limits
from taskd_net.core.ready import Reason
from taskd_net.core.router import ANSWERS_UNTAKEN
from taskd_net.net.links.batched_kind import STREAM
from tests.peers.floods import SAYS, FloodingChild, FloodingParent, batch
from tests.peers.mesh import Mesh, soon
from tests.peers.stubs import pb, position
from tests.security.bystander.pair import Bystanders
from tests.security.http2 import Http2, grpc_message

pytestmark = pytest.mark.timeout(180)

MOST = Limits().child_messages + ANSWERS_UNTAKEN


async def test_child_that_reads_and_confirms_no_answers(mesh: Mesh) -> None:
    async with await Bystanders.beside(mesh, await mesh.mgr()) as others, FloodingChild("Worker/0/0") as hoarder:
        await hoarder.join(others.parent.address or "")
        reading = asyncio.create_task(hoarder.ended())
        assert not await soon(hoarder.flood("Mgr/0", 40 * MOST), 60), "the parent took it all"
        await ended(mesh, others)
        await soon(reading)


async def test_child_that_reads_no_answers(mesh: Mesh) -> None:
    """Its connection stands, and takes 64 KiB of answers."""
    mgr = await mesh.mgr()
    async with await Bystanders.beside(mesh, mgr) as others, Http2(mgr.address or "") as hoarder:
        await hoarder.greet()
        me = position("Worker/0/0")
        register = pb.RegisterReq(uuid="u", pos=me).SerializeToString()
        await hoarder.answer(hoarder.open("/TaskNet/Register", *SAYS, data=register))
        names = (("role", me.role), ("serverrank", me.serverRank), ("processrank", me.processRank))
        stream = hoarder.open(STREAM, *names)
        data = b"".join(grpc_message(batch(first, 256, "Worker/0/0", "Mgr/0")) for first in range(1, 4 * MOST, 256))
        sending = asyncio.create_task(hoarder.send(stream, data))
        await ended(mesh, others)
        sending.cancel()


async def ended(mesh: Mesh, others: Bystanders) -> None:
    """The stream of the hoarder has ended, its answers are forgotten, and the others have noticed nothing."""
    mgr = others.parent
    await mesh.logged("child_lost", child="Worker/0/0", reason=Reason.VIOLATION.value, timeout=60)
    assert mesh.count("violation", peer="Worker/0/0") == 1
    await mesh.until(lambda: mgr.driver.router.quota.messages == 0)
    await mgr.take_all(mgr.waiting())
    await others.undisturbed()


@pytest.mark.parametrize(
    ("mesh", "reads"),
    [
        pytest.param("batched", True, id="never confirms"),
        pytest.param("batched", False, id="never reads"),
        pytest.param("tasknet", False, id="the four calls, never reads", marks=pytest.mark.more),
    ],
    indirect=["mesh"],
)
async def test_parent_that_takes_no_answers(mesh: Mesh, reads: bool) -> None:
    """Its child ends the stream, and joins again without the answers of the stream before."""
    async with FloodingParent("Worker/0/0", mesh.settings["links"], reads=reads) as parent:
        worker = await mesh.worker(0, 0, parent.address)
        up = worker.driver.router.upstream
        assert up is not None
        await mesh.logged("violation", peer="Mgr/0", timeout=60)
        await mesh.logged("upstream_lost")
        assert up.streams > 1 or up.waiting == 0
        await mesh.logged("joined", times=2)
