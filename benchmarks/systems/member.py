"""The interface of a system under test in one of its processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, TypedDict

SEND_S: Final = 10.0
"""Seconds after which a message counts as not acknowledged."""

INBOX: Final = 65_536
"""Inbox of a receiver: above the messages in flight, since these runs measure delivery, not refusal."""


class Spec(TypedDict):
    """One process: a system, and its member here."""

    system: str
    positions: Sequence[str]
    upstream: str
    """The address to connect to; empty for the member that listens."""
    listen: str
    """The address to listen on; empty for any port. The systems that are killed and come back know it."""
    certificates: str
    """The folder with the files of TLS; empty for plain text."""


class NotAcknowledged(Exception):
    """A message was not acknowledged with 0 in time. Its run is invalid."""


class Member(ABC):
    """One process of a system.

    Attributes:
        received: messages that the application here has received.
        pids: the processes with this member's CPU time, if other than its own.
    """

    def __init__(self) -> None:
        self.received = 0
        self.pids: Sequence[int] = ()

    @abstractmethod
    async def start(self) -> str:
        """Start. Returns the address for others, or nothing."""

    async def ready(self) -> None:
        """Return when every other member can reach this one."""
        return

    def body(self, size: int) -> str | bytes:
        """A body of this many bytes, in the system's type."""
        return b"x" * size

    async def send(self, to: str, body: str | bytes) -> None:
        """Send a message and wait until the receiver has acknowledged it.

        Raises:
            NotAcknowledged: no acknowledgement came.
        """
        raise NotImplementedError(f"{type(self).__name__} sends nothing")

    async def load(self, to: str, body: str | bytes, seconds: float, in_flight: int) -> tuple[list[int], float]:
        """Keep this many messages in flight. Returns each latency in nanoseconds, and the total seconds."""
        from benchmarks.load import closed_loop

        return await closed_loop(self.send, to, body, seconds, in_flight)

    async def answer(self, request: dict[str, object]) -> object:
        """Answer a request that only this system knows."""
        raise ValueError(f"not a request: {request}")

    @abstractmethod
    async def close(self) -> None:
        """Close everything."""
