"""`taskd-net bench`: runs the package `benchmarks`, which is part of a checkout and of no distribution."""

from __future__ import annotations

import sys
from pathlib import Path

import click

CHECKOUT = Path(__file__).resolve().parents[2]


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--quick", is_flag=True, help="Only the measures of the targets, in three minutes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; with --quick, the list of targets.")
@click.option("--turns", type=click.IntRange(1, 100), help="Turns of each system.  [default: 5, with --quick 3]")
@click.option("--plots", type=click.Path(file_okay=False, path_type=Path), help="Write plots and tables here.")
def bench(names: tuple[str, ...], quick: bool, as_json: bool, turns: int | None, plots: Path | None) -> None:
    """Measure what the mesh costs, in turns with what one could use instead.

    NAMEs choose among the measures; without any, all but `training` are taken, in some twenty minutes. It needs a
    checkout, and the extra `bench`, or `bench-training`. Progress goes to stderr, the results to stdout; nothing is
    left running.
    """
    if not (CHECKOUT / "benchmarks" / "command.py").is_file():
        sys.exit("taskd-net bench needs a checkout of the repository: no distribution has the benchmarks")
    # Of an editable install it is there already, and first.
    sys.path.insert(0, str(CHECKOUT))
    try:
        from benchmarks.command import MEASURES, run
        from benchmarks.requirements import OF_MEASURE, missing
    except ModuleNotFoundError as error:
        sys.exit(f"taskd-net bench needs {error.name}, which is not installed: pip install -e . -e './lab[bench]'")
    unknown = [name for name in names if name not in MEASURES]
    if unknown:
        raise click.BadParameter(f"no measure {unknown[0]!r}; there are: {', '.join(MEASURES)}", param_hint="NAME")
    if quick and names:
        raise click.BadParameter("with --quick the measures are those of the targets", param_hint="NAME")
    if lacking := missing(names):
        extra = "bench-training" if OF_MEASURE.keys() & set(names) else "bench"
        remedy = f"pip install -e . -e './lab[{extra}]'"
        sys.exit(f"taskd-net bench needs {', '.join(lacking)}, not installed here: {remedy}")
    sys.exit(run(names, quick=quick, as_json=as_json, turns=turns, plots=plots))
