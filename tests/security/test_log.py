"""Log lines: what a peer sends can neither fill a disk nor write a line of its own."""

from __future__ import annotations

import pytest

from taskd_net.base import limits
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, soon
from tests.security.bystander.pair import Bystanders
from tests.security.test_identity import batched

pytestmark = pytest.mark.timeout(180)

GARBAGE = b"\xff" * 8


def characters(mesh: Mesh) -> int:
    """The size of the log of all nodes."""
    return sum(len(value) for event in mesh.events for value in event.values())


async def test_lines_about_unreadable_messages(mesh: Mesh) -> None:
    """20,000 of them in 100 batches; each was a line of the log."""
    from taskd_net.net.wire.batches import write_batch
    from taskd_net.net.wire.link_pb2 import Batch

    mgr = await mesh.mgr()
    async with await Bystanders.beside(mesh, mgr) as bystanders, RawChild("Worker/0/0") as attacker:
        stream, _ = await batched(attacker, mgr.address or "")
        for _ in range(100):
            await soon(stream.write(write_batch([GARBAGE] * 200, Batch(patience=[1000] * 200))))
        await bystanders.undisturbed()
        await mesh.logged("message_refused", times=limits.LOG_PEER_LINES, count=200)
        # The end of the writes: what was cancelled need not have been read.
        await stream.done_writing()
        # The next line, whatever it is about, has the count.
        await mesh.logged("child_lost", child="Worker/0/0")
        assert mesh.count("message_refused") == limits.LOG_PEER_LINES
        left_out = [event["left_out"] for event in mesh.events if "left_out" in event]
        assert sum(int(count.split()[1]) for count in left_out) == 100 - limits.LOG_PEER_LINES
        assert characters(mesh) < 20_000


@pytest.mark.parametrize("text", ["\x1b[2J\x9b", "\u202e", "x" * 100_000], ids=["control", "direction", "long"])
async def test_text_of_a_peer_in_a_line(mesh: Mesh, text: str) -> None:
    """A position that is refused is quoted in a line of the log."""
    mgr = await mesh.mgr()
    async with await Bystanders.beside(mesh, mgr) as bystanders:
        for position in (f"Worker/{text}/0", f"Worker/0/{text}", f"{text}/0/0"):
            async with RawChild(position) as liar:
                liar.connect(mgr.address or "")
                assert (await liar.register()).code != 0
        await bystanders.undisturbed()
    for event in mesh.events:
        for name, value in event.items():
            assert value.isprintable() and len(value) <= 2 * limits.LOG_VALUE_CHARS, (name, value)
