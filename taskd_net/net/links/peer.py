"""The peer of a link: its profile and features, decided once, when it joins.

A profile tells which features such a peer has, how to answer its failed calls, and how to read its answers. Code asks
the profile, never which one it is. There are three: a node of ours, a peer that keeps the contract and knows nothing
more, and a node of the original (docs/interop.md). A parent without a version of ours has the original's profile:
nothing tells the other two apart, and that profile suits both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import grpc

from taskd_net.base import job_id, limits
from taskd_net.base.position import Position, Role
from taskd_net.base.states import State
from taskd_net.base.untrusted import natural
from taskd_net.core.quirks import Quirks
from taskd_net.core.ready import Kind
from taskd_net.net.links import grpc_status
from taskd_net.net.wire.link_requests import read_end, read_kind
from taskd_net.version import __version__

ORIGINAL_TURN_S: Final = 1.1 * limits.ORIGINAL_WAIT_S
"""Seconds for each message on a link to a Proxy of the original's: its own wait, and the way there and back."""

ORIGINAL_ANNOUNCE_POSITIONS: Final = 100_000
"""Positions in one PathDiscovery to a parent of the original's: some 3 MB, so everything below us in one request."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]
"""The metadata of a call: pairs of key and value."""

VERSION_KEY = "taskd-net-version"
DEPTH_KEY = "taskd-net-depth"
LINKS_KEY = "taskd-net-links"
PACE_KEY = "taskd-net-pace"
ROUTES_KEY = "taskd-net-routes"
END_KEY = "taskd-net-end"
JOINED_KEY = "taskd-net-joined"
JOB_KEY = "taskd-net-job"
# Properties that a peer states by one key with one value.
REPORTS = ("taskd-net-status", "reports/1")
PROBES = ("taskd-net-probes", "1")
NUMBERS = ("taskd-net-answers", "numbers")
ENDS = ("taskd-net-ends", "1")
SERVICE = ("taskd-net-kind", "service")
COUNTS = ("taskd-net-counts", "1")
HEARS = (JOINED_KEY, "1")
CONTINUES = ("taskd-net-stream", "continues")
_JOINED = {"yes": True, "no": False}
_ORIGINAL_AGENT = "grpc-go/"
_MOST = 999


@dataclass(frozen=True, slots=True)
class Profile:
    """The features, permissions and deviations of a kind of peer, beyond the four calls.

    Attributes:
        name: for logs and status.
        permits_pings: as a parent it permits pings; others cut off a child that pings.
        confirms_stream: it sends initial metadata when it has accepted the stream.
        withdraws: it understands complete announcements and withdrawals.
        checks: it checks the bodies of messages. For any other peer this node checks them.
        fails_by_status: as a child it needs failures as a status; it takes an Ack with a code for success.
        pauses: as a child it pauses before it joins again. Any other waits here while its position is contested.
        next_ack: as a parent it takes the next Ack for the answer to its last message.
        read_status: reads its statuses.
        proxy, leaf, parent: its deviations for the Router, by its place; None where it keeps the contract.
    """

    name: str
    permits_pings: bool = False
    confirms_stream: bool = False
    withdraws: bool = False
    checks: bool = False
    fails_by_status: bool = False
    pauses: bool = True
    next_ack: bool = False
    read_status: grpc_status.Reader = grpc_status.read_plain
    proxy: Quirks | None = None
    leaf: Quirks | None = None
    parent: Quirks | None = None

    def child_quirks(self, position: Position) -> Quirks | None:
        """The deviations of such a child, for the Router."""
        return self.proxy if position.role == Role.PROXY else self.leaf


OURS = Profile("taskd_net", permits_pings=True, confirms_stream=True, withdraws=True, checks=True)
CONTRACT = Profile("contract")
ORIGINAL = Profile(
    "original",
    fails_by_status=True,
    pauses=False,
    next_ack=True,
    read_status=grpc_status.read_original,
    proxy=Quirks(
        largest=limits.ORIGINAL_DOWN_BYTES,
        reads_lists=False,
        acks_broadcasts=False,
        turn=ORIGINAL_TURN_S,
        announces_again=False,
        takes_any_answer=True,
    ),
    leaf=Quirks(largest=limits.ORIGINAL_DOWN_BYTES, reads_lists=False, takes_any_answer=True),
    parent=Quirks(
        reads_lists=False,
        acks_broadcasts=False,
        acks_lists=False,
        repeats=True,
        announce_positions=ORIGINAL_ANNOUNCE_POSITIONS,
    ),
)


@dataclass(frozen=True, slots=True)
class Peer:
    """The node at the other end of a link.

    Attributes:
        profile: its features, permissions and deviations.
        version: its version of this package; empty for any other node.
        depth: levels below the Mgr, as it says; 0 for a parent that does not say.
        said: as a parent, the metadata of its answer to Register. Each kind of link reads its own offer there.
        reports: as a parent it accepts reports of the state of the mesh.
        probes: it answers probes, and never delivers one to its application.
        counts: over the batched link it writes and reads the number of nodes that have confirmed a broadcast.
        pace: seconds between two reports of one child that a parent with many asks for at present; 0 for the usual.
        numbers: on the batched link it answers messages by number, not by uuid.
        ends: as a parent it accepts that a child, or a node below it, leaves in good order.
        service: as a child it is a tool or a service, and no rank of the job.
        hears: as a child it expects to hear whether its parent has joined.
        job_id: the job that it belongs to; empty where it says none.
    """

    profile: Profile
    version: str = ""
    depth: int = 0
    said: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    reports: bool = False
    probes: bool = False
    counts: bool = False
    pace: float = 0.0
    numbers: bool = False
    ends: bool = False
    service: bool = False
    hears: bool = False
    job_id: str = ""


def read_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> Mapping[str, str]:
    """Metadata as text by key, without binary values."""
    return {key: value for key, value in metadata or () if isinstance(value, str)}


def of_child(metadata: Mapping[str, str]) -> Peer:
    """Read a child's properties from the metadata of its Register."""
    said = metadata.items()
    if metadata.get(VERSION_KEY):
        return _of_ours(metadata, service=SERVICE in said, hears=HEARS in said)
    return Peer(ORIGINAL if metadata.get("user-agent", "").startswith(_ORIGINAL_AGENT) else CONTRACT)


def of_parent(metadata: Mapping[str, str]) -> Peer:
    """Read a parent's properties from the metadata of its answer to Register."""
    said = metadata.items()
    if not metadata.get(VERSION_KEY):
        return Peer(ORIGINAL)
    depth, pace = (natural(metadata.get(key, ""), _MOST) or 0 for key in (DEPTH_KEY, PACE_KEY))
    reports, ends = REPORTS in said, ENDS in said
    return _of_ours(metadata, depth=depth, pace=float(pace), said=metadata, reports=reports, ends=ends)


def _of_ours(metadata: Mapping[str, str], **more: Any) -> Peer:
    said, version = metadata.items(), metadata[VERSION_KEY]
    job = job_id.unescaped(metadata.get(JOB_KEY, ""))
    return Peer(
        OURS, version, probes=PROBES in said, counts=COUNTS in said, numbers=NUMBERS in said, job_id=job, **more
    )


def position_taken(status: grpc.StatusCode, text: str) -> bool:
    """True if a stream has ended because another node with the same position has opened one."""
    return status is grpc.StatusCode.ALREADY_EXISTS or text == grpc_status.POSITION_TAKEN


def own_metadata(*, service: bool = False, job: str = "") -> Metadata:
    """The metadata of this node's Register.

    Args:
        service: it is a tool or a service, and no rank of the job.
        job: the id of its job; empty for none.
    """
    says = ((VERSION_KEY, __version__), PROBES, NUMBERS, COUNTS, HEARS, *_job(job))
    return (*says, SERVICE) if service else says


def refusing_metadata(job: str) -> Metadata:
    """The metadata of this node's answer to the Register of a node of another job. `job`: the id of its own."""
    return ((VERSION_KEY, __version__), *_job(job))


def parent_metadata(depth: int, offers: Metadata, pace: float = 0.0, job: str = "") -> Metadata:
    """The metadata of this node's answer to Register.

    Args:
        depth: its levels below the Mgr.
        offers: the offers of its kinds of link.
        pace: seconds between two reports of one child; sent only where they are longer than usual.
        job: the id of its job; empty for none.
    """
    slower = ((PACE_KEY, str(min(_MOST, round(pace)))),) if pace > limits.STATUS_FIGURES_S else ()
    return (
        (VERSION_KEY, __version__),
        (DEPTH_KEY, str(min(_MOST, depth))),
        REPORTS,
        PROBES,
        ENDS,
        COUNTS,
        *offers,
        *slower,
        *_job(job),
    )


def _job(job: str) -> Metadata:
    return ((JOB_KEY, job_id.escaped(job)),) if job else ()


def stream_metadata(position: Position, *, continues: bool = False) -> Metadata:
    """The metadata that open a stream (docs/contract.md, section 2).

    Args:
        position: the child's.
        continues: for a parent of ours: the stream continues the one that stands, without a loss.
    """
    return (
        *((CONTINUES,) if continues else ()),
        ("role", position.role),
        ("serverrank", position.server_rank),
        ("processrank", position.process_rank),
    )


def stream_position(metadata: Mapping[str, str]) -> Position:
    """The position in a stream's metadata; missing fields are empty."""
    return Position(metadata.get("role", ""), metadata.get("serverrank", ""), metadata.get("processrank", ""))


def stream_continues(metadata: Mapping[str, str]) -> bool:
    """True if a stream continues the one that stands."""
    return CONTINUES in metadata.items()


def joined_metadata(joined: bool) -> Metadata:
    """The metadata that accept a stream and tell whether this node has joined."""
    return ((JOINED_KEY, "yes" if joined else "no"),)


def parent_joined(metadata: Mapping[str, str]) -> bool | None:
    """True if the parent has joined, by the metadata that accept a stream; None where they do not say."""
    return _JOINED.get(metadata.get(JOINED_KEY, ""))


def routes_metadata(kind: Kind) -> Metadata:
    """The kind of an announcement as metadata, for a parent that understands more than additions."""
    return () if kind is Kind.ADD else ((ROUTES_KEY, kind.value),)


def routes_kind(metadata: Mapping[str, str]) -> Kind:
    """Read the kind of an announcement. A foreign child's is always an addition."""
    return read_kind(metadata.get(ROUTES_KEY, ""))


def end_metadata(end: State) -> Metadata:
    """The metadata of a last announcement: the child leaves in good order, with this state."""
    return ((END_KEY, end.value),)


def end_of(metadata: Mapping[str, str]) -> State | None:
    """The state with which the announcing child leaves in good order; None if it stays."""
    return read_end(metadata.get(END_KEY, ""))
