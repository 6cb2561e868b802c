"""What the transport needs of the node that it serves: its Router, and somebody to carry out what the Router says."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import TYPE_CHECKING, Protocol

from taskd_net.core.actions import Action
from taskd_net.core.router import Router
from taskd_net.core.routes import LinkId

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger

    from taskd_net.links.session import Session


class Host(Protocol):
    """Implemented by `Node`."""

    router: Router
    log: BoundLogger
    links: MutableMapping[LinkId, Session]
    """The links whose stream stands: the transport puts them here, the node forwards on them."""

    def now(self) -> float:
        """The Router's time: the event loop's clock, in seconds."""
        ...

    def perform(self, actions: Sequence[Action]) -> None:
        """Carry out what the Router decided. Never waits."""
        ...
