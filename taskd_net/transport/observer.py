"""The observer of a node, as the transport sees it. Who implements it is above the transport."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias

import grpc

from taskd_net.core.links import Link
from taskd_net.core.routes import LinkId
from taskd_net.links.connections import Connections
from taskd_net.links.grpc_calls import Context
from taskd_net.links.kind import Requests
from taskd_net.links.peer import Peer
from taskd_net.position import Position
from taskd_net.states import State

Reports: TypeAlias = Callable[[Callable[[], Requests], Peer], Coroutine[Any, Any, None]]
"""Reports to the parent, by the requests of the moment, until it is cancelled."""


class Observer(Protocol):
    """A listener to the changes among the children of a node."""

    connections: Connections

    def child_changed(self, link: Link) -> None:
        """A child's stream has opened or ended."""

    def child_ends(self, link: Link, state: State) -> None:
        """A child is about to leave in good order, with this state."""

    def child_leads_to(self, link: Link, path: Sequence[Position]) -> None:
        """A child that does not report has announced nodes."""

    def child_forgotten(self, link: LinkId, position: Position) -> None:
        """The Router has forgotten a child."""


class Services(Protocol):
    """The services that a listening node offers beside those of its links."""

    @property
    def pace(self) -> float:
        """Seconds between two reports of one child."""

    def handlers(self, child: Callable[[Context], Link]) -> Sequence[grpc.GenericRpcHandler]:
        """The handlers for the node's server.

        Args:
            child: the child that makes a call, or raises a Violation.
        """

    def close(self) -> None:
        """End the calls that last, each after its next answer."""
