"""Updates for a browser: the whole tree once, then the changed nodes.

Every look at the mesh that finds something new makes a version. A browser says which one it has, and gets what has
changed since; what it holds then is the document of `taskd_net.observe.document`, node by node.

A look goes over every node, so it is taken in slices: whoever takes it lets others have their turn in between.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from taskd_net.base.codes import Refusal
from taskd_net.base.expect import Expected
from taskd_net.base.position import Position
from taskd_net.base.untrusted import json_line, natural
from taskd_net.faces.page.panel import panel
from taskd_net.observe import history
from taskd_net.observe.document import (
    Document,
    Standing,
    causes_of,
    head,
    missing_of,
    node_document,
    standings_of,
)
from taskd_net.observe.job_view import JobView
from taskd_net.observe.records import NodeStatus
from taskd_net.observe.status_codec import read_node, read_position

REMOVED: Final = 1000
"""Nodes that have left of which a browser can still be told; one that has missed more gets the whole tree again."""

_NOTHING: Final = "null"


@dataclass(frozen=True, slots=True)
class _Shown:
    """One node: what it was made from, and what browsers get of it since which version."""

    record: bytes
    status: NodeStatus
    standing: Standing
    node: Document
    text: str
    version: int


class Feed:
    """The state of one mesh, for all browsers together.

    Args:
        root: the node whose page it is.
        expected: the size of the job, as text; empty where it is not known.
        life: tells this feed from the one of an earlier process at the same address.
    """

    def __init__(self, root: Position, expected: str, life: str, removed: int = REMOVED) -> None:
        self._root = root
        self._expected = Expected.parse(expected) if expected else None
        self._life = life
        self._most_removed = removed
        self._version = 0
        # Removed positions with their versions; browsers with an older version than `_floor` get everything.
        self._removed: deque[tuple[int, Position]] = deque()
        self._floor = 0
        self._shown: dict[Position, _Shown] = {}
        self._standings: dict[Position, Standing] = {}
        self._head: Document = {}
        self._causes: list[Document] = []
        self._missing: list[Document] = []
        self._missing_text = _NOTHING
        self._missing_version = 0
        self._job_text = _NOTHING
        self._job_version = 0
        self._strained_text = "{}"
        self._strained_version = 0

    def look(
        self,
        now: float,
        entries: Sequence[tuple[str, bytes]],
        job: JobView | None = None,
        strained: Mapping[str, float] = MappingProxyType({}),
    ) -> Iterator[None]:
        """Take in the records of all nodes. Nothing of it is told before the end.

        Args:
            now: seconds since the epoch.
            entries: each node's position and record.
            job: the state of the job; None where the node has no Manager.
            strained: the nodes under a strain, each with its beginning in seconds since the epoch.

        Yields:
            After every slice.
        """
        records: dict[Position, bytes] = {}
        known: dict[Position, NodeStatus] = {}
        for number, (name, record) in enumerate(entries, 1):
            if number % history.SLICE == 0:
                yield
            position = read_position(name)
            # A name that is no position is left out: no hop has checked it.
            if position is not None:
                with contextlib.suppress(Refusal):
                    old = self._shown.get(position)
                    known[position] = old.status if old is not None and old.record == record else read_node(record)
                    records[position] = record
        yield
        standings = standings_of(known)
        yield
        version = self._version + 1
        found: dict[Position, _Shown] = {}
        for number, (position, record) in enumerate(records.items(), 1):
            if number % history.SLICE == 0:
                yield
            found[position] = self._show(position, record, known[position], standings[position], version)
        yield
        missing, causes = self._missing, self._causes
        if standings != self._standings:
            causes = causes_of(known, standings)
            yield
        if self._expected is not None and standings != self._standings:
            missing = missing_of(self._root, known, standings, self._expected)
            yield
        job_text = _NOTHING if job is None else json_line(panel(job), compact=True)
        strained_text = json_line({name: round(since, 3) for name, since in strained.items()}, compact=True)
        self._take(version, now, found, standings, causes, missing, job_text, strained_text)

    def answer(self, since: str) -> str:
        """The update for a browser.

        Args:
            since: the `token` of the last answer that it got; anything else for none.

        Returns:
            A JSON object: the head of the document, with `missing` null if nothing in it has changed; `job`, null if
            it is the same or there is none; `strained`, null if it is the same; `nodes`, those that have changed;
            `removed`, positions that are known no more; `whole`, whether `nodes` are all there are; `token`.
        """
        life, _, number = since.rpartition("-")
        told = natural(number, self._version) if life == self._life else None
        whole = told is None or told < self._floor
        if told is None or whole:
            told = -1
        nodes = ",".join(shown.text for shown in self._shown.values() if shown.version > told)
        removed = [] if whole else [position for version, position in self._removed if version > told]
        rest = {
            **self._head,
            "removed": [str(position) for position in removed if position not in self._shown],
            "whole": whole,
            "token": f"{self._life}-{self._version}",
        }
        missing = self._missing_text if self._missing_version > told else _NOTHING
        job = self._job_text if self._job_version > told else _NOTHING
        strained = self._strained_text if self._strained_version > told else _NOTHING
        parts = f'"missing":{missing},"job":{job},"strained":{strained},"nodes":[{nodes}]'
        return f"{json_line(rest, compact=True)[:-1]},{parts}}}"

    def _show(self, position: Position, record: bytes, status: NodeStatus, standing: Standing, version: int) -> _Shown:
        old = self._shown.get(position)
        if old is not None and old.record == record and old.standing == standing:
            return old
        node = node_document(position, status, standing)
        text = json_line(node, compact=True)
        return _Shown(record, status, standing, node, text, old.version if old and old.text == text else version)

    def _take(
        self,
        version: int,
        now: float,
        found: dict[Position, _Shown],
        standings: dict[Position, Standing],
        causes: list[Document],
        missing: list[Document],
        job_text: str,
        strained_text: str,
    ) -> None:
        removed = [position for position in self._shown if position not in found]
        if missing != self._missing or not self._version:
            self._missing, self._missing_version = missing, version
            self._missing_text = json_line(missing, compact=True)
        if job_text != self._job_text:
            self._job_text, self._job_version = job_text, version
        if strained_text != self._strained_text:
            self._strained_text, self._strained_version = strained_text, version
        self._removed.extend((version, position) for position in removed)
        while len(self._removed) > self._most_removed:
            self._floor = self._removed.popleft()[0]
        news = version in (self._missing_version, self._job_version, self._strained_version)
        if removed or news or any(shown.version == version for shown in found.values()):
            self._version = version
        self._shown, self._standings, self._causes = found, standings, causes
        nodes = [shown.node for shown in found.values()]
        self._head = head(self._root, now, self._expected, standings, causes, missing, nodes)
        del self._head["missing"]
