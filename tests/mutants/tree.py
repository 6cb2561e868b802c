"""Copies of the checkout in which mutants are put and tests are run, so that the checkout itself never changes."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.mutants.recorder import VARIABLE

_LEFT_BEHIND: Final = (".git", ".venv*", "build", "__pycache__", ".*_cache", ".hypothesis", "taskd_log", "found")


@dataclass(frozen=True, slots=True)
class Run:
    """What came of some tests.

    Args:
        failed: the tests that failed, as many as were waited for.
        hung: whether the run had to be ended.
        seconds: how long each test took.
        output: the end of what it printed.
    """

    failed: list[str]
    hung: bool
    seconds: dict[str, float]
    output: str


class Tree:
    """One copy.

    Args:
        checkout: what is copied.
        folder: where the copy is, or is going to be.
    """

    def __init__(self, checkout: Path, folder: Path) -> None:
        self.folder = folder
        self._record = folder.with_suffix(".jsonl")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(checkout, folder, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))

    def put(self, module: str, source: str) -> None:
        """Put this in the place of a module."""
        (self.folder / module).write_text(source)
        # What is compiled is known by its time in seconds and its size, which two mutants may have in common.
        shutil.rmtree((self.folder / module).parent / "__pycache__", ignore_errors=True)

    def test(self, tests: Sequence[str], *, limit: float, options: Sequence[str] = ()) -> Run:
        """Run tests one after another, until one fails, unless the options say otherwise.

        Args:
            tests: their names, or folders and modules.
            limit: seconds for all of them; then the run is ended.
            options: further ones of pytest's.
        """
        self._record.unlink(missing_ok=True)
        names, output = self.folder.with_suffix(".txt"), self.folder.with_suffix(".out")
        names.write_text("".join(f"{test}\n" for test in tests))
        command = [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-q", "-n", "0", "--tb=line", "-p", "tests.mutants.recorder"),
            *("-p", "no:cacheprovider", *options, f"@{names}"),
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), VARIABLE: str(self._record)}
        # Into a file: what a test has started may hold a pipe open for longer than the test lives.
        with output.open("w") as file:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        hung = False
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            _end(process.pid)
        process.wait()
        failed, seconds = self._read()
        # Ended by a signal, by the memory that it may take, before any test: no test has to say so.
        if not failed and process.returncode not in (0, 5) and not hung:
            failed = ["(the run itself)"]
        return Run(failed, hung, seconds, output.read_text(errors="replace")[-2000:])

    def _read(self) -> tuple[list[str], dict[str, float]]:
        failed: list[str] = []
        seconds: dict[str, float] = {}
        if self._record.exists():
            for line in self._record.read_text().splitlines():
                said = json.loads(line)
                seconds[said["test"]] = seconds.get(said["test"], 0.0) + said["seconds"]
                failed += [said["test"]] if said["failed"] else []
        return failed, seconds


def digest(checkout: Path, names: Sequence[str]) -> str:
    """A number that says whether these modules, and those in these folders, are the same."""
    found = hashlib.sha256()
    for name in names:
        path = checkout / name
        for module in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            found.update(module.relative_to(checkout).as_posix().encode() + b"\0" + module.read_bytes())
    return found.hexdigest()[:16]


def _end(group: int) -> None:
    """End a run with every process that its tests have started."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
