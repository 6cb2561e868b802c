"""Requests whose answer somebody awaits, and where the answer goes.

A `Pending` is a unicast. A broadcast is a `FanOut` with a `Branch` for each link it was forwarded on and one for the
own inbox; its answer goes out when the last branch is settled. Both wait on a link (`core.in_flight`) or before the
inbox.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from taskd_net.base.codes import Code
from taskd_net.base.position import Position
from taskd_net.core.frame import Ack, Failure, Frame
from taskd_net.core.ready import Key, Token
from taskd_net.core.routes import LinkId

FAILURES_TOLD: Final = 16
"""Nodes that the answer to a broadcast names because they did not confirm it: enough to see whose trouble it is. No hop
passes on more, so an answer takes some hundred bytes whatever the size of the job."""


class Origin(NamedTuple):
    """The neighbour that awaits the answer to a message.

    Attributes:
        link: the link that the message came on.
        stream: the number of the link's stream then (`Link.streams`). A later stream does not know the message.
        key: the name of the message in its answer.
        in_full: whether 0 needs an Ack of its own: the answer to a `sync=false` message must not look like a delivery.
        size: bytes that count towards the child's quota until the answer; 0 for a small message.
    """

    link: LinkId
    stream: int
    key: Key
    in_full: bool
    size: int = 0


@dataclass(slots=True, eq=False)
class Send:
    """One send of the application, or of a child in whose place this node waits, until it is answered.

    Args:
        frame: the message.
        token: the node's name for it.
        deadline: when the answer is due.
        wait: whether it waits for the node to join.
        asker: the request of the child that gets the answer; None for a send of the application.

    Attributes:
        number: its place in the order of this node's sends.
        upward: whether it went to the parent, the last time that it went.
        epoch: `Advertisements.epoch` at that time.
        sent_at: the time.
        copies: its copies in flight: the link, the message as it went there, the part that is awaited, and its key.
        refused_by: the node that said last that there is no way to the Mgr.
    """

    frame: Frame
    token: Token
    deadline: float
    wait: bool = True
    asker: ReplyTo | None = None
    number: int = 0
    upward: bool = False
    epoch: int = 0
    sent_at: float = 0.0
    copies: list[tuple[LinkId, Frame, Awaited, Key]] = field(default_factory=list)
    refused_by: Position | None = None

    def went(self, now: float, epoch: int, *, upward: bool) -> None:
        """Note that it goes on its way."""
        self.sent_at, self.epoch, self.upward = now, epoch, upward
        self.copies.clear()

    def refused(self, by: Position) -> None:
        """Note that it waits again, as a node says that there is no way to the Mgr."""
        self.refused_by = by

    def __lt__(self, other: Send) -> bool:
        return self.number < other.number


ReplyTo: TypeAlias = Origin | Send | Token
"""The target of an answer: a neighbour, a send of the application, or another request of this node."""


class Told(NamedTuple):
    """Counts and failures that an answer gives of a branch of a broadcast, beside its code.

    Attributes:
        receivers: nodes that have confirmed the message; None where the branch cannot say.
        failures: nodes that have not; empty where the answer names none.
    """

    receivers: int | None
    failures: tuple[Failure, ...] = ()


UNTOLD: Final = Told(None)
"""An answer came, and said no more than its code."""

NOBODY: Final = Told(0)
"""Nobody is in the branch."""


class Answer(NamedTuple):
    """An answer that came from a neighbour, beside those that are a key alone.

    Attributes:
        key: the message's name.
        code, src: as in an `Ack`.
        detail: words for people; empty when the answer comes from another node.
        told: the counts and failures of a broadcast.
        sync: the kind of message that is answered, where the link tells; None where it does not.
    """

    key: Key
    code: int
    src: Position
    detail: str = ""
    told: Told = UNTOLD
    sync: bool | None = None


@dataclass(slots=True, eq=False)
class Pending:
    """A unicast whose answer is awaited, in flight on one link or waiting before the own inbox.

    Args:
        uuid: the message's.
        reply: where the answer goes.
        sender: the sender of the message.
        sync: whether the answer says that it is delivered, not only that the first hop has it.
        receiver: the position that answers with 0, if that is known.
        deadline: when the answer is given up.
    """

    uuid: str
    reply: ReplyTo
    sender: Position
    sync: bool
    receiver: Position | None
    deadline: float

    def hurry(self, deadline: float) -> None:
        """Give the answer up at `deadline` at the latest."""
        self.deadline = min(self.deadline, deadline)

    def settle(self, code: int, src: Position, detail: str, told: Told | None = None) -> Ack | None:
        """The answer. A unicast has one receiver, so the count of receivers needs no telling."""
        return Ack(self.uuid, code, src, detail, 0 if code else 1 if self.sync else None)


class FanOut:
    """A broadcast or multicast whose answer is awaited, and the answers of its branches so far.

    Args:
        uuid, reply, sender, sync: as in `Pending`.
        branches: the answers that have to come in.
        wildcard: the destination is `All`, so a branch without receivers is no failure.
        over: called once, when the last branch is settled or the send is withdrawn.
    """

    __slots__ = (
        "_branches",
        "_failure",
        "_failures",
        "_over",
        "_receivers",
        "_took",
        "_wildcard",
        "reply",
        "sender",
        "sync",
        "uuid",
    )

    def __init__(
        self,
        uuid: str,
        reply: ReplyTo,
        sender: Position,
        sync: bool,
        branches: int,
        wildcard: bool,
        over: Callable[[], None] | None = None,
    ) -> None:
        self.uuid = uuid
        self.reply = reply
        self.sender = sender
        self.sync = sync
        self._branches = branches
        self._wildcard = wildcard
        self._took: Position | None = None
        self._failure: Ack | None = None
        self._failures: tuple[Failure, ...] = ()
        # The answer to a post says that the first hop has it, and counts nobody.
        self._receivers: int | None = 0 if sync else None
        self._over = over

    def expect(self, more: int) -> None:
        """Count answers of further branches that have to come in."""
        self._branches += more

    def end(self) -> None:
        """No further answer is awaited."""
        over, self._over = self._over, None
        if over is not None:
            over()

    def settle(self, code: int, src: Position, detail: str, told: Told) -> Ack | None:
        """Record the answer of one branch; the whole answer when it was the last, else None.

        The answer is 0 only if every branch took the message (docs/contract.md, section 4). In a broadcast to `All` a
        branch without receivers (5002) is no failure as long as another branch has some.
        """
        self._branches -= 1
        if self._receivers is not None:
            self._receivers = None if told.receivers is None else self._receivers + told.receivers
        if code != Code.OK and not (self._wildcard and code == Code.NO_ROUTE):
            self._failures = (self._failures + (told.failures or (Failure(src, code),)))[:FAILURES_TOLD]
        failure = self._failure
        if code == Code.OK:
            self._took = self._took or src
        elif failure is None or (failure.code == Code.NO_ROUTE and code != Code.NO_ROUTE):
            self._failure = failure = Ack(self.uuid, code, src, detail)
        if self._branches:
            return None
        self.end()
        took = self._took
        if took is not None and (failure is None or (self._wildcard and failure.code == Code.NO_ROUTE)):
            return Ack(self.uuid, Code.OK, took, "", self._receivers)
        assert failure is not None, "every branch has taken the message or failed"
        failures = self._failures or (Failure(failure.src, failure.code),)
        return failure._replace(receivers=self._receivers, failures=failures)


class Branch:
    """One copy of a broadcast: in flight on one link, or on its way into the own inbox.

    Args:
        fan_out: the broadcast.
        deadline: when the answer is given up.
        to: the neighbour that it goes to; None for the own inbox.
        alone: an answer that says no more than its code stands for one node: no other lies behind this neighbour, or it
            would say so.
        posted: the neighbour answers no broadcast, so the copy went as a `sync=false` message. It is settled when it is
            written.
    """

    __slots__ = ("_alone", "_to", "deadline", "fan_out", "reply", "sender", "sync", "uuid")

    receiver = None

    def __init__(
        self, fan_out: FanOut, deadline: float, to: Position | None = None, alone: bool = True, posted: bool = False
    ) -> None:
        self.fan_out = fan_out
        self.uuid = fan_out.uuid
        self.reply = fan_out.reply
        self.sender = fan_out.sender
        self.sync = fan_out.sync and not posted
        self._to = to
        self._alone = alone
        self.deadline = deadline

    def hurry(self, deadline: float) -> None:
        """Give the answer up at `deadline` at the latest."""
        self.deadline = min(self.deadline, deadline)

    def settle(self, code: int, src: Position, detail: str, told: Told | None = None) -> Ack | None:
        """Record the answer of this branch; see `FanOut.settle`. `told`: beside its code; None where no answer came."""
        if told is None:
            # This node says so: nobody is known to have it, and the neighbour is the node that it did not reach.
            told = Told(0, (Failure(self._to or src, code),)) if code else Told(1)
        elif told is UNTOLD and self._alone:
            told = Told(0 if code else 1)
        return self.fan_out.settle(code, src, detail, told)


Awaited: TypeAlias = Pending | Branch
"""One message whose answer is awaited on a link or before the inbox."""
