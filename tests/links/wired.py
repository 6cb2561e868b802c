"""Direct links as between machines and as within one.

A Mgr of the tests offers its port alone, as to children on other machines. A Proxy offers its Unix socket, too, as to
ranks beside it. A parent offers a child behind a wire the port of that wire, in place of its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest.mock import patch

from taskd_net.base.position import Role
from taskd_net.core.routes import LinkId
from taskd_net.net.links.direct_acceptor import DirectAcceptor
from taskd_net.net.links.peer import Metadata
from taskd_net.net.links.remote import Caller
from tests.peers.wire import wire_to

_offer = DirectAcceptor.offer


def _offer_wire(acceptor: DirectAcceptor, link: LinkId, caller: Caller) -> Metadata:
    wire = wire_to(caller.remote.address)
    offered = _offer(acceptor, link, caller)
    if not offered or (wire is None and acceptor._parent.host.router.identity.role != Role.MGR):
        return offered
    key, value = offered[0]
    if wire is None:
        return ((key, value),)
    version, port, token = value.split()
    return ((key, f"{version} {wire.also(int(port))} {token}"),)


@contextlib.contextmanager
def wired() -> Iterator[None]:
    """Let direct links pass their wires, and those to a Mgr use TCP."""
    with patch.object(DirectAcceptor, "offer", _offer_wire):
        yield
