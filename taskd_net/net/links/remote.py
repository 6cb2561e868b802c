"""The far end of a connection: its address and its certificate, as values of ours."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

from taskd_net.base.address import Address
from taskd_net.core.certificate_name import CertificateName

_UNIX: Final = count(1)


class Remote(NamedTuple):
    """The address of a connection's far end. Two connections that stand at the same time have different ones.

    Attributes:
        family: `ipv4`, `ipv6`, or the name of another kind of socket.
        host: the address without the port, in brackets for IPv6.
        port: the port, empty for a socket without one; `unix-1`, `unix-2`, … for Unix sockets of direct links.
    """

    family: str
    host: str
    port: str = ""

    @property
    def place(self) -> str:
        """The machine, for limits per address and for logs: `ipv4:127.0.0.1`."""
        return f"{self.family}:{self.host}" if self.host else self.family

    @property
    def address(self) -> str:
        """`host:port`; empty for a connection that has none."""
        return f"{self.host}:{self.port}" if self.family in ("ipv4", "ipv6") else ""

    def beside(self) -> Remote:
        """A connection of the same machine that has no port of its own: a Unix socket."""
        return self._replace(port=f"unix-{next(_UNIX)}")

    def is_of_this_machine(self, listen: Address) -> bool:
        """True if the connection comes from the machine of the node that listens there, as far as addresses show it."""
        if self.family not in ("ipv4", "ipv6"):
            return False
        address = ipaddress.ip_address(self.host.strip("[]").partition("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        # A connection to an address of the own machine comes from that address.
        return address.is_loopback or str(address) == listen.host


@lru_cache(maxsize=16_384)
def remote_of(name: str) -> Remote:
    """Read gRPC's name of a connection: `ipv4:127.0.0.1:1234`, `ipv6:%5B::1%5D:1234`, `unix:`."""
    front, _, port = name.rpartition(":")
    family, _, host = unquote(front).partition(":")
    return Remote(family, host, port)


def remote_of_socket(name: tuple[Any, ...]) -> Remote:
    """The same of a socket's peer name, in gRPC's spelling."""
    host, port = str(name[0]), str(name[1])
    mapped = host.removeprefix("::ffff:")
    if ":" not in mapped:
        return Remote("ipv4", mapped, port)
    return Remote("ipv6", f"[{host}]", port)


@dataclass(slots=True, eq=False)
class Caller:
    """The maker of a call, or the opener of a stream.

    Args:
        remote: its address.
        names: reads the names in its certificate; None for a connection in plain text, which shows none.
    """

    remote: Remote
    names: Callable[[], frozenset[CertificateName] | None]
