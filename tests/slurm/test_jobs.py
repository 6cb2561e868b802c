"""`taskd-net run` in batch scripts of a real Slurm: requeue, the time limit, and a lost node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slurm.play import RUN, STEP, Play
from tests.torch.cluster import PLAIN, SOON

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(400)]

SAVING = Path(__file__).with_name("saving.py")

LIMIT_S = 210.0
"""Seconds until Slurm has ended a job with a limit of two minutes. It sends the signal 30 to 90 s after the start."""


def launch(script: Path = PLAIN) -> str:
    """The line of a batch script that starts launchers."""
    return " ".join([*STEP, *RUN, "--nproc-per-node=2", str(script)])


def test_batch_script_without_srun_is_refused_in_one_line(play: Play) -> None:
    job = play.batch(" ".join([*RUN, str(PLAIN)]))
    play.until(lambda: play.about(job, "JobState") == "FAILED")
    assert play.about(job, "ExitCode") == "2:0"
    (line,) = play.said("batch").splitlines()
    assert (
        "Slurm batch script outside of srun: SLURM_JOB_NUM_NODES is 2: start it with srun --ntasks-per-node=1" in line
    )


def test_requeued_job_begins_clean_and_says_its_attempt(play: Play) -> None:
    job = play.batch(launch(), options=("--requeue",))
    play.workers(0)
    since = min(len(play.said(f"out-{node}")) for node in (0, 1))
    assert "attempt=0" in play.placed(0)
    play.cluster.ask("scontrol", "requeue", job)
    play.workers(0, since=since)
    for node in (0, 1):
        assert f"job_id={job}.0" in play.placed(node) and "attempt=1" in play.placed(node)
    play.until_said(f"job={job}.0#1", "out-0")
    play.finish()
    play.until(lambda: play.about(job, "JobState") == "COMPLETED")


def test_step_outlives_a_killed_launcher_and_another_step_brings_its_node_back(play: Play) -> None:
    """Slurm starts no task of a step again. The job ends with its script, so this one waits for the other step."""
    step = launch().replace("srun", "srun --kill-on-bad-exit=0", 1)
    job = play.batch(step, "code=$?", "until test -e all-have-ended; do sleep 0.1; done", "exit $code")
    play.workers(0)
    play.kill(play.launcher(1))
    play.until_said("n2: task 1: Killed", "batch")
    place = ("--nnodes=2", "--node-rank=1", "--master-addr=n1", f"--job-id={job}.0")
    other = (*STEP, f"--jobid={job}", "--overlap", "--nodes=1", "--nodelist=n2", "--output=out-1")
    returned = play.begin(*other, *RUN, "--nproc-per-node=2", *place, str(PLAIN))
    play.workers(1)
    play.finish()
    assert returned.wait(SOON) == 0, play.said()
    (play.folder / "all-have-ended").touch()
    play.until(lambda: play.about(job, "JobState") == "FAILED")
    assert play.about(job, "ExitCode") == "137:0"


def test_time_limit_leaves_time_for_a_checkpoint(play: Play) -> None:
    job = play.batch(launch(SAVING), options=("--time=2", "--signal=USR1@30"))
    pids = play.workers(0)
    play.until(lambda: len(list(play.folder.glob("checkpoint-*"))) == 4, LIMIT_S)
    assert play.about(job, "JobState") == "RUNNING"
    found = {rank: int((play.folder / f"checkpoint-{rank}").read_text()) for rank in range(4)}
    assert found == pids
    play.until(lambda: play.about(job, "JobState") == "TIMEOUT", LIMIT_S)
    for node in (0, 1):
        said = play.said(f"out-{node}")
        assert "taskd-net run: SIGTERM has come, and this node leaves" in said
        assert not any(lost in said for lost in ("manager_ended", "guardian_lost", "mgr_lost"))


def test_job_of_a_lost_node_is_queued_again(play: Play) -> None:
    """The node has no power for a time: Slurm notices its silence, and starts the job again when it is back."""
    job = play.batch(launch(), options=("--requeue",))
    play.workers(0)
    since = min(len(play.said(f"out-{node}")) for node in (0, 1))
    with play.cluster.without_power(1):
        play.until(lambda: play.about(job, "JobState") == "PENDING", LIMIT_S)
        assert "SIGTERM has come, and this node leaves" in play.said("out-0")
    play.workers(0, since=since)
    for node in (0, 1):
        assert f"job_id={job}.0" in play.placed(node) and "attempt=1" in play.placed(node)
    play.finish()
    play.until(lambda: play.about(job, "JobState") == "COMPLETED")


def test_job_that_is_not_killed_waits_for_its_lost_node(play: Play) -> None:
    play.variables["TASKD_NET_NODE_TIMEOUT"] = "5"
    job = play.batch(launch().replace("srun", "srun --no-kill", 1), "echo srun: $?", options=("--no-kill",))
    play.workers(0)
    with play.cluster.without_power(1):
        play.until_said("srun: 143", "batch", LIMIT_S)
    assert "srun: error: Node failure on n2" in play.said("batch")
    assert "taskd-net run: the job has ended: node 1 has not come within 5 s" in play.said("out-0")
    assert play.about(job, "Restarts") == "0"
