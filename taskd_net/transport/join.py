"""The child's side: joins the parent, stays joined, and joins again.

One loop: connect → register → open the stream → announce → run until the stream is gone → pause → again. It never
gives up until the node closes (contract, section 3).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from uuid import uuid4

import grpc

from taskd_net import limits
from taskd_net.address import Address
from taskd_net.codes import Refusal, describe
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import Kind
from taskd_net.links import peer as peers
from taskd_net.links.host import Host
from taskd_net.links.session import Session
from taskd_net.links.traced import Tracer
from taskd_net.position import Position
from taskd_net.retry import Backoff
from taskd_net.states import end_of
from taskd_net.tls.rotation import Rotation
from taskd_net.transport.channel import unary_call
from taskd_net.transport.connecting import Connection, Connector, Failed
from taskd_net.transport.observer import Reports
from taskd_net.wire import codec, requests


class _Lost(Exception):
    """The stream to the parent ended. `pause`: seconds to wait at least before joining again."""

    def __init__(self, text: str, pause: float) -> None:
        super().__init__(text)
        self.pause = pause


class _Stay:
    """One stay with the parent: from the stream's opening to the end of it, or of the one that it has moved to."""

    def __init__(self, connection: Connection, parent: Position, peer: peers.Peer, *, batched: bool) -> None:
        self.parent = parent
        self.peer = peer
        self.batched = batched
        self.tasks: set[asyncio.Task[None]] = set()
        self.renewing = False
        # The parent knows that this node leaves in good order.
        self.ended = False
        # Held while the old stream has ended, or may, and the new one does not stand yet.
        self.moving = asyncio.Lock()
        self.use(connection)

    def use(self, connection: Connection) -> None:
        """From now on it is this connection."""
        self.connection = connection
        self.path_discovery = unary_call(connection.channel, "PathDiscovery")

    @property
    def session(self) -> Session:
        """What runs over the stream of the moment."""
        return self.connection.session


class Joiner:
    """The way of one node to its parent.

    Args:
        host: the node.
        upstream: the parent's address.
        backoff: the pauses between attempts.
        ack_timeout: seconds for the parent's answer to Register and PathDiscovery.
        on_parent: called with this node's depth below the Mgr when it has joined a parent.
        batched: whether to take up a parent's offer of the batched link.
        rotation: the certificates for TLS; None for plain text.
        tracer: of a node that traces messages.
        service: whether the node is a tool or a service, and no rank of the job.
        reports: reports to a parent that takes them; None for none.
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
        rotation: Rotation | None = None,
        tracer: Tracer | None = None,
        service: bool = False,
        reports: Reports | None = None,
    ) -> None:
        self._host = host
        self._router = host.router
        self._upstream = upstream
        self._connector = Connector(host, upstream, ack_timeout, rotation, tracer, service=service)
        self._backoff = backoff
        self._ack_timeout = ack_timeout
        self._on_parent = on_parent
        self._batched = batched
        self._reports = reports
        self._stay: _Stay | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving = False
        self.joined = asyncio.Event()
        self.trouble = "no attempt has been made yet"

    def start(self) -> None:
        """Begin to join."""
        self._task = asyncio.create_task(self._run(), name=f"upstream of {self._router.position}")

    async def close(self, grace: float, *, orderly: bool) -> None:
        """Leave the parent, which sees it at once; what is still to be answered is, within `grace` seconds.

        `orderly`: whether the parent is told that this node leaves in good order, in the same time.
        """
        self._leaving = True
        if self._task is None:
            return
        session = self._host.links.get(UP)
        if session is not None:
            last = [asyncio.create_task(session.idle())]
            if orderly:
                # In a task of its own: gRPC cancels who awaits a call whose channel is closed meanwhile.
                last.append(asyncio.create_task(self._say_end(grace)))
            _, unfinished = await asyncio.wait(last, timeout=grace)
            for work in unfinished:
                work.cancel()
            await asyncio.wait(last)
        # Not kept: a cancelled task holds its frames, and older releases of gRPC close a channel's socket only when
        # nobody holds the channel any more.
        task, self._task = self._task, None
        task.cancel()
        await asyncio.wait([task])

    def has_joined(self, joined: bool) -> None:
        """The Router says that the Mgr knows the way to this node from now on, or does so no more."""
        stay = self._stay
        if not joined:
            self.joined.clear()
            if stay is not None and not self._leaving:
                self.trouble = f"the parent, {stay.parent}, has lost its own way to the Mgr"
                self._host.log.warning("mgr_lost", upstream=str(self._upstream), parent=str(stay.parent))
            return
        assert stay is not None
        self.trouble = ""
        self._host.log.info(
            "joined",
            upstream=str(self._upstream),
            parent=str(stay.parent),
            peer=stay.peer.profile.name,
            link=type(stay.session).__name__,
        )
        self.joined.set()

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
            except Failed as failed:
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
        """One attempt: returns to be repeated at once, or raises `Failed` or `_Lost`."""
        credentials, channel = self._connector.open_channel()
        try:
            parent, peer = await self._connector.register(channel)
            if peer.profile.permits_pings != self._connector.pings:
                # What was true last time was assumed: connect again.
                self._connector.pings = peer.profile.permits_pings
                await channel.close()
                return
            batched = self._batched and peer.batched
            stream, told = await self._connector.open_stream(channel, peer, batched=batched)
        except BaseException:
            await channel.close()
            raise
        session = self._connector.session(channel, stream, parent, peer, batched=batched)
        connection = Connection(channel, credentials, stream, session, told)
        await self._while_open(_Stay(connection, parent, peer, batched=batched))

    async def _while_open(self, stay: _Stay) -> None:
        """Everything between the stream's opening and its end."""
        router, host, parent = self._router, self._host, stay.parent
        self._stay = stay
        host.links[UP] = stay.session
        depth = stay.peer.depth + 1
        self._on_parent(depth)
        profile = stay.peer.profile
        host.perform(
            router.upstream_up(
                host.now(),
                stay.session,
                parent,
                depth,
                profile.withdraws,
                profile.parent,
                stay.connection.told,
                stay.session.terms._replace(probes=stay.peer.ended(batched=stay.batched)),
            )
        )
        self._spawn(stay, self._announce_all(stay))
        if stay.peer.reports and self._reports is not None:
            self._spawn(stay, self._reports(lambda: stay.connection.channel, stay.peer))
        self.renew()  # the files may have changed while it joined
        try:
            while True:
                session = stay.session
                await session.run()
                async with stay.moving:
                    if stay.session is session:
                        break
        finally:
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
        if stay is not None and not stay.renewing and self._connector.is_stale(stay.connection):
            stay.renewing = True
            self._spawn(stay, self._renew(stay))

    async def _renew(self, stay: _Stay) -> None:
        reason = ""
        while self._connector.is_stale(stay.connection):
            # Nodes that have new certificates at the same moment do not come at the same moment.
            await asyncio.sleep(random.uniform(0.0, limits.RENEWAL_SPREAD_S))
            try:
                await self._move(stay)
            except Failed as failed:
                if str(failed) != reason:
                    reason = str(failed)
                    self._host.log.warning("renewal_failed", upstream=str(self._upstream), reason=reason)
                await asyncio.sleep(limits.RENEWAL_RETRY_S)
            else:
                self._host.log.info("renewed", upstream=str(self._upstream))
        stay.renewing = False

    async def _move(self, stay: _Stay) -> None:
        """Go on over a new connection where that of the moment has come to rest."""
        credentials, channel = self._connector.open_channel()
        before = stay.connection
        old = before.session
        overlap = stay.peer.profile.confirms_stream
        try:
            # What can fail comes first: as long as it does, the old connection does its work.
            await (self._connector.register(channel) if overlap else self._connector.connected(channel))
            async with stay.moving:
                try:
                    await asyncio.wait_for(old.pause(), 2 * limits.RENEWAL_S)
                    if not overlap:
                        await self._end(before)
                        await self._connector.register(channel)
                    stream, told = await self._connector.open_stream(
                        channel, stay.peer, batched=stay.batched, continues=overlap
                    )
                    if overlap and not old.alive:
                        stream.cancel()
                        raise Failed("the old connection was lost meanwhile")
                except BaseException as error:
                    old.resume()
                    if isinstance(error, TimeoutError):
                        raise Failed("the old connection does not come to rest") from error
                    raise
                # Nothing is awaited between the last look at the old stream and this.
                session = self._connector.session(channel, stream, stay.parent, stay.peer, batched=stay.batched)
                old.hand_over(session)
                stay.use(Connection(channel, credentials, stream, session, told))
                self._host.links[UP] = session
                self._router.renewed(UP, session)
                if told is not None:
                    self._host.perform(self._router.parent_told(self._host.now(), told))
        except BaseException:
            if stay.connection is before:
                await channel.close()
            raise
        self._spawn(stay, self._finish(before))
        if not overlap:
            self._spawn(stay, self._announce_all(stay))

    async def _end(self, connection: Connection) -> None:
        """End a stream to a parent that would take a second one for another node's."""
        await connection.stream.done_writing()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(connection.session.over.wait(), limits.RENEWAL_S / 2)
        connection.stream.cancel()

    async def _finish(self, connection: Connection) -> None:
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
        """Announce everything below until the parent has accepted it."""
        failures = 0
        while True:
            answer: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()
            token = self._host.request(partial(_settle, answer))
            self._host.perform(self._router.announce_all(token, self._new_uuid()))
            ack = await answer
            if ack.ok:
                break
            failures += 1
            self.trouble = f"the announcement was refused: {describe(ack.code)} (from {ack.src})"
            self._host.log.debug("announcement_refused", code=ack.code, src=str(ack.src))
            await asyncio.sleep(self._backoff.pause(failures))

    async def _say_end(self, timeout: float) -> None:
        """Say that this node leaves in good order, where the parent takes that. Its routes stay as they are."""
        stay, identity = self._stay, self._router.identity
        if stay is not None and stay.peer.ends and not stay.ended:
            request = requests.write_announcement(self._new_uuid(), identity, [identity])
            # A parent that does not answer sees in time that the stream is gone.
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stay.path_discovery(request, metadata=peers.end_metadata(end_of(identity)), timeout=timeout)

    async def _path_discovery(self, stay: _Stay, kind: Kind, positions: Sequence[Position]) -> None:
        identity = self._router.identity
        request = requests.write_announcement(self._new_uuid(), identity, positions)
        metadata = peers.routes_metadata(kind) if stay.peer.profile.withdraws else ()
        leaves = kind is Kind.WITHDRAW and identity in positions
        if leaves and stay.peer.ends:
            metadata += peers.end_metadata(end_of(identity))
        try:
            answer = await stay.path_discovery(request, metadata=metadata, timeout=self._ack_timeout)
            ack = codec.read_ack(answer, stay.parent)
        except grpc.aio.AioRpcError as error:
            code = stay.peer.profile.read_status(error.code(), error.details() or "", False)
            ack = Ack("", code, stay.parent)
        except Refusal as refusal:
            ack = Ack("", refusal.code, stay.parent)
        stay.ended = stay.ended or (leaves and ack.ok)
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


def _settle(answer: asyncio.Future[Ack], ack: Ack) -> None:
    if not answer.done():  # else whoever waited has gone
        answer.set_result(ack)
