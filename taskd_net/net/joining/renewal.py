"""Renewal: a child moves to a new connection, without losing or reordering a message.

It has new certificates, or a better kind of link can be reached than the one that it has.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

from taskd_net.base.chance import chance
from taskd_net.core.links import UP
from taskd_net.net.joining.connecting import Connector, ParentConnection, Stay
from taskd_net.net.links.grpc_calls import CallFailed
from taskd_net.net.links.kind import Failed
from taskd_net.net.links.session import Host


@dataclass(eq=False)
class Renewal:
    """The renewals of one child.

    Args:
        host: the node.
        connector: makes its connections.
        upstream: the parent's address, for the log.
        ack_timeout: seconds for each answer of the parent.
        announce: announces everything below the node.
    """

    host: Host
    connector: Connector
    upstream: str
    ack_timeout: float
    announce: Callable[[Stay], Coroutine[object, object, None]]

    def begin(self, stay: Stay) -> None:
        """Move to a connection with other certificates, if there are any."""
        if self.connector.is_stale(stay.connection) and stay.begins_to_move():
            stay.spawn(self._run(stay))

    async def improve(self, stay: Stay) -> None:
        """Move to the preferred kind of link when that can be reached."""
        longest = self.host.times.better_link
        while stay.connection.better is not None:
            await asyncio.sleep(chance.uniform(longest / 2, longest))
            if not stay.begins_to_move():
                continue
            try:
                if await self.connector.better_answers(stay.connection, stay.parent, stay.peer):
                    await self._move(stay)
                    self.host.log.info("moved", upstream=self.upstream, link=stay.session.kind)
            except Exception as error:
                reason, fault = _in_words(error)
                self.host.log.debug("move_failed", upstream=self.upstream, reason=reason, exc_info=fault)
            finally:
                stay.has_moved()
            self.begin(stay)

    async def _run(self, stay: Stay) -> None:
        last = ""
        while self.connector.is_stale(stay.connection):
            # Nodes that have new certificates at the same moment do not come at the same moment.
            await asyncio.sleep(chance.uniform(0.0, self.host.times.renewal_spread))
            try:
                # Over the link first. Register decides where that was refused, as with names of another certificate.
                await self._move(stay, over_the_link=not last)
                self.host.log.info("renewed", upstream=self.upstream)
            except Exception as error:
                reason, fault = _in_words(error)
                if reason != last:
                    last = reason
                    self.host.log.warning("renewal_failed", upstream=self.upstream, reason=reason, exc_info=fault)
                await asyncio.sleep(self.host.times.renewal_retry)
        stay.has_moved()

    async def _move(self, stay: Stay, *, over_the_link: bool = False) -> None:
        """Go on over a new connection where the one of the moment has come to rest.

        `over_the_link`: ask for its offer over the link, where that can carry the question, and do not register.
        """
        credentials, channel = self.connector.open_channel()
        before = stay.connection
        overlap = stay.peer.profile.confirms_stream
        # A link goes on over one of its kind or of a better one. One of a lesser kind would end it.
        kind = before.session.kind if before.better is None else ""
        try:
            # The steps that can fail come first: until they are done, the old connection does its work.
            peer = stay.peer
            if over_the_link and before.opened.renew is not None:
                peer = await before.opened.renew(self.ack_timeout)
            elif overlap:
                _, peer = await self.connector.register(channel)
            else:
                await self.connector.connected(channel)
            async with stay.moving:
                await self._comes_to_rest(before)
                try:
                    if not overlap:
                        await _end(before, self.host.times.renewal / 2)
                        await self.connector.register(channel)
                    connection = await self.connector.open(
                        channel, credentials, stay.parent, peer, continues=overlap, of_kind=kind
                    )
                    if (overlap and not before.session.alive) or not connection.session.follows(before.session):
                        connection.opened.line.cancel()
                        connection.session.unwritten()
                        raise Failed("the old connection was lost meanwhile")
                except BaseException:
                    before.session.resume()
                    raise
                # Nothing is awaited between the last look at the old link and this.
                self._go_on(stay, connection)
        except BaseException as error:
            if stay.connection is before:
                await channel.close()
            if isinstance(error, CallFailed):
                raise Failed(f"a renewal over the link: {error}") from error
            raise
        stay.spawn(self._finish(before))
        if not overlap:
            stay.spawn(self.announce(stay))

    async def _comes_to_rest(self, connection: ParentConnection) -> None:
        try:
            async with asyncio.timeout(2 * self.host.times.renewal):
                await connection.session.pause()
        except BaseException as error:
            connection.session.resume()
            if isinstance(error, TimeoutError):
                raise Failed("the old connection does not come to rest") from error
            raise

    def _go_on(self, stay: Stay, connection: ParentConnection) -> None:
        host, session = self.host, connection.session
        stay.go_on(connection)
        host.links[UP] = session
        host.router.renewed(UP, session, session.probed)
        told = connection.opened.told
        if told is not None:
            host.perform(host.router.parent_told(host.now(), told))

    async def _finish(self, connection: ParentConnection) -> None:
        """Keep an old connection for as long as something is under way on it."""
        try:
            await connection.session.over.wait()
            await connection.session.finish()
        finally:
            connection.session.unwritten()
            connection.opened.line.cancel()
            # An announcement or a report may be under way on it.
            if connection.channel is not None:
                await connection.channel.close(self.ack_timeout)


def _in_words(error: Exception) -> tuple[str, Exception | None]:
    """The reason for which a move has failed, and the exception if it is a fault: of this package, or of gRPC's.

    A fault is a failure like any other: the next move may succeed, and without one the old certificate ends.
    """
    return (str(error), None) if isinstance(error, Failed) else (repr(error), error)


async def _end(connection: ParentConnection, seconds: float) -> None:
    """End the link to a parent that would take a second one for another node's; wait for its end for these seconds."""
    await connection.opened.line.finish()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await connection.session.over.wait()
    connection.opened.line.cancel()
