"""Positions of nodes, and destinations of messages.

A `Position` is a node's place in the job: role, node rank, and for a Worker its global rank. Source: docs/contract.md,
section 1.
A `Destination` is what a sender may write in a message's `dst`: one position, a comma list of ranks (multicast) or
`All` (broadcast). Everything on the wire is a string; this module is where strings gain a meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final, NamedTuple

from taskd_net.base.codes import ArgumentError, ArgumentTypeError, Code, Refusal
from taskd_net.base.limits import RANKS_PER_LIST
from taskd_net.base.untrusted import shown

RANK_CHARS: Final = 64
"""Characters of a rank, and of the processRank of a node that is no Worker (a start time, at most). Longer ones name
nobody, and would be remembered with every table that they come into."""

REMEMBERED_CHARS: Final = 256
"""Characters of a destination or position up to which what was found out about it is remembered: a list of some fifty
ranks. A sender of ever new ones fills that memory up to its bound."""

ALL: Final = "All"
NO_PROCESS: Final = "-1"


class Role(StrEnum):
    """The four kinds of node. The values are the spelling on the wire."""

    MGR = "Mgr"
    PROXY = "Proxy"
    AGENT = "Agent"
    WORKER = "Worker"

    @property
    def is_leaf(self) -> bool:
        """True for the roles that never have children (level 1 of the tree)."""
        return self is Role.AGENT or self is Role.WORKER


_ROLES: Final = frozenset(str(role) for role in Role)


class Position(NamedTuple):
    """A node's place in the job, as it stands on the wire.

    A tuple, as positions are looked up in tables several times for each message and a tuple's hash is the cheapest.

    Args:
        role: `Mgr`, `Proxy`, `Agent` or `Worker`.
        server_rank: the node's rank, as text; `"0"` for the Mgr.
        process_rank: the global rank of a Worker, as text; `"-1"` for the other roles.

    Raises:
        ArgumentTypeError: a rank is no text. A number would equal no position that comes over the wire;
            `Position.worker(0, 3)` and its like take numbers, and make texts of them.

    Source: docs/contract.md, section 1.
    """

    role: str
    server_rank: str
    process_rank: str = NO_PROCESS

    @classmethod
    def mgr(cls) -> Position:
        """The root of the job's tree."""
        return cls(Role.MGR.value, "0")

    @classmethod
    def proxy(cls, server_rank: int | str) -> Position:
        """The Proxy of node `server_rank`."""
        return cls(Role.PROXY.value, str(server_rank))

    @classmethod
    def agent(cls, server_rank: int | str) -> Position:
        """The Agent of node `server_rank`."""
        return cls(Role.AGENT.value, str(server_rank))

    @classmethod
    def worker(cls, server_rank: int | str, rank: int | str) -> Position:
        """The Worker with global rank `rank` on node `server_rank`."""
        return cls(Role.WORKER.value, str(server_rank), str(rank))

    @classmethod
    def parse(cls, text: str) -> Position:
        """Read `Role/serverRank[/processRank]`, for example `Worker/0/3`, `Proxy/1`, `Mgr` or `Worker/All/0,3,7`.

        The ranks are not checked here: that is done where the position is used, with the contract's codes.

        Raises:
            ArgumentError: the text has not two or three fields (`Mgr` alone means `Mgr/0`).
        """
        if not isinstance(text, str):
            raise ArgumentTypeError(f"the position is {shown(text)}; expected a text, e.g. Worker/0/3")
        fields = text.strip().split("/")
        if fields == [Role.MGR]:
            return cls.mgr()
        if len(fields) not in (2, 3) or not all(fields):
            expected = "expected Role/serverRank[/processRank], e.g. Worker/0/3"
            raise ArgumentError(f"{text[:80]!r} is not a position; {expected}")
        return cls(*fields)

    @property
    def identity(self) -> Position:
        """The position without what does not identify: only a Worker is told apart by its processRank."""
        if self.role == Role.WORKER or self.process_rank == NO_PROCESS:
            return self
        return Position(self.role, self.server_rank)

    def __str__(self) -> str:
        if self.role == Role.WORKER:
            return f"{self.role}/{self.server_rank}/{self.process_rank}"
        return f"{self.role}/{self.server_rank}"


def _of_texts(cls: type[Position], role: object, server_rank: object, process_rank: object = NO_PROCESS) -> Position:
    if isinstance(role, str) and isinstance(server_rank, str) and isinstance(process_rank, str):
        return tuple.__new__(cls, (role, server_rank, process_rank))
    given = zip(cls._fields, (role, server_rank, process_rank), strict=True)
    name, value = next(field for field in given if not isinstance(field[1], str))
    expected = "a text, as on the wire; Position.worker(0, 3), .agent(0) and .proxy(0) take numbers"
    raise ArgumentTypeError(f"{name} is {value!r}; expected {expected}")


# In the body of a NamedTuple it cannot stand.
Position.__new__ = _of_texts  # type: ignore[assignment, method-assign]


TOOLS_PER_NODE: Final = 1_000
"""Positions of the tools of one node."""

TOOL_NODES: Final = range(100_000)
"""Ranks of nodes whose tools have positions of their own."""

_TOOLS_FROM: Final = 2_000_000_000
_TOOLS_END: Final = 2**31  # ranks fit 32 bits, because some code keeps them in those
_EVERY_NODE: Final = range(_TOOLS_FROM + len(TOOL_NODES) * TOOLS_PER_NODE, _TOOLS_END)


def tool_ranks(node: int | None) -> range:
    """The ranks of Agents that are tools of a node; None for every node.

    No job has such ranks. A certificate for the node's Agent is good for its tools (`core.identity`).
    """
    if node is None:
        return _EVERY_NODE
    first = _TOOLS_FROM + node * TOOLS_PER_NODE
    return range(first, first + TOOLS_PER_NODE)


def tool_of(position: Position) -> str | None:
    """The rank of the node that a position is a tool of, `All` for every node; None for any other position."""
    if position.role != Role.AGENT or not is_rank(position.server_rank):
        return None
    rank = int(position.server_rank)
    if rank in _EVERY_NODE:
        return ALL
    return str((rank - _TOOLS_FROM) // TOOLS_PER_NODE) if _TOOLS_FROM <= rank < _TOOLS_END else None


def read_nodes(text: str) -> frozenset[Position]:
    """Read positions with commas between, each of one node, by identity.

    Raises:
        ArgumentError: one of them is no position.
        Refusal: one of them has an unknown role, or a rank that is not a natural number.
    """
    found = frozenset(Position.parse(each).identity for each in text.split(","))
    for each in found:
        require_node(each)
    return found


def destination(to: object) -> Position:
    """The position that a caller names as a message's destination; its ranks are not checked here.

    Raises:
        ArgumentError: a text that is not a position.
        ArgumentTypeError: neither a text nor a Position.
    """
    if isinstance(to, Position):
        return to
    if isinstance(to, str):
        return _parsed(to)
    raise ArgumentTypeError(
        f"to is {shown(to)}; expected a Position, or a text such as 'Mgr', 'Proxy/1' or 'Worker/0/3'"
    )


_parsed: Final = lru_cache(maxsize=1024)(Position.parse)


def is_rank(text: str) -> bool:
    """True for a natural number in ASCII digits, of a length that is worth remembering."""
    return len(text) <= RANK_CHARS and text.isascii() and text.isdigit()


def require_node(position: Position) -> None:
    """Check that a position names exactly one node.

    Raises:
        Refusal: 4003 for an unknown role, 4004 or 4005 for a rank that is not a natural number.
    """
    if position.role not in _ROLES:
        raise Refusal(Code.DST_ROLE_ILLEGAL, f"role {position.role[:80]!r} is not one of Mgr, Proxy, Agent, Worker")
    if not is_rank(position.server_rank):
        raise Refusal(Code.DST_SRV_RANK_ILLEGAL, f"serverRank {position.server_rank[:80]!r} is not a natural number")
    process_rank = position.process_rank
    if position.role == Role.WORKER and not is_rank(process_rank):
        raise Refusal(Code.DST_PROCESS_RANK_ILLEGAL, f"processRank {process_rank[:80]!r} is not a natural number")
    if len(process_rank) > RANK_CHARS:
        text = f"processRank {process_rank[:80]!r} has {len(process_rank)} characters; at most {RANK_CHARS} are allowed"
        raise Refusal(Code.DST_PROCESS_RANK_ILLEGAL, text)


@dataclass(frozen=True, slots=True)
class Destination:
    """A checked destination. Made by `Destination.of`, never directly.

    `servers` and `processes` are the ranks that match, or None where every rank does (`All`; for the processRank of
    a role other than Worker it has no meaning and is always None).
    """

    position: Position
    servers: frozenset[str] | None
    processes: frozenset[str] | None
    unicast: bool

    @classmethod
    def of(cls, position: Position) -> Destination:
        """Check a `dst` in the order of docs/contract.md, section 6.

        For roles other than Worker the processRank becomes `-1`, whatever stood there.

        Raises:
            Refusal: 4003 unknown role, 4004 serverRank malformed, 4005 processRank of a Worker malformed, 4006 a rank
                list longer than `limits.RANKS_PER_LIST`.
        """
        if len(position.server_rank) + len(position.process_rank) + len(position.role) > REMEMBERED_CHARS:
            return _checked.__wrapped__(position)
        return _checked(position)

    @property
    def ranks(self) -> int:
        """The length of the longest list in it; 0 without any."""
        return max(len(self.servers or ()), len(self.processes or ()))

    @property
    def is_list(self) -> bool:
        """True for a multicast: ranks are named one by one, so each of them must exist."""
        return not self.unicast and not (self.servers is None and self.processes is None)

    def matches(self, identity: Position) -> bool:
        """True when the node with this identity is among the receivers."""
        return (
            identity.role == self.position.role
            and (self.servers is None or identity.server_rank in self.servers)
            and (self.processes is None or identity.process_rank in self.processes)
        )

    def __str__(self) -> str:
        return str(self.position)


def _ranks(text: str, code: Code, field: str) -> frozenset[str] | None:
    if text == ALL:
        return None
    ranks = text.split(",")
    if text == NO_PROCESS and code is Code.DST_PROCESS_RANK_ILLEGAL:
        raise Refusal(code, f"a Worker needs a rank: Worker/NODE/RANK, e.g. Worker/0/3 or Worker/{ALL}/0,3,7")
    if not all(is_rank(rank) for rank in ranks):
        raise Refusal(code, f"{field} {text[:80]!r} is not a natural number, a comma list of them, or {ALL!r}")
    if len(ranks) > RANKS_PER_LIST:
        raise Refusal(Code.DST_TYPE_ILLEGAL, f"{field} lists {len(ranks)} ranks; at most {RANKS_PER_LIST} are allowed")
    return frozenset(ranks)


# The same few destinations come again and again; a refused one is not cached, which is as it should be.
@lru_cache(maxsize=16_384)
def _checked(position: Position) -> Destination:
    role = position.role
    if role not in _ROLES:
        raise Refusal(Code.DST_ROLE_ILLEGAL, f"role {role[:80]!r} is not one of Mgr, Proxy, Agent, Worker")
    servers = _ranks(position.server_rank, Code.DST_SRV_RANK_ILLEGAL, "serverRank")
    if role == Role.WORKER:
        processes = _ranks(position.process_rank, Code.DST_PROCESS_RANK_ILLEGAL, "processRank")
        one = servers is not None and len(servers) == 1 and processes is not None and len(processes) == 1
        if one and servers and processes:
            position = Position(role, *servers, *processes)
    else:
        processes = None
        one = servers is not None and len(servers) == 1
        position = Position(role, *servers) if one and servers else Position(role, position.server_rank)
    return Destination(position, servers, processes, one)
