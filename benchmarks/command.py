"""`taskd-net bench`: the choice of measures, their effort, and the use of the results."""

from __future__ import annotations

import ctypes
import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from benchmarks import documents, report, requirements
from benchmarks.faults import faults
from benchmarks.job import job
from benchmarks.machine import Machine, caption, describe
from benchmarks.measures import Bench, Effort
from benchmarks.mesh import DOWN, UP
from benchmarks.processes import ROOT, BenchFailed
from benchmarks.recovery import recovery
from benchmarks.results import Results
from benchmarks.rounds import rounds
from benchmarks.systems import DIRECT, OURS, OVER_TCP
from benchmarks.targets import OF_MEASURE, Target, targets, targets_of
from benchmarks.tls import tls
from benchmarks.training.measure import training
from benchmarks.worker import worker

MEASURES: Final[dict[str, Callable[[Bench], None]]] = {
    "latency": Bench.latency,
    "rate": Bench.rate,
    "bodies": Bench.bodies,
    "open-loop": Bench.open_loop,
    "four-hops": Bench.four_hops,
    "broadcast": Bench.broadcast,
    "join": Bench.join,
    "idle": Bench.idle,
    "blocking": Bench.blocking,
    "busy": Bench.busy,
    "tls": tls,
    "worker": worker,
    "job": job,
    "recovery": recovery,
    "rounds": rounds,
    "faults": faults,
    "training": training,
    "router": Bench.router,
}

TURNS, QUICK_TURNS = 5, 3

_PR_SET_PDEATHSIG: Final = 1
"""Linux's number: the kernel sends a signal when the parent has ended."""


def run(names: Sequence[str], *, quick: bool, as_json: bool, turns: int | None, plots: Path | None) -> int:
    """Take these measures and print them.

    Args:
        names: of `MEASURES`; none: all but those with requirements of their own.
        quick: only the figures for the targets, with fewer turns.
        as_json: print data instead of tables.
        turns: turns of each system; None for the default.
        plots: a folder for the plots, the results as data, and the tables as Markdown.

    Returns:
        The exit code: 0 if every turn of every system succeeded, whether the targets are met or not.
    """
    messages = report.console(stderr=True)
    began = time.monotonic()

    def progress(text: str) -> None:
        messages.print(f"{time.monotonic() - began:6.1f} s  {text}", style="bright_black", soft_wrap=True)

    effort = Effort(turns or QUICK_TURNS, latency_seconds=0.6) if quick else Effort(turns or TURNS)
    bench = Bench(effort, progress)
    _be_interruptible()
    try:
        with bench.running():
            if quick:
                for_targets(bench)
            else:
                for name in names or (name for name in MEASURES if name not in requirements.OF_MEASURE):
                    MEASURES[name](bench)
    except BenchFailed as failed:
        messages.print(f"{failed}", style="bold red", soft_wrap=True)
        return 1
    results, machine = bench.results, describe()
    reached = list(targets(results) if quick or not names else targets_of(names, results))

    if as_json and quick:
        print(json.dumps([target.verdict() for target in reached], indent=2))
    elif as_json:
        print(json.dumps(_data(bench, machine, reached), indent=2))
    else:
        output = report.console()
        for table in report.tables(results):
            output.print(table)
        if reached:
            output.print(report.verdicts(reached))
        output.print(caption(machine), style="bright_black")
    if plots is not None and names and OF_MEASURE.keys() >= set(names):
        document = plots.parent / "performance.md"
        for name in fill_own(names, results, machine, document):
            messages.print(f"{document} has no place for {name}: nothing is written there", style="bold red")
    elif plots is not None:
        _write(bench, machine, reached, plots)
    for failure in results.failures:
        messages.print(f"failed: {failure}", style="bold red", soft_wrap=True)
    return 1 if results.failures else 0


def for_targets(bench: Bench) -> None:
    """Only the figures for the targets."""
    compared = (OURS, DIRECT, OVER_TCP, "nats", "sockets")
    bench.latency((64,), compared)
    cases = ((64, 64), (64, 256), (65_536, 64), (1_048_576, 8))
    bench.rates([(body, in_flight, compared) for body, in_flight in cases])
    bench.four_hops((OURS, DIRECT))
    bench.broadcast((512,), (OURS, DIRECT))
    bench.join((2000,))
    bench.router()
    tls(bench)


def fill_own(names: Sequence[str], results: Results, machine: Machine, document: Path) -> list[str]:
    """Write measures that have targets of their own into their sections; the results of all measures stay.

    A section has a place for the targets, and may have one for all figures. Returns the measures that have no section
    there.
    """
    missing = []
    for name in names:
        documents.fill(document, f"{name} figures", report.markdown_of(name, results))
        verdicts = report.markdown_targets(list(OF_MEASURE[name](results)))
        if not documents.fill(document, name, f"{verdicts}\n\n{caption(machine)}."):
            missing.append(name)
    return missing


def _data(bench: Bench, machine: Machine, reached: Sequence[Target]) -> dict[str, object]:
    return {
        "machine": machine,
        "turns": bench.effort.turns,
        "results": report.figures(bench.results),
        "targets": [target.verdict() for target in reached],
        "failures": bench.results.failures,
    }


def _write(bench: Bench, machine: Machine, reached: Sequence[Target], folder: Path) -> None:
    from benchmarks import plots

    folder.mkdir(parents=True, exist_ok=True)
    plots.draw(bench.results, machine, folder)
    (folder / "results.json").write_text(json.dumps(_data(bench, machine, reached), indent=1) + "\n")
    where = f"Medians of {bench.effort.turns} turns. {caption(machine)}."
    heading = "# Results\n\nWritten by `make bench`; what is measured, and how, is in"
    head = f"{heading} [benchmarks/](../../benchmarks/README.md).\n{where}"
    tables = f"{head}\n\n{report.markdown(bench.results)}\n"
    if reached:
        verdicts = report.markdown_targets(reached)
        tables = f"{head}\n\n## Targets\n\n{verdicts}\n\n## All figures\n\n{report.markdown(bench.results)}\n"
        if folder.resolve() == ROOT / "docs" / "benchmarks":
            documents.fill(ROOT / "docs" / "performance.md", "targets", f"{verdicts}\n\n{where}")
            readme = report.markdown_summary(bench.results, (DIRECT, OURS, "nats", "zmq", "unary"))
            documents.fill(ROOT / "README.md", "figures", f"{readme}\n\n{where}")
            both = "\n\n".join(
                report.markdown_summary(bench.results, (DIRECT, OVER_TCP, OURS, "nats", "sockets"), direction)
                for direction in (UP, DOWN)
            )
            documents.fill(ROOT / "docs" / "performance.md", "compared", f"{both}\n\n{where}")
    (folder / "results.md").write_text(tables)


def _be_interruptible() -> None:
    """Leave by SystemExit, so that no process stays behind: at signals, and at the end of the parent.

    A shell that starts this process in the background has it ignore SIGINT. With `nohup` it outlives its parent.
    """
    outlives = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    for number in (signal.SIGINT, signal.SIGTERM, *(() if outlives else (signal.SIGHUP,))):
        signal.signal(number, _end)
    if not outlives:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGHUP)


def _end(number: int, _: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
