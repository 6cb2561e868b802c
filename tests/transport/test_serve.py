"""The four calls as a parent serves them, where the order of events is the point."""

import asyncio
from pathlib import Path

import pytest

from taskd_net import Code
from tests.peers.certificates import Folder
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, soon
from tests.peers.stubs import pb

pytestmark = pytest.mark.timeout(180)


async def test_caller_that_goes_away_while_it_waits(mesh: Mesh) -> None:
    """The answer that nobody waits for any more is dropped, for a message as for an announcement."""
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    async with RawChild("Worker/0/1") as mute, RawChild("Worker/0/0") as child:
        mute.drop_acks = True
        await mute.join(proxy.address or "")
        await child.join(proxy.address or "")
        for _ in range(5):
            call = child._stub.TransferMessage(child.message("Worker/0/1"))
            await mute.take()
            call.cancel()
        assert (await child.send("Mgr/0")).code == 0
        assert (await mgr.send("x", to="Worker/0/0")).ok


@pytest.mark.oldest
async def test_caller_has_its_answer_within_its_deadline(mesh: Mesh) -> None:
    """A hop gives up before the caller does, so that the caller hears who was silent."""
    mgr = await mesh.mgr()
    near, far = await mesh.proxy(0, mgr), await mesh.proxy(1, mgr)
    async with RawChild("Worker/0/0") as child, RawChild("Worker/0/1") as beside, RawChild("Worker/1/2") as beyond:
        await child.join(near.address or "")
        for mute, proxy in ((beside, near), (beyond, far)):
            mute.drop_acks = True
            await mute.join(proxy.address or "")
            # A busy machine takes some of what the hop leaves of this for the way back.
            ack = await child.transfer(child.message(mute.position), timeout=2.0)
            assert ack.code == Code.NETWORK_ACK_LOST


@pytest.mark.oldest
async def test_ack_without_a_position_is_from_whoever_gave_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0") as child:
        child.drop_acks = True
        await child.join(mgr.address or "")
        send = asyncio.create_task(mgr.send("x", to="Worker/0/0"))
        message = await child.take()
        child.write_on_stream(pb.Ack(uuid=message.header.uuid, code=Code.RECV_BUF_BUSY))
        ack = await soon(send)
        assert (ack.code, str(ack.src)) == (Code.RECV_BUF_BUSY, "Worker/0/0")


@pytest.mark.timeout(60)
async def test_peer_that_begins_tls_and_does_not_register_is_logged_without_anybody_asking(
    mesh: Mesh, tmp_path: Path
) -> None:
    mesh.let(strangers_look=0.0, strangers_heard=0.2)
    mgr = await mesh.mgr(tls=Folder(tmp_path / "good").listening())
    await mesh.worker(0, 9, mgr, tls=Folder(tmp_path / "foreign").connecting(), join=False, backoff_max=0.06)
    await mesh.logged("stranger", node=mgr.position)
