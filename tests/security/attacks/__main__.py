"""Every attack for some seconds beside traffic. Figures go into docs/security.md (`make attacks`).

    python -m tests.security.attacks --only empty-messages --rounds 3
    python -m tests.security.attacks --from http2-unread     # after an interruption: this row and those behind it

Calm and attack take turns, because the machine has other work: the median of each kind of turn counts. Of a strike that
lasts for several turns the slowest one counts. An attack that misses its promise is made once more, and all its turns
count together. Each row is written when it is measured. The exit code is 0 only if every figure keeps its promise, and
every strike was refused as it should be.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import statistics
import sys
import tempfile
import traceback
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Final

from tests.security.attacks import ATTACKS
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import MIB, Offered

DOCUMENT: Final = Path(__file__).resolve().parents[3] / "docs" / "security.md"
_BEGIN, _END = "<!-- attacks: generated -->", "<!-- end of attacks -->"
_HEADINGS: Final = (
    "attack",
    "what is sent, again and again",
    "expected answer",
    "p50 of others, ms",
    "p99 of others, ms",
    "memory, MiB (allowed)",
    "made by",
)

SLOWER_S: Final = 0.050
"""Seconds by which the bystanders' p99 may grow."""

ROUNDS: Final = 3
ROUNDS_FROM_ABOVE: Final = 2
"""Turns of each kind. A child that leaves its parent waits 5 s, which is part of each strike."""


@dataclass(slots=True)
class Figures:
    """The outcome of one attack: turns of calm and of attack, and memory in bytes.

    Attributes:
        calm: the turns without the attack.
        during: the slowest turn of each round of the attack.
        codes: of all messages of the bystanders.
        error: a strike that was not refused as it should be, or a stand that broke.
    """

    calm: list[Offered] = field(default_factory=list)
    during: list[Offered] = field(default_factory=list)
    codes: set[str] = field(default_factory=set)
    growth: int = 0
    strikes: int = 0
    error: str = ""

    def medians(self, name: str) -> tuple[float, float]:
        """The median over the calm turns, and over those of the attack, of `p50` or `p99` in ms."""
        before, during = (
            statistics.median(1000.0 * getattr(turn, name) for turn in turns) if turns else float("nan")
            for turns in (self.calm, self.during)
        )
        return before, during

    @property
    def slower_ms(self) -> float:
        """Growth of the p99 in ms."""
        before, during = self.medians("p99")
        return during - before

    def broken(self, attack: Attack) -> list[str]:
        """The promises that are not kept."""
        if self.error:
            return [self.error]
        found = []
        if self.slower_ms >= 1000.0 * SLOWER_S:
            found.append(f"p99 grew by {self.slower_ms:.0f} ms")
        if self.growth >= attack.share:
            found.append(f"memory grew by {self.growth / MIB:.0f} MiB")
        # Every permitted sender may fill an inbox.
        honest = {"0", "5001"} if attack.command == "listen" else {"0"}
        if codes := self.codes - honest:
            found.append(f"messages of bystanders failed: {', '.join(sorted(codes))}")
        return found


async def make(attack: Attack, seconds: float, rounds: int, figures: Figures, one_session: bool) -> None:
    """Make one attack, with as long a calm before each round of it."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory() as folder:
        async with (
            attack.stand(Path(folder), one_session=one_session) as stand,
            aclosing(attack.strikes(stand)) as strikes,
        ):
            await anext(strikes)
            await stand.joined()
            await stand.offer(0.3)
            stand.reset_peak()
            give_up_at = loop.time() + 3.0 * rounds * seconds
            for _ in range(rounds):
                await stand.rests()
                figures.calm.append(await stand.offer(seconds))
                # An attack that stops all others ends with its turn; one long strike makes several turns of it.
                striking = asyncio.create_task(_strike(strikes, loop.time() + seconds))
                turns = []
                while not striking.done():
                    turns.append(await stand.offer(seconds))
                figures.strikes += striking.result()
                figures.during.append(max(turns, key=attrgetter("p99")))
                figures.codes.update(*(turn.codes for turn in (figures.calm[-1], *turns)))
                if loop.time() > give_up_at:
                    break
            figures.growth = max(figures.growth, stand.growth())


async def _strike(strikes: AsyncGenerator[None, None], until: float) -> int:
    """Strike until a moment of the loop's time. Returns the number of strikes."""
    made = 0
    while asyncio.get_running_loop().time() < until:
        await anext(strikes)
        made += 1
    return made


def measure(attack: Attack, seconds: float, rounds: int, one_session: bool = True) -> Figures:
    """Make one attack, and again if it misses its promise."""
    figures = Figures()
    try:
        asyncio.run(make(attack, seconds, rounds, figures, one_session))
        if attack.promised and figures.slower_ms >= 1000.0 * SLOWER_S:
            asyncio.run(make(attack, seconds, rounds, figures, one_session))
    except Exception as error:  # noqa: BLE001 - the other attacks are made all the same
        traceback.print_exc()
        figures.error = f"{type(error).__name__}: {error}".partition("\n")[0]
    return figures


def write(measured: Mapping[str, Figures], document: Path = DOCUMENT) -> None:
    """Write the table. Rows that were not measured this time keep their figures."""
    text = document.read_text()
    found = re.search(re.escape(_BEGIN) + "(.*?)" + re.escape(_END), text, re.DOTALL)
    assert found is not None, f"{document} has no place for the figures"
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found[1].strip().splitlines()]
    # The cells of figures lie between what the attack says itself.
    known = {row[0].partition(",")[0].strip("` "): row[3:-1] for row in rows if len(row) == len(_HEADINGS)}
    lines = [_line(_HEADINGS), "|" + "---|" * len(_HEADINGS)]
    for name, attack in ATTACKS.items():
        figures = measured.get(name)
        cells = known.get(name, ["", "", ""]) if figures is None or figures.error else _cells(attack, figures)
        module = f"`{attack.module.replace('.', '/')}.py`"
        shown = f"`{name}`" if attack.promised else f"`{name}`, an exception"
        lines.append(_line([shown, attack.sends, attack.answer, *cells, module]))
    table = "\n".join(lines)
    document.write_text(text[: found.start()] + f"{_BEGIN}\n\n{table}\n\n{_END}" + text[found.end() :])


def _cells(attack: Attack, figures: Figures) -> list[str]:
    times = [" → ".join(f"{value:.1f}" for value in figures.medians(name)) for name in ("p50", "p99")]
    return [*times, f"{max(0, figures.growth) / MIB:.0f} ({attack.share // MIB})"]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _report(name: str, attack: Attack, figures: Figures) -> bool:
    """Print one row. Returns whether the promise is kept."""
    broken = figures.broken(attack)
    p50, p99, memory = _cells(attack, figures)
    verdict = "ok" if not broken else "MISSED" if attack.promised else "exception"
    print(
        f"{name:38} {p50:>14} {p99:>16} {figures.slower_ms:>+8.1f} {memory:>10} {figures.strikes:>7}  {verdict}",
        flush=True,
    )
    for promise in broken:
        print(f"    {promise}", flush=True)
    return not broken or not attack.promised


def main() -> None:
    """Parse the arguments, make the attacks, and write their rows."""
    parser = argparse.ArgumentParser(description="Attack a node, and measure its bystanders.")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--only", nargs="*", choices=ATTACKS, metavar="NAME", help="these attacks")
    chosen.add_argument("--from", dest="first", choices=ATTACKS, metavar="NAME", help="this attack and later ones")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each turn of calm and of attack")
    parser.add_argument("--rounds", type=int, help="turns of each kind")
    parser.add_argument(
        "--own-sessions", action="store_true", help="a session for each node: Linux may share the processors among them"
    )
    parser.add_argument("--no-write", action="store_true", help="leave the document as it is")
    said = parser.parse_args()
    names = said.only or list(ATTACKS)[list(ATTACKS).index(said.first) if said.first else 0 :]
    print(f"{'attack':38} {'p50, ms':>14} {'p99, ms':>16} {'grown':>8} {'MiB (most)':>10} {'strikes':>7}  most 50 ms")
    missed: list[str] = []
    for at, name in enumerate(names):
        attack = ATTACKS[name]
        rounds = said.rounds or (ROUNDS_FROM_ABOVE if attack.from_above else ROUNDS)
        try:
            figures = measure(attack, said.seconds, rounds, not said.own_sessions)
        except KeyboardInterrupt:
            print(f"interrupted after {at} attacks; missed: {', '.join(missed) or 'none'}; go on with --from {name}")
            sys.exit(130)
        if not _report(name, attack, figures):
            missed.append(name)
        if not said.no_write:
            write({name: figures})
    print(f"{len(names)} attacks; missed: {', '.join(missed) or 'none'}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
