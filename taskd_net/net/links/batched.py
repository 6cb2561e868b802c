"""The batched link between two nodes of ours: one stream, both directions, batches of messages and answers.

Batches come about by themselves: whatever has queued up while the event loop had other things to do, or while the
write before was under way, leaves together. There is no timer, so a single message on an idle link leaves at once.

A write is done when gRPC has it, long before the other end has taken it in. So each end says how many batches it has
taken in, mostly in a batch that goes back anyway, and the other one writes a few ahead and no more: what comes after
waits here, where it can join others, and not in front of a busy receiver as many small batches.

Between nodes that both know it, an answer names its message by a number that the Router of the sending end gave to it.
Towards older ones it names the uuid, which two senders may share (`core.in_flight`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise, repeat
from operator import attrgetter
from typing import Any, Final, Self, cast

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position
from taskd_net.core.acks import Answer, Told
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Terms
from taskd_net.core.ready import Answered, Key, Ready, Writes
from taskd_net.core.routes import LinkId
from taskd_net.net.links.large_writes import LARGE_WRITE_BYTES
from taskd_net.net.links.session import Host, Pipe, Session
from taskd_net.net.wire import codec
from taskd_net.net.wire.batches import (
    BATCH_MESSAGES,
    FEW_ANSWERS,
    batch_parts,
    branch_of,
    move_surplus,
    read_branches,
    split_batch,
)
from taskd_net.net.wire.link_pb2 import Batch

BATCH_BYTES: Final = 512 * 1024
"""Bytes of the messages in one batch; a larger message goes alone. Bodies of 64 KiB are about twice as fast eight in a
batch as one by one (docs/performance.md). More would delay the messages behind a batch more."""

ANSWERS_AT_ONCE: Final = 256
"""Acks of a batch that are read in one go, some 2 ms; then other links have their turn."""

BATCHES_AHEAD: Final = 4
"""Batches that an end of a batched link writes ahead of what the other end has taken in. Without this bound a steady
stream of single messages piles up before a busy receiver as many small batches, whose cost lets it fall further behind:
4,000 messages a second then took 20 to 190 ms each, with it 2 ms (docs/performance.md). More: the pile is that much
longer; fewer: an end would have to confirm each batch by one of its own."""

BATCHES_CONFIRMED: Final = 2
"""Batches after which an end says so by itself, if nothing else goes back: before the other end has to wait."""

# Values of `joined` in a batch (`proto/link.proto`).
_JOINED: Final = 1
_LOST: Final = 2
_AGAIN: Final = 3

_NOTHING: Final = (0, 0, 0)

_data: Final = attrgetter("data")

NAME: Final = "batched"

PROBED: Final = 1
"""Answer to a probe that ends at a link of this kind (`kind.LinkKind`)."""


class BatchedLink(Session[bytes]):
    """Either end of the link: both do the same.

    Args:
        host, link, peer, pipe: as in `Session`.
        numbered: whether messages are answered by number, not by uuid.
        counts: both ends say how many have confirmed a broadcast.

    Attributes:
        most_messages: messages in a batch at most.
        most_bytes: bytes of them at most; a larger message goes alone.
        traces: this node traces messages.
    """

    kind, probed = NAME, PROBED
    most_messages = BATCH_MESSAGES
    most_bytes = BATCH_BYTES
    traces = False

    def __init__(
        self,
        host: Host,
        link: LinkId,
        peer: Position,
        pipe: Pipe[bytes],
        *,
        numbered: bool = False,
        counts: bool = False,
    ) -> None:
        super().__init__(host, link, peer, pipe)
        self.numbered = numbered
        self._counts = counts
        self._frames: list[Frame] = []
        self._patience: list[int] = []
        self._numbers: list[int] = []
        # The answers of the next batch, and their number.
        self._said = Batch()
        self._answers = 0
        self._under_way: list[Frame] = []
        self._numbers_under_way: list[int] = []
        # Messages, their bytes, and answers in the batch under way.
        self._counts_under_way = _NOTHING
        self._rest: deque[Callable[[], None]] = deque()
        # Batches that were written and that the other end has not said to have taken in, and those that came, unsaid.
        self._ahead = 0
        self._taken = 0
        # The value of `joined` for the next batch to the child; 0 for none.
        self._news = 0

    @property
    def terms(self) -> Terms:
        """The terms of the stream, for the Router."""
        return Terms(self.numbered, True, self._counts)

    def write(self, writes: Writes) -> None:
        """Queue messages and answers for the next batch."""
        if writes.frames:
            self._frames += writes.frames
            self._numbers += writes.numbers
            # At least 1 ms where an answer is awaited: 0 says that none is. A loop, as most have one message.
            for patience in writes.patience:
                self._patience.append(int(patience * 1000.0) + 1 if patience > 0.0 else 0)
        if writes.accepted:
            delivered: Any = self._said.accepted_numbers if self.numbered else self._said.accepted
            delivered.extend(writes.accepted)
            self._answers += len(writes.accepted)
        for answer in writes.answers:
            self._answer(answer)
        if self._sleep is not None and self._ahead < BATCHES_AHEAD:
            self._wake()

    def withdraw(self, frame: Frame) -> bool:
        """Take a message out of the queue."""
        try:
            at = self._frames.index(frame)
        except ValueError:
            return False
        del self._frames[at], self._patience[at], self._numbers[at]
        return True

    def tell(self, joined: bool) -> None:
        """Tell the child at the other end whether this node has joined, in the next batch."""
        if joined:
            self._news = _AGAIN if self._news == _LOST else _JOINED
        else:
            self._news = _LOST
        self._wake()

    def unwritten(self) -> list[tuple[Frame, int]]:
        """The messages that were in no batch that was written, with their numbers."""
        under_way, self._under_way = self._under_way, []
        self._interrupted(under_way)
        left = list(zip(self._frames, self._numbers, strict=True))
        self._frames, self._patience, self._numbers = [], [], []
        return left

    def _move_queue(self, successor: Self) -> None:
        successor._frames, self._frames = self._frames, []
        successor._patience, self._patience = self._patience, []
        successor._numbers, self._numbers = self._numbers, []
        successor._said, self._said = self._said, Batch()
        successor._answers, self._answers = self._answers, 0
        successor._news, self._news = self._news, 0

    def _answer(self, answer: Answered) -> None:
        """Queue an answer that is an Ack."""
        key, ack, in_full = answer
        said = self._said
        if self._counts and not in_full and (ack.failures or not ack.code):
            said.branches.append(branch_of(len(said.answers), ack))
        said.answers.append(codec.write_ack(ack))
        if self.numbered:
            said.answer_numbers.append(cast("int", key))
        self._answers += 1

    def _has_queued(self) -> bool:
        return bool(self._frames or self._answers)

    def _has_output(self) -> bool:
        if self._taken >= BATCHES_CONFIRMED or self._news:
            return True
        # `_has_queued`, without the call: a message that is alone on its way comes here eleven times.
        return self._ahead < BATCHES_AHEAD and bool((self._frames and not self._large.held) or self._answers)

    async def _write_next(self) -> bool:
        batch = self._next_batch()
        if batch is not None:
            if not await self._pipe.write(b"".join(batch)):
                return False
            self._batch_written()
        return True

    def _next_batch(self) -> Sequence[bytes] | None:
        """Take the next batch out of the queue, in pieces; it is under way until `_batch_written`.

        None: nothing may leave now.
        """
        taken, self._taken = self._taken, 0
        news, self._news = self._news, 0
        full, count, size = self._ahead >= BATCHES_AHEAD, 0, 0
        if self._frames and not full and not self._large.held:
            count, size = self._next_messages()
            if size >= LARGE_WRITE_BYTES and not self._large.may_begin(
                size, self._wake, self._ahead if size > BATCH_BYTES else 0
            ):
                count = size = 0
        if full or not (count or self._answers):
            return batch_parts((), Batch(taken=taken, joined=news)) if taken or news else None
        self._ahead += 1
        batch, self._said = self._said, Batch()
        answers, self._answers = self._answers, 0
        if answers > FEW_ANSWERS:
            self._answers = move_surplus(batch, self._said)
            answers -= self._answers
        batch.taken, batch.joined = taken, news
        self._counts_under_way = count, size, answers
        if not count:
            return batch_parts((), batch)
        self._under_way = self._take_batch(batch, count)
        return batch_parts(list(map(_data, self._under_way)), batch)

    def _batch_written(self) -> None:
        """The batch under way is written."""
        messages, size, answers = self._counts_under_way
        if messages or answers:
            self._router.written(self.link, self, messages, size, answers)
        self._under_way, self._counts_under_way = [], _NOTHING

    def _next_messages(self) -> tuple[int, int]:
        """The number of messages that the next batch has room for, and their bytes."""
        # A large body goes alone: small messages behind it wait for one write, not for a batch of them.
        count = total = 0
        for frame in self._frames[: self.most_messages]:
            size = total + len(frame.data)
            if count and size > self.most_bytes:
                break
            count, total = count + 1, size
        return count, total

    def _take_batch(self, batch: Batch, count: int) -> list[Frame]:
        """Take so many messages out of the queue. Their patience and their numbers go into the batch."""
        frames = self._frames
        batch.patience.extend(self._patience[:count])
        self._numbers_under_way = self._numbers[:count]
        if self.numbered:
            batch.numbers.extend(self._numbers_under_way)
        self._frames, self._patience, self._numbers = frames[count:], self._patience[count:], self._numbers[count:]
        return frames[:count]

    def _take_in(self, data: bytes | memoryview) -> None:
        try:
            messages, batch = split_batch(data)
            answers, numbers = len(batch.answers), len(batch.answer_numbers)
            if self.numbered and (len(batch.numbers) != len(messages) or numbers != answers):
                raise Refusal(Code.NET_ERR, "messages or answers without numbers")
            told = read_branches(batch.branches, self.peer) if batch.branches and self._counts else {}
        except Refusal as refusal:
            self._end_broken(refusal)
            return
        # One that another node has replaced says nothing any more; one that has handed over still has the last word.
        if self.successor is None and self._host.links.get(self.link) is not self:
            return
        if batch.taken:
            self._ahead = max(0, self._ahead - batch.taken)
            if self._large.far:
                self._large.come_nearer(self._ahead)
        if batch.joined:
            # First: an answer in the same batch may follow from it.
            self._hear(self._host.now(), batch.joined)
        accepted: Sequence[Key] = list(batch.accepted_numbers if self.numbered else batch.accepted)
        if messages or accepted or answers:
            self._taken += 1
        if accepted or answers:
            self._take_in_answers(messages, batch, accepted, told, 0)
        elif messages:
            self._take_in_messages(messages, batch)
        if self._sleep is not None and self._has_output():
            self._wake()

    def _end_broken(self, refusal: Refusal) -> None:
        """End the stream of a node of ours, or of somebody who says so: it begins again with a new one."""
        host, violation = self._host, Violation(refusal.code, refusal.detail)
        host.perform(self._router.bounds_broken(host.now(), self.link, self, violation))

    def _take_in_answers(
        self, messages: Sequence[bytes], batch: Batch, accepted: Sequence[Key], told: Mapping[int, Told], first: int
    ) -> None:
        """Take in some answers of a batch and, after the last ones, its messages."""
        host, after = self._host, first + ANSWERS_AT_ONCE
        answers: Sequence[Answer] = ()
        if batch.answers:
            try:
                acks = [codec.read_ack(answer, self.peer) for answer in batch.answers[first:after]]
            except Refusal as refusal:
                self._end_broken(refusal)
                return
            answers = self._read_answers(batch, acks, told, first)
        host.perform(self._router.answers_arrived(host.now(), self.link, accepted, answers))
        if after < len(batch.answers):
            self._rest.append(partial(self._take_in_answers, messages, batch, (), told, after))
        elif messages:
            self._take_in_messages(messages, batch)

    def _take_in_messages(self, messages: Sequence[bytes], batch: Batch) -> None:
        host = self._host
        try:
            ready = self._read_messages(host.now(), messages, batch)
        except Exception:
            # The gate: one bad message must not cost the others their link.
            host.log.exception("request_failed", peer=str(self.peer))
            self._answer_failed(messages, batch)
        else:
            host.perform(ready)

    def _read_answers(self, batch: Batch, acks: Sequence[Ack], told: Mapping[int, Told], first: int) -> list[Answer]:
        answers = []
        for index, ack in enumerate(acks, first):
            key = batch.answer_numbers[index] if self.numbered else ack.uuid
            counts = told.get(index)
            if counts is not None:
                answers.append(Answer(key, ack.code, ack.src, "", counts, True))
            else:
                # A bare 0 in an Ack answers a `sync=false` message.
                answers.append(Answer(key, ack.code, ack.src, sync=None if ack.code else False))
        return answers

    def _hear(self, now: float, joined: int) -> None:
        """Take in the state of the parent. A stream with a successor has heard it there too."""
        if self.link == UP and self.successor is None:
            if joined != _JOINED:
                self._host.perform(self._router.parent_told(now, False))
            if joined != _LOST:
                self._host.perform(self._router.parent_told(now, True))

    def _answer_failed(self, messages: Sequence[bytes], batch: Batch) -> None:
        """Answer 5999 to a batch under which this node failed; an answer that comes after all is dropped as late."""
        for data, wait, number in zip(messages, batch.patience, batch.numbers or repeat(0), strict=False):
            if wait:
                ack = Ack(codec.read_uuid(data), Code.SERVER_ERR, self._router.position)
                self._answer(Answered(number, ack, False))

    def _take_in_rest(self) -> None:
        go_on = self._rest.popleft()
        if self.successor is None and self._host.links.get(self.link) is not self:
            self._rest.clear()
            return
        go_on()
        if self._sleep is not None and self._has_output():
            self._wake()

    def _take_in_frames(self, frames: list[Frame], keys: Sequence[Key | None], budgets: list[float]) -> None:
        """Take in the next messages of a batch with broadcasts."""
        host = self._host
        try:
            ready = self._router.messages_arrived(host.now(), self.link, frames, keys, budgets)
        except Exception:
            host.log.exception("request_failed", peer=str(self.peer))
            for frame, key in zip(frames, keys, strict=True):
                if key is not None:
                    self._answer(Answered(key, Ack(frame.uuid, Code.SERVER_ERR, self._router.position), False))
        else:
            host.perform(ready)

    def _read_messages(self, now: float, messages: Sequence[bytes], batch: Batch) -> Ready:
        """Hand the messages of a batch to the Router: as many as a node of ours writes, up to the first broadcast."""
        if len(messages) == 1 and not self.traces:
            alone = codec.read_known_frame(messages[0])
            if not isinstance(alone, Refusal):
                wait = batch.patience[0]
                key: Key | None = (batch.numbers[0] if self.numbered else alone.uuid) if wait else None
                return self._router.messages_arrived(now, self.link, (alone,), (key,), (wait / 1000.0,))
        frames = codec.read_known_frames(messages)
        patience = list(batch.patience)
        names: Sequence[Key] = list(batch.numbers) if self.numbered else [frame.uuid for frame in frames]
        refused: list[tuple[Key, Refusal]] = []
        if Refusal in map(type, frames):
            good = [index for index, frame in enumerate(frames) if not isinstance(frame, Refusal)]
            bad = [frame for frame in frames if isinstance(frame, Refusal)]
            # One line for all: a line is dearer than reading a message.
            self._host.log.warning("message_refused", peer=str(self.peer), count=len(bad), detail=bad[0].detail)
            for frame, wait, name in zip(frames, patience, names, strict=True):
                if isinstance(frame, Refusal) and wait and name:
                    refused.append((name, frame))
            frames, patience = [frames[index] for index in good], [patience[index] for index in good]
            names = [names[index] for index in good]
        keys: Sequence[Key | None] = names
        if 0 in patience:
            keys = [name if wait else None for name, wait in zip(names, patience, strict=True)]
        budgets = [wait / 1000.0 for wait in patience]
        arrived: list[Frame] = frames  # type: ignore[assignment]  # no refusal is left
        if self.traces:
            self._trace(arrived, keys, batch)
        most = self.most_messages
        if len(arrived) > most or (len(arrived) > 1 and False in [frame.dst.unicast for frame in arrived]):
            # A broadcast costs as much as all its receivers.
            broadcasts = {index + 1 for index, frame in enumerate(arrived) if not frame.dst.unicast}
            ends = sorted(broadcasts.union(range(most, len(arrived), most)))
            for start, end in pairwise([*ends, len(arrived)]):
                if start < end:
                    some = arrived[start:end], keys[start:end], budgets[start:end]
                    self._rest.append(partial(self._take_in_frames, *some))
            arrived, keys, budgets = arrived[: ends[0]], keys[: ends[0]], budgets[: ends[0]]
        return self._router.messages_arrived(now, self.link, arrived, keys, budgets, refused)

    def _trace(self, frames: list[Frame], keys: Sequence[Key | None], batch: Batch) -> None:
        """Begin the spans of messages that came in, and put them into their places; `keys`: None without an answer."""
