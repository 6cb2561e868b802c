"""The place of a node for people and programs: each fact beside its source."""

from __future__ import annotations

from typing import Final

from taskd_net.base.untrusted import json_line, printable
from taskd_net.job.platforms.place import DEFAULT, Place

BY_MANAGER: Final = "in the order of arrival, by the Manager"


def facts(place: Place, processes: int) -> dict[str, tuple[int | str | None, str]]:
    """The facts of a place by name, each with its source.

    Args:
        place: of the node.
        processes: of it.
    """
    rank = (None, BY_MANAGER) if place.rank is None else (place.rank.value, place.rank.by)
    attempt = (None, DEFAULT) if place.attempt is None else (place.attempt.value, place.attempt.by)
    return {
        "node_rank": rank,
        "nodes": (place.nodes.value, place.nodes.by),
        "first_host": (place.first_host.value or None, place.first_host.by),
        "processes": (processes, place.processes.by),
        "job_id": (place.job_id.value or None, place.job_id.by),
        "attempt": attempt,
    }


def sources(place: Place, processes: int) -> str:
    """The sources of all facts that something states, in one text."""
    return ", ".join(f"{name} by {by}" for name, (_, by) in facts(place, processes).items() if by != DEFAULT)


def document(place: Place, processes: int) -> str:
    """The place as one JSON object."""
    found = facts(place, processes)
    values = {name: value for name, (value, _) in found.items()}
    return json_line(
        {"platform": place.platform or None, **values, "sources": {name: by for name, (_, by) in found.items()}}
    )


def lines(place: Place, processes: int) -> list[str]:
    """The place as a table."""
    rows = [("platform", place.platform or "none", "")]
    for name, (value, by) in facts(place, processes).items():
        rows.append((name.replace("_", " "), "-" if value is None else str(value), by))
    width = max(len(value) for _, value, _ in rows)
    return [printable(f"{name:<12}{value:<{width}}  {by}".rstrip()) for name, value, by in rows]
