"""What every system under test has to be able to do in one of its processes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final, TypedDict

SEND_S: Final = 10.0
"""Seconds until a message counts as not acknowledged."""

INBOX: Final = 65_536
"""Room at a receiver: above everything that is in flight, since these runs measure delivery, not refusal."""


class Spec(TypedDict):
    """One process: a system, and who of it lives here."""

    system: str
    positions: Sequence[str]
    upstream: str
    """Where to connect; empty for the one that the others connect to."""
    certificates: str
    """The folder with the files of TLS; empty for plain text."""


class NotAcknowledged(Exception):
    """A message was not acknowledged with 0, or not in time. The run that it belongs to counts for nothing."""


class Member(ABC):
    """One process's share of a system.

    Attributes:
        received: messages that the application here has got.
        pids: the processes whose CPU time is this member's, where that is not its own.
    """

    def __init__(self) -> None:
        self.received = 0
        self.pids: Sequence[int] = ()

    @abstractmethod
    async def start(self) -> str:
        """Start. Returns the address where others connect, or nothing."""

    async def ready(self) -> None:
        """Return when everybody can reach this member."""
        return

    def body(self, size: int) -> str | bytes:
        """A body of this many bytes, as the system takes it."""
        return b"x" * size

    async def send(self, to: str, body: str | bytes) -> None:
        """Send a message and wait until the receiver has acknowledged it.

        Raises:
            NotAcknowledged: it has not.
        """
        raise NotImplementedError(f"{type(self).__name__} sends nothing")

    async def load(self, to: str, body: str | bytes, seconds: float, in_flight: int) -> tuple[list[int], float]:
        """Keep this many messages in flight. Returns what each took, in nanoseconds, and the seconds in all."""
        from benchmarks.load import closed_loop

        return await closed_loop(self.send, to, body, seconds, in_flight)

    async def answer(self, request: dict[str, object]) -> object:
        """Do what only this system can do."""
        raise ValueError(f"not a request: {request}")

    @abstractmethod
    async def close(self) -> None:
        """Leave nothing behind."""
