"""What kind of node is at the other end of a link: decided once, when it joins, and known to the link.

A profile says what may be done towards such a peer and what can be expected of it; code asks the profile, never for the
kind. Two kinds are told apart today: a node of ours, and one that keeps the contract and knows nothing more. Nodes of
the original implementation will be a third profile, told by their `user-agent` (see `Profile.of_child`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from taskd_net.core.announcer import Kind
from taskd_net.position import Position
from taskd_net.version import __version__

VERSION_KEY = "taskd-net-version"
DEPTH_KEY = "taskd-net-depth"
LINKS_KEY = "taskd-net-links"
BATCHED = "batched/2"
ROUTES_KEY = "taskd-net-routes"


@dataclass(frozen=True, slots=True)
class Profile:
    """What a kind of peer understands beyond the four calls, and permits.

    Attributes:
        name: for logs and status.
        permits_pings: it lets its children ping it; others cut off who pings them.
        confirms_stream: it sends initial metadata when it has accepted the stream.
        withdraws: it understands that an announcement is complete, or takes routes back.
    """

    name: str
    permits_pings: bool
    confirms_stream: bool
    withdraws: bool


OURS = Profile("taskd_net", permits_pings=True, confirms_stream=True, withdraws=True)
CONTRACT = Profile("contract", permits_pings=False, confirms_stream=False, withdraws=False)


@dataclass(frozen=True, slots=True)
class Peer:
    """The node at the other end of a link.

    Attributes:
        profile: what may be done towards it.
        version: its version of this package, empty for a foreign node.
        depth: levels below the Mgr, as far as it says so; a foreign parent is taken for the Mgr.
        batched: it offers the batched link.
    """

    profile: Profile
    version: str = ""
    depth: int = 0
    batched: bool = False


def read_metadata(metadata: Iterable[tuple[str, str | bytes]] | None) -> Mapping[str, str]:
    """Metadata as text by key; binary values are left out."""
    return {key: value for key, value in metadata or () if isinstance(value, str)}


def of_child(metadata: Mapping[str, str]) -> Peer:
    """Who registers, by the metadata of its Register."""
    version = metadata.get(VERSION_KEY)
    return Peer(OURS, version) if version else Peer(CONTRACT)


def of_parent(metadata: Mapping[str, str]) -> Peer:
    """Who answers, by the metadata of its answer to Register."""
    version = metadata.get(VERSION_KEY)
    if not version:
        return Peer(CONTRACT)
    depth = metadata.get(DEPTH_KEY, "")
    levels = int(depth) if depth.isascii() and depth.isdigit() and len(depth) < 4 else 0
    return Peer(OURS, version, levels, metadata.get(LINKS_KEY) == BATCHED)


def own_metadata() -> tuple[tuple[str, str], ...]:
    """What a node of ours says of itself when it registers."""
    return ((VERSION_KEY, __version__),)


def parent_metadata(depth: int, *, batched: bool) -> tuple[tuple[str, str], ...]:
    """What a node of ours says of itself when somebody registers, and whether it offers the batched link."""
    offer = ((LINKS_KEY, BATCHED),) if batched else ()
    return ((VERSION_KEY, __version__), (DEPTH_KEY, str(depth)), *offer)


def stream_metadata(position: Position) -> tuple[tuple[str, str], ...]:
    """What opening the stream carries (contract, section 2)."""
    return (
        ("role", position.role),
        ("serverrank", position.server_rank),
        ("processrank", position.process_rank),
    )


def stream_position(metadata: Mapping[str, str]) -> Position:
    """Who opens a stream, by its metadata; fields that are missing are empty."""
    return Position(metadata.get("role", ""), metadata.get("serverrank", ""), metadata.get("processrank", ""))


def routes_metadata(kind: Kind) -> tuple[tuple[str, str], ...]:
    """How an announcement is meant, for a parent that understands more than additions."""
    return () if kind is Kind.ADD else ((ROUTES_KEY, kind.value),)


def routes_kind(metadata: Mapping[str, str]) -> Kind:
    """How an announcement is meant; what a foreign child announces is always an addition."""
    try:
        return Kind(metadata.get(ROUTES_KEY, Kind.ADD.value))
    except ValueError:
        return Kind.ADD
