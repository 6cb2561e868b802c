"""Tests that reach each line, with their durations, from one run of all quick tests without a mutant."""

from __future__ import annotations

import ast
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

from tests.mutants.sample import ROOMS, Mutant
from tests.mutants.tree import TESTS, Tree, digest

_LEFT_OUT: Final = ("test_hundred_thousand.py", "scenarios/test_mixed_trees.py", "scenarios/test_processes.py")
"""Modules of `TESTS` that take long, or are about processes, which the run does not see."""
_SLOW_S: Final = 10.0
"""Seconds above which a test is left out: what it alone would see is seen too late to be waited for 300 times."""
_ALL_S: Final = 1500.0
"""Seconds for the tests of one folder without any mutant."""
_FAILING: Final = 0.02
"""Share of the tests that may fail without any mutant; they are left out."""
BUDGET_S: Final = 40.0
"""Seconds that the tests of one mutant took without it: the quickest ones that come to its line are run, up to that."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The findings.

    Args:
        seconds: how long each test takes.
        lines: by module, by line: the tests that come there.
    """

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]

    def tests_of(self, mutant: Mutant) -> tuple[list[str], list[str]]:
        """The tests that can see a mutant, the quickest first: its module's own, and the others.

        The import of a module runs in one of the tests, or in none, and all see its outcome: for a line outside of the
        bodies of functions all count that come to the module. None comes to one without functions: all of its room.
        """
        of_module = self.lines.get(mutant.module, {})
        found = {test for line in mutant.lines for test in of_module.get(line, ())}
        if not found or not _inside_functions(mutant.source).issuperset(mutant.lines):
            found = {test for tests in of_module.values() for test in tests}
            # A test of a constant alone comes to no line.
            found |= {test for test in self.seconds if test.startswith(own(mutant.module))}
        found = found or {test for test in self.seconds if test.startswith(f"tests/{mutant.module.split('/')[1]}/")}
        quickest = sorted((test for test in found if self.seconds[test] <= _SLOW_S), key=self.seconds.__getitem__)
        own_module = own(mutant.module)
        mine: list[str] = []
        others: list[str] = []
        spent = 0.0
        for test in sorted(quickest, key=lambda test: not test.startswith(own_module)):
            spent += self.seconds[test]
            if spent > BUDGET_S:
                break
            (mine if test.startswith(own_module) else others).append(test)
        return mine, others


def _inside_functions(source: str) -> set[int]:
    """The lines of the bodies of all functions."""
    nodes = ast.walk(ast.parse(source))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {line for each in functions for line in range(each.body[0].lineno, (each.end_lineno or 0) + 1)}


def own(module: str) -> str:
    """The module of a module's own tests."""
    _, room, name = module.split("/")
    return f"tests/{room}/test_{name}"


def look(tree: Tree, kept: Path) -> Reach:
    """Find it out.

    Args:
        tree: a copy without a mutant.
        kept: a file for what is found. Of that, what is about test modules that have not changed is not looked for
            again, as long as all code is the same.

    Raises:
        SystemExit: more than a few tests fail, or no line is reached.
    """
    code = digest(tree.folder, ["taskd_net"])
    modules = {name: digest(tree.folder, [name]) for name in _modules(tree.folder)}
    before = json.loads(kept.read_text()) if kept.exists() else {}
    known = before["modules"] if before.get("code") == code else {}
    changed = [name for name, found in modules.items() if known.get(name) != found]
    stays = set(modules) - set(changed)
    seconds = {test: took for test, took in before.get("seconds", {}).items() if test.partition("::")[0] in stays}
    lines: dict[str, dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, by_line in before.get("lines", {}).items() if stays else ():
        for line, tests in by_line.items():
            lines[module][int(line)] = [test for test in tests if test in seconds]
    if changed:
        took, reached, failed = _measure(tree, changed)
        seconds |= took
        for module, line, test in reached:
            lines[module][line].append(test)
        print(f"{len(took)} quick tests measured", *(f"fails without a mutant: {test}" for test in failed), sep="\n")
        if len(failed) > _FAILING * len(took):
            raise SystemExit("too many tests fail without any mutant")
        kept.write_text(json.dumps({"code": code, "modules": modules, "seconds": seconds, "lines": lines}))
    if not any(any(tests) for by_line in lines.values() for tests in by_line.values()):
        raise SystemExit("no test comes to any line of what is to be mutated: is it the copy that was tested?")
    return Reach(seconds, lines)


def _measure(tree: Tree, modules: list[str]) -> tuple[dict[str, float], list[tuple[str, int, str]], list[str]]:
    """Run test modules: how long each test takes, what it comes to, and which fail. Those that fail are left out.

    Each folder's in a process of its own, as `make test` spreads them over several.
    """
    # As folders: to find a package by its name, coverage imports it and forgets it again, and two imports of grpc in
    # one process make two of each of its classes.
    packages = (f"--cov={room}" for room in ROOMS)
    options = (*packages, "--cov-context=test", "--cov-report=", "--timeout=300", "--maxfail=100")
    seconds: dict[str, float] = {}
    lines: list[tuple[str, int, str]] = []
    failed: list[str] = []
    for _, group in groupby(modules, key=lambda name: name.rpartition("/")[0]):
        run = tree.test(list(group), limit=_ALL_S, options=options)
        if run.hung:
            raise SystemExit(f"without any mutant the tests hang:\n{run.output}")
        failed += run.failed
        took = {test: taken for test, taken in run.seconds.items() if test not in run.failed}
        seconds |= took
        lines += [found for found in _covered(tree) if found[2] in took]
    return seconds, lines, failed


def _modules(folder: Path) -> list[str]:
    """The modules of the quick tests."""
    found = [
        path for name in TESTS for path in ((folder / name).glob("test_*.py") if "." not in name else [folder / name])
    ]
    names = sorted(path.relative_to(folder).as_posix() for path in found)
    return [name for name in names if not name.endswith(_LEFT_OUT)]


def _covered(tree: Tree) -> Iterator[tuple[str, int, str]]:
    """The coverage of the last run: module, line and test."""
    from coverage import CoverageData

    data = CoverageData(str(tree.folder / ".coverage"))
    data.read()
    for file in sorted(data.measured_files()):
        for line, contexts in data.contexts_by_lineno(file).items():
            for test in sorted({context.rpartition("|")[0] for context in contexts}):
                yield Path(file).relative_to(tree.folder).as_posix(), line, test
