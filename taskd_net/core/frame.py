"""Frames and answers: a message of which the Router reads the header alone, and the answer to one, also as an error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from taskd_net.base.codes import Code, TaskdNetError, describe
from taskd_net.base.position import Destination, Position


class Flow(NamedTuple):
    """The common part of the headers of a sender's messages to one destination.

    `create_time` is None where each message has its own, in the last seven bytes of its header.
    """

    mtype: str
    sync: bool
    src: Position
    dst: Destination
    create_time: int | None


@dataclass(slots=True, eq=False)
class Frame:
    """A checked message on its way.

    `data` is the serialized Message; a Router never looks into it and every link of a broadcast shares it. `flow` is
    set if the message came in with the usual layout, so that its delivery does not split the header again.
    """

    uuid: str
    sync: bool
    src: Position
    dst: Destination
    data: bytes
    flow: Flow | None = field(default=None, init=False)


@dataclass(slots=True, eq=False)
class Adapted(Frame):
    """A message as one neighbour needs it: `sync` and `dst` count, not what stands in `data`.

    It is written anew where it leaves (`codec.write_checked`). `data` stays as it came, and its size is what counts in
    queues.
    """


@dataclass(slots=True, eq=False)
class Traced(Frame):
    """A message that is traced: a Router sees no difference. `span` is where it comes from, as W3C headers say it."""

    span: Mapping[str, str]


@dataclass(slots=True, eq=False)
class Probe(Frame):
    """Not a message but a question: does the way lead there? Nodes of ours answer it, their applications never see it.

    `hops` is how many more links it may cross, None for as many as it takes.
    """

    hops: int | None


FOREIGN: Final = 3
"""The answer to a probe whose next hop, `src`, is not known to answer probes: it was not asked.

Only probes get it. Their acks never pass a foreign node, so it needs no place among the codes. The same holds for the
answer that each kind of link has for a probe that ends at `src` after it came over such a link.
"""


class Failure(NamedTuple):
    """A node that did not confirm a broadcast.

    Attributes:
        position: the node; of a whole branch without an answer, its first node.
        code: why (docs/contract.md, section 6). With 6001 the node may have the message all the same.
    """

    position: Position
    code: int


class Ack(NamedTuple):
    """The answer to a message.

    Attributes:
        uuid: the message's.
        code: 0, or why the message did not arrive (docs/contract.md, section 6).
        src: the position of the node that answers; with 6001 the one that did not.
        detail: words for people; not on the wire, so empty when the answer comes from another node.
        receivers: nodes that have confirmed the message, each counted once. None where that is not known: after a post,
            and where a branch of a broadcast cannot say (the four calls, a node of the original's, an older version).
        failures: the nodes that did not confirm a broadcast, `acks.FAILURES_TOLD` at most. Empty for a unicast, whose
            `code` and `src` say all of it, and with code 0.
    """

    uuid: str
    code: int
    src: Position
    detail: str = ""
    receivers: int | None = None
    failures: tuple[Failure, ...] = ()

    @property
    def ok(self) -> bool:
        """True when the code is 0."""
        return self.code == Code.OK

    def raise_for_code(self) -> None:
        """Do nothing when the message was delivered.

        Raises:
            MeshError: SenderError (4xxx), ReceiverError (5xxx) or NetworkError (6xxx), with code, src and uuid.
        """
        if self.code != Code.OK:
            raise error_for(self.code, self.src, self.uuid, self.detail)


class MeshError(TaskdNetError):
    """A message was not delivered.

    Attributes:
        code: the answer code, 4000-6999.
        src: the position of the node that reported it (for 6001: that did not answer).
        uuid: the message's uuid; a retry of a 5xxx or 6xxx keeps it.
        detail: words for people, or empty.
    """

    def __init__(self, code: int, src: Position, uuid: str, detail: str = "") -> None:
        super().__init__(f"{describe(code)} (from {src}, uuid {uuid}){': ' + detail if detail else ''}")
        self.code = code
        self.src = src
        self.uuid = uuid
        self.detail = detail


class SenderError(MeshError):
    """4xxx: the message itself is wrong."""


class ReceiverError(MeshError):
    """5xxx: the far side could not take the message."""


class NetworkError(MeshError):
    """6xxx: the message or its answer got lost."""


def error_for(code: int, src: Position, uuid: str, detail: str = "") -> MeshError:
    """The error that fits a code."""
    kind = {4: SenderError, 5: ReceiverError, 6: NetworkError}.get(code // 1000, MeshError)
    return kind(code, src, uuid, detail)
