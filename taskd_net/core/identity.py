"""Identity of the peer at the other end of a connection, and its claims to positions and senders.

A child's claim is held against the credentials of its connection, and against the other claims to the same position. A
child's messages are its own or come from below it. Only the announcements of a Proxy tell whether a sender lies below
it, and they travel beside the messages: see `core.admission`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from taskd_net.base.codes import Refusal
from taskd_net.base.position import Position, tool_of
from taskd_net.core.certificate_name import CertificateName


class Violation(Refusal):
    """A refusal of a claim that no honest peer makes. It is counted and logged beside being answered."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The identity that a connection shows of its peer.

    Attributes:
        host: the address of the peer, without the port.
        names: the names in its certificate; None where certificates are not asked for names, or it shows none.
        unproven: certificates are asked for names, and it shows none.
    """

    host: str = ""
    names: frozenset[CertificateName] | None = None
    unproven: bool = False

    def same_peer(self, other: Credentials) -> bool:
        """True if both are one peer: the same names, or the same host where no names are asked for."""
        return self.names == other.names and (self.names is not None or self.host == other.host)

    def covers(self, job: str, position: Position, *, service: bool = False) -> bool:
        """True if the peer may take a position; anybody may where no names are asked for.

        A tool of a node needs the name of that node's Agent, and a tool of every node that of all Agents: a Manager
        takes its reports as theirs. So a peer that shows no certificate is no such tool.

        Args:
            job: the job that names have to name.
            position: the position.
            service: the peer says that it is a tool or a service.
        """
        node = tool_of(position)
        if self.names is None:
            return node is None or not self.unproven
        if any(name.covers(job, position) for name in self.names):
            return True
        return service and node is not None and any(name.covers(job, Position.agent(node)) for name in self.names)


UNSHOWN: Final = Credentials()
"""The credentials of a peer that shows nothing."""


class Claim(Enum):
    """The relation of a message's sender to the link that it came on."""

    OWN = auto()
    """It is the child or lies below it, as far as anybody knows."""
    ELSEWHERE = auto()
    """It is known below another child. It may have moved."""
    NEVER = auto()
    """It cannot lie below this child."""
