"""Figures: medians, ratios, targets, tables."""

from pathlib import Path

import pytest

from benchmarks import documents, report
from benchmarks.command import fill_own
from benchmarks.histogram import Latencies
from benchmarks.machine import describe
from benchmarks.processes import ROOT
from benchmarks.results import Results
from benchmarks.systems import OURS, TORCHRUN
from benchmarks.targets import OF_MEASURE, targets


def _results() -> Results:
    results = Results()
    for turn in (1, 2, 3):
        for system, rate in (("taskd_net", 30_000.0), ("direct", 30_000.0), ("nats", 20_000.0), ("unary", 1000.0)):
            results.add("rate", "messages/s", "1/s", system, rate + turn, direction="up", body=64, in_flight=64)
    return results


def test_a_value_is_the_median_of_its_turns() -> None:
    assert _results().value("rate", "messages/s", "nats", body=64, direction="up", in_flight=64) == 20_002.0
    assert _results().value("rate", "messages/s", "nats", body=65, direction="up", in_flight=64) is None


def test_percentiles_are_of_all_turns_together() -> None:
    turns = [Latencies.of([1_000_000] * 99).encode(), Latencies.of([9_000_000]).encode()]

    latencies = Latencies.merged(turns)

    assert latencies.count == 100
    assert latencies.percentile(50.0) == pytest.approx(1000.0, rel=0.01)
    assert latencies.percentile(99.9) == pytest.approx(9000.0, rel=0.01)
    assert latencies.distribution()[-1][1] == 1.0


def test_a_target_is_met_missed_or_was_not_measured() -> None:
    verdicts = {target.name: target.verdict() for target in targets(_results())}

    against_nats = verdicts["messages/s, two hops up, 64 in flight"]
    assert against_nats == {
        "name": "messages/s, two hops up, 64 in flight",
        "value": 1.5,
        "unit": "x nats",
        "target": ">= 1.1",
        "met": True,
    }
    down = verdicts["messages/s, two hops down, 64 in flight"]
    assert down["value"] is None and not down["met"]


def test_every_target_has_a_name_of_its_own() -> None:
    names = [target.name for target in targets(Results())]

    assert len(names) == len(set(names)) > 20


def test_tables_have_the_ratio_to_each_peer() -> None:
    table = report.markdown(_results())

    assert "| up, 64 B, 64 in flight | 30,002 | 30,002 (1.00×) | 1,002 (29.9×) | 20,002 (1.50×) |" in table


def test_summary_has_a_column_for_each_system_and_a_dash_for_what_was_not_measured() -> None:
    table = report.markdown_summary(_results(), ("taskd_net", "nats", "zmq", "unary")).splitlines()

    assert "| messages/s, 64 in flight | 30,002 | 20,002 | – | 1,002 |" in table
    assert "| p99, one in flight | – | – | – | – |" in table


def test_only_what_stands_between_the_markers_is_written(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text("before\n<!-- table: generated -->\nold\n<!-- end of table -->\nafter\n")

    assert documents.fill(document, "table", "new")
    assert not documents.fill(document, "another", "new")
    assert not documents.fill(tmp_path / "missing.md", "table", "new")
    assert document.read_text() == "before\n<!-- table: generated -->\n\nnew\n\n<!-- end of table -->\nafter\n"


def test_performance_has_a_place_for_the_figures_of_a_jobs_manager(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text((ROOT / "docs" / "performance.md").read_text())

    assert fill_own(["job"], Results(), describe(), document) == []

    assert "| Manager: a tick over all records | –" in document.read_text()


def test_measure_with_targets_of_its_own_fills_its_section_alone(tmp_path: Path) -> None:
    document, results = tmp_path / "performance.md", Results()
    results.add("job", "memory of 9,000 records", "MB", "taskd_net", 10.4)
    document.write_text("".join(f"<!-- {name}: generated -->\n<!-- end of {name} -->\n" for name in ("job", "targets")))

    assert fill_own(["job", "recovery"], results, describe(), document) == ["recovery"]

    text = document.read_text()
    assert "| Manager: memory of 9,000 records | 10.4 MB | ≤ 60 MB | ✓ |" in text
    assert "| Manager: a tick over all records | – |" in text
    assert text.endswith("<!-- targets: generated -->\n<!-- end of targets -->\n")


def test_each_measure_with_targets_of_its_own_has_its_section_in_the_document(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "performance.md").read_text()
    assert all(f"<!-- {name}: generated -->" in text and f"<!-- end of {name} -->" in text for name in OF_MEASURE)
    document, results = tmp_path / "performance.md", Results()
    document.write_text(text)
    results.add("recovery", "idle client", "% of a core", "taskd_net", 0.0625)
    fill_own(["recovery"], results, describe(), document)
    assert "| Recovery: idle client | 0.06" in document.read_text()


def test_section_of_a_training_has_its_figures_too(tmp_path: Path) -> None:
    document, results = tmp_path / "performance.md", Results()
    document.write_text((ROOT / "docs" / "performance.md").read_text())
    for system, value in ((OURS, 1000.0), (TORCHRUN, 3000.0)):
        results.add("training", "kill to first step of all", "ms", system, value)
        results.add("training", "noticed", "ms", system, 20.0)

    assert fill_own(["training"], results, describe(), document) == []

    text = document.read_text()
    assert "| Training: in place, from a kill to the first step | 3.00 × faster than torchrun | ≥ 2 " in text
    assert f"|  | {OURS} | {TORCHRUN} |" in text
    assert "| kill to first step of all | 1,000 ms | 3,000 ms (0.33×) |" in text
