"""The names in a certificate: which positions of which job whoever holds it may take.

A name is a URI among the certificate's subject alternative names, `taskd://<job>/<role>/<serverRank>[/<processRank>]`.
Any field may be `*`: every job, role or rank. Only Workers have a processRank; a name for them has to say which, and
`taskd://job/*/3/*` is everything on node 3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self

from taskd_net.base.position import Position, Role

ANY: Final = "*"
SCHEME: Final = "taskd://"
FORM: Final = "taskd://<job>/<role>/<serverRank>[/<processRank>]"

# Characters that need no escaping in a URI.
_JOB: Final = re.compile(r"[A-Za-z0-9._~-]+|\*")
_RANK: Final = re.compile(r"[0-9]+|\*")


@dataclass(frozen=True, slots=True)
class CertificateName:
    """One name. Made by `parse`, never directly.

    Args:
        job: the job's name, or `*`.
        role: `Mgr`, `Proxy`, `Agent`, `Worker` or `*`.
        server_rank: the node's rank as text, or `*`.
        process_rank: a Worker's global rank as text, or `*`; None: no Worker.
    """

    job: str
    role: str
    server_rank: str
    process_rank: str | None

    @classmethod
    def parse(cls, uri: str) -> Self:
        """Read a name.

        Raises:
            ValueError: it is not of that form; says what is wrong.
        """
        fields = uri.removeprefix(SCHEME).split("/")
        if not uri.startswith(SCHEME) or len(fields) not in (3, 4):
            raise ValueError(f"{uri!r} is not a name of a node; expected {FORM}")
        job, role, server_rank, *rest = fields
        process_rank = rest[0] if rest else None
        if not _JOB.fullmatch(job):
            raise ValueError(f"{uri!r}: the job {job!r} has other characters than letters, digits and ._~-")
        if role != ANY and role not in list(Role):
            raise ValueError(f"{uri!r}: the role {role!r} is not one of {', '.join(Role)} or {ANY}")
        for rank in (server_rank, *rest):
            if not _RANK.fullmatch(rank):
                raise ValueError(f"{uri!r}: the rank {rank!r} is neither a natural number nor {ANY}")
        if role == Role.WORKER and process_rank is None:
            raise ValueError(f"{uri!r}: a Worker's name ends with its processRank, or with {ANY} for all of the node")
        if role not in (Role.WORKER, ANY) and process_rank is not None:
            raise ValueError(f"{uri!r}: only Workers have a processRank")
        return cls(job, role, server_rank, process_rank)

    def covers(self, job: str, position: Position) -> bool:
        """True if this name entitles its holder to a position.

        Args:
            job: the job that the position is in.
            position: one node's; the processRank counts for a Worker alone (docs/contract.md, section 1).
        """
        return (
            self.job in (ANY, job)
            and self.role in (ANY, position.role)
            and self.server_rank in (ANY, position.server_rank)
            and (position.role != Role.WORKER or self.process_rank in (ANY, position.process_rank))
        )

    def __str__(self) -> str:
        fields = (self.job, self.role, self.server_rank, self.process_rank)
        return SCHEME + "/".join(field for field in fields if field is not None)


def parse_all(uris: Iterable[str]) -> tuple[CertificateName, ...]:
    """The names among the URIs of a certificate.

    URIs of another scheme and unreadable names are left out: they entitle to nothing.
    """
    names = []
    for uri in uris:
        with suppress(ValueError):
            names.append(CertificateName.parse(uri))
    return tuple(names)
