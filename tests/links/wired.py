"""Direct links that pass the wire of a child: the parent offers the port of the wire in place of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

from taskd_net.core.routes import LinkId
from taskd_net.links.direct_acceptor import DirectAcceptor
from taskd_net.links.peer import Metadata
from taskd_net.links.remote import Caller
from tests.peers.wire import wire_to

_offer = DirectAcceptor.offer


def _offer_wire(acceptor: DirectAcceptor, link: LinkId, caller: Caller) -> Metadata:
    wire = wire_to(caller.remote.address)
    offered = _offer(acceptor, link, caller)
    if wire is None or not offered:
        return offered
    ((key, value),) = offered
    version, port, token = value.split()
    return ((key, f"{version} {wire.also(int(port))} {token}"),)


@contextlib.contextmanager
def wired() -> Iterator[None]:
    """Let direct links pass their wires."""
    with patch.object(DirectAcceptor, "offer", _offer_wire):
        yield
