"""The tool itself: its sample, what it runs, what it keeps and what it writes; and the list of equivalent mutants."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.mutants import report
from tests.mutants.report import Equivalent, Outcome

ROOT = Path(__file__).resolve().parents[2]

SMALL = """
def sign(number: int | None = None, *, name: str = "") -> int:
    assert number != 3
    if number is None or number <= 0:
        return -1
    return 1
"""
TEST = """
import os
import time

from taskd_net.core.small import sign

def test_sign():
    assert sign(5) == 1
    assert sign(0) == -1
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one module and one test."""
    folder = tmp_path / "checkout"
    for name in ("taskd_net/core", "taskd_net/links", "taskd_net/transport", "tests/core", "tests/mutants"):
        (folder / name).mkdir(parents=True)
    # Without it the installed package would be found in its place.
    (folder / "taskd_net" / "__init__.py").touch()
    (folder / "taskd_net" / "core" / "small.py").write_text(SMALL)
    (folder / "tests" / "core" / "test_small.py").write_text(TEST)
    for name in ("__init__.py", "recorder.py"):
        (folder / "tests" / "mutants" / name).write_text((ROOT / "tests" / "mutants" / name).read_text())
    (folder / "tests" / "__init__.py").touch()
    return folder


def test_equivalent_mutants_are_of_lines_that_are_there() -> None:
    for one in report.equivalents():
        lines = [line.strip() for line in (ROOT / one.module).read_text().splitlines()]
        for line in one.before.splitlines():
            assert line in lines, f"{one.module} has no line {line!r} any more"
        assert one.before != one.after
        assert len(one.reason) > 20


def test_score_leaves_out_what_is_equivalent_or_not_tested() -> None:
    outcomes = [Outcome("taskd_net/core/a.py", n, "a", f"{n}", what) for n, what in enumerate(("killed", "hung", ""))]
    outcomes += [Outcome("taskd_net/core/a.py", 9, "x", "y", "survived"), Outcome("b.py", 3, "x", "y", "unreached")]
    named = [Equivalent("taskd_net/core/a.py", "x", "y", "it is the same, as everybody can see")]
    core, both = report.score("taskd_net/core", outcomes, named), report.score("", outcomes, named)
    assert (core.sampled, core.killed, core.hung, core.survived, core.equivalent, core.unknown) == (4, 1, 1, 0, 1, 1)
    assert (core.share, both.survived, round(both.share, 2)) == (1.0, 1, 0.67)


def test_table_names_survivors_and_why_others_are_none(tmp_path: Path) -> None:
    document = tmp_path / "mutants.md"
    document.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    outcomes = [Outcome("a.py", 3, "x = 1", "x = 2", "survived"), Outcome("a.py", 4, "y", "z", "unreached")]
    text = report.table(outcomes, ["a"], [Equivalent("a.py", "y", "z", "the same in other words")], 13)
    report.write(document, text)
    page = document.read_text()
    assert "old" not in page and page.startswith("before\n") and page.endswith("after\n")
    assert "-x = 1\n+x = 2" in page.partition("### Equivalent")[0]
    assert "the same in other words" in page.partition("### Equivalent")[2]
    assert "| together | 2 | 0 | 0 | 1 | 1 | 0.0% |" in page
    document.write_text("no markers")
    with pytest.raises(ValueError, match="no markers"):
        report.write(document, text)


def test_sample_is_the_same_for_a_seed_and_stays_where_lines_move(checkout: Path) -> None:
    pytest.importorskip("cosmic_ray", reason="of the extra `mutants`")
    from tests.mutants.sample import sample

    first = sample(checkout, 13, 100)
    changes = {(mutant.before, mutant.after) for mutant in first}
    assert ("if number is None or number <= 0:", "if number is None and number <= 0:") in changes
    assert not any("assert" in before or "def " in before for before, _ in changes)
    assert [mutant.key for mutant in first] == sorted(mutant.key for mutant in first)
    module = checkout / "taskd_net" / "core" / "small.py"
    module.write_text(f"# One line more.\n{SMALL}")
    moved = sample(checkout, 13, 100)
    assert [mutant.key for mutant in moved] == [mutant.key for mutant in first]
    assert [mutant.lines[0] - 1 for mutant in moved] == [mutant.lines[0] for mutant in first]
    assert [mutant.key for mutant in sample(checkout, 14, 100)] != [mutant.key for mutant in first]
    assert [mutant.key for mutant in sample(checkout, 13, 2)] == [mutant.key for mutant in first][:2]


@pytest.mark.timeout(240)
def test_mutants_are_judged_in_a_copy_and_verdicts_kept(checkout: Path, tmp_path: Path) -> None:
    pytest.importorskip("cosmic_ray", reason="of the extra `mutants`")
    from tests.mutants import reach, session
    from tests.mutants.sample import Mutant, sample
    from tests.mutants.tree import Tree

    module, source = "taskd_net/core/small.py", SMALL
    tree = Tree(checkout, tmp_path / "tree")
    tests = {"tests/core/test_small.py::test_sign": 0.1}
    reached = reach.Reach(tests, {module: {4: list(tests), 5: list(tests)}})

    def mutant(key: str, old: str, new: str, line: int = 4) -> Mutant:
        return Mutant(key, module, range(line, line + 1), "comparison", source.replace(old, new), old, new)

    mutants = [
        mutant("a", "number <= 0", "number >= 0"),
        mutant("b", "number is None or number", "number"),  # that None is no number nobody tests
        mutant("c", "return 1", "return 2", line=17),  # no line that a test comes to: all of the module count
        mutant("d", "return -1", "import os; os._exit(3)", line=5),
    ]
    verdicts = session.Session(checkout, tmp_path / "verdicts.jsonl")
    said: list[str] = []
    session.run(mutants, verdicts, reached, [tree], ends_at=time.monotonic() + 200, say=said.append)
    found = [verdicts.verdict(one) for one in mutants]
    assert [verdict.what if verdict else None for verdict in found] == ["killed", "survived", "killed", "killed"]
    assert found[0] is not None and found[0].by == "tests/core/test_small.py::test_sign"
    assert (tree.folder / module).read_text() == (checkout / module).read_text() == SMALL
    assert len(said) == 4

    again = session.Session(checkout, tmp_path / "verdicts.jsonl")
    assert [again.verdict(one) for one in mutants] == found
    (checkout / "tests" / "core" / "test_other.py").write_text("")
    later = session.Session(checkout, tmp_path / "verdicts.jsonl")
    assert later.verdict(mutants[0]) == found[0], "its module and the test are as they were"
    assert later.verdict(mutants[1]) is None, "a new test may see what none saw"
    (checkout / module).write_text(SMALL + "\n")
    assert session.Session(checkout, tmp_path / "verdicts.jsonl").verdict(mutants[0]) is None
    assert len(json.loads((tmp_path / "verdicts.jsonl").read_text().splitlines()[0])) == 5
    assert sample(checkout, 13, 1)
