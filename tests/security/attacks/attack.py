"""An attack: one way in which a peer may try to cost others their time or memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from tests.security.bystander.stand import MIB, Stand

Strikes: TypeAlias = Callable[[Stand], AsyncGenerator[None, None]]
"""An asynchronous generator. With its first `yield` it is ready: it has joined, and its bytes are made. With each later
one it has made one more strike, and has asserted the refusal. It goes on for ever."""

PEER_BYTES = 64 * MIB
"""The documented share of one peer."""

ALL_BYTES = 256 * MIB
"""The documented share of all peers."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One attack, and a row of the table in docs/security.md.

    Attributes:
        sends: what the peer sends, for the table.
        answer: the expected refusal, for the table.
        strikes: makes it.
        from_above: the attacker is a parent.
        share: bytes by which the memory of the attacked node may grow.
        command: runs the attacked node, see `Stand`.
        secure: all nodes speak TLS.
        environment: of the attacked node's process.
        promised: False for the exceptions that docs/security.md names.
    """

    sends: str
    answer: str
    strikes: Strikes
    from_above: bool = False
    share: int = PEER_BYTES
    command: Literal["", "mgr", "listen"] = ""
    secure: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    promised: bool = True

    def stand(self, folder: Path, *, metered: bool = False, one_session: bool = False) -> Stand:
        """The stand to make it at."""
        return Stand(
            folder,
            from_above=self.from_above,
            command=self.command,
            secure=self.secure,
            environment=self.environment,
            metered=metered,
            one_session=one_session,
        )

    @property
    def module(self) -> str:
        """The module that makes it."""
        made: Strikes = self.strikes.func if isinstance(self.strikes, partial) else self.strikes
        return made.__module__
