"""What the transport needs of the node that it serves: its Router, and somebody to carry out what the Router says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from structlog.stdlib import BoundLogger

from taskd_net.core.actions import Action
from taskd_net.core.router import Router


class Host(Protocol):
    """Implemented by `Node`."""

    router: Router
    log: BoundLogger

    def now(self) -> float:
        """The Router's time: the event loop's clock, in seconds."""
        ...

    def perform(self, actions: Sequence[Action]) -> None:
        """Carry out what the Router decided. Never waits."""
        ...
