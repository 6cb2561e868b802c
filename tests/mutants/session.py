"""Test mutants one after another in copies of the checkout, and keep each verdict in a file."""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from tests.mutants.reach import Reach
from tests.mutants.sample import Mutant
from tests.mutants.tree import Tree, digest

KILLED, HUNG, SURVIVED, UNREACHED, UNSURE = "killed", "hung", "survived", "unreached", "unsure"

_STARTS_S: Final = 40.0
"""Seconds that a run may take beside its tests."""
_SLOWER: Final = 5.0
"""Factor on the time without the mutant, beyond which a run counts as hanging."""
_PATIENCE: Final = ("--timeout=30",)
"""For one test, in seconds."""
_ATTEMPTS: Final = 3
"""Failures by chance before a mutant is given up as unsure."""
_NO_CLOCK: Final = (
    "tests/core/",
    "tests/observe/test_ledger",
    "tests/observe/test_document",
    "tests/wire/",
    "tests/simulation/",
)
"""Deterministic tests: one failure is enough. Any other test has a clock in it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of a mutant.

    Args:
        key: its number.
        what: killed, hung, survived, or unreached.
        by: the test that failed.
        module: a digest of the mutated module, as the verdict is about it.
        tests: a digest of the module of the test that failed; of all code and all tests where none did.
    """

    key: str
    what: str
    by: str
    module: str
    tests: str


class Session:
    """Verdicts, kept from run to run.

    A verdict counts as long as what it says cannot have changed: of a killed mutant, as long as its module and the
    module of the test that killed it are the same; of a survivor, as long as all code and all tests are.

    Args:
        checkout: where code and tests are.
        file: for the verdicts.
    """

    def __init__(self, checkout: Path, file: Path) -> None:
        self._file = file
        self._lock = threading.Lock()
        # Of now: the copies that are tested are of now as well, whatever becomes of the checkout meanwhile.
        modules = [path for folder in ("taskd_net", "tests") for path in (checkout / folder).rglob("*.py")]
        names = [path.relative_to(checkout).as_posix() for path in modules]
        self._digests = {name: digest(checkout, [name]) for name in names}
        self._all = digest(checkout, ["taskd_net", "tests"])
        lines = file.read_text().splitlines() if file.exists() else []
        self._verdicts = {verdict.key: verdict for verdict in (Verdict(**json.loads(line)) for line in lines)}

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """The outcome of a mutant; None if it is unknown or outdated."""
        verdict = self._verdicts.get(mutant.key)
        if verdict is None or verdict.module != self._digests.get(mutant.module):
            return None
        return verdict if verdict.tests == self._tests(verdict.by) else None

    def keep(self, mutant: Mutant, what: str, by: str) -> None:
        """Keep what came of a mutant."""
        verdict = Verdict(mutant.key, what, by, self._digests[mutant.module], self._tests(by))
        with self._lock:
            self._verdicts[mutant.key] = verdict
            with self._file.open("a") as file:
                file.write(json.dumps(asdict(verdict)) + "\n")

    def _tests(self, by: str) -> str:
        return self._digests.get(by.partition("::")[0], self._all)


def run(
    mutants: Iterable[Mutant],
    session: Session,
    reach: Reach,
    trees: Sequence[Tree],
    *,
    ends_at: float,
    say: Callable[[str], None],
) -> None:
    """Test mutants, as many at a time as there are trees, until all have a verdict or the time is over.

    Args:
        mutants: which.
        session: where the verdicts go.
        reach: the tests that see each.
        trees: copies of the checkout.
        ends_at: by the monotonic clock; what is under way then comes to its end.
        say: called with a line for each mutant.
    """
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        waiting.put(mutant)

    def work(tree: Tree) -> None:
        while time.monotonic() < ends_at:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            what, by = judge(tree, mutant, reach)
            if what != UNSURE:
                session.keep(mutant, what, by)
            say(f"{what:9} {mutant.key} {mutant.module}:{mutant.lines[0]} {time.monotonic() - began:.1f} s {by}")

    workers = [threading.Thread(target=work, args=(tree,)) for tree in trees]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def judge(tree: Tree, mutant: Mutant, reach: Reach) -> tuple[str, str]:
    """Test a mutant in a tree.

    A test with a clock in it also fails because the machine is busy. Its failure, and a run beyond its time limit,
    count only if a control run passes right afterwards: the same tests in the same tree without the mutant.

    Returns:
        The verdict and the test that failed. `unsure`: control runs failed too, or tests failed once and then passed.
    """
    mine, others = reach.tests_of(mutant)
    if not mine and not others:
        return UNREACHED, ""
    original = (tree.folder / mutant.module).read_text()
    try:
        for tests in (mine, others):
            what, by = _judge(tree, mutant, original, tests, reach)
            if what != SURVIVED:
                return what, by
    finally:
        tree.put(mutant.module, original)
    return SURVIVED, ""


def _judge(tree: Tree, mutant: Mutant, original: str, tests: list[str], reach: Reach) -> tuple[str, str]:
    by, attempts = "", _ATTEMPTS
    while tests and attempts:
        attempts -= 1
        limit = _STARTS_S + _SLOWER * sum(reach.seconds[test] for test in tests)
        tree.put(mutant.module, mutant.source)
        run = tree.test(tests, limit=limit, options=_PATIENCE)
        if run.passed:
            return SURVIVED, ""
        by = run.failed[0] if run.failed and not run.hung else ""
        if by.startswith(_NO_CLOCK):
            return KILLED, by
        if by in tests:
            tests = tests[tests.index(by) :]
            if tree.test([by], limit=limit, options=_PATIENCE).passed:
                tests = tests[1:]
                continue
        tree.put(mutant.module, original)
        if tree.test([by] if by in tests else tests, limit=limit, options=_PATIENCE).passed:
            return (KILLED if by else HUNG), by
    return (UNSURE, by) if tests else (SURVIVED, "")
