"""The state of the mesh as one JSON document: what `taskd-net tree --json` prints, and docs/status.md describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

from taskd_net.position import Position, Role
from taskd_net.status.expect import Expected
from taskd_net.status.records import Flow, Mesh, NodeStatus, Own, State

Document: TypeAlias = dict[str, Any]

NEVER_SEEN: Final = "never_seen"

_ORDER: Final = {role: order for order, role in enumerate(Role)}


def document(mesh: Mesh, expected: Expected | None = None) -> Document:
    """The document of a mesh.

    Args:
        mesh: what one node knows.
        expected: the size that the job should have; None for what the node itself was told, if it was.
    """
    if expected is None and mesh.expected:
        expected = Expected.parse(mesh.expected)
    known = dict(mesh.nodes)
    states = states_of(known)
    nodes = [node_document(position, known[position], states[position]) for position in sorted(known, key=tree_order)]
    missing = missing_of(mesh.root, known, states, expected) if expected is not None else []
    return {**head(mesh.root, mesh.now, expected, states, missing, nodes), "nodes": nodes}


def head(
    root: Position,
    now: float,
    expected: Expected | None,
    states: Mapping[Position, State],
    missing: Sequence[Document],
    nodes: Collection[Document],
) -> Document:
    """The document of a mesh without its nodes.

    Args:
        root: who answers.
        now: when, in seconds since the epoch.
        expected: the size that the job should have; None where it is not known.
        states: what `states_of` says of all nodes.
        missing: what `missing_of` says.
        nodes: what `node_document` says of each.
    """
    counts = Counter(state.value for state in states.values())
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
    """Whether nobody is missing, every node that is known has joined, and none has closed its inbox."""
    summary = document["summary"]
    deaf = any(node["inbox"] and node["inbox"]["closed"] for node in document["nodes"])
    return not summary["missing"] and summary["joined"] == summary["nodes"] and not deaf


def tree_order(position: Position) -> tuple[int, int, int]:
    """Sorts by role, then by rank."""
    return _ORDER[Role(position.role)], int(position.server_rank), int(position.process_rank)


def states_of(known: Mapping[Position, NodeStatus]) -> dict[Position, State]:
    """The state of each node: one that is behind another whose stream is gone is cut off."""
    states: dict[Position, State] = {}
    for position in known:
        above: list[Position] = []
        at: Position | None = position
        # Reports that cross each other could close a ring for a moment.
        while at is not None and at in known and at not in states and at not in above:
            above.append(at)
            at = known[at].parent
        reached = at is None or at not in known or states.get(at, State.JOINED) is State.JOINED
        for node in reversed(above):
            own = known[node].state
            states[node] = State.CUT_OFF if own is State.JOINED and not reached else own
            reached = states[node] is State.JOINED
    return states


def missing_of(
    root: Position, known: Mapping[Position, NodeStatus], states: Mapping[Position, State], expected: Expected
) -> list[Document]:
    """Who of those that are expected is not there, in order."""
    missing: list[Document] = []
    for position in expected.positions(known, root):
        state = states.get(position)
        if state is None:
            missing.append({"position": str(position), "why": NEVER_SEEN, "since": None})
        elif state is not State.JOINED:
            missing.append({"position": str(position), "why": state.value, "since": round(known[position].since, 3)})
    return missing


def node_document(position: Position, status: NodeStatus, state: State) -> Document:
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
        "state": state.value,
        "since": round(status.since, 3),
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
