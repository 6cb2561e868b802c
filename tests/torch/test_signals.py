"""Signals of `taskd-net run`, in every state of a launcher: real processes, whose workers need no torch."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.manager.test_own_manager import await_end, children, command_line
from tests.torch.cluster import PLAIN, SOON
from tests.torch.two_nodes import Job, await_line

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    """A job whose launchers end with the test."""
    with Job(tmp_path) as made:
        yield made


def assert_reason_is_last(job: Job, node: int, number: signal.Signals) -> None:
    """One line is the end of a launcher that a signal has ended, in place of a traceback."""
    what = "the job ends" if number == signal.SIGINT else "this node leaves"
    assert job.last_words(node) == [f"{number.name} has come, and {what}"]
    assert "SignalException" not in job.out(node).read_text()


def status(number: signal.Signals) -> int:
    """The exit status of a launcher that a signal has ended: the other nodes of a SIGINT leave with 1, too."""
    return 1 if number == signal.SIGINT else 128 + number


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_launcher_that_waits_for_the_mgr_ends(job: Job, number: signal.Signals) -> None:
    job.start(1)
    await_line(job.out(1), "join_failed")
    began = time.monotonic()
    job.launchers[1].send_signal(number)
    assert job.launchers[1].wait(SOON) == status(number)
    assert time.monotonic() - began < 30.0, "the grace of workers"
    assert_reason_is_last(job, 1, number)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 2.0, 2.5, 3.0])
def test_sigint_in_the_first_seconds_of_a_launcher_ends_the_nodes_that_wait(job: Job, seconds: float) -> None:
    """It imports torch, claims its rank, joins, or meets the other one."""
    job.start(0)
    await_line(job.out(0), "waits_for_nodes")
    job.start(1)
    await_import(job.launchers[1].pid)
    time.sleep(seconds)
    job.launchers[1].send_signal(signal.SIGINT)
    assert job.statuses() == [1, 1]
    assert_reason_is_last(job, 1, signal.SIGINT)
    assert job.last_words(0) == ["the job has ended: node 1 has got 'SIGINT'"]


def test_sigint_that_no_manager_hears_of_is_said_so(job: Job) -> None:
    job.start(1)
    await_import(job.launchers[1].pid)
    job.launchers[1].send_signal(signal.SIGINT)
    assert job.launchers[1].wait(SOON) == 1
    assert_reason_is_last(job, 1, signal.SIGINT)
    assert "end_not_said" in job.out(1).read_text()


def test_second_sigint_in_the_first_seconds_ends_the_launcher_at_once(job: Job) -> None:
    job.start(1)
    await_import(job.launchers[1].pid)
    while job.launchers[1].poll() is None:  # two that come while a library is loaded count as one
        job.launchers[1].send_signal(signal.SIGINT)
        time.sleep(0.1)
    assert job.launchers[1].wait(SOON) == 128 + signal.SIGINT


def await_import(pid: int) -> None:
    """Wait until a launcher imports torch; it has taken SIGINT over from Python before."""
    give_up_at = time.monotonic() + SOON
    while "/torch/" not in Path(f"/proc/{pid}/maps").read_text():
        assert time.monotonic() < give_up_at
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_launcher_that_waits_for_nodes_ends_with_its_manager(job: Job, number: signal.Signals) -> None:
    job.start(0)
    await_line(job.out(0), "waits_for_nodes")
    (manager,) = (pid for pid in children(job.launchers[0].pid) if b"--until-eof" in command_line(pid))
    began = time.monotonic()
    job.launchers[0].send_signal(number)
    assert job.launchers[0].wait(SOON) == status(number)
    await_end(manager)
    assert time.monotonic() - began < 30.0
    assert_reason_is_last(job, 0, number)


@pytest.mark.parametrize("node", [0, 1])
def test_sigint_in_training_ends_all_nodes(job: Job, node: int) -> None:
    for each in (0, 1):
        job.start(each)
    before = job.workers(0)
    job.launchers[node].send_signal(signal.SIGINT)
    assert job.statuses() == [1, 1]
    for pid in before.values():
        await_end(pid)
    assert_reason_is_last(job, node, signal.SIGINT)
    assert job.last_words(1 - node) == [f"the job has ended: node {node} has got 'SIGINT'"]


def test_sigterm_at_a_node_lets_the_others_wait_for_its_return(job: Job) -> None:
    """No restart is counted: none is allowed here."""
    for node in (0, 1):
        job.start(node, "--max-restarts=0")
    job.workers(0)
    job.launchers[1].send_signal(signal.SIGTERM)
    assert job.launchers[1].wait(SOON) == 143
    assert_reason_is_last(job, 1, signal.SIGTERM)
    await_line(job.out(0), "waits_for_nodes")
    # In a meeting, the same: the node that is left goes, and both come again.
    job.start(1, "--max-restarts=0")
    job.workers(1)
    job.finish()
    assert job.statuses() == [0, 0]


def test_sigint_in_a_meeting_ends_the_job(job: Job) -> None:
    for node in (0, 1):
        job.start(node)
    job.workers(0)
    job.launchers[1].kill()
    await_line(job.out(0), "waits_for_nodes")
    job.launchers[0].send_signal(signal.SIGINT)
    assert job.launchers[0].wait(SOON) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_launcher_that_has_finished_ends_while_it_waits_for_the_others(job: Job, number: signal.Signals) -> None:
    for node in (0, 1):
        job.start(node)
    job.workers(0)
    for rank in (2, 3):
        (job.folder / f"end-{rank}").write_text("0\n")
    await_line(job.out(1), "waits_for_release")
    job.launchers[1].send_signal(number)
    assert job.launchers[1].wait(SOON) == status(number)
    assert_reason_is_last(job, 1, number)
    job.finish()
    assert job.launchers[0].wait(SOON) == (1 if number == signal.SIGINT else 0)


def test_second_sigint_ends_the_launcher_at_once(job: Job) -> None:
    """Its workers ignore all that can be ignored; the guardian ends them."""
    script = stubborn(job.folder)
    for node in (0, 1):
        job.start(node, script=script)
    before = job.workers(0)
    job.launchers[1].send_signal(signal.SIGINT)
    await_line(job.out(0), "command code=203")
    assert job.launchers[1].poll() is None, "its workers have 30 s"
    job.launchers[1].send_signal(signal.SIGINT)
    assert job.launchers[1].wait(SOON) == 128 + signal.SIGINT
    for pid in before.values():
        await_end(pid)


def test_workers_that_ignore_sigterm_are_killed_after_their_grace(job: Job) -> None:
    script = stubborn(job.folder)
    for node in (0, 1):
        job.start(node, "--shutdown-timeout=2", script=script)
    before = job.workers(0)
    began = time.monotonic()
    job.launchers[1].send_signal(signal.SIGTERM)
    assert job.launchers[1].wait(SOON) == 143
    assert 2.0 < time.monotonic() - began < 20.0
    for rank in (2, 3):
        await_end(before[rank])


def stubborn(folder: Path) -> Path:
    """A script of workers that ignore SIGINT and SIGTERM."""
    script = folder / "stubborn.py"
    lines = ["import runpy, signal", *(f"signal.signal({number}, signal.SIG_IGN)" for number in (2, 15))]
    script.write_text("\n".join([*lines, f"runpy.run_path({str(PLAIN)!r})", ""]))
    return script


def test_signals_of_users_end_no_launcher(job: Job) -> None:
    job.start(1)
    await_line(job.out(1), "join_failed")
    job.launchers[1].send_signal(signal.SIGUSR2)
    await_line(job.out(1), "no worker runs")
    job.start(0)
    job.workers(0)
    job.launchers[1].send_signal(signal.SIGUSR1)
    await_line(job.out(1), "ranks=2,3")
    job.finish()
    assert job.statuses() == [0, 0]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signal_to_all_processes_of_a_tree_and_back(job: Job, number: signal.Signals) -> None:
    """All start once more, and count that once, also where the Manager has called to a round before it has ended."""
    for node in (0, 1):
        job.start(node)
    job.workers(0)
    tree = [job.launchers[0].pid]
    for pid in tree:
        tree += children(pid)
    for pid in tree:
        os.kill(pid, number)
    assert job.launchers[0].wait(SOON) in (status(number), -number)
    job.start(0)
    job.workers(1)
    job.finish()
    assert job.statuses() == [0, 0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a namespace of processes here")
def test_launcher_that_is_the_first_process_ends_by_sigterm(job: Job) -> None:
    command = [
        "unshare",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
        sys.executable,
        "-m",
        "taskd_net.cli",
        "run",
    ]
    with (
        job.out(0).open("ab") as out,
        subprocess.Popen([*command, "--standalone", str(PLAIN)], cwd=job.folder, stdout=out, stderr=out) as process,
    ):
        await_line(job.out(0), " 0 0 1 0 pod\n")
        (first,) = children(process.pid)
        os.kill(first, signal.SIGTERM)
        assert process.wait(SOON) == 143
    assert "SIGTERM has come, and this node leaves" in job.out(0).read_text()
