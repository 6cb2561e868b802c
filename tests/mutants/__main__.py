"""`make mutants`: test a seeded sample of mutants with the quick tests.

Exit status 0: at least nine in ten of the sample were killed. 1: fewer were, or not all have a verdict. A second call
resumes.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.mutants import reach, report, session
from tests.mutants.sample import ROOMS, Mutant, sample
from tests.mutants.tree import Tree

CHECKOUT = Path(__file__).resolve().parents[2]
DOCUMENT = CHECKOUT / "docs" / "mutants.md"
KEPT = CHECKOUT / "build" / "mutants"


def main() -> int:
    """Run it."""
    arguments = _arguments()
    ends_at = time.monotonic() + arguments.minutes * 60
    KEPT.mkdir(parents=True, exist_ok=True)
    mutants = [
        mutant for mutant in sample(CHECKOUT, arguments.seed, arguments.sample) if arguments.only in mutant.module
    ]
    state = session.Session(CHECKOUT, KEPT / "verdicts.jsonl")
    waiting = [mutant for mutant in mutants if state.verdict(mutant) is None]
    print(f"{len(mutants)} mutants, {len(waiting)} of them to be tested", flush=True)
    if waiting:
        trees = [Tree(CHECKOUT, KEPT / f"tree-{number}", arguments.pause) for number in range(arguments.jobs)]
        reached = reach.look(trees[0], KEPT / "reach.json")
        print(f"{len(reached.seconds)} quick tests, {sum(reached.seconds.values()):.0f} s in all", flush=True)
        session.run(waiting, state, reached, trees, ends_at=ends_at, say=lambda line: print(line, flush=True))
    return _tell(mutants, state, arguments)


def _tell(mutants: list[Mutant], state: session.Session, arguments: argparse.Namespace) -> int:
    outcomes = []
    for mutant in mutants:
        verdict = state.verdict(mutant)
        what = verdict.what if verdict else ""
        outcomes.append(report.Outcome(mutant.module, mutant.lines[0], mutant.before, mutant.after, what))
    named = report.equivalents()
    text = report.table(outcomes, ROOMS, named, arguments.seed)
    if arguments.write:
        report.write(DOCUMENT, text)
    else:
        print(text)
    whole = report.score("", outcomes, named)
    print(
        f"{whole.killed + whole.hung} killed, {whole.survived} survived: {whole.share:.1%}; {whole.unknown} not tested"
    )
    return 0 if whole.share >= report.GOAL and not whole.unknown else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sample", type=int, default=320, help="how many mutants (default 320)")
    parser.add_argument("--seed", type=int, default=13, help="which ones (default 13)")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (default 2)")
    parser.add_argument("--minutes", type=float, default=40, help="no further one is begun after that (default 40)")
    parser.add_argument("--pause", type=Path, metavar="FILE", help="begin no test run while this file exists")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="of the sample, those in modules with this in their path"
    )
    parser.add_argument("--write", action="store_true", help="write the score into docs/mutants.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
