"""The child's side: joins the parent, stays joined, and joins again.

One loop: connect → register → open the stream → announce → run until the stream is gone → pause → again. It never
gives up until the node closes (docs/contract.md, section 3).

Several addresses are tried in turn, one at a time, so that no two parents hold a place for the node. The first join
takes them as given: the order is the user's. A loss concerns the whole subtree, so time decides then: channels to all
are opened at once, without a call, and the first that is ready is registered at. A frozen process and a network that
drops packets are never ready. A node stays where it has joined: a move back would cost every node below a second
outage, for nothing that it lacks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from taskd_net.base.address import Address
from taskd_net.base.chance import chance
from taskd_net.base.codes import describe
from taskd_net.base.logger import Logger
from taskd_net.base.position import Position, Role
from taskd_net.base.states import end_of
from taskd_net.base.upstreams import Rounds
from taskd_net.core.links import UP
from taskd_net.core.ready import Kind
from taskd_net.net.joining.connecting import Connector, NoPlace, Reports, Stay
from taskd_net.net.joining.renewal import Renewal
from taskd_net.net.links.answers import awaited
from taskd_net.net.links.kind import End, Failed, LinkKind
from taskd_net.net.links.session import Host
from taskd_net.net.retry import Backoff
from taskd_net.net.wire import requests
from taskd_net.net.wire.link_requests import Announcing

if TYPE_CHECKING:
    from taskd_net.net.tls.rotation import Rotation

UPSTREAM_BYTES: Final = 160
"""Bytes of the parent's address in use, and of the reasons against others, in reports: two addresses and a reason."""

NO_PLACE_PAUSE_MAX_S: Final = 8.0
"""Seconds, upper bound of the pauses of a child that has no place at its parent, which is full or of another job.
Thousands that ask once a second would take a whole core of their parent."""


class _Lost(Exception):
    """The stream to the parent ended. `pause`: seconds to wait at least before joining again."""

    def __init__(self, text: str, pause: float) -> None:
        super().__init__(text)
        self.pause = pause
        self.elsewhere = End.ELSEWHERE.value in text


class Joiner:
    """The way of one node to its parent.

    Args:
        host: the node.
        upstreams: the parent's addresses, in the order of preference.
        backoff: the pauses between attempts.
        ack_timeout: seconds for the parent's answer to Register and PathDiscovery.
        on_parent: called with this node's depth below the Mgr when it has joined a parent.
        kinds: the kinds of link that the node uses, the preferred first.
        rotation: the certificates for TLS; None for plain text.
        service: whether the node is a tool or a service, and no rank of the job.
        reports: reports to a parent that takes them; None for none.
    """

    def __init__(
        self,
        host: Host,
        upstreams: Sequence[Address],
        backoff: Backoff,
        ack_timeout: float,
        on_parent: Callable[[int], None],
        *,
        kinds: Sequence[LinkKind],
        rotation: Rotation | None = None,
        service: bool = False,
        reports: Reports | None = None,
    ) -> None:
        self._host = host
        self._router = host.router
        self._upstreams = upstreams
        self._connectors = [
            Connector(host, upstream, ack_timeout, rotation, kinds, self._choice, service=service)
            for upstream in upstreams
        ]
        self._renewals = [
            Renewal(host, connector, str(upstream), ack_timeout, self._announce_all)
            for upstream, connector in zip(upstreams, self._connectors, strict=True)
        ]
        self._rounds = Rounds(len(upstreams))
        # The last reason against each address.
        self._reasons: dict[Address, str] = {}
        self._was_linked = False
        # This node has left the parent of the last stay for another one.
        self._left = False
        self._backoff = backoff
        self._ack_timeout = ack_timeout
        self._on_parent = on_parent
        self._reports = reports
        self._stay: Stay | None = None
        self._task: asyncio.Task[None] | None = None
        self._leaving = False
        self.joined = asyncio.Event()
        self.joins = 0
        self.trouble = "no attempt has been made yet"
        all_of_them = ",".join(map(str, upstreams))
        self._absence = _Absence(host.log, all_of_them, lambda: self.trouble, host.times.not_joined_log)

    def start(self) -> None:
        """Begin to join."""
        self._absence.begin()
        self._task = asyncio.create_task(self._run(), name=f"upstream of {self._router.position}")

    async def close(self, grace: float, *, orderly: bool) -> None:
        """Leave the parent, which sees it at once; what is still to be answered is, within `grace` seconds.

        `orderly`: whether the parent is told that this node leaves in good order, in the same time.
        """
        self.leave()
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

    def leave(self) -> None:
        """Make ready to `close`: a loss of the join is no news from now on."""
        self._leaving = True
        self._absence.end()

    def has_joined(self, joined: bool) -> None:
        """The Router says that the Mgr knows the way to this node from now on, or does so no more."""
        stay = self._stay
        if not self._leaving:
            (self._absence.end if joined else self._absence.begin)()
        if not joined:
            self.joined.clear()
            if stay is not None and not self._leaving:
                self.trouble = f"the parent, {stay.parent}, has lost its own way to the Mgr"
                self._host.log.warning("mgr_lost", upstream=str(self.upstream), parent=str(stay.parent))
            return
        assert stay is not None
        self.trouble = ""
        self._host.log.info(
            "joined",
            upstream=str(self.upstream),
            parent=str(stay.parent),
            peer=stay.peer.profile.name,
            link=stay.session.kind,
        )
        self.joins += 1
        self.joined.set()

    def is_silent(self) -> None:
        """The parent gives no sign of life. A busy one keeps its children, unless it is a Mgr and another one leads."""
        stay = self._stay
        if stay is not None and len(self._upstreams) > 1 and stay.parent.role == Role.MGR:
            stay.spawn(self._look_elsewhere(stay))

    def announce(self, kind: Kind, positions: Sequence[Position]) -> None:
        """Announce positions; the parent's answer goes to the Router."""
        stay = self._stay
        assert stay is not None
        stay.spawn(self._path_discovery(stay, kind, positions))

    @property
    def upstream(self) -> Address:
        """The address in use, or the one to try."""
        return self._upstreams[self._rounds.current]

    @property
    def _connector(self) -> Connector:
        return self._connectors[self._rounds.current]

    async def _run(self) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            # The pauses come after the handlers: an exception holds the frames of its attempt, and so the channel.
            reason, elsewhere, backoff = "", False, self._backoff
            pause: float | None = None
            try:
                await self._attempt()
                continue
            except Failed as failed:
                reason = str(failed)
                if isinstance(failed, NoPlace):
                    backoff = replace(backoff, maximum=max(backoff.maximum, NO_PLACE_PAUSE_MAX_S))
                if reason != self._reasons.get(self.upstream):
                    self._host.log.warning("join_failed", upstream=str(self.upstream), reason=reason)
            except _Lost as lost:
                reason, pause, elsewhere = str(lost), lost.pause, lost.elsewhere or self._left
                self._host.log.warning("upstream_lost", upstream=str(self.upstream), reason=reason)
            except Exception as error:
                # A fault of ours or of gRPC's: an attempt like any other that failed, for a node never gives up.
                reason = repr(error)
                self._host.log.exception("upstream_failed", upstream=str(self.upstream))
            if pause is None:
                failures = await self._next(reason, failures, backoff)
                continue
            # A parent that takes a stream and ends it at once must not be asked for the next one at once, for ever.
            short = loop.time() - began <= self._backoff.maximum
            failures = failures + 1 if short else 1
            self._reasons = {self.upstream: reason}
            self.trouble = reason
            self._was_linked = True
            await asyncio.sleep(pause + self._backoff.pause(failures))
            await self._begin_round(self._rounds.current if short or elsewhere else None)

    async def _next(self, reason: str, failures: int, backoff: Backoff) -> int:
        """Turn to the next address, after a pause at the end of a round. Returns the failures in a row."""
        self._reasons[self.upstream] = reason
        several = len(self._upstreams) > 1
        self.trouble = "; ".join(f"{each}: {why}" for each, why in self._reasons.items()) if several else reason
        if not self._rounds.failed():
            return failures
        await asyncio.sleep(backoff.pause(failures + 1))
        if self._was_linked:
            await self._begin_round(None)
        return failures + 1

    async def _look_elsewhere(self, stay: Stay) -> None:
        """Leave a silent Mgr as soon as another one takes this node; a standby does not."""
        up = self._router.upstream
        while up is not None and up.silent:
            for address, connector in zip(self._upstreams, self._connectors, strict=True):
                if address != self.upstream and await connector.accepts():
                    self._host.log.warning("upstream_left", upstream=str(self.upstream), accepts=str(address))
                    self._left = True
                    stay.session.abort()
                    return
            await asyncio.sleep(self._backoff.maximum)

    def _choice(self) -> str:
        """The address of the moment among several, and the reasons against others; empty with a single one."""
        if len(self._upstreams) == 1:
            return ""
        left = [f"not {each}: {why}" for each, why in self._reasons.items() if each != self.upstream]
        said = "; ".join((str(self.upstream), *left))
        return said.encode()[:UPSTREAM_BYTES].decode(errors="ignore")

    async def _begin_round(self, last: int | None) -> None:
        """Begin a round with the address that answers first. `last`: the one to try after the others, if any."""
        count = len(self._upstreams)
        ready: list[int] = []
        if count > 1:
            looks = [asyncio.create_task(each.answers()) for each in self._connectors]
            try:
                waiting = {look for at, look in enumerate(looks) if at != last}
                await asyncio.wait(waiting, timeout=self._host.times.upstream_look, return_when=asyncio.FIRST_COMPLETED)
                ready = [
                    at for at, look in enumerate(looks) if look.done() and not look.cancelled() and not look.exception()
                ]
            finally:
                # A look that raises is one of an address that does not answer: the attempt there has the reason.
                for look in looks:
                    look.cancel()
                await asyncio.gather(*looks, return_exceptions=True)
        self._rounds.begin(ready, last)

    async def _attempt(self) -> None:
        """Try once: returns to be repeated at once, or raises `Failed` or `_Lost`."""
        async with self._connector.approach.turn():
            stay = await self._join()
        if stay is not None:
            await self._while_open(stay)

    async def _join(self) -> Stay | None:
        """Register and open a link. Returns None to be repeated at once, or raises `Failed`."""
        credentials, channel = self._connector.open_channel()
        try:
            parent, peer = await self._connector.register(channel)
            if self._connector.adapts_to(peer.profile.permits_pings):
                # The channel was opened with the features of the last parent. This one has others: connect again.
                await channel.close()
                return None
            connection = await self._connector.open(channel, credentials, parent, peer)
        except BaseException:
            await channel.close()
            raise
        # The link may have no more need of the channel, and gRPC's threads end with the last one that is held.
        return Stay(connection, parent, peer)

    async def _while_open(self, stay: Stay) -> None:
        """Stay with the parent, from the link's opening to its end."""
        host = self._host
        self._stay, self._left = stay, False
        host.links[UP] = stay.session
        self._opened(stay)
        stay.spawn(self._announce_all(stay))
        if stay.peer.reports and self._reports is not None:
            stay.spawn(self._reports.run(lambda: stay.requests, stay.peer))
        if stay.connection.better is not None:
            stay.spawn(self._renewals[self._rounds.current].improve(stay))
        self._renewals[self._rounds.current].begin(stay)  # the files may have changed while it joined
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
            # Before the tasks are cancelled: the answer that one of them waits for is among the Router's decisions.
            host.perform(self._router.upstream_down(host.now(), stay.session, stay.session.unwritten()))
            tasks = list(stay.tasks)
            for task in tasks:
                task.cancel()
            stay.connection.opened.line.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if stay.connection.channel is not None:
                await stay.connection.channel.close()
        reason, taken = await stay.connection.opened.line.lost()
        if taken:
            host.log.error("position_taken", position=str(self._router.position), upstream=str(self.upstream))
        up = self._router.upstream
        assert up is not None
        raise _Lost(reason, host.times.position_taken if taken else up.stream_pause(host.now()))

    def _opened(self, stay: Stay) -> None:
        """Tell the Router of the link."""
        router, peer, session = self._router, stay.peer, stay.session
        depth = peer.depth + 1
        self._on_parent(depth)
        self._host.perform(
            router.upstream_up(
                self._host.now(),
                session,
                stay.parent,
                depth,
                peer.profile.withdraws,
                peer.profile.parent,
                stay.connection.opened.told,
                session.terms._replace(probes=session.probed if peer.probes else None),
                job_id=peer.job_id,
            )
        )

    def renew(self) -> None:
        """There may be other certificates: move to a connection that is made with them."""
        if self._stay is not None:
            self._renewals[self._rounds.current].begin(self._stay)

    async def _announce_all(self, stay: Stay) -> None:
        """Announce everything below until the parent has accepted it."""
        failures = 0
        while True:
            token, answer = awaited(self._host)
            self._host.perform(self._router.announce_all(token, str(uuid4())))
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
        if stay is not None and stay.peer.reports and self._reports is not None:
            await self._reports.rest(stay.requests, stay.peer)
        if stay is not None and stay.peer.ends and not stay.ended:
            data = requests.write_announcement(str(uuid4()), identity, [identity])
            # A parent that does not answer sees in time that the link is gone.
            await stay.requests.announce(Announcing(data, end=end_of(identity)), timeout)

    async def _path_discovery(self, stay: Stay, kind: Kind, positions: Sequence[Position]) -> None:
        identity = self._router.identity
        leaves = kind is Kind.WITHDRAW and identity in positions
        data = requests.write_announcement(str(uuid4()), identity, positions)
        announcing = Announcing(data, kind, end_of(identity) if leaves else None)
        ack = await stay.requests.announce(announcing, self._ack_timeout)
        stay.ended = stay.ended or (leaves and ack.ok)
        self._host.perform(self._router.announce_answered(stay.session, ack.code, ack.src))
        if ack.code and kind is Kind.WITHDRAW:
            # Nobody else would say it again, and the parent would keep routes to nodes that are gone.
            await asyncio.sleep(chance.uniform(0.0, self._backoff.maximum))
            self._host.perform(self._router.withdraw_again(positions))


class _Absence:
    """The time without a join, and its repeated log lines: a single one is soon out of sight.

    Args:
        log: the node's.
        upstream: the parent's address.
        trouble: the reason of the last failed attempt; empty without one.
        pause: seconds between two lines.
    """

    def __init__(self, log: Logger, upstream: str, trouble: Callable[[], str], pause: float) -> None:
        self._log = log
        self._upstream = upstream
        self._trouble = trouble
        self._pause = pause
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Begin, when the node has started or has lost its join."""
        if self._timer is None:
            self._since = asyncio.get_running_loop().time()
            self._arm()

    def end(self) -> None:
        """End, when the node has joined or is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._pause, self._say)

    def _say(self) -> None:
        seconds = round(asyncio.get_running_loop().time() - self._since)
        reason = self._trouble() or "the parent itself has no way to the Mgr"
        self._log.warning("not_joined", upstream=self._upstream, seconds=seconds, reason=reason)
        self._arm()
