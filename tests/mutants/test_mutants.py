"""The tool itself: its sample, what it runs, what it keeps and what it writes; and the list of equivalent mutants."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.mutants import report
from tests.mutants.report import Equivalent, Outcome
from tests.mutants.tree import TESTS

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
    rooms = ("core", "links", "observe", "tls", "transport")
    for name in (*(f"taskd_net/{room}" for room in rooms), "tests/core", "tests/mutants"):
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


def test_quick_tests_are_there() -> None:
    assert [name for name in TESTS if not (ROOT / name).exists()] == []


def test_line_that_runs_at_the_import_is_seen_by_all_tests_of_its_module() -> None:
    pytest.importorskip("cosmic_ray", reason="of the extra `mutants`")
    from tests.mutants.reach import Reach
    from tests.mutants.sample import Mutant

    source = "LIMIT = 3\n\n\ndef small(number: int = LIMIT) -> bool:\n    return number < LIMIT\n"
    lines = {"taskd_net/core/small.py": {1: ["tests/a.py::first"], 4: ["tests/a.py::first"], 5: ["tests/a.py::second"]}}
    constants = "tests/core/test_small.py::constants"
    reach = Reach({"tests/a.py::first": 1.0, "tests/a.py::second": 0.5, constants: 0.1}, lines)
    found = {
        line: reach.tests_of(Mutant("0", "taskd_net/core/small.py", range(line, line + 1), "", source, "", ""))
        for line in (1, 4, 5)
    }
    both = ["tests/a.py::second", "tests/a.py::first"]
    assert found == {1: ([constants], both), 4: ([constants], both), 5: ([], ["tests/a.py::second"])}


def test_module_without_functions_is_seen_by_all_tests_of_its_room() -> None:
    pytest.importorskip("cosmic_ray", reason="of the extra `mutants`")
    from tests.mutants.reach import Reach
    from tests.mutants.sample import Mutant

    reach = Reach({"tests/core/test_a.py::one": 1.0, "tests/links/test_b.py::two": 1.0}, {})
    mutant = Mutant("0", "taskd_net/core/small.py", range(1, 2), "", "LIMIT = 3\n", "", "")
    assert reach.tests_of(mutant) == ([], ["tests/core/test_a.py::one"])


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


T1, T2, PURE = "tests/transport/test_a.py::test_1", "tests/transport/test_a.py::test_2", "tests/core/test_a.py::test"
MODULE = "tests/transport/test_a.py"
DIED = "(the run itself)"


@pytest.mark.parametrize(
    ("runs", "verdict"),
    [
        pytest.param([(T1, "M"), (T1, "M"), ("", "O")], ("killed", T1), id="fails twice, control passes"),
        pytest.param([(T1, "M"), ("", "M"), ("", "M")], ("survived", ""), id="fails once: chance, the rest goes on"),
        pytest.param([(T1, "M"), ("", "M"), (T2, "M"), (T2, "M"), ("", "O")], ("killed", T2), id="the rest kills"),
        pytest.param([(T2, "M"), ("", "M")], ("survived", ""), id="the last one fails once"),
        pytest.param([(T1, "M"), (T1, "M"), (T1, "O"), ("", "M")], ("survived", ""), id="control fails: again"),
        pytest.param(
            [(T1, "M"), (T1, "M"), ("hung", "O"), (T1, "M"), (T1, "M"), ("", "O")], ("killed", T1), id="control hangs"
        ),
        pytest.param([(T1, "M"), (T1, "M"), (T1, "O")] * 3, ("unsure", T1), id="control fails each time"),
        pytest.param([(T1, "M"), ("hung", "M"), ("", "O")], ("killed", T1), id="second time too slow"),
        pytest.param([("hung", "M"), ("", "O")], ("hung", ""), id="too slow, control passes"),
        pytest.param([("hung", "M"), (T2, "O"), ("", "M")], ("survived", ""), id="too slow, control fails: again"),
        pytest.param([("hung", "M"), ("hung", "O")] * 3, ("unsure", ""), id="too slow with and without"),
        pytest.param([(DIED, "M"), ("", "O")], ("killed", DIED), id="run dies"),
        pytest.param([(DIED, "M"), (T1, "O"), ("", "M")], ("survived", ""), id="run dies, control fails: again"),
        pytest.param([(MODULE, "M"), ("", "O")], ("killed", MODULE), id="module cannot be imported"),
        pytest.param([(PURE, "M")], ("killed", PURE), id="pure code: once is enough"),
    ],
)
def test_failure_of_a_test_with_a_clock_needs_a_control_run(
    runs: list[tuple[str, str]], verdict: tuple[str, str], tmp_path: Path
) -> None:
    """Each scripted run: the test that fails (none: all pass; hung: too slow), with the mutant or the original."""
    pytest.importorskip("cosmic_ray", reason="of the extra `mutants`")
    from tests.mutants import reach, session
    from tests.mutants.sample import Mutant
    from tests.mutants.tree import Run, Tree

    class Scripted(Tree):
        def __init__(self, folder: Path) -> None:
            self.folder = folder
            self.left = list(runs)

        def test(self, tests: Sequence[str], *, limit: float, options: Sequence[str] = ()) -> Run:
            failed, source = self.left.pop(0)
            assert (self.folder / module).read_text() == source
            assert tests and failed in (*tests, "", "hung", DIED, MODULE)
            return Run([failed] * (failed not in ("", "hung")), failed == "hung", {}, "")

    module = "taskd_net/net/joining/b.py"
    seconds = {PURE: 0.1} if runs[0][0] == PURE else {T1: 0.1, T2: 0.2}
    tree = Scripted(tmp_path)
    (tmp_path / module).parent.mkdir(parents=True)
    (tmp_path / module).write_text("O")
    mutant = Mutant("key", module, range(1, 2), "number", "M", "O", "M")
    assert session.judge(tree, mutant, reach.Reach(seconds, {module: {1: list(seconds)}})) == verdict
    assert not tree.left
    assert (tmp_path / module).read_text() == "O"


@pytest.mark.timeout(120)
def test_test_that_fails_because_the_machine_is_busy_kills_no_mutant(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through real runs: while another process is busy, the test fails with and without the mutant."""
    pytest.importorskip("cosmic_ray", reason="of the extra `mutants`")
    from tests.mutants import reach, session
    from tests.mutants.sample import Mutant
    from tests.mutants.tree import Tree

    busy, module, test = tmp_path / "busy", "taskd_net/core/small.py", "tests/transport/test_clock.py::test_clock"
    (checkout / "tests" / "transport").mkdir()
    (checkout / "tests" / "transport" / "test_clock.py").write_text(
        f"""
from pathlib import Path
from taskd_net.core.small import sign

def test_clock():
    assert not Path({str(busy)!r}).exists()
    assert sign(5) == 1
"""
    )
    mutants = [
        Mutant(key, module, range(5, 6), "number", SMALL.replace(before, after), before, after)
        for key, before, after in (("a", "return 1", "return 2"), ("b", "return -1", "return -2"))
    ]
    tree, reached = Tree(checkout, tmp_path / "tree"), reach.Reach({test: 0.1}, {module: {5: [test]}})
    verdicts, said = session.Session(checkout, tmp_path / "verdicts.jsonl"), list[str]()
    busy.touch()
    monkeypatch.setattr(session, "_ATTEMPTS", 1)
    session.run(mutants[1:], verdicts, reached, [tree], ends_at=time.monotonic() + 100, say=said.append)
    assert verdicts.verdict(mutants[1]) is None, "it can be tested again"
    busy.unlink()
    session.run(mutants, verdicts, reached, [tree], ends_at=time.monotonic() + 100, say=said.append)
    assert [line.split()[0] for line in said] == ["unsure", "killed", "survived"]


def test_no_run_begins_during_a_pause(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.mutants import tree

    pause, begun = tmp_path / "pause", tmp_path / "tree.txt"
    pause.touch()
    looks: list[bool] = []

    def look(seconds: float) -> None:
        looks.append(begun.exists())
        if len(looks) == 3:
            pause.unlink()

    monkeypatch.setattr(tree, "sleep", look)
    assert tree.Tree(checkout, tmp_path / "tree", pause).test(["tests/core"], limit=60.0).passed
    assert looks == [False] * 3 and begun.exists()
