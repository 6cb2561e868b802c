"""The state of the mesh as one JSON document: what `taskd-net tree --json` prints, and docs/status.md describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from taskd_net.expect import Expected
from taskd_net.observe.records import Flow, Mesh, NodeStatus, Own
from taskd_net.position import Position, Role
from taskd_net.states import State

Document: TypeAlias = dict[str, Any]

NEVER_SEEN: Final = "never_seen"

TROUBLE: Final = (State.LOST, State.GONE, State.CUT_OFF)
"""The states of nodes that somebody has to look after. A rank that is expected and in one of them is missing."""

_ORDER: Final = {role: order for order, role in enumerate(Role)}


class Standing(NamedTuple):
    """How a node stands in the whole tree.

    Attributes:
        state: its state.
        since: since when, in seconds since the epoch; 0.0 where that is not known.
    """

    state: State
    since: float


def document(mesh: Mesh, expected: Expected | None = None) -> Document:
    """The document of a mesh.

    Args:
        mesh: what one node knows.
        expected: the size that the job should have; None for what the node itself was told, if it was.
    """
    if expected is None and mesh.expected:
        expected = Expected.parse(mesh.expected)
    known = dict(mesh.nodes)
    standings = standings_of(known)
    ordered = sorted(known, key=tree_order)
    nodes = [node_document(position, known[position], standings[position]) for position in ordered]
    missing = missing_of(mesh.root, known, standings, expected) if expected is not None else []
    return {**head(mesh.root, mesh.now, expected, standings, missing, nodes), "nodes": nodes}


def head(
    root: Position,
    now: float,
    expected: Expected | None,
    standings: Mapping[Position, Standing],
    missing: Sequence[Document],
    nodes: Collection[Document],
) -> Document:
    """The document of a mesh without its nodes.

    Args:
        root: who answers.
        now: when, in seconds since the epoch.
        expected: the size that the job should have; None where it is not known.
        standings: what `standings_of` says of all nodes.
        missing: what `missing_of` says.
        nodes: what `node_document` says of each.
    """
    counts = Counter(standing.state.value for standing in standings.values())
    return {
        "node": str(root),
        "time": round(now, 3),
        "expected": None if expected is None else {"nodes": expected.nodes, "processes": expected.processes},
        "summary": {
            "nodes": len(nodes),
            **{state.value: counts[state.value] for state in State},
            "missing": len(missing),
            "in_flight": sum(node["down"]["in_flight"] + node["up"]["in_flight"] for node in nodes if node["parent"]),
        },
        "missing": missing,
    }


def healthy(document: Document) -> bool:
    """Whether nobody is missing, every node has joined or left in good order, and none that is there is deaf."""
    deaf = any(
        node["state"] == State.JOINED and node["inbox"] and node["inbox"]["closed"] for node in document["nodes"]
    )
    return not document["summary"]["missing"] and not in_trouble(document) and not deaf


def in_trouble(document: Document) -> int:
    """How many of the nodes that are known are lost, gone or cut off."""
    return sum(document["summary"][state.value] for state in TROUBLE)


def tree_order(position: Position) -> tuple[int, int, int]:
    """Sorts by role, then by rank."""
    return _ORDER[Role(position.role)], int(position.server_rank), int(position.process_rank)


def standings_of(known: Mapping[Position, NodeStatus]) -> dict[Position, Standing]:
    """How each node stands: one that is behind another whose stream is gone is cut off, since that one is away."""
    standings: dict[Position, Standing] = {}
    for position in known:
        above: list[Position] = []
        at: Position | None = position
        # Reports that cross each other could close a ring for a moment.
        while at is not None and at in known and at not in standings and at not in above:
            above.append(at)
            at = known[at].parent
        over = None if at is None else standings.get(at)
        for node in reversed(above):
            over = _standing(known[node], over)
            standings[node] = over
    return standings


def _standing(status: NodeStatus, over: Standing | None) -> Standing:
    """How a node stands below its parent, None where that one is not known."""
    if status.state is State.JOINED and over is not None and over.state is not State.JOINED:
        return Standing(State.CUT_OFF, over.since)
    return Standing(status.state, status.since)


def missing_of(
    root: Position, known: Mapping[Position, NodeStatus], standings: Mapping[Position, Standing], expected: Expected
) -> list[Document]:
    """Who of those that are expected is not there and has not left in good order, in order."""
    missing: list[Document] = []
    ranks = [position for position, status in known.items() if not status.service]
    for position in expected.positions(ranks, root):
        standing = standings.get(position)
        if standing is None:
            missing.append({"position": str(position), "why": NEVER_SEEN, "since": None})
        elif standing.state in TROUBLE:
            missing.append({"position": str(position), "why": standing.state.value, "since": _time(standing.since)})
    return missing


def node_document(position: Position, status: NodeStatus, standing: Standing) -> Document:
    """What a document says of one node."""
    own = status.own
    side = own.up if own is not None else Flow()
    worker = position.role == Role.WORKER
    return {
        "position": str(position),
        "role": position.role,
        "server_rank": int(position.server_rank),
        "process_rank": int(position.process_rank) if worker else None,
        "parent": None if status.parent is None else str(status.parent),
        "state": standing.state.value,
        "since": _time(standing.since),
        "service": status.service,
        "peer": status.peer,
        "version": status.version or None,
        "link": status.link or None,
        "address": status.address or None,
        "listen": own.listen or None if own is not None else None,
        "at": round(status.at, 3),
        "last_message": None if status.last_message is None else round(status.last_message, 3),
        "reconnects": status.reopened if own is None else max(own.reconnects, status.reopened),
        "down": _flow(status.down, status.down),
        "up": _flow(status.up, side),
        "inbox": None if own is None else _inbox(own),
        "delivered": None if own is None else own.delivered,
        "lost": None if own is None else own.lost,
    }


def _inbox(own: Own) -> Document:
    return {"held": own.inbox, "room": own.inbox_room, "line": own.inbox_line, "closed": own.inbox_closed}


def _time(seconds: float) -> float | None:
    return round(seconds, 3) if seconds else None


def _flow(counted: Flow, sender: Flow) -> Document:
    """One direction of a link: what its receiver or sender counted, and what only the sender knows."""
    return {
        "messages": counted.messages,
        "bytes": counted.bytes,
        "failed": sender.failed,
        "in_flight": sender.in_flight,
        "queued": sender.queued,
        "ack_p50": sender.ack_p50,
        "ack_p99": sender.ack_p99,
    }


def by_position(document: Document) -> Mapping[str, Document]:
    """The nodes of a document by their position."""
    return {node["position"]: node for node in document["nodes"]}


def children(document: Document) -> Mapping[str | None, Sequence[Document]]:
    """The nodes of a document by the position of their parent."""
    below: dict[str | None, list[Document]] = {}
    for node in document["nodes"]:
        below.setdefault(node["parent"], []).append(node)
    return below
