"""`taskd-net bench`: what it says when it cannot run."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from taskd_net_lab.bench import bench


def test_without_a_checkout_it_says_so_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taskd_net_lab.bench.CHECKOUT", tmp_path)

    ran = CliRunner().invoke(bench)

    assert ran.exit_code == 1
    assert ran.output.count("\n") == 1
    assert "needs a checkout" in ran.output


def test_without_the_extra_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.requirements.MODULES", {"no_such_module": "no-such-distribution"})
    monkeypatch.setattr("benchmarks.requirements.program", lambda name: name)

    ran = CliRunner().invoke(bench)

    assert ran.exit_code == 1
    remedy = "pip install -e . -e './lab[bench]'"
    assert ran.output == f"taskd-net bench needs no-such-distribution, not installed here: {remedy}\n"


def test_without_the_extra_of_a_measure_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.requirements.MODULES", {})
    monkeypatch.setattr("benchmarks.requirements.OF_MEASURE", {"training": {"no_such_module": "no-such-distribution"}})
    monkeypatch.setattr("benchmarks.requirements.program", lambda name: name)

    ran = CliRunner().invoke(bench, ["training"])

    assert ran.exit_code == 1
    remedy = "pip install -e . -e './lab[bench-training]'"
    assert ran.output == f"taskd-net bench needs no-such-distribution, not installed here: {remedy}\n"


@pytest.mark.parametrize("arguments", [["no-such-measure"], ["rate", "--quick"]])
def test_a_measure_that_cannot_be_taken_is_refused(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr("benchmarks.requirements.missing", lambda names: [])

    ran = CliRunner().invoke(bench, arguments)

    assert ran.exit_code == 2
    assert "Invalid value for NAME" in ran.output
