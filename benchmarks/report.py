"""Reports: tables for a terminal and for the documents, plain data for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypedDict

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from benchmarks.results import Case, Conditions, Key, Results
from benchmarks.systems import ALL, DIRECT, LAUNCHERS, OURS, OVER_TCP
from benchmarks.targets import Target

TITLES: Final = {
    "latency": "Two hops, one message in flight",
    "rate": "Two hops, messages/s",
    "cpu": "Two hops, CPU time per message in each process",
    "open-loop": "Two hops up at a fixed rate, latency from the intended start",
    "four-hops": "Worker → Proxy → Mgr → Proxy → Worker",
    "broadcast": "Broadcast from the Mgr to Workers under 4 Proxies, until the last ack",
    "join": "Children that join one parent all at once",
    "idle": "CPU time while nothing is sent",
    "blocking": "The blocking face, two hops up, one message in flight",
    "busy": "A Worker beside a thread that computes in pure Python, one message in flight",
    "tls": "TLS on both hops, beside plain text in the same turns",
    "worker": "What a Worker costs the training process that it is in",
    "job": "The Manager of a job",
    "recovery": "The Manager as a client of ClusterD",
    "rounds": "Each flow of recovery: the longest wait of ours, from a signal or report to the next call or command",
    "faults": "Fault levels",
    "training": "A training of 4 processes, one of which is killed",
    "router": "The Router alone, in memory, a message and its answers",
}

DONE, MISSED = "✓", "✗"


class Figure(TypedDict):
    """One row of the table as `--json` prints it: a median for each system."""

    measure: str
    metric: str
    unit: str
    case: dict[str, str | int]
    systems: dict[str, float]


@dataclass(slots=True)
class Section:
    """One measure's table: a label, and a cell for each system."""

    title: str
    systems: list[str] = field(default_factory=list)
    rows: list[tuple[str, dict[str, str]]] = field(default_factory=list)


def figures(results: Results) -> list[Figure]:
    """Every median."""
    return [
        Figure(
            measure=key.measure,
            metric=key.metric,
            unit=key.unit,
            case=dict(key.case),
            systems={system: float(f"{value:.4g}") for system, value in systems.items()},
        )
        for key, systems in results.medians()
    ]


def sections(results: Results) -> Iterator[Section]:
    """The tables: our figure, and each peer's with the ratio of ours to it."""
    by_measure: dict[str, list[tuple[Key, Mapping[str, float]]]] = {}
    for key, systems in results.medians():
        by_measure.setdefault(key.measure, []).append((key, systems))
    for measure, rows in by_measure.items():
        section = Section(
            TITLES[measure], [name for name in (*ALL, *LAUNCHERS) if any(name in systems for _, systems in rows)]
        )
        metrics = list(dict.fromkeys(key.metric for key, _ in rows))
        # The same metric together, so that a column can be read down.
        for metric in metrics:
            for key, systems in rows:
                if key.metric == metric:
                    label = ", ".join([*([metric] if len(metrics) > 1 else []), *_conditions(key.case)])
                    section.rows.append((label, {name: _cell(systems, name, key.unit) for name in systems}))
        yield section


def _cell(systems: Mapping[str, float], name: str, unit: str) -> str:
    value = systems[name]
    text = number(value, unit)
    ours = systems.get(OURS)
    if name == OURS or not ours or not value:
        return text
    return f"{text} ({_short(ours / value)}×)"


def number(value: float, unit: str) -> str:
    """A figure with its significant digits, and its unit where the label has none."""
    if unit == "1/s":
        return f"{value:,.0f}"
    if unit == "ns" and value >= 10_000:
        return f"{value / 1000:,.0f} µs"
    if unit == "µs" and value >= 10_000:
        return f"{value / 1000:,.1f} ms"
    return f"{_short(value)} {unit}".rstrip()


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _conditions(case: Case) -> Iterator[str]:
    # The direction first, as in speech.
    for name, value in sorted(case, key=lambda condition: condition[0] != "direction"):
        match name, value:
            case "body", int(size):
                yield _size(size)
            case "in_flight", _:
                yield f"{value} in flight"
            case "rate", int(rate):
                yield f"{rate:,}/s"
            case "switch_us", int(interval):
                yield f"switch interval {interval / 1000:g} ms"
            case (("hops" | "workers" | "agents" | "children" | "routes" | "links"), int(count)):
                yield f"{count:,} {name.capitalize() if name in ('workers', 'agents') else name}"
            case _:
                yield str(value)


def _size(size: int) -> str:
    if size < 1024:
        return f"{size} B"
    return f"{size // 1024} KiB" if size < 1 << 20 else f"{size >> 20} MiB"


def tables(results: Results) -> Iterator[RenderableType]:
    """The tables for a terminal."""
    for section in sections(results):
        table = Table(title=section.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        table.add_column("")
        for system in section.systems:
            table.add_column(system, justify="right", style="bold" if system == OURS else "")
        for label, cells in section.rows:
            table.add_row(label, *(cells.get(system, "") for system in section.systems))
        yield table


def verdicts(reached: Sequence[Target]) -> RenderableType:
    """The targets for a terminal."""
    table = Table(title="Targets", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for heading in ("", "measure", "value", "target"):
        table.add_column(heading, justify="right" if heading == "value" else "left")
    for target in reached:
        mark = Text(DONE, "green") if target.met else Text(MISSED, "bold red")
        table.add_row(mark, target.name, *_value_and_bound(target))
    return table


def console(*, stderr: bool = False) -> Console:
    """A console, wide enough for the tables without a terminal."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=160)


def markdown(results: Results) -> str:
    """The tables as Markdown."""
    parts = []
    for section in sections(results):
        rows = [[label, *(cells.get(system, "") for system in section.systems)] for label, cells in section.rows]
        parts.append(f"### {section.title}\n\n{_markdown_table(['', *section.systems], rows)}")
    return "\n\n".join(parts)


def markdown_of(measure: str, results: Results) -> str:
    """The table of one measure as Markdown; empty without figures."""
    found = next((section for section in sections(results) if section.title == TITLES[measure]), Section("", []))
    rows = [[label, *(cells.get(system, "") for system in found.systems)] for label, cells in found.rows]
    return _markdown_table(["", *found.systems], rows)


def markdown_targets(reached: Sequence[Target]) -> str:
    """The targets as Markdown."""
    rows = [[target.name, *_value_and_bound(target), DONE if target.met else MISSED] for target in reached]
    return _markdown_table(["measure", "value", "target", ""], rows)


def markdown_summary(results: Results, compared: Sequence[str], direction: str = "up") -> str:
    """Latency and messages a second of these systems."""
    one: Conditions = {"direction": direction, "body": 64}
    rows = [
        ("p50, one in flight", "latency", "p50", "µs", one),
        ("p99, one in flight", "latency", "p99", "µs", one),
        *((f"messages/s, {n} in flight", "rate", "messages/s", "1/s", {**one, "in_flight": n}) for n in (64, 256)),
        ("64 KiB messages/s, 64 in flight", "rate", "messages/s", "1/s", {**one, "body": 65_536, "in_flight": 64}),
        ("1 MiB messages/s, 8 in flight", "rate", "messages/s", "1/s", {**one, "body": 1_048_576, "in_flight": 8}),
    ]
    cells: list[list[str]] = []
    for label, measure, metric, unit, case in rows:
        values = [results.value(measure, metric, system, **case) for system in compared]
        cells.append([label, *("–" if value is None else number(value, unit) for value in values)])
    return _markdown_table([f"two hops {direction}", *(_COLUMNS[system] for system in compared)], cells)


_COLUMNS: Final = {
    OURS: "batched (fallback)",
    DIRECT: "direct",
    OVER_TCP: "direct over TCP",
    "nats": "NATS",
    "zmq": "ZeroMQ",
    "unary": "plain gRPC, unary",
    "sockets": "bare asyncio relay",
}


def _markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] + ["--:"] * (len(headings) - 1), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def _value_and_bound(target: Target) -> tuple[str, str]:
    unit = target.unit.replace("x ", "× ", 1) if target.unit.startswith("x ") else target.unit
    value = "–" if target.value is None else f"{_short(target.value)} {unit}".rstrip()
    return value, f"{'≥' if target.at_least else '≤'} {target.bound:g} {unit}".rstrip()
