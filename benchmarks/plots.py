"""The plots, as SVG and PNG: dark ink on a light card, readable on any background."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from benchmarks.machine import Machine, caption
from benchmarks.mesh import DOWN, UP
from benchmarks.results import Results
from benchmarks.systems import ALL, OURS

PAPER, INK, FAINT, GRID = "#fcfcfd", "#1f2933", "#66727f", "#dfe4ea"
# A palette for colour-blind readers, too; ours stands out.
COLOURS: Final = {
    OURS: "#0b62d6",
    "direct": "#12a4a4",
    "direct-tcp": "#7fc8a9",
    "tasknet": "#5aa9e6",
    "unary": "#d1495b",
    "stream": "#edae49",
    "nats": "#2e8b57",
    "zmq": "#8e6bbf",
    "sockets": "#66727f",
}
NAMES: Final = {
    OURS: "taskd_net",
    "direct": "taskd_net, direct links",
    "direct-tcp": "taskd_net, direct links over TCP",
    "tasknet": "taskd_net, links = tasknet",
    "unary": "unary gRPC relay",
    "stream": "streaming gRPC relay",
    "nats": "NATS",
    "zmq": "ZeroMQ",
    "sockets": "bare asyncio relay",
}


def draw(results: Results, machine: Machine, folder: Path) -> list[Path]:
    """Draw the plots that have results. Returns the files."""
    mpl.rcParams.update(
        {
            "svg.hashsalt": "taskd_net",
            "font.family": "DejaVu Sans",
            "font.size": 10,
            "text.color": INK,
            "axes.labelcolor": INK,
            "xtick.color": FAINT,
            "ytick.color": FAINT,
        }
    )
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, plot in (("latency", _latency), ("throughput", _throughput), ("children", _children)):
        figure = plot(results)
        if figure is None:
            continue
        text = "\n".join(textwrap.wrap(f"Medians of the turns. {caption(machine)}", 190))
        figure.text(0.012, 0.012, text, size=7, color=FAINT, va="bottom")
        for suffix in ("svg", "png"):
            path = folder / f"{name}.{suffix}"
            metadata = {"Date": None} if suffix == "svg" else None
            figure.savefig(path, facecolor=PAPER, dpi=160, metadata=metadata)
            files.append(path)
    return files


def _latency(results: Results) -> Figure | None:
    """Latency by share of the messages; the far end of the scale is stretched."""
    if not results.curve("latency", "p50", OURS, "body", direction=UP):
        return None
    figure, panels = _figure("How long a message takes, until it is acknowledged", 2)
    low, high = float("inf"), 0.0
    for axes, direction, title in zip(panels, (UP, DOWN), _TITLES, strict=True):
        for system in ALL:
            latencies = results.distribution("latency", system, direction=direction, body=64)
            if latencies is None:
                continue
            points = [(us, 1.0 / (1.0 - share)) for us, share in latencies.distribution() if share < 1.0]
            points = [(us, nines) for us, nines in points if nines <= 2000.0]
            axes.plot(*zip(*points, strict=True), **_line(system))
            low, high = min(low, latencies.percentile(0.5)), max(high, points[-1][0])
        _style(axes, f"{title}, 64 B, one in flight", "µs, until acknowledged", "share of the messages")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(1.0, 2000.0)
        _ticks(axes.yaxis.set_major_locator, axes.yaxis.set_major_formatter, (1, 2, 10, 100, 1000), _share)
    for axes in panels:
        axes.set_xlim(low * 0.9, high * 1.05)
        _ticks(axes.xaxis.set_major_locator, axes.xaxis.set_major_formatter, _steps(low * 0.9, high * 1.05), _thousands)
        axes.minorticks_off()
    _legend(figure, panels)
    return figure


def _throughput(results: Results) -> Figure | None:
    """Messages a second against messages in flight."""
    counts = [at for at, _ in results.curve("rate", "messages/s", OURS, "in_flight", direction=UP, body=64)]
    if len(counts) < 2:
        return None
    figure, panels = _figure("How many messages a second, acknowledged end to end", 2)
    for axes, direction, title in zip(panels, (UP, DOWN), _TITLES, strict=True):
        for system in ALL:
            points = results.curve("rate", "messages/s", system, "in_flight", direction=direction, body=64)
            if points:
                axes.plot(*zip(*points, strict=True), marker="o", markersize=4, **_line(system))
        _style(axes, f"{title}, 64 B", "messages in flight", "messages/s")
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        _ticks(axes.xaxis.set_major_locator, axes.xaxis.set_major_formatter, counts, _thousands)
        low, high = axes.get_ylim()
        _ticks(axes.yaxis.set_major_locator, axes.yaxis.set_major_formatter, _steps(low, high), _thousands)
        axes.minorticks_off()
    low, high = min(a.get_ylim()[0] for a in panels), max(a.get_ylim()[1] for a in panels)
    for axes in panels:
        axes.set_ylim(low, high)
    _legend(figure, panels)
    return figure


def _children(results: Results) -> Figure | None:
    """Costs by number of children."""
    curves = [
        ("broadcast", "p50", "workers", 1e-3, "Broadcast to all, last ack", "Workers", "ms"),
        ("join", "time to the last", "children", 1.0, "All join at once, last one in", "children", "s"),
        ("router", "unicast", "routes", 1e-3, "One unicast, in the Router", "routes", "µs"),
    ]
    if not all(results.curve(measure, metric, OURS, along) for measure, metric, along, *_ in curves):
        return None
    figure, panels = _figure("What more children cost", 3)
    for axes, (measure, metric, along, factor, title, x, unit) in zip(panels, curves, strict=True):
        counts: list[int] = []
        highest = 0.0
        for system in (OURS, "tasknet"):
            points = [(at, value * factor) for at, value in results.curve(measure, metric, system, along)]
            if points:
                counts = [at for at, _ in points]
                highest = max(highest, *(value for _, value in points))
                axes.plot(*zip(*points, strict=True), marker="o", markersize=4, **_line(system))
                for at, value in points if system == OURS else ():
                    axes.annotate(
                        f"{value:.3g}", (at, value), (-5, 6), textcoords="offset points", size=8, ha="right", color=INK
                    )
        _style(axes, title, x, unit)
        axes.set_xscale("log")
        _ticks(axes.xaxis.set_major_locator, axes.xaxis.set_major_formatter, counts, _thousands)
        axes.set_xlim(counts[0] / 2.5, counts[-1] * 1.6)
        if measure == "router":
            axes.set_ylim(0.0, highest * 1.6)
        else:
            axes.set_yscale("log")
            low, high = axes.get_ylim()
            axes.set_ylim(low, high * 1.5)
            _ticks(axes.yaxis.set_major_locator, axes.yaxis.set_major_formatter, _steps(low, high * 1.5), _plain)
        axes.minorticks_off()
    _legend(figure, panels)
    return figure


_TITLES: Final = ("Worker → Proxy → Mgr", "Mgr → Proxy → Worker")


def _figure(title: str, panels: int) -> tuple[Figure, list[Axes]]:
    figure = Figure(figsize=(10.5, 4.9))
    axes = figure.subplots(1, panels, squeeze=False)[0]
    figure.subplots_adjust(left=0.075, right=0.985, top=0.815, bottom=0.175, wspace=0.24)
    figure.text(0.012, 0.955, title, size=13, weight="bold", va="center")
    return figure, list(axes)


def _style(axes: Axes, title: str, x: str, y: str) -> None:
    axes.set_facecolor(PAPER)
    axes.set_title(title, size=10, loc="left", color=INK)
    axes.set_xlabel(x, size=9)
    axes.set_ylabel(y, size=9)
    axes.grid(visible=True, color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8, length=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(GRID)


def _line(system: str) -> dict[str, Any]:
    ours = system == OURS
    return {
        "color": COLOURS[system],
        "label": NAMES[system],
        "linewidth": 2.6 if ours else 1.6,
        "zorder": 3 if ours else 2,
        "solid_capstyle": "round",
    }


def _legend(figure: Figure, panels: Sequence[Axes]) -> None:
    lines = {str(line.get_label()): line for axes in panels for line in axes.lines}
    names = [name for name in NAMES.values() if name in lines]
    figure.legend(
        [lines[name] for name in names], names, loc="upper left", bbox_to_anchor=(0.005, 0.945), ncols=len(names),
        frameon=False, fontsize=8.5, handlelength=1.6, columnspacing=1.4,
    )  # fmt: skip


def _ticks(
    locate: Callable[[FixedLocator], None],
    write: Callable[[FuncFormatter], None],
    marks: Sequence[float],
    text: Callable[[float], str],
) -> None:
    locate(FixedLocator(list(marks)))
    write(FuncFormatter(lambda value, _: text(value)))


def _steps(low: float, high: float) -> list[float]:
    """Ticks at 1, 2, 5, 10, … of a range; powers of 10 alone in a large one."""
    within = [
        factor * 10.0**power for power in range(-6, 9) for factor in (1, 2, 5) if low <= factor * 10.0**power <= high
    ]
    return within if len(within) <= 9 else [mark for mark in within if f"{mark:.0e}"[0] == "1"]


def _share(nines: float) -> str:
    return f"{100.0 * (1.0 - 1.0 / nines):g} %"


def _thousands(value: float) -> str:
    return f"{value:,.0f}"


def _plain(value: float) -> str:
    return f"{value:g}"
