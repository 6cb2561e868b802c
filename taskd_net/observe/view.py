"""One node's view of the mesh: itself, its children, and the records that they have reported.

The view is brought up to date for a question and for a report to the parent; between two looks it costs nothing. A look
passes over every child, and makes a record of each that has changed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from taskd_net.base import limits
from taskd_net.base.host_clock import HostClock
from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.core.allowance import Allowance
from taskd_net.core.links import Link
from taskd_net.core.routes import LinkId
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.peer import OURS
from taskd_net.net.links.session import Host, Session
from taskd_net.observe import status_codec as wire
from taskd_net.observe.ledger import Ledger, Record, Report
from taskd_net.observe.records import Direction, NodeStatus, OwnFigures, RefusedRegistration
from taskd_net.version import __version__

NODES: Final = 65_536
"""Nodes of which a node keeps the state: some 20 MB. Further ones are routed, but not shown."""

LATELY_S: Final = 10.0
"""Seconds for which the time that answers took is shown after the last one."""

JOB_ID_SHOWN_BYTES: Final = 64
"""Bytes of the job's id in a record: more than those of a UUID, and the longest reasons have room beside it."""

REFUSED: Final = 256
"""Refused registrations between two looks of the history; older ones are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewBounds:
    """Bounds on the state that a node keeps, and on its looks. They are no settings: tests tighten them.

    Args:
        looks: children that a node looks at in one go: some 1.5 ms, if all of them are busy.
        looks_behind: nodes behind children that do not report at which a node looks in one go: some 0.3 ms, up to 3 ms
            if all are new.
        nodes_per_s: nodes of which one child reports a second, after half as many at once; a further report waits.
            Reading that many takes some 7 % of a core. A Proxy with 16,000 busy nodes below it reports all of them
            every 2 s.
        report_cost: nodes that cost as much as a report by itself.
        gone: nodes that are shown after they have vanished without leaving in good order, above the children of a large
            parent. Beyond it the first one is shown no more.
        gone_s: seconds for which such a node is shown.
    """

    looks: int = 100
    looks_behind: int = 1000
    nodes_per_s: float = 8192
    report_cost: float = 10
    gone: int = 8192
    gone_s: float = 3600.0


class View:
    """The view of one node.

    Args:
        host: the node.
        expected: the size of the job, as text; empty where it is not known.

    Attributes:
        bounds: its bounds, which tests replace.
        news: set when a node has come or gone.
    """

    def __init__(self, host: Host, expected: str = "") -> None:
        self._host = host
        self.expected = expected
        self.bounds = ViewBounds()
        self._router = host.router
        self.connections = Connections()
        """The children's connections, kept by the server."""
        self.listen = ""
        """The address that the node listens at."""
        self.ledger = Ledger(NODES, wire.REPORT_NODES)
        # Even: a second measurement would change every time a little.
        self._clock = HostClock(host.now)
        self.stepped = 0.0
        """Seconds by which the clock of the records has followed the host's."""
        self._started = host.now()
        self._name = str(self._router.identity)
        self._looks: dict[LinkId, _LinkLook] = {}
        self._upward = _LinkLook(host.now())
        # Figures of the children's own, by position; and the time at which a child was forgotten.
        self._own: dict[str, OwnFigures] = {}
        self._gone: dict[str, float] = {}
        # Children that leave in good order, and why other streams have ended, until they come back or are forgotten.
        self._ended: dict[LinkId, State] = {}
        self._reasons: dict[LinkId, str] = {}
        # The nodes behind children that do not report.
        self._foreign: dict[str, set[Position]] = {}
        # The nodes of which each child may report.
        self._reports: dict[LinkId, Allowance] = {}
        # Records of nodes that another child has, by the link that they came on.
        self._early: dict[tuple[LinkId, str], Record] = {}
        self.news = News()

    def look(self) -> None:
        """Bring the ledger up to date with this node and its children."""
        for _ in self.look_slices():
            pass

    async def look_in_parts(self) -> None:
        """`look` with pauses for messages: thousands of busy children take tens of milliseconds."""
        for _ in self.look_slices():
            await asyncio.sleep(0)

    def look_slices(self) -> Iterator[None]:
        """`look`, with a pause for messages at each yield."""
        self._follow_clock()
        now, children = self._host.now(), self._router.children.by_id
        self._put_changed(now, self._upward, self._name, self._of_itself(now))
        for number, link in enumerate(list(children.values()), 1):
            if link.id in children:  # not forgotten meanwhile
                self._look_at(now, link)
            if number % self.bounds.looks == 0:
                yield
        yield from self._look_behind_foreigners()
        self._take_early()
        for position, since in list(self._gone.items()):
            if now - since > self.bounds.gone_s:
                self._forget_gone(position)

    def records(self) -> list[Record]:
        """Every known node at the last look, this one included."""
        return list(self.ledger)

    def wall(self) -> float:
        """Seconds since the epoch, on the clock of the records."""
        self._follow_clock()
        return self._clock.now()

    def _follow_clock(self) -> None:
        """Follow the host's clock. After a step, the next look makes each record of this node's own again."""
        if (step := self._clock.follow()) is not None:
            then, now = step
            self.stepped += now - then
            for look in self._looks.values():
                look.outdate()

    @property
    def reporters(self) -> int:
        """Children that have reported."""
        return len(self._own)

    def has_ended(self, child: Link) -> bool:
        """True if a child leaves or has left in good order."""
        return child.id in self._ended

    def child_changed(self, link: Link, reason: str = "") -> None:
        """A child's stream has opened or, for this reason, ended; or the child has begun or ceased to answer."""
        if link.up:
            self._ended.pop(link.id, None)
            self._reasons.pop(link.id, None)
        elif reason and link.id in self._router.children.by_id:  # not forgotten with its stream
            self._reasons[link.id] = _cut(reason, limits.STATUS_REASON_BYTES)
        self._look_at(self._host.now(), link)
        self.news.set()

    def child_ends(self, link: Link, state: State) -> None:
        """A child is about to leave in good order: this is its state once its stream has ended."""
        self._ended[link.id] = state

    def child_refused(self, position: Position, reason: str) -> None:
        """A registration for this position was refused."""
        self.news.refused.append(
            RefusedRegistration(self.wall(), position.identity, reason[: limits.STATUS_REASON_BYTES])
        )

    def child_leads_to(self, link: Link, path: Sequence[Position]) -> None:
        """A child that does not report has announced nodes, which are known from now on."""
        routes, own = self._router.routes, link.position.identity
        known, status = self._foreign.setdefault(str(own), set()), b""
        for position in path:
            node = position.identity
            if node != own and node not in known and routes.next_hop(node) == link.id:
                known.add(node)
                # Most announcements are of known nodes.
                status = status or self._status_behind(link, since=self.wall())
                self.ledger.put(Record(str(node), status), str(own))

    def child_forgotten(self, link: LinkId, position: Position) -> None:
        """A child has been forgotten."""
        look, ended = self._looks.pop(link, None), self._ended.pop(link, None)
        name = str(position.identity)
        self._own.pop(name, None)
        self._reports.pop(link, None)
        self._reasons.pop(link, None)
        if look is None or look.status is None or look.status.service:
            # It has withdrawn, lives elsewhere, or is no rank of the job.
            self._forget(name)
        else:
            self._gone[name] = self._host.now()
            if len(self._gone) > self.bounds.gone:
                self._forget_gone(next(iter(self._gone)))
            if ended is None:
                status = look.status._replace(state=State.GONE, link="", at=look.at)
                self.ledger.put(Record(name, wire.write_node(status), away=True))
        self.news.set()

    def forget(self, position: Position) -> None:
        """Forget a node that is not connected, as an operator asked for."""
        name = str(position)
        self._gone.pop(name, None)
        self.ledger.drop_source(name)
        self.ledger.forget(name)
        self.news.set()

    def state_of(self, position: Position) -> State | None:
        """The state of a node at the last look; None for an unknown node."""
        from taskd_net.observe.document import standings_of  # a leaf is not asked

        known: dict[Position, NodeStatus] = {}
        at: Position | None = position
        # Its state depends on the nodes above it.
        while at is not None and at not in known and (record := self.ledger.find(str(at))) is not None:
            for _, known[at] in wire.read_records([record]):
                pass
            at = known[at].parent if at in known else None
        return standings_of(known)[position].state if position in known else None

    def charge(self, child: Link, size: int) -> float:
        """Charge a child for a report before it is read. Returns the seconds that the report has to wait.

        Args:
            child: the child.
            size: bytes of the report.
        """
        rate = self.bounds.nodes_per_s
        allowance = self._reports.setdefault(child.id, Allowance(rate, rate / 2))
        return allowance.borrow(self._host.now(), self.bounds.report_cost + size / wire.USUAL_BYTES)

    def told(self, child: Link, report: Report) -> None:
        """Take in a child's report of itself and, unless it is a leaf, of the nodes below it.

        It speaks of the nodes that are routed over its link, and of those that nobody else has or has reported.
        """
        name = str(child.position.identity)
        others = []
        for record in report.records:
            if record.position == name:
                own = wire.read_node(record.node).own
                if own is not None:
                    self._own[name] = own
            elif record.position != self._name and not child.is_leaf:
                if self._is_below(child, record.position):
                    others.append(record)
                elif not record.away and len(self._early) < wire.REPORT_NODES:
                    # It has moved there, perhaps, and the announcement is on its way.
                    self._early[child.id, record.position] = record
        self.ledger.told(name, replace(report, records=others))
        if report.urgent:
            self.news.set()

    def _is_below(self, child: Link, name: str) -> bool:
        """True where a child may speak of a node, because nobody else has it."""
        position = wire.read_position(name)
        hop = None if position is None else self._router.routes.next_hop(position.identity)
        if hop is not None:
            return hop == child.id
        return self.ledger.source(name) in (None, str(child.position.identity))

    def _take_early(self) -> None:
        """Take in the records of nodes whose announcement has come after them; the others are not told of."""
        early, self._early = self._early, {}
        for (link_id, name), record in early.items():
            child = self._router.children.by_id.get(link_id)
            if child is not None and self._is_below(child, name):
                self.ledger.put(record, str(child.position.identity))

    def _forget_gone(self, name: str) -> None:
        """Show a node no more that has vanished."""
        del self._gone[name]
        self._forget(name)

    def _forget(self, name: str) -> None:
        """Forget a node and its reports; a node that has left in good order stays known."""
        if not self.ledger.has_ended(name):
            self.ledger.drop(name)
        self.ledger.drop_source(name)
        self._foreign.pop(name, None)

    def _look_at(self, now: float, link: Link) -> None:
        name = str(link.position.identity)
        peer = self.connections.known(link.id)
        service = peer is not None and peer.service
        ended = None if link.up else self._ended.get(link.id)
        elsewhere = not link.up and self._router.routes.next_hop(link.position.identity) != link.id
        if (elsewhere and ended is None) or (service and ended is not None):
            # It has withdrawn, lives elsewhere, or is no rank of the job.
            self._looks.pop(link.id, None)
            if name not in self._gone:
                self.ledger.drop(name)
            return
        look = self._looks.get(link.id)
        if look is None:
            look = self._looks[link.id] = _LinkLook(now)
            self._gone.pop(name, None)
        down, counters, own = look.sent(now, link, self._host.times.figures), link.counters, self._own.get(name)
        stream = (link.session, link.streams, link.since, link.silent)
        marks = (down, counters.received, counters.heard, stream, ended, own)
        if not look.differs(marks):
            return
        status = NodeStatus(
            parent=self._router.identity,
            state=_standing(link) or ended or State.LOST,
            since=self._clock.at(link.silent_at if link.silent else link.since),
            peer=peer.profile.name if peer is not None else "",
            version=peer.version if peer is not None else "",
            link=_kind(link),
            address=self.connections.address(link.id),
            last_message=self._heard(link),
            down=down,
            up=Direction(counters.received, counters.received_bytes),
            reopened=max(0, link.streams - 1),
            own=own,
            service=service,
            end_reason=self._reasons.get(link.id, ""),
        )
        self._put_changed(now, look, name, status, away=not link.up, ended=ended)

    def _of_itself(self, now: float) -> NodeStatus:
        router, up = self._router, self._router.upstream
        gate = router.gate
        own = OwnFigures(
            listen=self.listen,
            inbox=gate.held,
            inbox_room=gate.room,
            inbox_line=len(gate.line),
            inbox_closed=gate.room > 0 and not gate.open,
            delivered=router.statistics.delivered,
            lost=router.statistics.lost,
            job_id=_cut(router.membership.job_id, JOB_ID_SHOWN_BYTES) if self.listen else "",
        )
        if up is None:
            return NodeStatus(None, State.JOINED, self._clock.at(self._started), OURS.name, __version__, own=own)
        flow = self._upward.sent(now, up, self._host.times.figures)
        return NodeStatus(
            parent=up.position if up.streams else None,
            state=State.JOINED if up.up else State.LOST,
            since=self._clock.at(up.since if up.streams else self._started),
            peer=OURS.name,
            version=__version__,
            link=_kind(up),
            last_message=self._heard(up),
            down=Direction(up.counters.received, up.counters.received_bytes),
            up=flow,
            own=own._replace(
                reconnects=max(0, up.streams - 1), up=flow, link_reason=_why(up), upstream=_upstream_in_use(up)
            ),
        )

    def _put_changed(
        self,
        now: float,
        look: _LinkLook,
        name: str,
        status: NodeStatus,
        *,
        away: bool = False,
        ended: State | None = None,
    ) -> None:
        """Keep a record of a node's status, if that has changed since the last look."""
        if status != look.status:
            look.keep(status, self._clock.at(now))
            self.ledger.put(Record(name, wire.write_node(status._replace(at=look.at)), away, ended))

    def _heard(self, link: Link) -> float | None:
        """The time of the last message or answer over a link, in seconds since the epoch; None: never."""
        heard = link.counters.heard
        return self._clock.at(heard) if heard > 0.0 else None

    def _look_behind_foreigners(self) -> Iterator[None]:
        """Keep records of the nodes behind children that do not report: the routes alone tell of them."""
        routes, looks = self._router.routes, 0
        for link in list(self._router.children.by_id.values()):
            own = link.position.identity
            name = str(own)
            if link.is_leaf or name in self._own:
                # The child's own reports replace the records made from its routes.
                self._foreign.pop(name, None)
                continue
            known, status = self._foreign.setdefault(name, set()), b""
            # A route that was never announced was learnt from a message. Lists, because routes come and go meanwhile.
            for nodes in (list(known), routes.oldest(link.id, routes.claimed(link.id))):
                for node in nodes:
                    looks += 1
                    if looks % self.bounds.looks_behind == 0:
                        yield
                    if routes.next_hop(node) != link.id:
                        if node in known:
                            known.discard(node)
                            self.ledger.drop(str(node), name)
                    elif node not in known and node != own:
                        known.add(node)
                        status = status or self._status_behind(link, since=0.0)
                        self.ledger.put(Record(str(node), status), name)

    def _status_behind(self, link: Link, since: float) -> bytes:
        """The status of all nodes behind a child that does not report."""
        return wire.write_node(NodeStatus(link.position.identity, State.JOINED, since, peer="", at=self.wall()))


class News(asyncio.Event):
    """News of the children: set when a node has come or gone.

    The reports to the parent clear it; further listeners have their own events.

    Attributes:
        listeners: the events of the further listeners.
        refused: the last registrations that were refused, for one listener that takes them out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.listeners: set[asyncio.Event] = set()
        self.refused: deque[RefusedRegistration] = deque(maxlen=REFUSED)

    def set(self) -> None:
        """Tell all listeners."""
        super().set()
        for listener in self.listeners:
            listener.set()


@dataclass(slots=True)
class _LinkLook:
    """One link at the last look: its status without the time of the figures, that time, and recent answer times.

    `marks` differ if the status does. Nearly every link is idle, and comparing them takes half the time of a status.
    """

    measured: float
    marks: tuple[object, ...] = ()
    status: NodeStatus | None = None
    at: float = 0.0
    acks: tuple[float | None, float | None] = (None, None)

    def sent(self, now: float, link: Link, every: float) -> Direction:
        """The side of the link that this node writes to. Its answer times are those of `every` seconds at least."""
        counters = link.counters
        self._measure(now, link, every)
        queued = link.queued_messages
        return Direction(counters.sent, counters.sent_bytes, counters.failed, link.in_flight.count, queued, *self.acks)

    def _measure(self, now: float, link: Link, every: float) -> None:
        """Take in recent answer times in seconds: p50 and p99."""
        recent = link.counters.recent
        if recent.count and (self.acks[0] is None or now - self.measured >= every):
            self.acks = (recent.quantile(0.5), recent.quantile(0.99))
            self.measured = now
            recent.clear()
        elif now - self.measured > LATELY_S:
            self.acks = (None, None)

    def differs(self, marks: tuple[object, ...]) -> bool:
        """Keep the marks of this look. Returns whether they differ from the last one's."""
        before, self.marks = self.marks, marks
        return marks != before

    def outdate(self) -> None:
        """Make the next look differ."""
        self.marks = ()

    def keep(self, status: NodeStatus, at: float) -> None:
        """Keep a new status, and the time of its figures."""
        self.status, self.at = status, at


def _standing(link: Link) -> State | None:
    """The state of a child whose stream stands; None for any other."""
    if not link.up:
        return None
    return State.NOT_ANSWERING if link.silent else State.JOINED


def _cut(text: str, most: int) -> str:
    """A text of at most so many bytes."""
    return text.encode()[:most].decode(errors="ignore")


def _why(link: Link) -> str:
    """The reason for which a link is of no better kind; empty where there is none, or no link."""
    return link.session.why if isinstance(link.session, Session) else ""


def _upstream_in_use(link: Link) -> str:
    """The address of the upstream in use, where several are given; empty elsewhere."""
    return link.session.upstream if isinstance(link.session, Session) else ""


def _kind(link: Link) -> str:
    """The kind of a link; empty without a stream."""
    return link.session.kind if isinstance(link.session, Session) else ""
