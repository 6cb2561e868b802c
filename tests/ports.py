"""Free ports for what a test starts later, or starts again."""

from __future__ import annotations

import itertools
import socket
from typing import Final

_BLOCK: Final = 200
_FIRST: Final = 12_000
_END: Final = 32_000
"""Linux gives ports from 32,768 on to connections (`net.ipv4.ip_local_port_range`).

Any connection of a busy machine may take one of those between two starts of a server. A child that keeps trying such a
port can even connect to itself.
"""


def _claim_block() -> tuple[socket.socket, range]:
    """Ports for this process alone while the socket is open: the name of the socket tells others."""
    for first in range(_FIRST, _END, _BLOCK):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0taskd-net-tests-ports-{first}")
        except OSError:
            claim.close()
            continue
        return claim, range(first, first + _BLOCK)
    raise RuntimeError(f"{(_END - _FIRST) // _BLOCK} processes of tests have all ports from {_FIRST} to {_END}")


# The import claims, not the first use: no test leaves a descriptor behind.
_CLAIM, _PORTS = _claim_block()
_TURNS: Final = itertools.cycle(_PORTS)


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on. Its process gives it again after 200 others, and no other process does."""
    for port in itertools.islice(_TURNS, _BLOCK):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    raise RuntimeError(
        f"ports {_PORTS.start} to {_PORTS.stop - 1} of {host} are in use, or it is no address of this machine"
    )


def free_address(host: str = "127.0.0.1") -> str:
    """An address with a free port, `host:port`."""
    return f"[{host}]:{free_port(host)}" if ":" in host else f"{host}:{free_port(host)}"
