"""Limits on the cost of a peer, and of all peers together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from taskd_net.base import limits
from taskd_net.base.schema import Group, Kind, setting

# gRPC keeps its own bounds in 32 bits.
_whole: Final = partial(setting, Kind.WHOLE, least=1, most=2**31 - 1, group=Group.BOUNDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on the cost of a single child, and of all children together, at a node.

    The defaults are far above the needs of 5,000 nodes at one parent, of this implementation or of the original's: they
    end misuse. Lower values bound the damage of a peer more tightly. `NodeConfig` checks the ranges.

    Args:
        routes_per_child: Nodes behind one child; 5003 beyond. Each takes some 350 bytes here.
        positions_per_second: Positions that one child announces per second, after as many as may lie behind it at once.
            Further ones wait. Each takes some 10 µs.
        streams_per_connection: Calls under way over one connection; clients wait beyond. Each takes some 21 KB here
            until it is answered.
        connections_per_address: Connections of registered children from one address; 5003 beyond. All nodes behind one
            NAT share an address.
        child_messages: Messages of one child that wait for their answers here; 5001 beyond. A child of this package has
            up to 4,096.
        child_bytes: Bytes of the messages of one child that wait for their answers; 5001 beyond. On a fast link only
            messages of 4 KiB or more count.
        total_messages: Messages of all children that wait for their answers; 5001 beyond.
        total_bytes: Bytes of the messages of all children that wait for their answers; 5001 beyond. Half of it is for
            messages that wait to be written, on all links. One sender has half of that, two a third each.
        registration_time: Seconds a connection may take to register, and stay without a call later; closed beyond. A
            child's stream is a call.
    """

    routes_per_child: int = _whole(65_536)
    positions_per_second: int = _whole(16_384)
    streams_per_connection: int = _whole(2048)
    connections_per_address: int = _whole(10_000)
    child_messages: int = _whole(8192)
    child_bytes: int = _whole(64 * 1024 * 1024, least=limits.MESSAGE_BYTES)
    total_messages: int = _whole(262_144)
    total_bytes: int = _whole(256 * 1024 * 1024, least=4 * limits.MESSAGE_BYTES)
    registration_time: float = setting(Kind.SECONDS, 20.0, most=limits.TIMEOUT_MAX_S, group=Group.BOUNDS)


DEFAULT: Final = Limits()
"""The limits of a node without others."""
