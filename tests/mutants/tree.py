"""Copies of the checkout to put mutants into and to run tests in, so that the checkout itself never changes."""

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
from time import sleep
from typing import Final

from tests.mutants.recorder import VARIABLE

TESTS: Final = (
    "tests/core", "tests/links", "tests/transport", "tests/simulation", "tests/wire", "tests/observe", "tests/tls",
    "tests/test_node.py", "tests/test_lifecycle.py", "tests/test_sending.py", "tests/test_retry.py", "tests/scenarios",
    "tests/security",
)  # fmt: skip
"""The quick tests: those of the mutated rooms themselves, and those through sockets that need no processes."""

_LEFT_BEHIND: Final = (".git", ".venv*", "build", "__pycache__", ".*_cache", ".hypothesis", "taskd_log", "found")


_LOOK_S: Final = 0.2
"""Seconds between two looks for the file that pauses the runs."""


@dataclass(frozen=True, slots=True)
class Run:
    """Result of a test run.

    Args:
        failed: the tests that failed before the run stopped.
        hung: whether the run reached its time limit.
        seconds: duration of each test.
        output: the end of its output.
    """

    failed: list[str]
    hung: bool
    seconds: dict[str, float]
    output: str

    @property
    def passed(self) -> bool:
        """True if all tests passed within the time limit."""
        return not self.failed and not self.hung


class Tree:
    """One copy.

    Args:
        checkout: the folder to copy.
        folder: the folder of the copy; an older copy there is replaced.
        pause: no run begins while this file exists.
    """

    def __init__(self, checkout: Path, folder: Path, pause: Path | None = None) -> None:
        self.folder = folder
        self._pause = pause
        self._record = folder.with_suffix(".jsonl")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(checkout, folder, ignore=shutil.ignore_patterns(*_LEFT_BEHIND))

    def put(self, module: str, source: str) -> None:
        """Replace a module."""
        (self.folder / module).write_text(source)
        # Compiled modules are known by time in seconds and size, which two mutants may have in common.
        shutil.rmtree((self.folder / module).parent / "__pycache__", ignore_errors=True)

    def test(self, tests: Sequence[str], *, limit: float, options: Sequence[str] = ()) -> Run:
        """Run tests one after another until one fails, unless the options say otherwise.

        Args:
            tests: names of tests, folders or modules.
            limit: seconds for all of them, without the pause before the run; then the run is ended.
            options: further options of pytest.
        """
        while self._pause is not None and self._pause.exists():
            sleep(_LOOK_S)
        self._record.unlink(missing_ok=True)
        names, output = self.folder.with_suffix(".txt"), self.folder.with_suffix(".out")
        names.write_text("".join(f"{test}\n" for test in tests))
        command = [
            *(sys.executable, "-m", "pytest", "-x", "-q", "-q", "-n", "0", "--tb=line", "-p", "tests.mutants.recorder"),
            *("-m", "not long and not matrix and not mixed"),  # those of `make more`, too
            *("-p", "no:cacheprovider", *options, f"@{names}"),
        ]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), VARIABLE: str(self._record)}
        # Into a file: processes that outlive their test would hold a pipe open.
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
        # A run that died of a signal or of its memory limit has recorded no failed test.
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
