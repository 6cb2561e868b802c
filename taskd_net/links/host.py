"""What the transport needs of the node that it serves: its Router, and somebody to carry out what the Router says."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import TYPE_CHECKING, Protocol

from taskd_net.core.frame import Ack
from taskd_net.core.ready import Ready, Token
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
        """The Router's time: seconds of a clock that never steps."""
        ...

    def request(self, reply: Callable[[Ack], None]) -> Token:
        """A name for a request of this node; `reply` gets its answer when the Router has it."""
        ...

    def perform(self, ready: Ready) -> None:
        """Carry out the decisions of the Router. Never waits."""
        ...
