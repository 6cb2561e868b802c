"""The batched link between two nodes of ours: one stream, both directions, batches of messages and answers.

Batches come about by themselves: whatever has queued up while the event loop had other things to do, or while the
write before was under way, leaves together. There is no timer, so a single message on an idle link leaves at once.

A write is done when gRPC has it, long before the other end has taken it in. So each end says how many batches it has
taken in, mostly in a batch that goes back anyway, and the other one writes a few ahead and no more: what comes after
waits here, where it can join others, and not in front of a busy receiver as many small batches.

Between nodes that both know it, an answer names its message by a number that the Router of the sending end gave to it.
Towards older ones it names the uuid, which two senders may share (`core.acks.InFlight`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import repeat
from typing import Final, Self

from taskd_net.codes import Code, Refusal
from taskd_net.core.acks import Key, Reply
from taskd_net.core.actions import Action
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import UP
from taskd_net.core.router import Arrival
from taskd_net.core.routes import LinkId
from taskd_net.limits import BATCH_BYTES, BATCH_MESSAGES, BATCHES_AHEAD, BATCHES_CONFIRMED
from taskd_net.links.host import Host
from taskd_net.links.quota import Quota
from taskd_net.links.session import Pipe, Session
from taskd_net.position import Position
from taskd_net.wire import codec
from taskd_net.wire.batches import LARGE, Batch, branch_of, read_batch, read_branches, write_batch
from taskd_net.wire.link_pb2 import Branch

# What a batch says of whether a parent has joined (`proto/link.proto`).
_JOINED: Final = 1
_LOST: Final = 2
_AGAIN: Final = 3


class BatchedLink(Session):
    """Either end of the link: both do the same.

    Args:
        host, link, peer, pipe: as in `Session`.
        quota: what of the child's quota belongs to this stream; None towards a parent.
        numbered: whether messages are answered by number, not by uuid.
        counts: both ends say how many have confirmed a broadcast.
    """

    def __init__(
        self,
        host: Host,
        link: LinkId,
        peer: Position,
        pipe: Pipe,
        quota: Quota | None = None,
        *,
        numbered: bool = False,
        counts: bool = False,
    ) -> None:
        super().__init__(host, link, peer, pipe)
        self.numbered = numbered
        self._counts = counts
        # What of the quota of the child at the other end belongs to this stream; a parent has none.
        self._quota = quota
        self._waiting = 0
        self._waiting_bytes = 0
        self._frames: list[Frame] = []
        self._patience: list[int] = []
        self._numbers: list[int] = []
        self._bytes = 0
        self._accepted: list[str] = []
        self._accepted_numbers: list[int] = []
        self._answers: list[bytes] = []
        self._answer_numbers: list[int] = []
        # What some of them say beside their code.
        self._branches: list[Branch] = []
        self._under_way: list[Frame] = []
        # Batches that were written and that the other end has not said to have taken in, and those that came, unsaid.
        self._ahead = 0
        self._taken = 0
        # What the child is still to be told of whether this node has joined; 0 for nothing.
        self._news = 0

    def forward(self, frame: Frame, patience: float, number: int) -> None:
        """Queue a message for the next batch."""
        self._frames.append(frame)
        self._numbers.append(number)
        # At least 1 ms where an answer is awaited: 0 says that none is.
        self._patience.append(int(patience * 1000.0) + 1 if patience > 0.0 else 0)
        self._bytes += len(frame.data)
        if self._sleep is not None and self._ahead < BATCHES_AHEAD:
            self._wake()

    def withdraw(self, frame: Frame) -> bool:
        """Take a message out of the queue."""
        try:
            at = self._frames.index(frame)
        except ValueError:
            return False
        del self._frames[at], self._patience[at], self._numbers[at]
        self._bytes -= len(frame.data)
        return True

    def tell(self, joined: bool) -> None:
        """Tell the child at the other end whether this node has joined, in the next batch."""
        if joined:
            self._news = _AGAIN if self._news == _LOST else _JOINED
        else:
            self._news = _LOST
        self._wake()

    def unwritten(self) -> list[Frame]:
        """What was in no batch that was written."""
        under_way, self._under_way = self._under_way, []
        self._interrupted(under_way)
        left = self._frames
        self._frames, self._patience, self._numbers, self._bytes = [], [], [], 0
        if self._quota is not None:
            self._quota.add(-self._waiting, -self._waiting_bytes)
            self._quota = None
        return left

    def _move_queue(self, successor: Self) -> None:
        successor._frames, self._frames = self._frames, []
        successor._patience, self._patience = self._patience, []
        successor._numbers, self._numbers = self._numbers, []
        successor._bytes, self._bytes = self._bytes, 0
        successor._accepted, self._accepted = self._accepted, []
        successor._accepted_numbers, self._accepted_numbers = self._accepted_numbers, []
        successor._answers, self._answers = self._answers, []
        successor._answer_numbers, self._answer_numbers = self._answer_numbers, []
        successor._branches, self._branches = self._branches, []
        successor._news, self._news = self._news, 0
        successor._waiting, successor._waiting_bytes = self._waiting, self._waiting_bytes

    def _reply(self, number: int, in_full: bool, ack: Ack) -> None:
        """Answer a message.

        Args:
            number: the message's; 0 where answers go by uuid.
            in_full: whether 0 goes as an Ack too: the answer to a `sync=false` message must not look like a delivery.
            ack: the answer.
        """
        if self._closed:
            if self.successor is not None:
                self.successor._reply(number, in_full, ack)
            return
        if ack.code or in_full or (self._counts and ack.receivers != 1):
            if self._counts and not in_full and (ack.failures or not ack.code):
                self._branches.append(branch_of(len(self._answers), ack))
            self._answers.append(codec.write_ack(ack))
            if number:
                self._answer_numbers.append(number)
            self._wake()
            return
        if number:
            self._accepted_numbers.append(number)
        else:
            self._accepted.append(ack.uuid)
        if self._sleep is not None and self._ahead < BATCHES_AHEAD:
            self._wake()

    def _has_queued(self) -> bool:
        return bool(self._frames or self._accepted_numbers or self._answers or self._accepted)

    def _has_output(self) -> bool:
        return (
            self._taken >= BATCHES_CONFIRMED or self._news > 0 or (self._ahead < BATCHES_AHEAD and self._has_queued())
        )

    async def _write_next(self) -> bool:
        taken, self._taken = self._taken, 0
        news, self._news = self._news, 0
        if self._ahead >= BATCHES_AHEAD or not self._has_queued():
            return await self._pipe.write(write_batch((), (), (), (), taken, joined=news))
        self._ahead += 1
        frames, patience, numbers, size = self._take_batch()
        self._under_way = frames
        accepted, self._accepted = self._accepted, []
        by_number, self._accepted_numbers = self._accepted_numbers, []
        answers, self._answers = self._answers, []
        answer_numbers, self._answer_numbers = self._answer_numbers, []
        branches, self._branches = self._branches, []
        if self._waiting:
            self._wait(-min(self._waiting, len(accepted) + len(by_number) + len(answers)), 0)
        messages = [frame.data for frame in frames]
        if self.numbered:
            data = write_batch(
                messages, patience, (), answers, taken, numbers, by_number, answer_numbers, branches, news
            )
        else:
            data = write_batch(messages, patience, accepted, answers, taken, branches=branches, joined=news)
        if not await self._pipe.write(data):
            return False
        if frames:
            self._router.written(self.link, self, len(frames), size)
            self._under_way = []
        return True

    def _take_batch(self) -> tuple[list[Frame], list[int], list[int], int]:
        """Take the messages of the next batch out of the queue, as many as its bounds allow.

        Returns the messages, their patience, their numbers, and their bytes in all.
        """
        frames, patience, numbers, size = self._frames, self._patience, self._numbers, self._bytes
        if len(frames) <= BATCH_MESSAGES and (size <= BATCH_BYTES or len(frames) == 1):
            self._frames, self._patience, self._numbers, self._bytes = [], [], [], 0
            return frames, patience, numbers, size
        # A large body goes alone: what is small and behind it waits for one write, not for a batch of them.
        count = size = 0
        for frame in frames[:BATCH_MESSAGES]:
            if count and size + len(frame.data) > BATCH_BYTES:
                break
            count += 1
            size += len(frame.data)
        self._frames, self._patience, self._numbers = frames[count:], patience[count:], numbers[count:]
        self._bytes -= size
        return frames[:count], patience[:count], numbers[:count], size

    def _take_in(self, data: bytes) -> None:
        host, router, link = self._host, self._router, self.link
        try:
            batch = read_batch(data)
            acks = [codec.read_ack(answer, self.peer) for answer in batch.answers]
            if self.numbered and (len(batch.numbers) != len(batch.messages) or len(batch.answer_numbers) != len(acks)):
                raise Refusal(Code.NET_ERR, "messages or answers without numbers")
            told = read_branches(batch.branches, self.peer) if batch.branches and self._counts else {}
        except Refusal as refusal:
            # Only a node of ours is at the other end, so this is a fault: begin again with a new stream.
            host.log.error("batch_unreadable", peer=str(self.peer), detail=refusal.detail)
            self.close()
            return
        # One that another node has replaced says nothing any more; one that has handed over still has the last word.
        if self.successor is None and host.links.get(link) is not self:
            return
        self._ahead = max(0, self._ahead - batch.taken)
        accepted: Sequence[Key] = batch.accepted_numbers if self.numbered else batch.accepted
        if batch.messages or accepted or acks:
            self._taken += 1
        now = host.now()
        # First: an answer in the same batch may follow from it.
        actions = self._hear(now, batch.joined) if batch.joined else []
        if accepted:
            actions += router.accepted(now, link, accepted, sync=True)
        for index, ack in enumerate(acks):
            key = batch.answer_numbers[index] if self.numbered else ack.uuid
            if index in told:
                actions += router.ack_arrived(now, link, key, ack.code, ack.src, told=told[index])
            elif ack.code == Code.OK:
                actions += router.accepted(now, link, (key,), sync=False)
            else:
                actions += router.ack_arrived(now, link, key, ack.code, ack.src)
        if batch.messages:
            try:
                actions += router.frames_arrived(now, link, self._arrivals(batch))
            except Exception:
                # The gate: one bad message must not cost the others their link.
                host.log.exception("request_failed", peer=str(self.peer))
                self._answer_failed(batch)
        host.perform(actions)
        if self._sleep is not None and self._has_output():
            self._wake()

    def _hear(self, now: float, joined: int) -> list[Action]:
        """Take in what the parent says of itself. What it said on a stream with a successor, it has said there too."""
        if self.link != UP or self.successor is not None:
            return []
        lost = self._router.parent_told(now, False) if joined != _JOINED else []
        return lost if joined == _LOST else lost + self._router.parent_told(now, True)

    def _answer_failed(self, batch: Batch) -> None:
        """Answer 5999 to a batch under which this node failed; an answer that comes after all is dropped as late."""
        for data, wait, number in zip(batch.messages, batch.patience, batch.numbers or repeat(0), strict=False):
            if wait:
                self._reply(number, False, Ack(codec.read_uuid(data), Code.SERVER_ERR, self._router.position))

    def _arrivals(self, batch: Batch) -> Iterator[Arrival]:
        limits, quota, answer = self._router.limits, self._quota, self._reply
        room = len(batch.messages) if quota is None else quota.room
        answered = 0
        numbers = batch.numbers if self.numbered else repeat(0)
        frames = codec.read_known_frames(batch.messages, limits)
        for frame, wait, number in zip(frames, batch.patience, numbers, strict=False):
            if isinstance(frame, Refusal):
                self._host.log.warning("message_refused", peer=str(self.peer), detail=frame.detail)
                if wait and (frame.uuid or number):
                    answered += 1
                    self._reply(number, False, Ack(frame.uuid, frame.code, self._router.position))
                continue
            if not wait:
                yield frame, None, None
                continue
            answered += 1
            reply: Reply = partial(answer, number, not frame.sync)
            if quota is not None and (answered > room or len(frame.data) >= LARGE):
                if answered > room or not quota.fits(len(frame.data)):
                    reply(Ack(frame.uuid, Code.RECV_BUF_BUSY, self._router.position))
                    continue
                self._wait(0, len(frame.data))
                reply = partial(self._reply_large, len(frame.data), reply)
            yield frame, reply, wait / 1000.0
        if quota is not None:
            self._wait(answered, 0)

    def _reply_large(self, size: int, reply: Reply, ack: Ack) -> None:
        """Answer a message whose bytes were counted."""
        self._wait(0, -size)
        reply(ack)

    def _wait(self, messages: int, size: int) -> None:
        """Count messages of the other end that wait for their answers, as long as the stream stands."""
        if self.successor is not None:
            self.successor._wait(messages, size)
        elif self._quota is not None:
            self._waiting += messages
            self._waiting_bytes += size
            self._quota.add(messages, size)
