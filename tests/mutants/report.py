"""The score of a sample, as docs/mutants.md has it; and the mutants that no test can kill, with the reason."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BEGIN: Final = "<!-- mutants: generated -->"
END: Final = "<!-- end of mutants -->"
EQUIVALENTS: Final = Path(__file__).with_name("equivalents.toml")
GOAL: Final = 0.9
"""Share of the mutants, without the equivalent ones, that tests are to kill."""


@dataclass(frozen=True, slots=True)
class Equivalent:
    """A change after which the code does the same, or nothing that anybody is promised.

    Args:
        module: where.
        before, after: the lines that differ, without what they are indented by.
        reason: why no test kills it.
    """

    module: str
    before: str
    after: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one mutant; `what` is empty while it is unknown."""

    module: str
    line: int
    before: str
    after: str
    what: str


@dataclass(frozen=True, slots=True)
class Score:
    """The outcomes of a room's mutants, with their counts."""

    room: str
    sampled: int
    killed: int
    hung: int
    survived: int
    equivalent: int
    unknown: int

    @property
    def share(self) -> float:
        """Killed or hung, of those that are known and not equivalent."""
        counted = self.killed + self.hung + self.survived
        return (self.killed + self.hung) / counted if counted else 1.0


def equivalents() -> list[Equivalent]:
    """The listed equivalent mutants."""
    return [Equivalent(**entry) for entry in tomllib.loads(EQUIVALENTS.read_text()).get("mutant", [])]


def score(room: str, outcomes: Iterable[Outcome], named: Sequence[Equivalent]) -> Score:
    """The score of a room; of all of them with an empty name."""
    here = [outcome for outcome in outcomes if outcome.module.startswith(room)]
    excused = [outcome for outcome in here if outcome.what in ("survived", "unreached") and reason(outcome, named)]
    count = {what: sum(outcome.what == what for outcome in here) for what in ("killed", "hung", "")}
    survived = len(here) - sum(count.values()) - len(excused)
    return Score(room, len(here), count["killed"], count["hung"], survived, len(excused), count[""])


def reason(outcome: Outcome, named: Sequence[Equivalent]) -> str:
    """The reason for which a mutant is equivalent; empty without one."""
    for one in named:
        if (one.module, one.before, one.after) == (outcome.module, outcome.before, outcome.after):
            return one.reason
    return ""


def table(outcomes: Sequence[Outcome], rooms: Sequence[str], named: Sequence[Equivalent], seed: int) -> str:
    """The table of the document."""
    scores = [*(score(room, outcomes, named) for room in rooms), score("", outcomes, named)]
    lines = [
        "| room | sampled | killed | killed by a timeout | survived | equivalent | score |",
        "| --- | --: | --: | --: | --: | --: | --: |",
    ]
    for one in scores:
        name = f"`{one.room}`" if one.room else "together"
        cells = (name, one.sampled, one.killed, one.hung, one.survived, one.equivalent, f"{one.share:.1%}")
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    lines += ["", f"Seed {seed}."]
    if unknown := scores[-1].unknown:
        lines.append(f"**{unknown} of the sample are not tested yet**: `make mutants` goes on.")
    for heading, excused in (("Survivors", False), ("Equivalent", True)):
        shown = [o for o in outcomes if o.what in ("survived", "unreached") and bool(reason(o, named)) is excused]
        lines += ["", f"### {heading}", ""]
        lines += ["None."] if not shown else []
        for outcome in sorted(shown, key=lambda outcome: (outcome.module, outcome.line)):
            lines += [
                f"`{outcome.module}`, line {outcome.line}"
                + (": no quick test comes here" * (outcome.what == "unreached"))
            ]
            lines += [f": {reason(outcome, named)}"] if excused else []
            changed = [f"-{line}" for line in outcome.before.splitlines()] + [
                f"+{line}" for line in outcome.after.splitlines()
            ]
            lines += ["", "```diff", *changed, "```", ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def write(document: Path, text: str) -> None:
    """Put this between the document's markers.

    Raises:
        ValueError: it has none.
    """
    page = document.read_text()
    if BEGIN not in page or END not in page:
        raise ValueError(f"{document} has no markers")
    before, after = page.partition(BEGIN)[0], page.partition(END)[2]
    document.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
