"""Links of one kind, by this checkout and by another one, in turns: nothing may become slower from version to version.

    python -m benchmarks.versions TREE                 the fallback over gRPC, which every version since 0.1.0 has
    python -m benchmarks.versions TREE --link direct   direct links, if the other checkout has them

Each checkout has a Worker, a Proxy and a Mgr of its own. A ratio is the median of those of the turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.mesh import MGR, PROXY, WORKER
from benchmarks.processes import ROOT, Process, closing
from benchmarks.systems import DIRECT, OURS

TURNS: Final = 15
SECONDS: Final = 0.4
WARM_UP: Final = 0.1
CASES: Final = ((64, 1), (64, 64), (64, 256), (65_536, 64))
"""Bytes of a body, messages in flight."""


@dataclass(slots=True)
class Version:
    """One checkout's chain, and its messages/s by case, direction and turn."""

    worker: Process
    mgr: Process
    rates: dict[tuple[str, int, int], list[float]] = field(default_factory=dict)

    def turn(self) -> None:
        """Take one turn: each case, up and down."""
        for direction, sender, to in (("up", self.worker, MGR), ("down", self.mgr, WORKER)):
            for body, in_flight in CASES:
                sender.load(to, body=body, in_flight=in_flight, seconds=WARM_UP)
                run = sender.load(to, body=body, in_flight=in_flight, seconds=SECONDS)
                self.rates.setdefault((direction, body, in_flight), []).append(run["count"] / run["seconds"])


def measure(tree: Path, link: str = OURS, turns: int = TURNS) -> Sequence[Version]:
    """Let this checkout and another one take turns.

    Returns:
        This checkout's figures, and the other's.
    """
    processes: list[Process] = []
    versions = []
    with closing(processes):
        for checkout in (ROOT, tree):
            chain: list[Process] = []
            for position in (MGR, PROXY, WORKER):
                upstream = chain[-1].address if chain else ""
                chain.append(Process(link, [position], upstream, tree=checkout))
                processes.append(chain[-1])
            for process in chain:
                process.ask("ready")
            versions.append(Version(chain[-1], chain[0]))
        for _ in range(turns):
            for version in versions:
                version.turn()
    return versions


def main() -> None:
    """Measure by the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tree", type=Path, help="another checkout")
    parser.add_argument("--link", default=OURS, choices=(OURS, DIRECT), help="the kind of link, as a system of `bench`")
    parser.add_argument("--turns", type=int, default=TURNS, help="turns of each checkout")
    arguments = parser.parse_args()
    ours, other = measure(arguments.tree.resolve(), arguments.link, arguments.turns)
    print("| two hops | this checkout | the other | ratio |\n| --- | --: | --: | --: |")
    for case, mine in ours.rates.items():
        theirs = other.rates[case]
        direction, body, in_flight = case
        ratio = median(one / two for one, two in zip(mine, theirs, strict=True))
        name = f"messages/s {direction}, {body:,} B, {in_flight} in flight"
        print(f"| {name} | {median(mine):,.0f} | {median(theirs):,.0f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
