"""The plot of a simulation: devices over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click

from taskd_net.base.untrusted import printable
from taskd_net.job.faults.decisions import Decision
from taskd_net.job.faults.levels import FaultType

SUFFIXES: Final = (".svg", ".png")
DEVICES_DRAWN: Final = 200
"""Devices in one plot: those that come first. A row has 2 mm then."""

_COLOURS: Final = {
    FaultType.NOT_HANDLE: "#b8c1cc",
    FaultType.SUB_HEALTH: "#8e6bbf",
    FaultType.RESTART_REQUEST: "#5aa9e6",
    FaultType.RESTART_BUSINESS: "#0b62d6",
    FaultType.FREE_RESTART_NPU: "#12a4a4",
    FaultType.RESTART_NPU: "#2e8b57",
    FaultType.PRE_SEPARATE_NPU: "#edae49",
    FaultType.SEPARATE_NPU: "#e07a3f",
    FaultType.MANUALLY_SEPARATE_NPU: "#d1495b",
}


def drawer(path: Path) -> Callable[[Sequence[Decision], float], None]:
    """Returns the function that draws decisions until a time into a file.

    Raises:
        click.ClickException: matplotlib is not installed.
        click.UsageError: the file has another suffix than `.svg` and `.png`.
    """
    if path.suffix not in SUFFIXES:
        raise click.UsageError(f"plot is '{path}'; expected a file with the suffix .svg or .png")
    if find_spec("matplotlib") is None:
        raise click.ClickException("the plot needs matplotlib, which is not installed: pip install 'taskd-net[plot]'")

    def draw(decisions: Sequence[Decision], end: float) -> None:
        try:
            _draw(decisions, end, path)
        except OSError as error:
            raise click.ClickException(f"plot is '{path}'; expected a file that can be written: {error}") from None

    return draw


def spans(decisions: Sequence[Decision], end: float) -> dict[str, list[tuple[float, float, FaultType]]]:
    """The most serious type on each device over time: begin, end and type, without the times in which it is healthy."""
    found: dict[str, list[tuple[float, float, FaultType]]] = {}
    open_: dict[str, tuple[float, FaultType]] = {}
    for each in decisions:
        rows = found.setdefault(each.device, [])
        since, before = open_.get(each.device, (each.at, FaultType.NOT_HANDLE))
        if each.standing is before:
            continue
        if before is not FaultType.NOT_HANDLE:
            rows.append((since, each.at, before))
        open_[each.device] = (each.at, each.standing)
    for device, (since, kind) in open_.items():
        if kind is not FaultType.NOT_HANDLE:
            found[device].append((since, max(end, since), kind))
    return found


def _draw(decisions: Sequence[Decision], end: float, path: Path) -> None:
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    drawn = dict(list(spans(decisions, end).items())[:DEVICES_DRAWN])
    begin = min((each.at for each in decisions), default=0.0)
    figure = Figure(figsize=(11, 1.6 + 0.3 * max(1, len(drawn))), layout="constrained")
    axes = figure.subplots()
    for row, (device, bars) in enumerate(drawn.items()):
        for since, until, kind in bars:
            axes.barh(
                row, max(until - since, (end - begin) / 500), left=since - begin, height=0.6, color=_COLOURS[kind]
            )
        for each in decisions:
            if each.device == device and each.steps:
                axes.plot(each.at - begin, row, marker="v", color="#1f2933", markersize=5)
    axes.set_yticks(range(len(drawn)), [printable(device).replace("$", r"\$") for device in drawn])
    axes.set_ylim(len(drawn) - 0.5, -0.5)
    axes.set_xlim(0, max(end - begin, math.ulp(1.0)) * 1.02)
    axes.set_xlabel("seconds since the first decision; ▼ steps begin")
    seen = sorted({kind for bars in drawn.values() for _, _, kind in bars}, reverse=True)
    patches = [Patch(color=_COLOURS[kind], label=f"{kind.word} ({kind.level})") for kind in seen]
    if patches:
        axes.legend(handles=patches, loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False)
    figure.savefig(path, dpi=130)
