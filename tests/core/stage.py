"""A few Routers that play a scene, written down event by event with what each decides.

Links carry at once and in order, as the batched link does: an event that another node's decision leads to happens when
everything that was decided before it has happened.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from taskd_net.base.codes import Refusal
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import UP, Link
from taskd_net.core.ready import Announce, EndStream, Forgot, Joined, Lost
from taskd_net.core.routes import LinkId
from tests.core.driven import Action, Answer, Deliver, Driven, Forward
from tests.core.routers import at, frame, router


@dataclass
class Stream:
    """The stream between a child and its parent."""

    child: str
    parent: str
    link: Link
    name: str


class Asker:
    """The target of an answer, by name."""

    def __init__(self, name: str, tell: Callable[[Ack], None]) -> None:
        self.name = name
        self.tell = tell

    def __call__(self, ack: Ack) -> None:
        self.tell(ack)


class Stage:
    """The nodes of a scene, the streams between them, the time, and the transcript."""

    def __init__(self) -> None:
        self.now = 0.0
        self._nodes: dict[str, Driven] = {}
        self._streams: dict[str, Stream] = {}
        self._names = 0
        self._coming: deque[Callable[[], None]] = deque()
        self._lines: list[str] = []

    def transcript(self) -> str:
        """Everything so far, as text."""
        return "\n".join(self._lines) + "\n"

    def say(self, text: str) -> None:
        """A heading for what follows."""
        self._lines += ["", f"# {text}"] if self._lines else [f"# {text}"]

    def enter(self, *positions: str, **settings: float) -> None:
        """Nodes are started."""
        for position in positions:
            self._nodes[position] = router(position, **settings)

    def register(self, child: str, parent: str) -> None:
        """A child registers and opens its stream."""
        position = at(child)
        try:
            link = self._nodes[parent].register(self.now, position)
        except Refusal as refusal:
            self._event(parent, f"{child} registers")
            self._decided(f"refuse with {int(refusal.code)}: {refusal.detail}")
            return
        self._event(parent, f"{child} registers")
        self._decided(f"it has link {link.id}")
        self._names += 1
        stream = Stream(child, parent, link, f"stream {self._names}")
        self._happens(
            parent, f"{child} opens {stream.name}", lambda node: node.link_up(self.now, link, stream.name, [])
        )
        self._streams[child] = stream

    def join(self, child: str, parent: str, *, depth: int) -> None:
        """A child registers, opens its stream and announces everything that is reached through it."""
        self.register(child, parent)
        stream = self._streams[child]
        what = f"{stream.name} to {parent} stands; depth {depth}"
        told = self._nodes[parent].joined
        self._happens(
            child, what, lambda node: node.upstream_up(self.now, stream.name, at(parent), depth, True, told=told)
        )
        self.announce(child)
        self.settle()

    def announce(self, child: str) -> None:
        """A child announces everything that is reached through it."""
        asker = Asker("the joining", lambda ack: None)
        self._happens(child, "it announces itself", lambda node: node.announce_all(asker, "its announcement"))
        self.settle()

    def send(self, src: str, to: str, uuid: str, *, sync: bool = True, timeout: float = 3.0) -> None:
        """An application sends a message; what follows from it does not happen before `settle`."""
        message = frame(to, src, uuid=uuid, sync=sync)
        asker = Asker("the application", lambda ack: None)
        how = "sends" if sync else "posts"
        self._happens(
            src, f"the application {how} {uuid} to {to}", lambda node: node.send(self.now, message, asker, timeout)
        )

    def take(self, node: str) -> None:
        """An application takes a message out of the inbox."""
        self._happens(node, "the application takes a message", lambda node: node.inbox_taken(self.now))

    def cut(self, child: str, *, silent: bool = False) -> None:
        """The stream of a child ends; nobody has heard of what was just written. Silent: the child is dead."""
        stream = self._streams.pop(child)
        self._coming.clear()
        self._happens(
            stream.parent,
            f"{stream.name} of {child} ends",
            lambda node: node.link_down(self.now, stream.link, stream.name, []),
        )
        if not silent:
            what = f"{stream.name} to {stream.parent} ends"
            self._happens(child, what, lambda node: node.upstream_down(self.now, stream.name, []))

    def settle(self) -> None:
        """Let happen what follows from everything so far."""
        while self._coming:
            self._coming.popleft()()

    def wait_until(self, time: float) -> None:
        """Let time pass, with everything that happens by it."""
        self.settle()
        while (due := min(node.next_deadline() for node in self._nodes.values())) <= time:
            self.now = max(self.now, due)
            for name, node in self._nodes.items():
                if node.next_deadline() <= self.now and (actions := node.tick(self.now)):
                    self._event(name, "time passes")
                    self._perform(name, actions)
            self.settle()
        self.now = time

    def _happens(self, name: str, what: str, event: Callable[[Driven], list[Action]]) -> None:
        self._event(name, what)
        actions = event(self._nodes[name])
        self._perform(name, actions)
        if not actions:
            self._decided("nothing")

    def _perform(self, name: str, actions: list[Action]) -> None:
        for action in actions:
            match action:
                case Forward(link, message, patience):
                    peer = self._peer(name, link)
                    waits = f", answer within {patience:.3f} s" if patience else ""
                    self._decided(f"forward {message.uuid} to {peer}{waits}")
                    self._carry(name, peer, message, patience)
                case Deliver(message):
                    self._decided(f"deliver {message.uuid}")
                case Answer(reply, ack):
                    assert isinstance(reply, Asker)
                    detail = f": {ack.detail}" if ack.detail else ""
                    self._decided(f"answer {reply.name}: {ack.uuid} {int(ack.code)} from {ack.src}{detail}")
                    reply(ack)
                case Announce(kind, positions):
                    self._decided(f"announce {kind.name}: {', '.join(map(str, positions))}")
                    self._carry_announcement(name, action)
                case EndStream(session, reason):
                    self._decided(f"end {session}: {reason}")
                case Forgot(_, position, routes):
                    self._decided(f"forget {position}, {routes} in all")
                case Joined(joined):
                    self._decided("it has joined" if joined else "it has no way to the Mgr any more")
                    self._tell(name, joined)
                case Lost(message, code, src, detail):
                    self._decided(f"{message.uuid} is lost: {int(code)} from {src}: {detail}")

    def _carry(self, sender: str, receiver: str, message: Frame, patience: float) -> None:
        def answered(ack: Ack) -> None:
            link = self._link(sender, receiver)
            self._coming.append(
                lambda: self._happens(
                    sender,
                    f"{receiver} answers {ack.uuid} {int(ack.code)} from {ack.src}",
                    lambda node: node.ack_arrived(self.now, link, ack.uuid, ack.code, ack.src),
                )
            )

        def arrives() -> None:
            asker = Asker(sender, answered) if patience else None
            link = self._link(receiver, sender)
            self._nodes[sender].written(self._link(sender, receiver), self._stream(sender, receiver).name, 1, 10)
            self._happens(
                receiver,
                f"{message.uuid} arrives from {sender}, for {message.dst}",
                lambda node: node.frame_arrived(self.now, link, message, asker, patience or None),
            )

        self._coming.append(arrives)

    def _tell(self, parent: str, joined: bool) -> None:
        what = f"{parent} says that it has {'joined' if joined else 'no way to the Mgr'}"
        for stream in self._streams.values():
            if stream.parent == parent:
                child = stream.child
                self._coming.append(
                    lambda child=child: self._happens(  # type: ignore[misc]
                        child, what, lambda node: node.parent_told(self.now, joined)
                    )
                )

    def _carry_announcement(self, child: str, announce: Announce) -> None:
        stream = self._streams[child]

        def answered(ack: Ack) -> None:
            self._coming.append(
                lambda: self._happens(
                    child,
                    f"{stream.parent} answers the announcement {int(ack.code)}",
                    lambda node: node.announce_answered(stream.name, ack.code, ack.src),
                )
            )

        self._coming.append(
            lambda: self._happens(
                stream.parent,
                f"{child} announces {announce.kind.name}: {', '.join(map(str, announce.positions))}",
                lambda node: node.announced(
                    self.now, stream.link, announce.kind, announce.positions, Asker(child, answered), "its announcement"
                ),
            )
        )

    def _peer(self, name: str, link: LinkId) -> str:
        return self._streams[name].parent if link == UP else str(self._nodes[name].children.by_id[link].position)

    def _stream(self, one: str, other: str) -> Stream:
        stream = self._streams.get(one)
        return stream if stream is not None and stream.parent == other else self._streams[other]

    def _link(self, name: str, peer: str) -> LinkId:
        stream = self._stream(name, peer)
        return UP if stream.child == name else stream.link.id

    def _event(self, name: str, what: str) -> None:
        self._lines.append(f"{self.now:7.3f}  {name:<12}{what}")

    def _decided(self, what: str) -> None:
        self._lines.append(f"{'':23}→ {what}")
