"""The batched link between two nodes of ours: one stream, both directions, batches of messages and answers.

Batches come about by themselves: whatever has queued up while the event loop had other things to do, or while the
write before was under way, leaves together. There is no timer, so a single message on an idle link leaves at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from taskd_net.codes import Code, Refusal
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.router import Arrival
from taskd_net.core.routes import LinkId
from taskd_net.limits import BATCH_BYTES, BATCH_MESSAGES
from taskd_net.position import Position
from taskd_net.transport.host import Host
from taskd_net.transport.stream import Pipe, Session
from taskd_net.wire import codec
from taskd_net.wire.batches import read_batch, write_batch


class BatchedLink(Session):
    """Either end of the link: both do the same."""

    def __init__(self, host: Host, link: LinkId, peer: Position, pipe: Pipe) -> None:
        super().__init__(host, link, peer, pipe)
        self._frames: deque[Frame] = deque()
        self._patience: deque[int] = deque()
        self._accepted: list[str] = []
        self._answers: list[bytes] = []
        self._under_way: list[Frame] = []

    def forward(self, frame: Frame, patience: float) -> None:
        """Queue a message for the next batch."""
        self._frames.append(frame)
        # At least 1 ms where an answer is awaited: 0 says that none is.
        self._patience.append(int(patience * 1000.0) + 1 if patience > 0.0 else 0)
        self._notify()

    def unwritten(self) -> list[Frame]:
        """What was in no batch that was written."""
        # Whether the batch that the stream ended under was written, nobody knows. Sync messages are answered 6001 then;
        # the others have only this to tell.
        left = [frame for frame in self._under_way if not frame.sync]
        left += self._frames
        self._under_way = []
        self._frames.clear()
        return left

    def _reply(self, ack: Ack) -> None:
        if ack.code != Code.OK:
            self._reply_in_full(ack)
        elif not self._closed:
            self._accepted.append(ack.uuid)
            self._notify()

    def _reply_in_full(self, ack: Ack) -> None:
        """Answer with an Ack: a failure, or 0 to a `sync=false` message, which must not look like a delivery."""
        if not self._closed:
            self._answers.append(codec.write_ack(ack))
            self._notify()

    def _has_output(self) -> bool:
        return bool(self._frames or self._accepted or self._answers)

    async def _write_next(self) -> bool:
        frames, patience = self._frames, self._patience
        batch: list[Frame] = []
        self._under_way = batch
        waits: list[int] = []
        size = 0
        # A large body goes alone: what is small and behind it waits for one write, not for a batch of them.
        while frames and len(batch) < BATCH_MESSAGES and (not batch or size + len(frames[0].data) <= BATCH_BYTES):
            frame = frames.popleft()
            batch.append(frame)
            waits.append(patience.popleft())
            size += len(frame.data)
        accepted, self._accepted = self._accepted, []
        answers, self._answers = self._answers, []
        data = write_batch([frame.data for frame in batch], waits, accepted, answers)
        if not await self._pipe.write(data):
            return False
        if batch:
            self._router.written(self.link, self, len(batch), size)
            self._under_way = []
        return True

    def _take_in(self, data: bytes) -> None:
        host, router, link = self._host, self._router, self.link
        try:
            messages, patience, accepted, answers = read_batch(data)
            acks = [codec.read_ack(answer, self.peer) for answer in answers]
        except Refusal as refusal:
            # Only a node of ours is at the other end, so this is a fault: begin again with a new stream.
            host.log.error("batch_unreadable", peer=str(self.peer), detail=refusal.detail)
            self.close()
            return
        if host.links.get(link) is not self:
            return
        now = host.now()
        actions = router.accepted(now, link, accepted, sync=True) if accepted else []
        for ack in acks:
            if ack.code == Code.OK:
                actions += router.accepted(now, link, (ack.uuid,), sync=False)
            else:
                actions += router.ack_arrived(now, link, ack.uuid, ack.code, ack.src)
        if messages:
            try:
                actions += router.frames_arrived(now, link, self._arrivals(messages, patience))
            except Exception:
                # The gate: one bad message must not cost the others their link.
                host.log.exception("request_failed", peer=str(self.peer))
                self._answer_failed(messages, patience)
        host.perform(actions)

    def _answer_failed(self, messages: Sequence[bytes], patience: Sequence[int]) -> None:
        """Answer 5999 to a batch under which this node failed; an answer that comes after all is dropped as late."""
        for data, wait in zip(messages, patience, strict=True):
            if wait:
                self._reply(Ack(codec.read_uuid(data), Code.SERVER_ERR, self._router.position))

    def _arrivals(self, messages: Sequence[bytes], patience: Sequence[int]) -> Iterator[Arrival]:
        for data, wait in zip(messages, patience, strict=True):
            try:
                frame = codec.read_known_frame(data)
            except Refusal as refusal:
                self._host.log.warning("message_refused", peer=str(self.peer), detail=refusal.detail)
                if wait and refusal.uuid:
                    self._reply(Ack(refusal.uuid, refusal.code, self._router.position))
                continue
            reply = self._reply if frame.sync else self._reply_in_full
            yield (frame, reply, wait / 1000.0) if wait else (frame, None, None)
