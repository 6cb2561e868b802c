"""A whole mesh in memory: Routers wired together as a tree, over an honest network that a test can cut and delay.

Time is virtual. What is under way lies in lanes, one for each direction and purpose of each link; a step takes the
first item of one lane. Within a lane order is kept, between lanes it is the test's choice: `run` takes turns, a
hypothesis test picks. A link that breaks loses what is under way; each end notices when its turn comes, not at once.

There are both kinds of links. Of the four calls: down a stream first in, first out; up one call for each message, which
may overtake each other unless they are of one sender, one destination and not acknowledged end to end. And batched:
first in, first out both ways, several at a time.
"""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias, assert_never, cast

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Destination, Position
from taskd_net.core.acks import Told
from taskd_net.core.frame import Ack, Frame, Probe
from taskd_net.core.links import UP, Link
from taskd_net.core.ready import (
    Announce,
    Diverted,
    EndStream,
    Forgot,
    Joined,
    Kind,
    Lost,
    ReportViolation,
    SignsOfLife,
    Withdraw,
)
from taskd_net.core.router import RouterConfig
from taskd_net.core.routes import LinkId
from taskd_net.core.uuids import Uuids
from taskd_net.net.links import peer as peers
from taskd_net.net.links.batched import PROBED as BATCHED
from taskd_net.net.links.tasknet import PROBED as TASKNET
from tests.core.driven import Action, Answer, Arrival, Deliver, Driven, Forward
from tests.simulation.original import OriginalRouter

Tree: TypeAlias = dict[Position, Position | None]
"""Each node with its parent; the Mgr with None. Parents come before their children."""

LOOP: Final = 4
"""Times a message has crossed one link when it is clear that it will never stop."""

BATCH: Final = 3
"""Messages in one batch."""

RETRY_S: Final = 0.5
"""Seconds until a refused registration or announcement is tried again."""


class Stage(IntEnum):
    """The purpose of a lane."""

    JOIN = 0
    DOWN_QUEUE = 1
    DOWN_WIRE = 2
    ACKS = 3
    UP_QUEUE = 4
    UP_CALL = 5
    UP_REPLY = 6
    ANNOUNCE = 7
    ANNOUNCE_REPLY = 8
    ACKS_DOWN = 9
    PARENT_SEES_END = 10
    CHILD_SEES_END = 11


# Lanes that are lost with a link; the others belong to one of its ends.
_UNDER_WAY: Final = frozenset(
    {
        Stage.JOIN,
        Stage.DOWN_WIRE,
        Stage.ACKS,
        Stage.ACKS_DOWN,
        Stage.UP_CALL,
        Stage.UP_REPLY,
        Stage.ANNOUNCE,
        Stage.ANNOUNCE_REPLY,
    }
)


@dataclass(slots=True, eq=False)
class Sent:
    """One attempt to send a message, and what came of it."""

    uuid: str
    sender: Node
    incarnation: int
    dst: Destination
    sync: bool
    at: float
    deadline: float
    order: int
    ack: Ack | None = None
    answered_at: float = float("inf")
    answer_order: int = -1

    @property
    def abandoned(self) -> bool:
        """True when the sender died before it got an answer, so that nobody waits any more."""
        return self.ack is None and self.sender.incarnation != self.incarnation


class Node:
    """A node of the simulation: its Router and what would be I/O around it."""

    __slots__ = (
        "armed",
        "children",
        "cut",
        "inbox",
        "incarnation",
        "joined",
        "lost",
        "parent",
        "position",
        "received",
        "router",
        "running",
        "session",
        "streams",
        "uuids",
    )

    def __init__(self, position: Position, parent: Node | None, router: Driven) -> None:
        self.position = position
        self.parent = parent
        self.router = router
        self.children: list[Node] = []
        self.streams: dict[LinkId, Session] = {}
        self.session: Session | None = None
        self.inbox: list[Frame] = []
        self.received: list[Frame] = []
        self.lost = 0
        self.incarnation = 0
        self.uuids = new_life(self)
        self.armed = float("inf")
        self.running = True
        self.joined = parent is None
        self.cut = False

    @property
    def depth(self) -> int:
        """Levels below the root."""
        return 0 if self.parent is None else 1 + self.parent.depth

    @property
    def in_mesh(self) -> bool:
        """True when the root knows the way here, and nothing on it is broken."""
        node: Node | None = self
        while node is not None:
            if not node.running or not node.joined or (node.session is not None and node.session.broken):
                return False
            node = node.parent
        return True

    def __repr__(self) -> str:
        return str(self.position)


def new_life(node: Node) -> Uuids:
    """The uuids of a node's next life; without noise, as nobody guesses here."""
    return Uuids(f"{abs(hash(node.position)) % 2**32:08x}{node.incarnation:08x}", bytes)


@dataclass(slots=True, eq=False)
class Call:
    """One message on its way up, until it is answered."""

    mesh: Mesh
    session: Session
    frame: Frame
    deadline: float
    number: int

    def reply(self, ack: Ack) -> None:
        """Take the parent's answer."""
        self.mesh.put(self.session, Stage.UP_REPLY, (self, ack), self.number)


_Flow: TypeAlias = tuple[Position, Position]
_Queued: TypeAlias = tuple[Frame, float, int]
"""A message that waits to be written, until when its answer is awaited (0 where nobody waits), and its number."""


class Session:
    """One stay of a child with its parent: the stream down, the calls up."""

    __slots__ = (
        "batched",
        "broken",
        "calls",
        "child",
        "child_router",
        "child_up",
        "flows",
        "link",
        "mesh",
        "numbered",
        "parent",
        "parent_router",
        "parent_up",
        "taken",
    )

    def __init__(self, mesh: Mesh, parent: Node, child: Node, batched: bool, numbered: bool) -> None:
        self.mesh = mesh
        self.batched = batched
        self.numbered = numbered
        self.parent, self.parent_router = parent, parent.router
        self.child, self.child_router = child, child.router
        self.link: Link | None = None
        self.child_up = False
        self.parent_up = False
        self.broken = False
        self.taken = False
        self.calls: dict[int, Call] = {}
        self.flows: dict[_Flow, deque[_Queued]] = {}

    def answer(self, stage: Stage, sync: bool, number: int, ack: Ack) -> None:
        """Take the answer to a message that came down, or up a batched link."""
        self.mesh.put(self, stage, (ack, sync, number))

    def __repr__(self) -> str:
        return f"{self.parent}-{self.child}"


Lane: TypeAlias = tuple[Session, Stage, int]


@dataclass(slots=True)
class Mesh:
    """The nodes of one job and the network between them.

    Args:
        tree: who there is and whose child it is.
        config: what the Routers are made with, by role; `default` for the others.
    """

    tree: Tree
    config: Callable[[Position], RouterConfig] = lambda _: RouterConfig()
    batched: Callable[[Position], bool] = lambda _: True
    """True if the link from this child to its parent is a batched one."""
    numbered: Callable[[Position], bool] = lambda _: True
    """True if a batched link from this child numbers its messages."""
    original: Callable[[Position], bool] = lambda _: False
    """True if a node is one of the original's."""
    probes: Callable[[Position], bool] = lambda _: True
    """True if a node answers probes; one of the original's never does."""
    counts: Callable[[Position], bool] = lambda _: True
    """True if a node says how many have confirmed a broadcast, over a batched link to another that does."""
    now: float = 0.0
    nodes: dict[Position, Node] = field(default_factory=dict)
    sending: Callable[[Sent], None] = lambda sent: None
    """Called with each message before its sender's Router gets it."""
    delivered: Callable[[Node, Frame], None] = lambda node, frame: None
    """Called when a message goes into an inbox."""
    trace: Callable[[Node, str, Sequence[Action]], None] | None = None
    """Called with every event at a Router and what follows from it."""
    forging: bool = False
    """True if somebody lies at this moment: nobody else may ever be accused of it."""
    moved: bool = False
    """True if a node has been given another parent: what was announced of the old tree may come up in the new one."""
    repeated: set[bytes] = field(default_factory=set)
    """The messages that a node has sent again while it waited for the join."""
    sent: set[bytes] = field(default_factory=set)
    """The messages that their senders have sent at least once."""
    crossings: Counter[tuple[bytes, Position, Position]] | None = None
    """If set: crossings of each message on each link, either way."""
    _lanes: dict[Lane, list[Any]] = field(default_factory=dict)
    _turns: deque[Lane] = field(default_factory=deque)
    _timers: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _count: Iterable[int] = field(default_factory=count)
    _stages: dict[Stage, Callable[[Session, Any], None]] = field(init=False)

    def __post_init__(self) -> None:
        self._stages = {
            Stage.JOIN: self._join,
            Stage.DOWN_QUEUE: self._write_down,
            Stage.DOWN_WIRE: self._arrive_down,
            Stage.ACKS: self._arrive_ack,
            Stage.UP_QUEUE: self._write_up,
            Stage.UP_CALL: self._arrive_up,
            Stage.UP_REPLY: self._arrive_reply,
            Stage.ACKS_DOWN: self._arrive_ack_down,
            Stage.ANNOUNCE: self._arrive_announcement,
            Stage.ANNOUNCE_REPLY: self._arrive_announcement_reply,
            Stage.PARENT_SEES_END: self._parent_sees_end,
            Stage.CHILD_SEES_END: self._child_sees_end,
        }
        for position, parent in self.tree.items():
            above = None if parent is None else self.nodes[parent]
            node = Node(position, above, self._router(position))
            self.nodes[position] = node
            if above is not None:
                above.children.append(node)
                self._connect(node)

    def send(
        self,
        sender: Node,
        dst: Position | str,
        *,
        sync: bool = True,
        uuid: str | None = None,
        timeout: float = limits.ACK_TIMEOUT_S,
        size: int = 0,
    ) -> Sent:
        """Send a message from a node; `size` pads it. The attempt's own bytes tell it from every other."""
        order = self._next()
        to = Destination.of(Position.parse(dst) if isinstance(dst, str) else dst)
        # Uuids of ours, and some of another make.
        uuid = uuid or (f"m{order}" if order % 3 == 0 else sender.uuids.next(to.position))
        sent = Sent(uuid, sender, sender.incarnation, to, sync, self.now, self.now + timeout, order)

        def reply(ack: Ack) -> None:
            assert sent.ack is None, f"{sent.uuid} was answered twice: {sent.ack}, {ack}"
            sent.ack, sent.answered_at, sent.answer_order = ack, self.now, self._next()

        self.sending(sent)
        frame = Frame(uuid, sync, sender.position, to, f"{uuid}#{order}".encode().ljust(size, b"."))
        self._perform(sender, sender.router.send(self.now, frame, reply, timeout), "send", frame)
        return sent

    def ping(self, sender: Node, dst: Position, hops: int | None = None) -> Sent:
        """Send a probe from a node."""
        order = self._next()
        to = Destination.of(dst)
        sent = Sent(f"p{order}", sender, sender.incarnation, to, True, self.now, self.now + limits.ACK_TIMEOUT_S, order)

        def reply(ack: Ack) -> None:
            assert sent.ack is None, f"{sent.uuid} was answered twice: {sent.ack}, {ack}"
            sent.ack, sent.answered_at, sent.answer_order = ack, self.now, self._next()

        probe = Probe(sent.uuid, True, sender.position, to, sent.uuid.encode(), hops)
        self._perform(sender, sender.router.probe(self.now, probe, reply, limits.ACK_TIMEOUT_S), "probe", probe)
        return sent

    def clock(self) -> int:
        """A number that is larger than any given to what has happened so far, see `Sent.order`."""
        return self._next()

    def take(self, node: Node, messages: int | None = None) -> list[Frame]:
        """Let the application take messages out of an inbox: so many, or all that come."""
        taken: list[Frame] = []
        while node.inbox and (messages is None or len(taken) < messages):
            taken.append(node.inbox.pop(0))
            self._perform(node, node.router.inbox_taken(self.now), "inbox_taken")
        return taken

    def cut(self, node: Node) -> None:
        """Break the link between a node and its parent, until `heal`."""
        node.cut = True
        if node.session is not None:
            self._break(node.session)

    def heal(self, node: Node) -> None:
        """Let a node reach its parent again."""
        node.cut = False
        self._connect(node)

    def stop(self, node: Node) -> None:
        """Close a node in good order."""
        self._perform(node, node.router.close(), "close")
        self._leave(node)

    def crash(self, node: Node) -> None:
        """Let a node's process die; what it knew is gone."""
        self._leave(node)

    def start(self, node: Node, parent: Node | None = None) -> None:
        """Start a node that was stopped or has crashed, below the parent it had or another one."""
        assert not node.running
        if parent is not None and node.parent is not None:
            node.parent.children.remove(node)
            node.parent = parent
            parent.children.append(node)
            node.cut = False
        node.router = self._router(node.position)
        # Events of its earlier life may have armed it since then.
        node.armed = float("inf")
        node.running = True
        node.joined = node.parent is None
        self._connect(node)
        for child in node.children:
            self._connect(child)

    def forge(self, liar: Node, frame: Frame, announced: Position) -> None:
        """Let a leaf bring a message that is not its own, and announce somebody else: it is told 4002 and 4006."""
        session, answers = liar.session, list[Ack]()
        assert session is not None and session.link is not None and session.parent_up
        link, parent = session.link, session.parent
        if link.session is session and parent.router is session.parent_router and parent.running:
            self.forging = True
            self._perform(parent, parent.router.frame_arrived(self.now, link.id, frame, answers.append, 1.0), "forge")
            actions = parent.router.announced(self.now, link, Kind.ADD, [announced], answers.append, "forged")
            self._perform(parent, actions, "forge")
            self.forging = False
            assert [ack.code for ack in answers] == [Code.NIL_POSITION, Code.DST_TYPE_ILLEGAL]

    def lanes(self) -> list[Lane]:
        """The lanes with something under way."""
        return list(self._lanes)

    def step(self, lane: Lane) -> None:
        """Let the first item of a lane go on."""
        items = self._lanes[lane]
        item = items.pop(0)
        if not items:
            del self._lanes[lane]
        session, stage, _ = lane
        self._stages[stage](session, item)

    def run(self) -> None:
        """Let everything go on, in turns, until nothing is under way. Time stands still."""
        turns, lanes = self._turns, self._lanes
        while turns:
            lane = turns.popleft()
            if lane in lanes:
                self.step(lane)
                if lane in lanes:
                    turns.append(lane)

    def advance(self, seconds: float) -> None:
        """Let time pass, in which nothing arrives anywhere: timers are all that happens."""
        until = self.now + seconds
        while self._timers and self._timers[0][0] <= until:
            self.now, _, call = heapq.heappop(self._timers)
            call()
        self.now = until

    def settle(self, seconds: float = 0.0) -> None:
        """Let time pass in which everything arrives as soon as it is sent."""
        until = self.now + seconds
        self.run()
        while self._timers and self._timers[0][0] <= until:
            self.advance(self._timers[0][0] - self.now)
            self.run()
        self.now = until

    def put(self, session: Session, stage: Stage, item: object, number: int = 0) -> None:
        """Put something under way."""
        if session.broken and stage in _UNDER_WAY:
            return
        lane = (session, stage, number)
        items = self._lanes.get(lane)
        if items is None:
            # A list, though it is a queue: an empty deque is ten times as large, and here are lanes without number.
            self._lanes[lane] = items = []
            self._turns.append(lane)
        items.append(item)

    def check(self) -> None:
        """Assert what has to hold at any moment, between any two steps."""
        for node in self.nodes.values():
            if not node.running:
                continue
            node.router.check()
            assert node.router.gate.held == len(node.inbox)
            assert node.router.next_deadline() >= node.armed, "nobody will wake the Router in time"
            if self.original(node.position):
                continue
            for session in node.streams.values():
                assert session.link is not None
                self._check_queue(session.link, self._lanes.get((session, Stage.DOWN_QUEUE, 0), ()))
            if node.session is not None and node.session.child_up:
                up = node.router._up
                assert up is not None
                waiting = [*self._lanes.get((node.session, Stage.UP_QUEUE, 0), ())]
                waiting += [item for flow in node.session.flows.values() for item in flow]
                self._check_queue(up, waiting)

    def check_idle(self) -> None:
        """Assert what has to hold when every node has joined and everything sent has been answered and taken."""
        for node in self.nodes.values():
            router = node.router
            assert node.in_mesh, f"{node} has not joined"
            below = {child.position.identity: child for child in node.children}
            expected: dict[Position, Position] = {}
            for identity, child in below.items():
                expected |= dict.fromkeys([identity, *self._below(child)], identity)
            children = router.children.by_id
            assert {to: children[link].position.identity for to, link in router.routes.items()} == expected, node
            assert set(router.children._by_identity) == set(below), f"{node} still keeps places"
            assert not router.routes._replaced, f"{node} still keeps claims"
            for link in (*children.values(), *((router._up,) if router._up else ())):
                assert (link.queued_messages, link.queued_bytes, link.in_flight.count) == (0, 0, 0), (
                    node,
                    link.position,
                )
            assert not router.gate.line and not router._sends._lanes and router._sends._bytes == 0
            assert not router._advertisements.queue.clear(), "an announcement was never made"

    def _join(self, session: Session, step: int) -> None:
        child, parent = session.child, session.parent
        assert child.session is session
        if step == 0:
            if not parent.running:
                child.session = None  # the parent's start connects again
                return
            session.parent_router = parent.router
            try:
                quirks = peers.ORIGINAL.child_quirks(child.position) if self.original(child.position) else None
                session.link = parent.router.register(self.now, child.position, quirks)
            except Refusal:
                child.session = None
                self._later(RETRY_S, lambda: self._connect(child))
                return
            self._perform(parent, (), "register", child)
        elif step == 1:
            link = session.link
            assert link is not None
            if parent.router.children.find(child.position) is not link:
                child.session = None
                self._connect(child)
                return
            replaced = parent.streams.get(link.id)
            unwritten = [] if replaced is None else self._unwritten(replaced)
            parent.streams[link.id] = session
            session.parent_up = True
            self._perform(
                parent,
                parent.router.link_up(
                    self.now,
                    link,
                    session,
                    unwritten,
                    self._ended(session),
                    session.numbered,
                    counts=self._counts(session),
                    bare=session.numbered,
                ),
                "link_up",
                child,
            )
        else:
            session.child_up = True
            theirs = self.original(parent.position)
            quirks = peers.ORIGINAL.parent if theirs else None
            depth, withdraws = (1, False) if theirs else (child.depth, True)
            probes = self._ended(session)
            actions = child.router.upstream_up(
                self.now,
                session,
                parent.position,
                depth,
                withdraws,
                quirks,
                probes,
                session.numbered,
                counts=self._counts(session),
                bare=session.numbered,
            )
            self._perform(child, actions, "upstream_up", parent)
            self._announce_all(session)
            return
        self.put(session, Stage.JOIN, step + 1)

    def _ended(self, session: Session) -> int | None:
        ends = (session.parent.position, session.child.position)
        if any(self.original(end) or not self.probes(end) for end in ends):
            return None
        return BATCHED if session.batched else TASKNET

    def _counts(self, session: Session) -> bool:
        ends = (session.parent.position, session.child.position)
        return session.batched and not any(self.original(end) or not self.counts(end) for end in ends)

    def _announce_all(self, session: Session) -> None:
        child = session.child
        if child.session is not session:
            return

        def reply(ack: Ack) -> None:
            if child.session is not session:
                return
            child.joined = ack.ok
            if not ack.ok:
                self._later(RETRY_S, lambda: self._announce_all(session))

        self._perform(child, child.router.announce_all(reply, f"a{self._next()}"), "announce_all")

    def _arrive_announcement(self, session: Session, item: tuple[Kind, list[Position]]) -> None:
        kind, positions = item
        parent, child = session.parent, session.child
        link = parent.router.children.find(child.position)

        def reply(ack: Ack) -> None:
            self.put(session, Stage.ANNOUNCE_REPLY, ack)

        number = self._next()
        patience = (0.0, RETRY_S, 3.0)[number % 3]
        actions = parent.router.announced(self.now, link, kind, positions, reply, f"p{number}", patience)
        self._perform(parent, actions, "announced", child, kind, positions)

    def _arrive_announcement_reply(self, session: Session, ack: Ack) -> None:
        child = session.child
        actions = child.router.announce_answered(session, ack.code, ack.src)
        self._perform(child, actions, "announce_answered", ack)

    def _write_down(self, session: Session, item: _Queued) -> None:
        parent, link = session.parent, session.link
        assert link is not None
        if session.batched:
            self._write_batch(session, parent.router, link.id, item, Stage.DOWN_QUEUE, Stage.DOWN_WIRE)
            return
        frame, _, _ = item
        self.put(session, Stage.DOWN_WIRE, [item])
        parent.router.written(link.id, session, 1, len(frame.data))
        if not frame.sync:
            actions = parent.router.post_answered(self.now, link.id, frame, Code.OK, link.position)
            self._perform(parent, actions, "post_answered", frame)

    def _write_batch(
        self, session: Session, router: Driven, link: LinkId, first: _Queued, queue: Stage, wire: Stage
    ) -> None:
        waiting = self._lanes.pop((session, queue, 0), [])
        batch = [first, *waiting[: BATCH - 1]]
        for item in waiting[BATCH - 1 :]:
            self.put(session, queue, item)
        self.put(session, wire, batch)
        router.written(link, session, len(batch), sum(len(frame.data) for frame, _, _ in batch))

    def _arrive_down(self, session: Session, batch: list[_Queued]) -> None:
        child = session.child
        batch = [(_read(frame), deadline, number) for frame, deadline, number in batch]
        for frame, _, _ in batch:
            self._cross(session, frame)
        if session.batched:
            arrivals = self._arrivals(batch, partial(session.answer, Stage.ACKS))
            actions = child.router.frames_arrived(self.now, UP, arrivals)
        else:
            ((frame, _, number),) = batch
            reply = partial(session.answer, Stage.ACKS, True, number) if frame.sync else None
            budget = limits.ORIGINAL_ANSWER_S if self.original(session.parent.position) else None
            actions = child.router.frame_arrived(self.now, UP, frame, reply, budget)
        self._perform(child, actions, "frames_arrived", [frame for frame, _, _ in batch], session.parent)

    def _arrivals(self, batch: list[_Queued], answer: Callable[[bool, int, Ack], None]) -> list[Arrival]:
        return [
            (frame, partial(answer, frame.sync, number), max(0.001, deadline - self.now))
            if deadline
            else (frame, None, None)
            for frame, deadline, number in batch
        ]

    def _arrive_ack(self, session: Session, answer: tuple[Ack, bool, int]) -> None:
        parent, link = session.parent, session.link
        assert link is not None
        if link.session is session:
            self._answer(session, parent, link.id, *answer)

    def _arrive_ack_down(self, session: Session, answer: tuple[Ack, bool, int]) -> None:
        if session.child.session is session:
            self._answer(session, session.child, UP, *answer)

    def _answer(self, session: Session, node: Node, link: LinkId, ack: Ack, sync: bool, number: int) -> None:
        assert bool(number) == session.numbered
        key = number or ack.uuid
        if sync and self._counts(session) and (ack.failures if ack.code else ack.receivers != 1):
            told = Told(ack.receivers, ack.failures)
            actions = node.router.ack_arrived(self.now, link, key, ack.code, ack.src, told=told)
        elif session.batched and ack.ok:
            actions = node.router.accepted(self.now, link, [key], sync=sync)
        else:
            actions = node.router.ack_arrived(self.now, link, key, ack.code, ack.src)
        self._perform(node, actions, "ack_arrived", ack)

    def _write_up(self, session: Session, item: _Queued) -> None:
        if session.batched:
            self._write_batch(session, session.child.router, UP, item, Stage.UP_QUEUE, Stage.UP_CALL)
            return
        frame, deadline, _ = item
        flow = (frame.src, frame.dst.position)
        behind = session.flows.get(flow)
        if behind is not None:
            behind.append(item)
            return
        if not frame.sync:
            session.flows[flow] = deque()
            deadline = self.now + limits.ACK_TIMEOUT_S
        session.child.router.written(UP, session, 1, len(frame.data))
        if deadline <= self.now:
            return  # nobody waits for it any more
        call = Call(self, session, frame, deadline, self._next())
        session.calls[call.number] = call
        self.put(session, Stage.UP_CALL, call, call.number)
        if not frame.sync:
            self._later(limits.ACK_TIMEOUT_S, lambda: self._give_up(call))

    def _arrive_up(self, session: Session, item: Call | list[_Queued]) -> None:
        parent, link = session.parent, session.link
        assert link is not None
        if isinstance(item, Call):
            frames = [item.frame]
            budget = max(0.0, item.deadline - self.now)
            actions = parent.router.call_arrived(self.now, link.id, _read(item.frame), item.reply, budget)
        else:
            item = [(_read(frame), deadline, number) for frame, deadline, number in item]
            frames = [frame for frame, _, _ in item]
            arrivals = self._arrivals(item, partial(session.answer, Stage.ACKS_DOWN))
            actions = parent.router.frames_arrived(self.now, link.id, arrivals)
        for frame in frames:
            self._cross(session, frame)
        self._perform(parent, actions, "frames_arrived", frames, session.child)

    def _arrive_reply(self, session: Session, item: tuple[Call, Ack]) -> None:
        call, ack = item
        if session.calls.pop(call.number, None) is not None:
            self._answered(session, call.frame, ack)

    def _give_up(self, call: Call) -> None:
        session = call.session
        if session.calls.pop(call.number, None) is not None:
            self._lanes.pop((session, Stage.UP_CALL, call.number), None)
            self._answered(session, call.frame, Ack(call.frame.uuid, Code.NETWORK_ACK_LOST, session.parent.position))

    def _answered(self, session: Session, frame: Frame, ack: Ack) -> None:
        child = session.child
        if child.router is not session.child_router:
            return
        if frame.sync:
            actions = child.router.ack_arrived(self.now, UP, ack.uuid, ack.code, ack.src, ack.detail)
            self._perform(child, actions, "ack_arrived", ack)
            return
        actions = child.router.post_answered(self.now, UP, frame, ack.code, ack.src, ack.detail)
        self._perform(child, actions, "post_answered", frame, ack)
        behind = session.flows.pop((frame.src, frame.dst.position), None)
        if behind:
            queue = self._lanes.pop((session, Stage.UP_QUEUE, 0), ())
            for item in (*behind, *queue):
                self.put(session, Stage.UP_QUEUE, item)

    def _cross(self, session: Session, frame: Frame) -> None:
        assert not isinstance(frame, Probe) or self._ended(session) is not None, "a probe for who knows none"
        if self.crossings is not None:
            if frame.data in self.repeated:
                return
            crossing = (frame.data, session.parent.position, session.child.position)
            self.crossings[crossing] += 1
            assert self.crossings[crossing] <= LOOP, f"{frame.uuid} goes round and round at {session}"

    def _note_repeats(self, node: Node, actions: Sequence[Action]) -> None:
        """Stop counting the messages that their sender sends again.

        Nobody tells here that a node has joined, so its sends are repeated when its parent answers 6002. A repeat may
        cross every link again, and copies of the time before may be under way still.
        """
        own = {
            action.frame.data for action in actions if isinstance(action, Forward) and action.frame.src == node.position
        }
        self.repeated |= own & self.sent
        self.sent |= own

    def _break(self, session: Session) -> None:
        """Lose everything under way between two nodes; each of them will see it."""
        if session.broken:
            return
        session.broken = True
        for stage in _UNDER_WAY:
            self._lanes.pop((session, stage, 0), None)
        for number in session.calls:
            self._lanes.pop((session, Stage.UP_CALL, number), None)
            self._lanes.pop((session, Stage.UP_REPLY, number), None)
        self.put(session, Stage.CHILD_SEES_END, None)
        if session.parent_up:
            self.put(session, Stage.PARENT_SEES_END, None)

    def _parent_sees_end(self, session: Session, _: None) -> None:
        parent, link = session.parent, session.link
        assert link is not None
        unwritten = self._unwritten(session)
        if parent.router is not session.parent_router or not parent.running:
            return
        if parent.streams.get(link.id) is session:
            del parent.streams[link.id]
        actions = parent.router.link_down(self.now, link, session, unwritten)
        self._perform(parent, actions, "link_down", session.child, unwritten)

    def _child_sees_end(self, session: Session, _: None) -> None:
        child = session.child
        waiting = [item for flow in session.flows.values() for item in flow]
        waiting += self._lanes.pop((session, Stage.UP_QUEUE, 0), ())
        if child.session is not session:
            return
        child.session = None
        child.joined = False
        if session.child_up:
            calls, session.calls = session.calls, {}
            for call in calls.values():
                if not call.frame.sync:
                    ack = Ack(call.frame.uuid, Code.NETWORK_ACK_LOST, session.parent.position)
                    actions = child.router.post_answered(self.now, UP, call.frame, ack.code, ack.src)
                    self._perform(child, actions, "post_answered", call.frame, ack)
            unwritten = [(frame, number) for frame, _, number in waiting]
            actions = child.router.upstream_down(self.now, session, unwritten)
            self._perform(child, actions, "upstream_down", session.parent, unwritten)
        if session.taken:
            self._later(limits.POSITION_TAKEN_PAUSE_S, lambda: self._connect(child))
        else:
            self._connect(child)

    def _leave(self, node: Node) -> None:
        """Take a node out of the mesh: whoever was linked with it sees that in its own time."""
        node.running = node.joined = False
        node.incarnation += 1
        node.uuids = new_life(node)
        sessions = [*node.streams.values(), *(child.session for child in node.children if child.session is not None)]
        node.streams = {}
        node.inbox, node.received = [], []
        node.armed = float("inf")
        for session in sessions:
            if session.parent is node:
                self._break(session)
                self._lanes.pop((session, Stage.DOWN_QUEUE, 0), None)
        if node.session is not None:
            session, node.session = node.session, None
            self._break(session)
            self._lanes.pop((session, Stage.UP_QUEUE, 0), None)

    def _unwritten(self, session: Session) -> list[tuple[Frame, int]]:
        return [(frame, number) for frame, _, number in self._lanes.pop((session, Stage.DOWN_QUEUE, 0), ())]

    def _connect(self, node: Node) -> None:
        """Begin to join, where that can succeed."""
        parent = node.parent
        if parent is None or node.session is not None or node.cut or not node.running or not parent.running:
            return
        batched = self.batched(node.position) and not (self.original(parent.position) or self.original(node.position))
        node.session = Session(self, parent, node, batched, batched and self.numbered(node.position))
        self.put(node.session, Stage.JOIN, 0)

    def _perform(self, node: Node, actions: Sequence[Action], *event: object) -> None:
        if self.trace is not None:
            self.trace(node, " ".join(map(str, event)), actions)
        if self.crossings is not None and event[0] != "frames_arrived":
            self._note_repeats(node, actions)
        for action in actions:
            match action:
                case Forward(link, frame, patience, number):
                    waiting = (frame, self.now + patience if patience else 0.0, number)
                    if link == UP:
                        assert node.session is not None and node.session.child_up
                        self.put(node.session, Stage.UP_QUEUE, waiting)
                    else:
                        self.put(node.streams[link], Stage.DOWN_QUEUE, waiting)
                case Answer(reply, ack):
                    reply(ack)
                case Deliver(frame):
                    node.inbox.append(frame)
                    node.received.append(frame)
                    self.delivered(node, frame)
                case Announce(kind, positions):
                    assert node.session is not None
                    self.put(node.session, Stage.ANNOUNCE, (kind, positions))
                case EndStream(session, _):
                    assert isinstance(session, Session)
                    session.taken = True
                    self._break(session)
                case Forgot(link, _, _):
                    assert link not in node.streams
                case Lost():
                    node.lost += 1
                case Diverted():
                    pass  # a log line
                case Joined():
                    pass  # nobody tells here: a 6002 of the own parent is sent again, as over the four calls
                case Withdraw() | SignsOfLife():
                    raise AssertionError("nothing is cancelled, and nobody looks for signs of life")
                case ReportViolation(peer, refusal):
                    stale = self.moved and "cannot lie below" in str(refusal)
                    assert self.forging or stale, f"{node} accuses {peer}: {refusal}"
                case _:
                    assert_never(action)
        deadline = node.router.next_deadline()
        if deadline < node.armed:
            node.armed = deadline
            self._at(deadline, lambda router=node.router: self._tick(node, router))  # type: ignore[misc]

    def _tick(self, node: Node, router: Driven) -> None:
        if node.router is router and node.running:
            node.armed = float("inf")
            self._perform(node, router.tick(self.now), "tick")

    def _at(self, time: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (time, self._next(), call))

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self._at(self.now + seconds, call)

    def _next(self) -> int:
        return next(self._count)  # type: ignore[call-overload,no-any-return]

    def _router(self, position: Position) -> Driven:
        if self.original(position):
            return cast("Driven", OriginalRouter(position, upstream=self.tree[position] is not None))
        upstream = self.tree[position] is not None
        return Driven(position, upstream=upstream, config=self.config(position), checked=False)

    def _below(self, node: Node) -> Iterable[Position]:
        for child in node.children:
            yield child.position.identity
            yield from self._below(child)

    @staticmethod
    def _check_queue(link: Link, waiting: Iterable[_Queued]) -> None:
        collisions = [collision.frame for held in link.in_flight.collisions.values() for collision in held]
        sizes = [len(frame.data) for frame in (*(frame for frame, _, _ in waiting), *collisions)]
        assert (link.queued_messages, link.queued_bytes) == (len(sizes), sum(sizes)), link.position


def _read(frame: Frame) -> Frame:
    """A probe that came over one link more, as the codec reads it."""
    return replace(frame, hops=frame.hops - 1) if isinstance(frame, Probe) and frame.hops is not None else frame
