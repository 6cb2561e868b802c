"""The measure `training` that is interrupted: everything that it has started ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from benchmarks.processes import ROOT
from benchmarks.training.guard import GRACE_S
from tests.benchmarks.endless import ENDLESS
from tests.polling import until

pytestmark = pytest.mark.more

SOON = 30.0


class Measured:
    """The measure in a process, with a Manager, a launcher and a training process, all endless and deaf to signals."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
        # A parent that can be killed without the test. Its child hears the hang-up, also if the tests run under nohup.
        heard = "import signal, subprocess, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL)"
        parent = f"{heard}; sys.exit(subprocess.call([sys.executable, '-m', {ENDLESS!r}, 'bench']))"
        self.parent = subprocess.Popen([sys.executable, "-c", parent], env=environment, stderr=subprocess.DEVNULL)
        asyncio.run(until(lambda: len(self.below()) == 3, SOON))
        (child,) = Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split()
        self.pid = int(child)

    def below(self) -> list[int]:
        """The processes that work in a folder of the measure."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (path / "cwd").readlink().parent == self.folder:
                    found.append(int(path.name))
        return found


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Measured]:
    """The measure, while it waits for the training."""
    made = Measured(tmp_path.resolve())
    yield made
    made.parent.kill()
    made.parent.wait()
    for pid in made.below():
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_a_measure_that_is_interrupted(number: signal.Signals, measured: Measured) -> None:
    os.kill(measured.pid, number)
    asyncio.run(until(lambda: not measured.below(), GRACE_S))
    code = -number if number == signal.SIGKILL else 128 + number
    assert measured.parent.wait(SOON) == code % 256
    asyncio.run(until(lambda: not list(measured.folder.iterdir()), GRACE_S))


def test_nothing_is_left_of_a_measure_whose_parent_is_killed(measured: Measured) -> None:
    measured.parent.kill()
    asyncio.run(until(lambda: not measured.below() and not list(measured.folder.iterdir()), GRACE_S))
    # The interpreter's own end has no bound of ours.
    asyncio.run(until(lambda: not Path(f"/proc/{measured.pid}").exists(), SOON))
