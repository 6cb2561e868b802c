"""`make profile`: a flame graph of a Proxy under load, and a table of its time."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks import documents, report, stacks
from benchmarks.machine import caption, describe
from benchmarks.mesh import DOWN, ROLES, UP, Chain
from benchmarks.processes import ROOT, BenchFailed, Process, TurnFailed, closing
from benchmarks.requirements import program
from benchmarks.systems import OURS

SAMPLES_A_SECOND: Final = 400
TOP: Final = 25
MARGIN_S: Final = 2.0
"""Seconds of load before and after a recording, because a recorder starts slowly."""


def record(role: str, direction: str, seconds: int, *, body: int, in_flight: int, system: str = OURS) -> stacks.Stacks:
    """Record one process of the two hops under load, without its waits.

    Raises:
        BenchFailed: py-spy is not installed, or may not read a process.
    """
    processes: list[Process] = []
    with closing(processes), tempfile.TemporaryDirectory() as folder:
        chain = Chain(system, processes)
        chain.ready()
        sender, _, to = chain.ends(direction)
        seconds_of_load = seconds + 2 * MARGIN_S
        sender.begin("load", to=to, body=body, in_flight=in_flight, seconds=seconds_of_load, latencies=False)
        path = Path(folder) / "stacks"
        _spy(dict(zip(ROLES, chain.roles, strict=True))[role].pid, seconds, path)
        sender.answer()
        return stacks.read(path.read_text())


def _spy(pid: int, seconds: int, path: Path) -> None:
    spy = program("py-spy")
    if spy is None:
        raise BenchFailed("py-spy is not installed: pip install -e . -e './lab[bench]'")
    options = ["--native", "--rate", str(SAMPLES_A_SECOND), "--duration", str(seconds), "--format", "raw"]
    command = [spy, "record", "--pid", str(pid), *options, "--output", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    if done.returncode != 0:
        why = "it needs root, or kernel.yama.ptrace_scope = 0"
        words = (done.stderr or done.stdout).strip()[-500:]
        raise BenchFailed(f"py-spy could not look into a process ({why}): {words}")


def table(found: Sequence[stacks.Entry]) -> str:
    """The top entries as Markdown."""
    lines = ["| function | own | with what it calls |", "| --- | --: | --: |"]
    lines += [f"| `{entry.name}` | {entry.own:.1%} | {entry.total:.1%} |" for entry in found[:TOP]]
    return "\n".join(lines)


def main() -> None:
    """Record, print the top entries, and write them and the flame graph into the documents."""
    parser = argparse.ArgumentParser(prog="make profile", description="Where a node's time goes under load.")
    parser.add_argument("--role", choices=ROLES, default="Proxy")
    parser.add_argument("--direction", choices=(UP, DOWN), default=UP)
    parser.add_argument("--seconds", type=int, default=8, help="of the recording")
    parser.add_argument("--body", type=int, default=64, help="bytes")
    parser.add_argument("--in-flight", type=int, default=64, help="messages")
    parser.add_argument("--system", default=OURS)
    parser.add_argument("--write", action="store_true", help="write the flame graph and the table into docs/")
    given = parser.parse_args()
    try:
        recorded = record(
            given.role,
            given.direction,
            given.seconds,
            body=given.body,
            in_flight=given.in_flight,
            system=given.system,
        )
    except (BenchFailed, TurnFailed) as failed:
        sys.exit(str(failed))
    found = stacks.entries(recorded)
    output = report.console()
    where = f"{given.role}, messages {given.direction}, {given.body} B, {given.in_flight} in flight"
    for title, chosen in (
        ("most time of its own", found),
        ("most time with what it calls", sorted(found, key=lambda entry: -entry.total)),
    ):
        output.print(f"\n{where}: {title}", style="bold")
        for entry in chosen[:TOP]:
            output.print(f"{entry.own:7.1%} {entry.total:7.1%}  {entry.name}", soft_wrap=True)
    if given.write:
        graph = ROOT / "docs" / "benchmarks" / f"{given.role.lower()}-flame.svg"
        graph.parent.mkdir(parents=True, exist_ok=True)
        measured = f"Time on a processor; what only waits is left out. {caption(describe())}"
        graph.write_text(stacks.flame_graph(recorded, where, measured))
        documents.fill(ROOT / "docs" / "performance.md", "profile", f"{table(found)}\n\n{where}. {measured}")
        output.print(f"\n{graph.relative_to(ROOT)}", style="bright_black")


if __name__ == "__main__":
    main()
