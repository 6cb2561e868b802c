"""Peers that connect to a node with TLS and never register: a log line for each that is seen.

gRPC does not tell its application of a handshake that failed, and prints a line without an address. It does ask for
certificates before each handshake. At that moment the system's table of connections has the peer. A peer that has not
registered some time later was refused, has hung up, or is not a node.

The table is read once a second at most, so a single attempt may go unseen, but not repeated ones. It is Linux's; other
systems name no peer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

from taskd_net.base.logger import Logger
from taskd_net.base.times import LinkTimes

_TABLES: Final = (Path("/proc/self/net/tcp"), Path("/proc/self/net/tcp6"))
_ESTABLISHED: Final = "01"

Endpoint: TypeAlias = tuple[str, int]
"""IP address and port of a peer."""


class Strangers:
    """The peers of one port.

    Args:
        port: where the node listens.
        log: of the node.
        times: of the node.
    """

    def __init__(self, port: int, log: Logger, times: LinkTimes) -> None:
        self._port = port
        self._log = log
        self._times = times
        self._looked = float("-inf")
        # Filled by gRPC's own threads, emptied by the loop.
        self._looks: deque[tuple[float, frozenset[Endpoint]]] = deque(maxlen=64)
        self._unheard: dict[Endpoint, float] = {}
        # Connections that need no more looking at, while they stand.
        self._settled: dict[Endpoint, float] = {}

    def handshake(self) -> None:
        """Note that a handshake is about to begin. Called on any thread."""
        now = time.monotonic()
        if now - self._looked >= self._times.strangers_look:
            self._looked = now
            self._looks.append((now, frozenset(peers_of(self._port))))

    def heard(self, host: str, port: str) -> None:
        """Note that a node has registered over a connection from this address, an IPv6 one in brackets."""
        endpoint = host.strip("[]"), int(port)
        self._unheard.pop(endpoint, None)
        self._settled[endpoint] = time.monotonic()

    async def watch(self) -> None:
        """Log the peers that have not registered, until cancelled."""
        while True:
            await asyncio.sleep(self._times.strangers_heard / 2)
            self._judge(time.monotonic())

    def _judge(self, now: float) -> None:
        while self._looks:
            seen_at, seen = self._looks.popleft()
            gone = [endpoint for endpoint, at in self._settled.items() if at < seen_at and endpoint not in seen]
            for endpoint in gone:
                del self._settled[endpoint]
            for endpoint in seen - self._settled.keys():
                self._unheard.setdefault(endpoint, seen_at)
        for endpoint, since in list(self._unheard.items()):
            if now - since >= self._times.strangers_heard:
                del self._unheard[endpoint]
                self._settled[endpoint] = now
                reason = "it has not registered: its certificate was refused, it speaks no TLS, or it is not a node"
                self._log.warning("stranger", address=endpoint[0], reason=reason)


def peers_of(port: int) -> Iterator[Endpoint]:
    """The peers connected to a port of this machine; none where the system does not tell."""
    local = f":{port:04X} "
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()
        except OSError:
            continue
        for line in lines[1:]:
            if local not in line:
                continue
            _, here, there, state, *_ = line.split()
            if state == _ESTABLISHED and here.endswith(local.strip()):
                address, _, number = there.partition(":")
                yield _address(address), int(number, 16)


def _address(text: str) -> str:
    """An IP address as the kernel writes it: words of 32 bits, each in the byte order of the machine."""
    step = -1 if sys.byteorder == "little" else 1
    data = b"".join(bytes.fromhex(text[at : at + 8])[::step] for at in range(0, len(text), 8))
    address = ipaddress.ip_address(data)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
