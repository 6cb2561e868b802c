"""Two simulated pods: names that come late, addresses that change, and launchers that are first processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

import psutil
import pytest

from benchmarks.supervision.outcome import SUCCEEDS, see
from benchmarks.supervision.rows import Due
from tests.supervision.plays import BY_NAME, STAND_IN
from tests.supervision.pods import PodsJob, leaves_in_each_wait, why_not

REASON = why_not()
pytestmark = [pytest.mark.skipif(bool(REASON), reason=REASON), pytest.mark.timeout(180)]

GIVEN_UP_S = 20.0
"""Seconds from the loss of a node until all ranks step again, with a pod that is there at once. TCP takes minutes."""


def outcome(job: PodsJob, due: Due) -> float:
    """Check that the job trains on, and ends well. Returns the seconds until it trains."""
    seen = see(BY_NAME["launcher-1"], STAND_IN, 0, job, due)
    assert seen.outcome == SUCCEEDS, seen.words
    return seen.seconds


def trains(job: PodsJob) -> None:
    """Start the job, and wait until it trains."""
    for node in (0, 1):
        job.know(node)
    job.start()
    job.until_training(10)


def test_name_that_comes_after_20_seconds() -> None:
    """The Manager listens before its name is known. The others say for whom they wait, at once and every 30 s."""
    with PodsJob(STAND_IN) as job:
        job.start()
        for node in (0, 1):
            job.says(node, "the name train-node-0-0.train is not known yet")
        time.sleep(20.0)
        since = time.monotonic()
        job.know(0)
        assert outcome(job, Due(since)) < GIVEN_UP_S


@pytest.mark.parametrize("node", [0, 1])
def test_address_of_a_node_that_changes_in_training(node: int) -> None:
    """Packets to the old address are lost, as to a host that is gone."""
    with PodsJob(STAND_IN) as job:
        trains(job)
        since = time.monotonic()
        job.lose(node)
        job.replace(node)
        job.know(node)
        job.start(node)
        ranks = tuple(job.of_node(node))
        assert outcome(job, Due(since, fresh=ranks)) < GIVEN_UP_S


def test_sigterm_to_the_first_process_in_each_wait() -> None:
    with PodsJob(STAND_IN) as job:
        leaves_in_each_wait(job)


def test_first_process_reaps_orphans_and_says_which_signal_has_ended_the_launcher() -> None:
    with PodsJob(STAND_IN) as job:
        trains(job)
        first = job.first_process(0)
        inside = ["nsenter", f"--target={first.pid}", "--pid", "sh", "-c", "sleep 1 &"]
        subprocess.run(inside, check=True)
        job.until(lambda: orphans(first) > 0, "no orphan")
        job.until(lambda: not orphans(first), "an orphan is left")
        assert job.launchers[0].poll() is None
        (launcher,) = (each for each in first.children() if "mgr" not in each.cmdline())
        os.kill(launcher.pid, signal.SIGKILL)
        assert job.launchers[0].wait(60) == 128 + signal.SIGKILL


def orphans(first: psutil.Process) -> int:
    """The children of a pod's first process that are no launcher, also those that have ended."""
    found = 0
    for each in first.children():
        with suppress(psutil.NoSuchProcess):  # reaped meanwhile
            found += each.name() == "sleep"
    return found


@pytest.mark.parametrize("own", ["127.0.1.1 train-node-0-0.train train-node-0-0"])
def test_name_that_is_a_loopback_address_on_its_own_host(own: str) -> None:
    """Debian's `/etc/hosts` has such a line, and the other nodes have another address."""
    with PodsJob(STAND_IN, own={0: own}) as job:
        trains(job)
        since = time.monotonic()
        outcome(job, Due(since))
