"""A batched link over a stream that the test holds."""

from __future__ import annotations

import asyncio

from taskd_net import Ack, Position
from taskd_net.core.frame import Frame
from taskd_net.core.ready import Writes
from taskd_net.net.links.batched import BatchedLink
from taskd_net.net.wire import codec, link_pb2
from taskd_net.net.wire.batches import branch_of
from tests.links.pipes import FakeNode, FakePipe
from tests.peers.mesh import soon

WORKER = Position.worker(0, 0)
PROXY = Position.proxy(0)


def writes(message: Frame, patience: float) -> Writes:
    """One message."""
    one = Writes()
    one.frames, one.patience, one.numbers = [message], [patience], [0]
    return one


class Cable:
    """A Mgr, its link to a child, and the stream."""

    def __init__(self, child: Position = WORKER, *, numbered: bool = False, counts: bool = False) -> None:
        self.node = FakeNode("Mgr")
        self.pipe = FakePipe()
        self.child = self.node.router.children.by_id[self.node.router.register(0.0, child).link or 0]
        assert self.child.quota is not None
        self.quota = self.child.quota
        self.link = BatchedLink(self.node, self.child.id, child, self.pipe, numbered=numbered, counts=counts)
        self.node.router.link_up(0.0, self.child.id, self.link, (), self.link.terms)
        self.node.links[self.child.id] = self.link
        self.running = asyncio.create_task(self.link.run())

    async def take(self) -> tuple[list[str], list[int], list[str], list[Ack]]:
        """The next batch that is written: uuids of its messages, patience, accepted, answers."""
        batch = link_pb2.Batch.FromString(await soon(self.pipe.begun.get()))
        uuids = [codec.read_uuid(message) for message in batch.messages]
        answers = [codec.read_ack(answer, WORKER) for answer in batch.answers]
        return uuids, list(batch.patience), list(batch.accepted), answers

    def comes_in(
        self, *frames: tuple[bytes, int], accepted: tuple[str, ...] = (), answers: tuple[Ack, ...] = (), taken: int = 0
    ) -> None:
        """The child writes a batch; answers that say how many, with that."""
        branches = [branch_of(index, ack) for index, ack in enumerate(answers) if ack.receivers is not None]
        written = [codec.write_ack(ack) for ack in answers]
        batch = link_pb2.Batch(accepted=accepted, answers=written, taken=taken, branches=branches)
        for data, patience in frames:
            batch.messages.append(data)
            batch.patience.append(patience)
        self.pipe.comes_in(batch.SerializeToString())
