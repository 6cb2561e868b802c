"""Every attack for some seconds beside traffic. Figures go into docs/security.md (`make attacks`).

    python -m tests.security.attacks --only empty-messages --seconds 3

The exit code is 0 only if every figure keeps its promise, and every strike was refused as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.security.attacks import ATTACKS
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import MIB, Offered, Stand

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "security.md"
_BEGIN, _END = "<!-- attacks: generated -->", "<!-- end of attacks -->"
_HEADINGS: Final = (
    "attack",
    "what is sent, again and again",
    "expected answer",
    "p99 before, ms",
    "p99 during, ms",
    "memory, MiB (allowed)",
    "made by",
)

SLOWER_S: Final = 0.050
"""Seconds by which the bystanders' p99 may grow."""

ROUNDS: Final = 3
"""Turns of calm and attack, one after another; the median of each counts, as the machine has other work."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The outcome of one attack: times in seconds, memory in bytes."""

    before: float
    during: float
    growth: int
    strikes: int
    failed: int

    def broken(self, attack: Attack) -> list[str]:
        """The promises that are not kept."""
        found = []
        if self.during - self.before >= SLOWER_S:
            found.append(f"p99 grew by {1000.0 * (self.during - self.before):.0f} ms")
        if self.growth >= attack.share:
            found.append(f"memory grew by {self.growth / MIB:.0f} MiB")
        if self.failed:
            found.append(f"{self.failed} messages of bystanders failed")
        return found


async def measure(attack: Attack, seconds: float) -> Figures:
    """Make one attack, with as long a calm before each round."""
    calm: list[Offered] = []
    during: list[Offered] = []
    made = 0
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Stand(Path(folder), from_above=attack.from_above) as stand,
            aclosing(attack.strikes(stand)) as strikes,
        ):
            await anext(strikes)
            await stand.joined()
            await stand.offer(0.5)
            stand.reset_peak()
            for _ in range(ROUNDS):
                calm.append(await stand.offer(seconds))
                offering = asyncio.create_task(stand.offer(seconds))
                while not offering.done():
                    await anext(strikes)
                    made += 1
                during.append(await offering)
            growth = stand.growth()
    return Figures(
        _median([round.p99 for round in calm]),
        _median([round.p99 for round in during]),
        growth,
        made,
        sum(round.failed for round in (*calm, *during)),
    )


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def write(measured: Mapping[str, Figures], document: Path = DOCUMENT) -> None:
    """Write the table. Rows that were not measured this time keep their figures."""
    text = document.read_text()
    found = re.search(re.escape(_BEGIN) + "(.*?)" + re.escape(_END), text, re.DOTALL)
    assert found is not None, f"{document} has no place for the figures"
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].strip().splitlines()]
    # The cells of figures lie between what the attack says itself.
    known = {row[0].strip("` "): row[3:-1] for row in rows if len(row) == len(_HEADINGS)}
    lines = [_line(_HEADINGS), "|" + "---|" * len(_HEADINGS)]
    for name, attack in ATTACKS.items():
        figures = measured.get(name)
        cells = known.get(name, ["", "", ""]) if figures is None else _cells(attack, figures)
        module = f"`{attack.module.replace('.', '/')}.py`"
        lines.append(_line([f"`{name}`", attack.sends, attack.answer, *cells, module]))
    table = "\n".join(lines)
    document.write_text(text[: found.start()] + f"{_BEGIN}\n\n{table}\n\n{_END}" + text[found.end() :])


def _cells(attack: Attack, figures: Figures) -> list[str]:
    memory = f"{max(0, figures.growth) / MIB:.0f} ({attack.share // MIB})"
    return [f"{1000.0 * figures.before:.1f}", f"{1000.0 * figures.during:.1f}", memory]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Parse the arguments, make the attacks, and write the table."""
    parser = argparse.ArgumentParser(description="Attack a node, and measure its bystanders.")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, help="these attacks")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each of the rounds of calm and of attack")
    parser.add_argument("--no-write", action="store_true", help="leave the document as it is")
    said = parser.parse_args()
    measured: dict[str, Figures] = {}
    clean = True
    for name in said.only or ATTACKS:
        attack = ATTACKS[name]
        figures = measured[name] = asyncio.run(measure(attack, said.seconds))
        broken = figures.broken(attack)
        clean = clean and not broken
        before, during, memory = _cells(attack, figures)
        times = f"p99 {before:>7} -> {during:>7} ms"
        print(f"{name:40} {times}  {memory:>10} MiB  {figures.strikes:>6} strikes", flush=True)
        for promise in broken:
            print(f"    MISSED: {promise}", flush=True)
    if not said.no_write:
        write(measured)
    sys.exit(0 if clean else 1)


if __name__ == "__main__":
    main()
