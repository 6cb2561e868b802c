"""Limits on the cost of a peer, and of all peers together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskd_net import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a single peer, and what all of them together, may cost a node that has children.

    The defaults are far above what nodes of ours or of the original's need, also 5,000 of them at one parent: they are
    there to end what is no use of the mesh. Lower ones bound the damage that a peer can do more tightly.

    Args:
        routes_per_child: nodes that one child may lead to; 5003 beyond. Each costs some 500 bytes here.
        announcements_per_second: of one child, and as many at once; 5001 beyond. Each costs some 200 µs.
        path_length: positions in one announcement; 4006 beyond. Nodes of the original's get everything in one.
        list_ranks: ranks in one comma list; 4006 beyond. The greatest value is the default.
        uuid_length: characters of a uuid; 4999 beyond. At least 128.
        message_bytes: of a serialized message; 4999 beyond. The default is the contract's, and the greatest value:
            lower, and messages that others may send are refused here.
        metadata_bytes: of all metadata of one call, with 32 for each entry; gRPC refuses the call beyond.
        streams_per_connection: calls under way over one connection; beyond, gRPC's clients wait, and who does not is
            refused the call. A node of ours has up to 4,096 over a link of the four calls.
        connections_per_address: of one address over which children have registered; 5003 beyond. All Workers of a
            node come from one, as does everybody behind a proxy.
        registration_time: seconds that a connection may take for its first words, and be without any call afterwards:
            then it is closed. Children whose stream stands are never without.
        child_messages, child_bytes: messages of one child that wait for their answers here, and their bytes (of
            those from 4 KiB on, over a fast link); 5001 beyond.
        total_messages, total_bytes: the same for all children together.
    """

    routes_per_child: int = 131_072
    announcements_per_second: int = 5000
    path_length: int = 131_072
    list_ranks: int = limits.RANKS_PER_LIST
    uuid_length: int = 256
    message_bytes: int = limits.MESSAGE_BYTES
    metadata_bytes: int = 16_384
    streams_per_connection: int = 5000
    connections_per_address: int = 10_000
    registration_time: float = 20.0
    child_messages: int = 8192
    child_bytes: int = 256 * 1024 * 1024
    total_messages: int = 262_144
    total_bytes: int = 1024 * 1024 * 1024


DEFAULT: Final = Limits()
"""Those of a node that is told nothing else."""
