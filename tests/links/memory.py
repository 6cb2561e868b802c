"""A third kind of link: two nodes of one process hand each other Python objects. Nothing of the package knows it.

Register goes over gRPC, and the parent's answer offers a token, good for one registration. The child presents it, and
both ends get a pipe in memory. The link ends with the child's connection, and obeys the `Wire` that it came over.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from itertools import count
from typing import Final, NamedTuple, Self

import grpc

from taskd_net.base.codes import Code, Refusal
from taskd_net.core.acks import Answer, Told
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import UP, Link, Terms
from taskd_net.core.ready import Answered, Key, Writes
from taskd_net.core.routes import LinkId
from taskd_net.net.links import registry
from taskd_net.net.links.kind import Acceptor, End, Failed, LinkKind, LinkLost, Opened, Parent, Unreachable, Way
from taskd_net.net.links.peer import Metadata, Peer
from taskd_net.net.links.remote import Caller
from taskd_net.net.links.session import Session
from taskd_net.net.wire import codec
from tests.peers.wire import Wire, wire_to

KEY: Final = "test-memory-link"
_tokens = count(1)
_acceptors: dict[str, MemoryAcceptor] = {}


class Parcel(NamedTuple):
    """One write."""

    messages: list[tuple[Frame, float, int]]
    accepted: list[Key]
    answers: list[Answered]
    joined: list[bool]


class MemoryPipe:
    """One end of a link; what is written at one is read at the other.

    Attributes:
        other: the other end.
        severed: the network between the two is gone, so that the other end notices nothing.
        reason: why the other end has ended it.
    """

    other: MemoryPipe
    complete: bool

    def __init__(self, wire: Wire | None, flowing: asyncio.Event | None, *, is_child: bool) -> None:
        self.is_child = is_child
        self._wire = wire
        self._flowing = flowing
        self._cuts = 0 if wire is None else wire.cuts
        self._incoming: asyncio.Queue[Parcel | None] = asyncio.Queue()
        self._ended = self._gone = False
        self.watch: asyncio.Task[None] | None = None
        self.severed = self.complete = False
        self.reason = LinkLost("the link ended")

    async def read(self) -> Parcel | None:
        """The next write of the other end; None when the link has ended."""
        while not self._ended:
            parcel = await self._incoming.get()
            if self._flowing is not None:
                await self._flowing.wait()
            if parcel is None or self._wire is None or self._wire.cuts == self._cuts:
                return parcel
        return None

    async def write(self, data: Parcel) -> bool:
        """Hand something over. Returns False when the link has ended."""
        if self._gone:
            return False
        if not self.severed:
            self.other._incoming.put_nowait(data)
        return True

    async def finish(self) -> None:
        """Write no more. The parent's end is finished by the end of its serving."""
        if self.is_child and not self.severed:
            self.other._incoming.put_nowait(None)

    def cancel(self) -> None:
        """End the link."""
        self._ended = self._gone = True
        self._incoming.put_nowait(None)
        if not self.severed:
            # It reads what was written before.
            self.other._gone = True
            self.other._incoming.put_nowait(None)
        if self.watch is not None:
            self.watch.cancel()

    async def lost(self) -> LinkLost:
        """The reason of its end."""
        return self.reason


class MemoryLink(Session[Parcel]):
    """Either end of a link."""

    kind, probed = "memory", 7
    terms = Terms(numbered=True, bare=True, counts=True)
    _messages: list[tuple[Frame, float, int]]

    def _begin(self) -> Self:
        self._messages, self._accepted, self._answers, self._news = [], list[Key](), list[Answered](), list[bool]()
        self._under_way: list[Frame] = []
        return self

    def write(self, writes: Writes) -> None:
        """Queue messages and answers."""
        self._messages += zip(writes.frames, writes.patience, writes.numbers, strict=True)
        self._accepted += writes.accepted
        self._answers += writes.answers
        self._wake()

    def withdraw(self, frame: Frame) -> bool:
        """Take a message out of the queue."""
        left = [message for message in self._messages if message[0] is not frame]
        withdrawn, self._messages = len(left) < len(self._messages), left
        return withdrawn

    def tell(self, joined: bool) -> None:
        """Tell the child whether this node has joined."""
        self._news.append(joined)
        self._wake()

    def unwritten(self) -> list[tuple[Frame, int]]:
        """The frames that the other end never got."""
        under_way, self._under_way = self._under_way, []
        self._interrupted(under_way)
        left, self._messages = [(frame, number) for frame, _, number in self._messages], []
        return left

    def _move_queue(self, successor: Self) -> None:
        successor._messages, successor._accepted = self._messages, self._accepted
        successor._answers, successor._news = self._answers, self._news
        self._begin()

    def _has_queued(self) -> bool:
        return bool(self._messages or self._accepted or self._answers or self._news)

    async def _write_next(self) -> bool:
        parcel = Parcel(self._messages, self._accepted, self._answers, self._news)
        self._begin()
        self._under_way = [frame for frame, _, _ in parcel.messages]
        if not await self._pipe.write(parcel):
            return False
        size = sum(len(frame.data) for frame in self._under_way)
        answers = len(parcel.accepted) + len(parcel.answers)
        self._router.written(self.link, self, len(self._under_way), size, answers)
        self._under_way = []
        return True

    def _take_in(self, data: Parcel) -> None:
        host, router, link = self._host, self._router, self.link
        if self.successor is None and host.links.get(link) is not self:
            return
        now = host.now()
        if link == UP and self.successor is None:
            for joined in data.joined:
                host.perform(router.parent_told(now, joined))
        if data.accepted or data.answers:
            host.perform(router.answers_arrived(now, link, data.accepted, [_answer(one) for one in data.answers]))
        if data.messages:
            # Read again: a probe that has crossed a link goes on as another one.
            frames = codec.read_known_frames([frame.data for frame, _, _ in data.messages])
            keys = [number if patience else None for _, patience, number in data.messages]
            good = [index for index, frame in enumerate(frames) if not isinstance(frame, Refusal)]
            refused = [(key, one) for key, one in zip(keys, frames, strict=True) if key and isinstance(one, Refusal)]
            taken = [frame for frame in frames if not isinstance(frame, Refusal)]
            budgets = [data.messages[index][1] for index in good]
            try:
                ready = router.messages_arrived(now, link, taken, [keys[index] for index in good], budgets, refused)
            except Exception:
                host.log.exception("request_failed", peer=str(self.peer))
                for frame, patience, number in data.messages:
                    if patience:
                        ack = Ack(frame.uuid, Code.SERVER_ERR, router.position)
                        self._answers.append(Answered(number, ack, False))
                self._wake()
            else:
                host.perform(ready)


def _answer(answered: Answered) -> Answer:
    key, ack, in_full = answered
    if not in_full and (ack.failures or not ack.code):
        return Answer(key, ack.code, ack.src, "", Told(ack.receivers, ack.failures), True)
    return Answer(key, ack.code, ack.src, sync=None if ack.code else False)


class MemoryIncoming:
    """A link that a child opens."""

    def __init__(self, parent: Parent, caller: Caller, way: Way, pipe: MemoryPipe) -> None:
        self._parent = parent
        self.caller = caller
        self.remote = self.caller.remote
        self.position = way.host.router.identity
        self.continues = way.continues
        self._pipe = pipe
        self.accepted: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()

    @property
    def gone(self) -> bool:
        """True if the child has given up."""
        return self.accepted.cancelled()

    def session(self, link: Link) -> MemoryLink:
        """Make its session."""
        return MemoryLink(self._parent.host, link.id, link.position, self._pipe)._begin()

    async def accept(self, joined: bool | None) -> None:
        """It stands."""
        if not self.accepted.done():
            self.accepted.set_result(joined)

    async def end(self, end: End) -> None:
        """Refuse or end it."""
        self._pipe.other.reason = LinkLost(f"the link ended: {end.value}", end is End.POSITION_TAKEN)
        if not self.accepted.done():
            self.accepted.set_exception(Failed(end.value))


class MemoryAcceptor(Acceptor):
    """The parent's end."""

    def __init__(self, parent: Parent) -> None:
        super().__init__(parent)
        self._offers: dict[LinkId, tuple[str, Caller]] = {}
        self._serving: set[asyncio.Task[None]] = set()

    def offer(self, link: LinkId, caller: Caller) -> Metadata:
        """A token for this registration."""
        self.forget(link)
        token = str(next(_tokens))
        self._offers[link] = token, caller
        _acceptors[token] = self
        return ((KEY, token),)

    def forget(self, link: LinkId) -> None:
        """The token is good no more."""
        token, _ = self._offers.pop(link, ("", None))
        _acceptors.pop(token, None)

    def close(self) -> None:
        """Accept no more."""
        for link in list(self._offers):
            self.forget(link)

    def serve(self, token: str, way: Way) -> tuple[MemoryPipe, MemoryIncoming]:
        """Serve a link that a child opens with its token."""
        link, caller = next((link, caller) for link, (known, caller) in self._offers.items() if known == token)
        self.forget(link)
        wire = wire_to(caller.remote.address)
        near = MemoryPipe(wire, None if wire is None else wire.flowing_down, is_child=True)
        far = MemoryPipe(wire, None if wire is None else wire.flowing_up, is_child=False)
        near.other, far.other = far, near
        incoming = MemoryIncoming(self._parent, caller, way, far)
        task = asyncio.create_task(self._serve(incoming, far))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return near, incoming

    async def _serve(self, incoming: MemoryIncoming, pipe: MemoryPipe) -> None:
        try:
            await self._parent.serve(incoming)
        finally:
            pipe.cancel()


class Memory(LinkKind):
    """Offered by every parent that uses it, to children of the same process."""

    name, probed = MemoryLink.kind, MemoryLink.probed

    def offered(self, peer: Peer) -> bool:
        """By a token."""
        return KEY in peer.said

    async def open(self, way: Way) -> Opened:
        """Present the token."""
        token = way.peer.said[KEY]
        if token not in _acceptors:
            raise Unreachable("the parent lives in another process, or has gone")
        near, incoming = _acceptors[token].serve(token, way)
        try:
            async with asyncio.timeout(way.ack_timeout):
                told = await asyncio.shield(incoming.accepted)
        except BaseException:
            near.cancel()
            raise
        session = MemoryLink(way.host, UP, way.parent, near)._begin()
        near.watch = asyncio.create_task(_watch(way.channel, near))
        return Opened(session, near, told)

    def acceptor(self, parent: Parent) -> MemoryAcceptor:
        """The parent's end."""
        return MemoryAcceptor(parent)


async def _watch(channel: grpc.aio.Channel, pipe: MemoryPipe) -> None:
    """Sever the link when the child's connection is gone."""
    with contextlib.suppress(grpc.aio.UsageError):
        await channel.wait_for_state_change(grpc.ChannelConnectivity.READY)
    pipe.severed, pipe.watch = True, None
    pipe.cancel()


KIND: Final = Memory()


@contextlib.contextmanager
def registered() -> Iterator[None]:
    """Have the kind, preferred to all others."""
    before = dict(registry.KINDS)
    registry.KINDS.clear()
    registry.KINDS.update({Memory.name: __name__, **before})
    try:
        yield
    finally:
        registry.KINDS.clear()
        registry.KINDS.update(before)
