"""The child's side: joins the parent, stays joined, and joins again.

One loop: connect → register → open the stream → announce → run until the stream is gone → pause → again. It never
gives up until the node closes (contract, section 3).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

import grpc

from taskd_net import limits
from taskd_net.address import Address
from taskd_net.codes import Refusal, describe
from taskd_net.core.announcer import Kind
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.position import Position
from taskd_net.transport import peer as peers
from taskd_net.transport.channel import Stream, open_channel, open_stream, unary_call
from taskd_net.transport.host import Host
from taskd_net.transport.keyring import Keyring
from taskd_net.transport.refused import in_words
from taskd_net.transport.reports import Reporter
from taskd_net.transport.stream import ClientPipe, Session
from taskd_net.transport.tasknet import ToParent
from taskd_net.transport.traced import batched_link
from taskd_net.wire import codec

if TYPE_CHECKING:
    from taskd_net.transport.tracing import Tracer


@dataclass(frozen=True, slots=True)
class Backoff:
    """Pauses between attempts: exponential, with full jitter."""

    initial: float
    maximum: float

    def pause(self, failures: int) -> float:
        """Seconds to wait after this many failures in a row (from 1)."""
        return random.uniform(0.0, min(self.maximum, self.initial * 2.0 ** min(failures - 1, 30)))


class _Failed(Exception):
    """An attempt to join came to nothing; the text says why."""


class _Lost(Exception):
    """The stream to the parent ended. `pause`: seconds to wait at least before joining again."""

    def __init__(self, text: str, pause: float) -> None:
        super().__init__(text)
        self.pause = pause


class _Connection(NamedTuple):
    """A connection to the parent: the channel, what it was made with, its stream, and what runs over that."""

    channel: grpc.aio.Channel
    credentials: grpc.ChannelCredentials | None
    stream: Stream
    session: Session


class _Stay:
    """One stay with the parent: from the stream's opening to the end of it, or of the one that it has moved to."""

    def __init__(self, connection: _Connection, parent: Position, peer: peers.Peer, *, batched: bool) -> None:
        self.parent = parent
        self.peer = peer
        self.batched = batched
        self.tasks: set[asyncio.Task[None]] = set()
        self.renewing = False
        # Held while the old stream has ended, or may, and the new one does not stand yet.
        self.moving = asyncio.Lock()
        self.use(connection)

    def use(self, connection: _Connection) -> None:
        """From now on it is this connection."""
        self.connection = connection
        self.path_discovery = unary_call(connection.channel, "PathDiscovery")

    @property
    def session(self) -> Session:
        """What runs over the stream of the moment."""
        return self.connection.session


class ChildSide:
    """The way of one node to its parent.

    Args:
        host: the node.
        upstream: the parent's address.
        backoff: the pauses between attempts.
        ack_timeout: seconds for the parent's answer to Register and PathDiscovery.
        on_parent: called with this node's depth below the Mgr when it has joined a parent.
        batched: whether to take up a parent's offer of the batched link.
        keyring: the certificates for TLS; None for plain text.
        on_joined: called with whether the node has joined, each time that this changes.
        tracer: of a node that traces messages.
    """

    def __init__(
        self,
        host: Host,
        upstream: Address,
        backoff: Backoff,
        ack_timeout: float,
        on_parent: Callable[[int], None],
        *,
        batched: bool,
        keyring: Keyring | None = None,
        on_joined: Callable[[bool], None] = lambda _: None,
        tracer: Tracer | None = None,
    ) -> None:
        self._host = host
        self._router = host.router
        self._keyring = keyring
        self._upstream = upstream
        self._on_joined = on_joined
        self._backoff = backoff
        self._ack_timeout = ack_timeout
        self._on_parent = on_parent
        self._batched = batched
        self._tracer = tracer
        self._stay: _Stay | None = None
        self._task: asyncio.Task[None] | None = None
        # Pings are a setting of the channel, which exists before the parent has said whether it permits them: assume
        # what was true last time, and connect again where it is not.
        self._pings = True
        self.joined = asyncio.Event()
        self.trouble = "no attempt has been made yet"
        # What gRPC has said last of a parent that is not there, and what it means.
        self._details = ("", "")

    def start(self) -> None:
        """Begin to join."""
        self._task = asyncio.create_task(self._run(), name=f"upstream of {self._router.position}")

    async def close(self, grace: float) -> None:
        """Leave the parent, which sees it at once; what is still to be answered is, within `grace` seconds."""
        if self._task is None:
            return
        session = self._host.links.get(UP)
        if session is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(session.idle(), grace)
        # Not kept: a cancelled task holds its frames, and older releases of gRPC close a channel's socket only when
        # nobody holds the channel any more.
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait([task])

    def announce(self, kind: Kind, positions: Sequence[Position]) -> None:
        """Announce positions; the parent's answer goes to the Router."""
        stay = self._stay
        assert stay is not None
        self._spawn(stay, self._path_discovery(stay, kind, positions))

    # ---- the loop

    async def _run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            pause = 0.0
            began = loop.time()
            try:
                await self._attempt()
            except _Failed as failed:
                failures += 1
                if str(failed) != self.trouble:
                    self.trouble = str(failed)
                    self._host.log.warning("join_failed", upstream=str(self._upstream), reason=self.trouble)
                pause = self._backoff.pause(failures)
            except _Lost as lost:
                # A parent that takes a stream and ends it at once must not be asked for the next one at once, for ever.
                failures = 1 if loop.time() - began > self._backoff.maximum else failures + 1
                self.trouble = str(lost)
                self._host.log.warning("upstream_lost", upstream=str(self._upstream), reason=self.trouble)
                pause = lost.pause + self._backoff.pause(failures)
            except Exception as error:
                # A fault of ours or of gRPC's: an attempt like any other that failed, for a node never gives up.
                failures += 1
                self.trouble = repr(error)
                self._host.log.exception("upstream_failed", upstream=str(self._upstream))
                pause = self._backoff.pause(failures)
            await asyncio.sleep(pause)

    async def _attempt(self) -> None:
        """One attempt: returns to be repeated at once, or raises `_Failed` or `_Lost`."""
        credentials, channel = self._open_channel()
        try:
            parent, peer = await self._register(channel)
            if peer.profile.permits_pings != self._pings:
                self._pings = peer.profile.permits_pings
                await channel.close()
                return
            batched = self._batched and peer.batched
            stream = await self._open_stream(channel, peer, batched=batched)
        except BaseException:
            await channel.close()
            raise
        session = self._new_session(channel, stream, parent, peer, batched=batched)
        connection = _Connection(channel, credentials, stream, session)
        await self._while_open(_Stay(connection, parent, peer, batched=batched))

    def _open_channel(self) -> tuple[grpc.ChannelCredentials | None, grpc.aio.Channel]:
        credentials, server_name = None, None
        if self._keyring is not None:
            credentials, server_name = self._keyring.client, self._keyring.tls.server_name
        return credentials, open_channel(self._upstream, credentials, server_name, pings=self._pings)

    async def _register(self, channel: grpc.aio.Channel) -> tuple[Position, peers.Peer]:
        # The same three fields here, on the stream and in announcements: some parents look them up as they are. And
        # no longer than it takes until the first ping, as this parent may not permit one.
        call = unary_call(channel, "Register")(
            codec.write_register(self._new_uuid(), self._router.identity),
            metadata=peers.own_metadata(),
            timeout=min(self._ack_timeout, limits.KEEPALIVE_TIME_S) if self._pings else self._ack_timeout,
        )
        try:
            ack = codec.read_ack(await call, Position.mgr())
            metadata = peers.read_metadata(await call.trailing_metadata())
        except grpc.aio.AioRpcError as error:
            raise _Failed(f"Register: {error.code().name}: {await self._in_words(error)}") from error
        except Refusal as refusal:
            raise _Failed(f"Register: {refusal}") from refusal
        if not ack.ok:
            raise _Failed(f"Register was refused: {describe(ack.code)}")
        return ack.src, peers.of_parent(metadata)

    async def _in_words(self, error: grpc.aio.AioRpcError) -> str:
        details = error.details() or ""
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            return details
        if details != self._details[0]:  # it may take a connection to find out
            tls = self._keyring is not None and self._keyring.client is not None
            name = self._keyring.tls.server_name if self._keyring is not None else None
            words = await in_words(details, self._upstream, tls=tls, name=name or self._upstream.host)
            self._details = (details, words)
        return self._details[1]

    async def _open_stream(
        self, channel: grpc.aio.Channel, peer: peers.Peer, *, batched: bool, continues: bool = False
    ) -> Stream:
        """Open the stream and wait until it stands, as far as this kind of parent lets one know."""
        metadata = peers.stream_metadata(self._router.identity, continues=continues)
        stream = open_stream(channel, metadata, batched=batched)
        confirms = peer.profile.confirms_stream
        try:
            async with asyncio.timeout(self._ack_timeout):
                await (stream.initial_metadata() if confirms else stream.wait_for_connection())
            if confirms and stream.done():
                status, details = await stream.code(), await stream.details()
                raise _Failed(f"opening the stream: {status.name}: {details}")
        except TimeoutError as error:
            stream.cancel()
            raise _Failed("opening the stream: the parent did not accept the stream in time") from error
        except grpc.aio.AioRpcError as error:
            raise _Failed(f"opening the stream: {error.code().name}: {error.details()}") from error
        except BaseException:
            stream.cancel()
            raise
        return stream

    def _new_session(
        self, channel: grpc.aio.Channel, stream: Stream, parent: Position, peer: peers.Peer, *, batched: bool
    ) -> Session:
        pipe = ClientPipe(stream)
        if batched:
            return batched_link(self._host, UP, parent, pipe, self._tracer)
        return ToParent(self._host, UP, parent, pipe, peer.profile, channel, self._ack_timeout)

    async def _while_open(self, stay: _Stay) -> None:
        """Everything between the stream's opening and its end."""
        router, host, parent = self._router, self._host, stay.parent
        self._stay = stay
        host.links[UP] = stay.session
        depth = stay.peer.depth + 1
        self._on_parent(depth)
        profile, probes = stay.peer.profile, stay.peer.ended(batched=stay.batched)
        host.perform(
            router.upstream_up(host.now(), stay.session, parent, depth, profile.withdraws, profile.parent, probes)
        )
        self._spawn(stay, self._announce_all(stay))
        if stay.peer.reports:
            reporter = Reporter(host, lambda: stay.connection.channel, self._ack_timeout, stay.peer.pace)
            self._spawn(stay, reporter.run())
        self.renew()  # the files may have changed while it joined
        try:
            while True:
                session = stay.session
                await session.run()
                async with stay.moving:
                    if stay.session is session:
                        break
        finally:
            self.joined.clear()
            self._on_joined(False)
            self._stay = None
            del host.links[UP]
            # Before the tasks are cancelled: the answer that one of them waits for is among what the Router says.
            host.perform(router.upstream_down(host.now(), stay.session, stay.session.unwritten()))
            tasks = list(stay.tasks)
            for task in tasks:
                task.cancel()
            stay.connection.stream.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await stay.connection.channel.close()
        stream = stay.connection.stream
        status, details = await stream.code(), await stream.details()
        taken = peers.position_taken(status, details or "")
        if taken:
            host.log.error("position_taken", position=str(router.position), upstream=str(self._upstream))
        pause = limits.POSITION_TAKEN_PAUSE_S if taken else 0.0
        raise _Lost(f"the stream ended: {status.name}: {details}", pause)

    # ---- moving to a new connection

    def renew(self) -> None:
        """There are other certificates: move to a connection that is made with them, without losing a message."""
        stay = self._stay
        if stay is not None and not stay.renewing and self._is_stale(stay):
            stay.renewing = True
            self._spawn(stay, self._renew(stay))

    def _is_stale(self, stay: _Stay) -> bool:
        return self._keyring is not None and stay.connection.credentials is not self._keyring.client

    async def _renew(self, stay: _Stay) -> None:
        reason = ""
        while self._is_stale(stay):
            # Nodes that have new certificates at the same moment do not come at the same moment.
            await asyncio.sleep(random.uniform(0.0, limits.RENEWAL_SPREAD_S))
            try:
                await self._move(stay)
            except _Failed as failed:
                if str(failed) != reason:
                    reason = str(failed)
                    self._host.log.warning("renewal_failed", upstream=str(self._upstream), reason=reason)
                await asyncio.sleep(limits.RENEWAL_RETRY_S)
            else:
                self._host.log.info("renewed", upstream=str(self._upstream))
        stay.renewing = False

    async def _move(self, stay: _Stay) -> None:
        """Go on over a new connection where that of the moment has come to rest."""
        credentials, channel = self._open_channel()
        before = stay.connection
        old = before.session
        overlap = stay.peer.profile.confirms_stream
        try:
            # What can fail comes first: as long as it does, the old connection does its work.
            await (self._register(channel) if overlap else self._connected(channel))
            async with stay.moving:
                try:
                    await asyncio.wait_for(old.pause(), 2 * limits.RENEWAL_S)
                    if not overlap:
                        await self._end(before)
                        await self._register(channel)
                    stream = await self._open_stream(channel, stay.peer, batched=stay.batched, continues=overlap)
                    if overlap and not old.alive:
                        stream.cancel()
                        raise _Failed("the old connection was lost meanwhile")
                except BaseException as error:
                    old.resume()
                    if isinstance(error, TimeoutError):
                        raise _Failed("the old connection does not come to rest") from error
                    raise
                # Nothing is awaited between the last look at the old stream and this.
                session = self._new_session(channel, stream, stay.parent, stay.peer, batched=stay.batched)
                old.hand_over(session)
                stay.use(_Connection(channel, credentials, stream, session))
                self._host.links[UP] = session
                self._router.renewed(UP, session)
        except BaseException:
            if stay.connection is before:
                await channel.close()
            raise
        self._spawn(stay, self._finish(before))
        if not overlap:
            self._spawn(stay, self._announce_all(stay))

    async def _connected(self, channel: grpc.aio.Channel) -> None:
        try:
            await asyncio.wait_for(channel.channel_ready(), self._ack_timeout)
        except TimeoutError as error:
            raise _Failed("there is no connection") from error

    async def _end(self, connection: _Connection) -> None:
        """End a stream to a parent that would take a second one for another node's."""
        await connection.stream.done_writing()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(connection.session.over.wait(), limits.RENEWAL_S / 2)
        connection.stream.cancel()

    async def _finish(self, connection: _Connection) -> None:
        """Keep an old connection for as long as something is under way on it."""
        try:
            await connection.session.over.wait()
            await connection.session.finish()
        finally:
            connection.session.unwritten()
            connection.stream.cancel()
            # An announcement or a report may be under way on it.
            await connection.channel.close(self._ack_timeout)

    # ---- announcing

    async def _announce_all(self, stay: _Stay) -> None:
        """Announce everything below until the parent has accepted it: from then on this node is joined."""
        failures = 0
        while True:
            answer: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
            self._host.perform(self._router.announce_all(answer.set_result, self._new_uuid()))
            ack = await answer
            if ack.ok:
                break
            failures += 1
            self.trouble = f"the announcement was refused: {describe(ack.code)} (from {ack.src})"
            self._host.log.debug("announcement_refused", code=ack.code, src=str(ack.src))
            await asyncio.sleep(self._backoff.pause(failures))
        self.trouble = ""
        self._host.log.info(
            "joined",
            upstream=str(self._upstream),
            parent=str(stay.parent),
            peer=stay.peer.profile.name,
            link=type(stay.session).__name__,
        )
        self.joined.set()
        self._on_joined(True)

    async def _path_discovery(self, stay: _Stay, kind: Kind, positions: Sequence[Position]) -> None:
        request = codec.write_announcement(self._new_uuid(), self._router.identity, positions)
        metadata = peers.routes_metadata(kind) if stay.peer.profile.withdraws else ()
        try:
            answer = await stay.path_discovery(request, metadata=metadata, timeout=self._ack_timeout)
            ack = codec.read_ack(answer, stay.parent)
        except grpc.aio.AioRpcError as error:
            code = stay.peer.profile.read_status(error.code(), error.details() or "", False)
            ack = Ack("", code, stay.parent)
        except Refusal as refusal:
            ack = Ack("", refusal.code, stay.parent)
        self._host.perform(self._router.announce_answered(stay.session, ack.code, ack.src))
        if ack.code and kind is Kind.WITHDRAW:
            # Nobody else would say it again, and the parent would keep routes to nodes that are gone.
            await asyncio.sleep(random.uniform(0.0, self._backoff.maximum))
            self._host.perform(self._router.withdraw_again(positions))

    # ---- small things

    def _spawn(self, stay: _Stay, work: Coroutine[object, object, None]) -> None:
        task = asyncio.create_task(work)
        stay.tasks.add(task)
        task.add_done_callback(stay.tasks.discard)

    def _new_uuid(self) -> str:
        return str(uuid4())
