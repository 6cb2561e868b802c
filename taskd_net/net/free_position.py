"""Positions for tools, which no job has."""

from __future__ import annotations

from typing import Final

from taskd_net.base.chance import chance
from taskd_net.base.codes import ConfigError
from taskd_net.base.position import TOOL_NODES, Position, tool_ranks
from taskd_net.net.tls.files import Tls

_FREE_RANKS: Final = range(1_000_000_000, 2_000_000_000)


def free_position() -> Position:
    """An Agent of a node that no job has.

    A position in use would be taken over (docs/contract.md, section 3: the newcomer wins). The rank is random, so that
    tools do not cut each other off, and fits 32 bits, as some code keeps ranks in those.
    """
    return Position.agent(chance.choice(_FREE_RANKS))


def tool_position(node: int | None, tls: Tls | None) -> Position:
    """A position for a tool that speaks for a node, as far as its certificate names the Agent of that node.

    Args:
        node: rank of the node; None for the only one that the certificate names.
        tls: files of the tool.

    Returns:
        A tool of every node, with a certificate for all Agents; else of a node that it names, `node` before others, so
        that the Manager can say what it refuses; else a free position.

    Raises:
        ConfigError: a file of `tls` is refused, or there is no node, and the certificate names several.
    """
    if tls is None or tls.client_crt is None:
        return free_position()
    from taskd_net.net.tls.certificates import client_names  # needs the extra `tls`

    names = client_names(tls)
    if any(name.covers(name.job, Position.agent(tool_ranks(None)[0])) for name in names):
        return Position.agent(chance.choice(tool_ranks(None)))
    named = {name.server_rank for name in names if name.covers(name.job, Position.agent(name.server_rank))}
    if node is None and len(named) > 1:
        ranks = ", ".join(sorted(named, key=int))
        raise ConfigError(f"node is None; expected one of {ranks}, whose Agents {tls.client_crt!r} names")
    found = node if not named or str(node) in named else int(min(named, key=int))
    return free_position() if found not in TOOL_NODES else Position.agent(chance.choice(tool_ranks(found)))
