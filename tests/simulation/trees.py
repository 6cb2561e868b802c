"""Trees and destinations for hypothesis, and what the contract says about who gets a message."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from taskd_net.base.position import Destination, Position, Role
from tests.simulation.mesh import Tree

DEPTH = 6
"""Levels below the Mgr at most."""

SERVERS = range(3)
"""Node ranks of the leaves; few, so that lists and ranks meet."""


@st.composite
def trees(draw: DrawFn, max_proxies: int = 5, max_leaves: int = 6) -> Tree:
    """A job's tree: Proxies nested up to the depth limit, leaves under the Mgr and any of the Proxies."""
    tree: Tree = {Position.mgr(): None}
    depth = {Position.mgr(): 0}
    inner = [Position.mgr()]
    for rank in range(draw(st.integers(0, max_proxies), label="proxies")):
        parent = draw(st.sampled_from([p for p in inner if depth[p] < DEPTH - 1]), label="parent of a Proxy")
        proxy = Position.proxy(rank)
        tree[proxy], depth[proxy] = parent, depth[parent] + 1
        inner.append(proxy)
    server = st.sampled_from(SERVERS)
    leaf = st.one_of(st.builds(Position.agent, server), st.builds(Position.worker, server, st.integers(0, 7)))
    for position in draw(st.lists(leaf, min_size=1, max_size=max_leaves, unique=True), label="leaves"):
        tree[position] = draw(st.sampled_from(inner), label="parent of a leaf")
    return tree


def _ranks(existing: Iterable[str]) -> SearchStrategy[str]:
    one = st.sampled_from(sorted({*existing, "9"}))
    return st.one_of(one, st.lists(one, min_size=2, max_size=4).map(",".join), st.just("All"))


def destinations(tree: Tree) -> SearchStrategy[Position]:
    """Well-formed destinations of every kind: existing nodes, missing ones, lists of both, wildcards."""
    servers = _ranks(position.server_rank for position in tree)
    processes = _ranks(position.process_rank for position in tree if position.role == Role.WORKER)
    any_of_role = st.builds(Position, st.sampled_from([role.value for role in Role]), servers, processes)
    return st.one_of(st.sampled_from(list(tree)), any_of_role)


def receivers(positions: Iterable[Position], sender: Position, dst: Destination) -> set[Position]:
    """The receivers of a message: the node of a unicast, or every match of a list or wildcard except the sender."""
    matching = {position for position in positions if _matches(position, dst.position)}
    return matching if dst.unicast else matching - {sender}


def missing_rank(positions: Iterable[Position], dst: Destination) -> bool:
    """True if a list names a rank that nobody has."""
    if not dst.is_list:
        return False
    role = [position for position in positions if position.role == dst.position.role]
    servers, processes = dst.position.server_rank, dst.position.process_rank
    missing = {rank for rank in servers.split(",") if rank != "All"} - {position.server_rank for position in role}
    if dst.position.role == Role.WORKER and processes != "All":
        there = [position for position in role if servers == "All" or position.server_rank in servers.split(",")]
        missing |= set(processes.split(",")) - {position.process_rank for position in there}
    return bool(missing)


def _matches(position: Position, pattern: Position) -> bool:
    """Match as the contract's words say it, without any code of the package."""
    if position.role != pattern.role:
        return False
    pairs = [(position.server_rank, pattern.server_rank)]
    if position.role == Role.WORKER:
        pairs.append((position.process_rank, pattern.process_rank))
    return all(wanted == "All" or rank in wanted.split(",") for rank, wanted in pairs)
