"""The cost of each step of a migration to our nodes: chains with the four calls on one link, or on both.

    python -m benchmarks.migration              ratios of messages/s, and of the CPU time of each role

A link to a node of the original carries the four calls. So each step is a chain of ours in which that link is not
batched. Chains stay up and take turns, and each ratio is the median over the turns.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from statistics import median

from benchmarks.calls import ratio
from benchmarks.measures import SMALL, Bench, Effort
from benchmarks.mesh import DOWN, ROLES, UP, Chain
from benchmarks.processes import Process, closing

TURNS = 20
IN_FLIGHT = 64
FAST, FOUR = "taskd_net", "tasknet"

STEPS = {
    "all ours": (FAST, FAST),
    "Workers of theirs below our Proxy, or ours below theirs": (FOUR, FAST),
    "our Proxy below a Mgr of theirs, or theirs below our Mgr": (FAST, FOUR),
    "both": (FOUR, FOUR),
}
"""The systems of Worker and Mgr. A link carries the four calls if one of its ends knows no other kind."""


@dataclass(slots=True)
class Step:
    """One chain, and its figures, turn by turn: messages/s, and CPU time for each message by role."""

    chain: Chain
    rate: dict[str, list[float]] = field(default_factory=lambda: {UP: [], DOWN: []})
    cpu: dict[tuple[str, str], list[float]] = field(
        default_factory=lambda: {(way, role): [] for way in (UP, DOWN) for role in ROLES}
    )


def measure(turns: int = TURNS, seconds: float = 0.25) -> dict[str, Step]:
    """Let the chains take turns."""
    bench = Bench(Effort(turns, seconds), lambda _: None, ())
    processes: list[Process] = []
    with closing(processes):
        steps = {}
        for name, (worker, mgr) in STEPS.items():
            chain = Chain(FAST, processes, worker=worker, mgr=mgr)
            chain.ready()
            steps[name] = Step(chain)
        for _ in range(turns):
            for way in (UP, DOWN):
                for step in steps.values():
                    run = bench._load(step.chain, way, SMALL, IN_FLIGHT, seconds)
                    step.rate[way].append(run.count / run.seconds)
                    for role, used in zip(ROLES, run.cpu, strict=True):
                        step.cpu[way, role].append(used / run.count * 1e6)
    return steps


def main() -> None:
    """Measure by the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--turns", type=int, default=TURNS, help="turns of each chain")
    steps = measure(parser.parse_args().turns)
    first = next(iter(steps.values()))
    for way in (UP, DOWN):
        print(f"| {way} | messages/s | " + " | ".join(f"CPU time, {role}" for role in ROLES) + " |")
        print("| --- |" + " ---: |" * (1 + len(ROLES)))
        for name, step in steps.items():
            if step is first:
                cells = [f"{median(step.rate[way]):.0f}", *(f"{median(step.cpu[way, role]):.0f} µs" for role in ROLES)]
            else:
                ratios = [ratio(step.cpu[way, role], first.cpu[way, role]) for role in ROLES]
                cells = [f"{number:.2f} x" for number in (ratio(step.rate[way], first.rate[way]), *ratios)]
            print(f"| {name} | " + " | ".join(cells) + " |")
        print()


if __name__ == "__main__":
    main()
