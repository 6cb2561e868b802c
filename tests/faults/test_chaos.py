"""All faults together: every acknowledged message arrived exactly once, every other one has a code."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.chaos import Chaos
from tests.faults.conftest import Form
from tests.faults.figures import Figures
from tests.faults.lab import Lab

pytestmark = pytest.mark.timeout(1800)

RECOVERED_S = 15.0
"""Twice the time to detect a silent fault and rejoin."""


class Count:
    """The number of sync messages with a code, by the records so far."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._looked = 0.0
        self.ended = 0

    def below(self, number: int) -> bool:
        """True while there are fewer. Reads once a second."""
        if time.monotonic() - self._looked > 1.0:
            for path in self._folder.glob("*.records"):
                with path.open("rb") as file:
                    file.seek(self._read.get(path, 0))
                    data = file.read()
                self._read[path] = self._read.get(path, 0) + len(data)
                self.ended += data.count(b'["end",')
            self._looked = time.monotonic()
        return self.ended < number


@pytest.fixture
def lab(form: Form, tmp_path: Path) -> Iterator[Lab]:
    """A mesh with a relay on every link."""
    names = [f"proxy{rank}" for rank in range(2)] + [f"worker{rank}" for rank in range(form.workers)]
    with Lab(tmp_path / "lab", workers=form.workers, relayed=names) as lab:
        yield lab


@pytest.mark.more
def test_chaos(lab: Lab, form: Form, figures: Figures) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    lab.begin_traffic(interval=0.03, posts=True, timeout=1.0, retries=True)
    chaos, count = Chaos(lab, seed), Count(lab.records)
    began = time.monotonic()
    whole = chaos.run(began + form.chaos, lambda: count.below(form.messages))
    lab.quiet(within=120.0)
    audit = lab.audit()
    assert not audit.broken, {promise: uuids[:5] for promise, uuids in audit.broken.items()}
    assert audit.sent - len(audit.orphaned) >= form.messages, audit.sent
    assert audit.acked > audit.sent / 2, audit.codes
    # No failure lasted longer than detection and rejoining without a fault on its way.
    failed = [letter for letter in lab.ledger().letters.values() if letter.kind != "posted" and letter.code]
    without_reason = max((chaos.longest_without_fault(letter) for letter in failed), default=0.0)
    assert without_reason < RECOVERED_S, without_reason
    joins = lab.joins()
    assert joins["direct"] > joins.total() / 2, joins
    figures.add("chaos", "seconds:", time.monotonic() - began)
    figures.note("chaos", f"{chaos.total} faults ({', '.join(f'{n} {kind}' for kind, n in chaos.counts.items())})")
    figures.add("chaos", "joins:", joins.total())
    figures.add("chaos", "over direct links:", joins["direct"])
    figures.add("chaos", "messages:", audit.sent)
    figures.add("chaos", "acknowledged with 0:", audit.acked)
    figures.add("chaos", "of these not delivered:", len(audit.lost), at_most=0)
    figures.add("chaos", "delivered twice:", len(audit.duplicated), at_most=0)
    figures.add("chaos", "without a code:", len(audit.vanished), at_most=0)
    figures.add("chaos", "out of order:", len(audit.out_of_order), at_most=0)
    others = {code: number for code, number in sorted(audit.codes.items()) if code}
    figures.note(
        "chaos", f"other codes: {', '.join(f'{number} × {code}' for code, number in others.items()) or 'none'}"
    )
    figures.add("chaos", "longest time that one of these failed with nothing wrong on its way:", without_reason, "s")
    figures.add("chaos", "in the inbox of a receiver when that was killed:", len(audit.in_killed_inbox))
    figures.add("chaos", "in two lives of a killed receiver:", len(audit.in_two_lives))
    figures.add("chaos", "posts besides:", audit.posted)
    figures.add("chaos", "of these lost on the way, %:", 100.0 * (1.0 - audit.arrived / max(1, audit.posted)))
    figures.add("chaos", "whole again after the last fault in", whole, "s")
    figures.add("chaos", "whose sender was killed:", len(audit.orphaned))
