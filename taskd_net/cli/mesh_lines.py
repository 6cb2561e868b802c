"""The document of a mesh as a tree in text: one line per node, many healthy nodes folded into one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from taskd_net.base.position import Position, Role
from taskd_net.cli.phrases import duration, milliseconds, phrases
from taskd_net.observe.document import NEVER_SEEN, Document, by_position, children, tree_order
from taskd_net.observe.fields import Form, faces_of
from taskd_net.observe.records import INBOX, PARENT, WHERE, Direction, NodeStatus, OwnFigures

Line: TypeAlias = tuple[str, str]
"""A text, and its style on a terminal."""

FOLD_NODES: Final = 40
"""Nodes of a tree whose healthy ones are folded: more than a screen shows."""

_STYLES: Final = {
    "joined": "green",
    "not_answering": "bold red",
    "lost": "bold red",
    "gone": "bold red",
    "cut_off": "yellow",
    "finished": "dim",
    "stopped": "dim",
    NEVER_SEEN: "bold red",
}
_CALM: Final = ("joined", "finished", "stopped")
"""States without trouble."""

_ANYWHERE: Final = frozenset({WHERE})
"""Places of the fields that a line has of a node in any state."""
_OF_JOINED: Final = frozenset({"", PARENT, INBOX})
_ADDED: Final = (Form.COUNT, Form.BYTES)

_WORDS: Final = {"not_answering": "not answering", "cut_off": "cut off", NEVER_SEEN: "never seen"}


def draw(mesh: Document, *, everything: bool = False) -> list[Line]:
    """The lines: a heading, what is in trouble of its own, missing ranks, the tree.

    Args:
        mesh: the document.
        everything: whether to show each node.
    """
    summary = mesh["summary"]
    others = [state for state in ("not_answering", "lost", "gone", "cut_off", "finished", "stopped") if summary[state]]
    counts = ", ".join(f"{summary[state]} {_word(state)}" for state in ("joined", *others))
    lines: list[Line] = [(f"{mesh['node']}: {summary['nodes']} nodes, {counts}", "bold")]
    if causes := mesh["causes"]:
        more = summary["causes"] - len(causes)
        told = [*(_cause(cause, mesh["time"]) for cause in causes), *([f"and {more} more"] if more else [])]
        lines.append((f"trouble: {'; '.join(told)}", "bold red"))
    if mesh["expected"] is not None:
        size = f"{mesh['expected']['nodes']}x{mesh['expected']['processes']}"
        missing = [entry["position"] for entry in mesh["missing"]]
        if missing:
            lines.append((f"missing of {size}: {len(missing)}: {'; '.join(names(missing))}", "bold red"))
        else:
            lines.append((f"missing of {size}: none", "green"))
    fold = not everything and summary["nodes"] > FOLD_NODES
    lines += _Tree(mesh, fold=fold).lines()
    return lines


def _cause(cause: Document, now: float) -> str:
    words = ", ".join(names(cause["positions"]))
    if (more := cause["count"] - len(cause["positions"])) > 0:
        words += f" and {more} more"
    words += f" {_word(cause['state'])}"
    if cause["since"] is not None:
        words += f" for {duration(now - cause['since'])}"
    return words + (f", cuts off {cause['cuts_off']}" if cause["cuts_off"] else "")


def names(positions: Iterable[str]) -> list[str]:
    """Positions as ranges: `Proxy 2-3`, `Worker 9,16-31`; Workers by their global rank."""
    ranks: dict[str, list[int]] = {}
    for text in positions:
        position = Position.parse(text)
        rank = position.process_rank if position.role == Role.WORKER else position.server_rank
        ranks.setdefault(position.role, []).append(int(rank))
    return [f"{role} {_ranges(sorted(ranks[role]))}" for role in Role if role in ranks]


def link_words(node: Document) -> str:
    """The kind of a node's link to its parent, and the reason where a better kind exists; empty without a link."""
    kind, reason = node["link"], node["link_reason"]
    return f"{kind}: {reason}" if kind and reason else kind or ""


class _Tree:
    def __init__(self, mesh: Document, *, fold: bool) -> None:
        self._fold = fold
        self._time: float = mesh["time"]
        self._root: str = mesh["node"]
        self._known = by_position(mesh)
        self._below: dict[str | None, list[str]] = {
            parent: [node["position"] for node in nodes if node["position"] != self._root]
            for parent, nodes in children(mesh).items()
        }
        self._never = [entry["position"] for entry in mesh["missing"] if entry["why"] == NEVER_SEEN]
        for position in self._never:
            self._below.setdefault(self._place_of(position), []).append(position)
        for nodes in self._below.values():
            nodes.sort(key=lambda text: tree_order(Position.parse(text)))
        self._whole: dict[str, int | None] = {}

    def lines(self) -> list[Line]:
        lines = [(self._text(self._root), self._style(self._root))]
        seen = {self._root}
        self._draw(self._root, "", lines, seen)
        # The parents of the rest are unknown here: a report is on its way.
        for position in self._known:
            if position not in seen and self._known[position]["parent"] not in self._known:
                seen.add(position)
                lines.append((self._text(position), self._style(position)))
                self._draw(position, "", lines, seen)
        return lines

    def _place_of(self, missing: str) -> str:
        """The parent of a node that was never seen: the root for a Proxy, the Proxy of its node for others."""
        position = Position.parse(missing)
        proxy = str(Position.proxy(position.server_rank))
        if position.role == Role.PROXY or (proxy not in self._known and proxy not in self._never):
            return self._root
        return proxy

    def _draw(self, position: str, indent: str, lines: list[Line], seen: set[str]) -> None:
        below = [child for child in self._below.get(position, ()) if child not in seen]
        seen.update(below)
        shown = below
        folded: Sequence[str] = ()
        if self._fold:
            shown = [child for child in below if self._size(child) is None]
            folded = [child for child in below if self._size(child) is not None]
        for number, child in enumerate(shown, 1):
            last = number == len(shown) and not folded
            lines.append((f"{indent}{'└─' if last else '├─'} {self._text(child)}", self._style(child)))
            self._draw(child, indent + ("   " if last else "│  "), lines, seen)
        groups = {state: [child for child in folded if self._known[child]["state"] == state] for state in _CALM}
        groups = {state: group for state, group in groups.items() if group}
        for number, (state, group) in enumerate(groups.items(), 1):
            size = sum(self._size(child) or 0 for child in group)
            more = f", with {size - len(group)} below them" if size > len(group) else ""
            mark = "└─" if number == len(groups) else "├─"
            lines.append((f"{indent}{mark} {', '.join(names(group))}: {state}{more}", _STYLES[state]))

    def _size(self, position: str) -> int | None:
        """The number of nodes in this subtree; None where one of them is not healthy."""
        if position not in self._whole:
            self._whole[position] = None  # a ring is not healthy
            sizes = [self._size(child) for child in self._below.get(position, ())]
            if self._style(position) in ("green", "dim") and None not in sizes:
                self._whole[position] = 1 + sum(size or 0 for size in sizes)
        return self._whole[position]

    def _style(self, position: str) -> str:
        node = self._known.get(position)
        style = _STYLES[NEVER_SEEN if node is None else node["state"]]
        return "yellow" if style == "green" and node is not None and (_full(node) or _closed(node)) else style

    def _text(self, position: str) -> str:
        """The line of a node: a sentence by hand, because its words depend on several fields, and declared phrases."""
        node = self._known.get(position)
        if node is None:
            return f"{position}  NEVER SEEN"
        state = _word(node["state"])
        words = [position, state if node["state"] in _CALM else state.upper()]
        if node["service"]:
            words.insert(1, "tool or service")
        if node["since"] is not None:
            words.append(f"for {duration(self._time - node['since'])}")
        if node["end_reason"] and state not in _CALM:
            words.append(node["end_reason"])
        if link := link_words(node):
            words.append(link)
        words += self._declared(node, _ANYWHERE)
        if node["peer"] not in ("taskd_net", ""):
            words.append(node["peer"])
        if state != "joined":
            return "  ".join(words)
        down, up = node["down"], node["up"]
        words += _sums(down, *([] if position == self._root else [up]))
        for name, way in (("answers in", down), ("gets answers in", up)):
            if way["ack_p99"] is not None:
                words.append(f"{name} {milliseconds(way['ack_p50'])}/{milliseconds(way['ack_p99'])} ms")
        if _closed(node):
            words.append("INBOX CLOSED, nobody reads it")
        elif _full(node):
            words.append(f"INBOX FULL, {node['inbox']['line']} wait")
        words += self._declared(node, _OF_JOINED)
        return "  ".join(words)

    def _declared(self, node: Document, places: frozenset[str]) -> list[str]:
        return [words for view in (NodeStatus, OwnFigures) for words in phrases(view, node, self._time, places=places)]


def _sums(*ways: Document) -> list[str]:
    """The declared phrases of a link: a line has the sum of both directions."""
    counted = {key: sum(way[key] for way in ways) for key, face in faces_of(Direction).items() if face.form in _ADDED}
    return [*phrases(Direction, {**ways[0], **counted}, 0.0)]


def _closed(node: Mapping[str, dict[str, bool]]) -> bool:
    return bool(node["inbox"]) and node["inbox"]["closed"]


def _full(node: Mapping[str, dict[str, int]]) -> bool:
    inbox = node["inbox"]
    return bool(inbox) and inbox["room"] > 0 and (inbox["held"] >= inbox["room"] or inbox["line"] > 0)


def _word(state: str) -> str:
    return _WORDS.get(state, state)


def _ranges(numbers: Sequence[int]) -> str:
    """`0-7,9`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)
