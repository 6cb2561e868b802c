"""Links of two checkouts: the measurement works; its result is not checked."""

import sys

import pytest

from benchmarks import versions
from benchmarks.processes import ROOT

pytestmark = pytest.mark.more


def test_each_case_is_measured_both_ways(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.versions.SECONDS", 0.05)
    monkeypatch.setattr("benchmarks.versions.CASES", ((64, 1), (64, 16)))
    monkeypatch.setattr(sys, "argv", ["versions", str(ROOT), "--turns", "1"])

    versions.main()

    table = capsys.readouterr().out.splitlines()
    assert [row.split(" | ")[0] for row in table[2:]] == [
        f"| messages/s {direction}, 64 B, {in_flight} in flight"
        for direction in ("up", "down")
        for in_flight in (1, 16)
    ]
    for row in table[2:]:
        assert all(float(cell.replace(",", "")) > 0 for cell in row.strip("| ").split(" | ")[1:])
