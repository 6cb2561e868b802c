"""Books of a real run: its Manager is killed while a checkpoint is saved, and a rank afterwards."""

from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from taskd_net.observe.document import Document
from tests.manager.test_own_manager import children, command_line
from tests.torch.cluster import SOON
from tests.torch.two_nodes import Job

SCRIPT = Path(__file__).parent / "booked.py"
RANKS = range(4)
NEAR_S = 0.3


def shown(job: Job, true: Callable[[Document], object]) -> Document:
    """The state of the job, once a condition holds."""
    give_up_at, last = time.monotonic() + SOON, ""
    while time.monotonic() < give_up_at:
        if found := re.search(r"starts_manager address=(\S+)", job.out(0).read_text()):
            command = [sys.executable, "-m", "taskd_net.cli", "job", "--json", "--at", found[1]]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SOON)
            last = done.stdout + done.stderr
            if done.returncode in (0, 1):
                document: Document = json.loads(done.stdout)
                if true(document):
                    return document
        select.select([], [], [], 0.2)
    raise AssertionError(last + job.out(0).read_text())


def lines(job: Job, name: str, rank: int) -> list[str]:
    return (job.folder / f"{name}-{rank}").read_text().splitlines()


def test_books_add_up_over_a_killed_manager_and_a_killed_rank(tmp_path: Path) -> None:
    with Job(tmp_path) as job:
        for node in (0, 1):
            job.start(node, script=SCRIPT)
        give_up_at = time.monotonic() + SOON
        while not (tmp_path / "in-checkpoint").exists():
            assert time.monotonic() < give_up_at, job.out(0).read_text()
            select.select([], [], [], 0.05)
        (manager,) = (pid for pid in children(job.launchers[0].pid) if b"--until-eof" in command_line(pid))
        os.kill(manager, signal.SIGKILL)
        found = shown(job, lambda each: each["books"] and each["books"]["seconds"].get("waiting", 0.0) > 1.5)
        (tmp_path / "end").touch()
        assert job.statuses() == [0, 0]
    books, (failure,) = found["books"], found["failures"]
    seconds, truth = books["seconds"], dict[str, float]()
    for name, its in map(str.split, lines(job, "spent", 0)):
        truth[name] = truth.get(name, 0.0) + float(its)
    assert sum(seconds.values()) == pytest.approx(books["wall"], abs=0.02)
    assert {name: seconds[name] for name in ("data", "evaluation", "checkpoint")} == pytest.approx(
        {name: truth[name] for name in ("data", "evaluation", "checkpoint")}, abs=NEAR_S
    )
    assert seconds["load"] + seconds["loaded"] == pytest.approx(truth["load"], abs=2 * NEAR_S)
    assert seconds.get("unknown", 0.0) <= 0.02 * books["wall"]
    done = [[int(step) for step in lines(job, "done", rank)] for rank in RANKS]
    most = max(done, key=len)
    restart = most.index(13, 14)
    highest = max(max(steps[: steps.index(13, 14)]) for steps in done)
    again = sum(step <= highest for step in most[restart:])
    assert (books["again"], books["step"], books["of"]) == (again, 29, 29)
    assert books["done"] == len(most)
    assert seconds["steps"] + seconds["again"] == pytest.approx(0.1 * len(most), abs=1.0)
    assert failure["stepped"] and failure["phases"].keys() >= {"restarted", "loaded"}
