"""`make supervise`: play faults under each launcher, go on where it was ended, and print the table."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final

import click

from benchmarks import documents
from benchmarks.machine import caption, describe
from benchmarks.processes import ROOT, TurnFailed
from benchmarks.supervision.job import Column, Job, run, torchrun
from benchmarks.supervision.outcome import STANDS, Outcome, cells, markdown, origin, see
from benchmarks.supervision.rows import ROWS, TRAINS, Row

# Otherwise restarted ranks read keys of those before them, and fail.
_STORE: Final = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
TORCHRUN: Final = Column("torchrun", torchrun, manages=False, variables=_STORE)
OURS: Final = (
    Column("taskd-net run, same script", run),
    Column("taskd-net run, with rejoin", run, variables={"BENCH_REJOINS": "on"}),
)
COLUMNS: Final = (TORCHRUN, *OURS)

DOCUMENT: Final = ROOT / "docs" / "training.md"


@click.command()
@click.option("--turns", default=1, type=click.IntRange(1, 100), help="Plays of each row under each launcher.")
@click.option("--rows", default="", help="Names of rows, with commas; default: all.")
@click.option("--columns", default="", help="Numbers of columns from 1 on, with commas; default: all.")
@click.option("--seed", default=1, type=int, help="Seed of the times of faults.")
@click.option(
    "--results",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of plays; those in it are not repeated. Default: one in build/, of the present commit.",
)
@click.option("--again", is_flag=True, help="Play rows again that the file has.")
@click.option("--write", is_flag=True, help="Write the table into docs/training.md.")
def main(turns: int, rows: str, columns: str, seed: int, results: Path | None, again: bool, write: bool) -> None:
    """Play the faults of the table, and compare what comes of them.

    Exits with 1 where ours is worse than torchrun, or later than the documents say.
    """
    chosen = [row for row in ROWS if not rows or row.name in rows.split(",")]
    launchers = [COLUMNS[int(each) - 1] for each in columns.split(",")] if columns else list(COLUMNS)
    results = results or ROOT / "build" / f"supervision-{_commit()}.jsonl"
    results.parent.mkdir(exist_ok=True)
    played = _read(results)
    known = set() if again else {(each.row, each.column, each.turn) for each in played}
    for row in chosen:
        for turn in range(turns):
            for column in launchers:
                if (row.name, column.name, turn) in known or (row.managed and not column.manages):
                    continue
                outcome = replace(play(row, column, turn, seed), commit=_commit())
                played.append(outcome)
                with results.open("a") as file:
                    file.write(json.dumps(outcome.record()) + "\n")
                text = f"{outcome.outcome}, {outcome.seconds:.1f} s, codes {outcome.codes}"
                print(f"{time.strftime('%H:%M:%S')} {row.name}, {column.name}, turn {turn}: {text}", file=sys.stderr)
                if outcome.words:
                    print(outcome.words, file=sys.stderr)
    found = cells(played)
    table = markdown(ROWS, [each.name for each in COLUMNS], found)
    print(table)
    if write:
        documents.fill(DOCUMENT, "supervision", f"{table}\n\n{caption(describe())}; {origin(played)}.")
    worse = [
        f"{row.title}: {ours.name}"
        for row in chosen
        for ours in OURS
        if (row.name, ours.name) in found and (row.name, TORCHRUN.name) in found
        if found[row.name, ours.name].is_worse_than(found[row.name, TORCHRUN.name])
    ]
    late = [
        f"{row.title}: {ours.name}: {found[row.name, ours.name].seconds:.1f} s; expected {row.ours:g} s at most"
        for row in chosen
        for ours in OURS
        if (row.name, ours.name) in found and found[row.name, ours.name].seconds > row.ours
    ]
    for text in worse:
        print(f"worse than torchrun: {text}", file=sys.stderr)
    for text in late:
        print(f"later than the documents say: {text}", file=sys.stderr)
    sys.exit(1 if worse or late else 0)


def play(row: Row, column: Column, turn: int, seed: int) -> Outcome:
    """Play a row once."""
    # The same times under each launcher.
    draw = random.Random(f"{seed} {row.name} {turn}")
    with ExitStack() as stack:
        job = stack.enter_context(Job(column, **row.job))
        began = time.monotonic()
        try:
            due = row.act(job, draw, stack)
            return see(row, column, turn, job, due)
        except TurnFailed as failed:
            return Outcome(
                row.name, column.name, turn, TRAINS, STANDS, round(time.monotonic() - began, 2), "", str(failed)
            )


def _read(path: Path) -> list[Outcome]:
    if not path.exists():
        return []
    return [Outcome(**json.loads(line)) for line in path.read_text().splitlines()]


def _commit() -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
