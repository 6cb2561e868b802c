"""`taskd-net run` as steps of a real Slurm: what its launchers know, and what becomes of a fault."""

from __future__ import annotations

import json

import pytest

from tests.slurm.cluster import ROOT
from tests.slurm.play import RUN, STEP, Play
from tests.torch.cluster import FAILING, PLAIN, SOON

TRAINING = ROOT / "taskd_net" / "torch" / "small_training.py"

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(240)]


def test_launchers_of_a_step_become_one_training(play: Play) -> None:
    srun = play.srun()
    play.workers(0)
    job = play.job()
    for node in (0, 1):
        for fact in ('platform="Slurm step"', f"node_rank={node}", "nodes=2", "first_host=n1", f"job_id={job}.0"):
            assert fact in play.placed(node)
    assert play.said().count("starts_manager") == 1
    play.finish()
    assert srun.wait(SOON) == 0


def test_killed_rank_is_restarted(play: Play) -> None:
    srun = play.srun()
    play.kill(play.workers(0)[3])
    play.workers(1)
    play.finish()
    assert srun.wait(SOON) == 0


def test_training_of_torch_goes_on_in_place_after_the_loss_of_a_rank(play: Play) -> None:
    steps = 60
    srun = play.srun(script=TRAINING, arguments=(f"--steps={steps}", "--pause=0.1"))
    play.until(lambda: play.said("steps-3").count("\n") >= 5)
    play.kill(json.loads(play.said("steps-3").splitlines()[-1])["pid"])
    assert srun.wait(2 * SOON) == 0, play.said()
    kept, other = ([json.loads(line) for line in play.said(f"steps-{rank}").splitlines()] for rank in (0, 3))
    assert [each["step"] for each in kept if each["epoch"] == kept[-1]["epoch"]][-1] == steps - 1
    assert (len({each["pid"] for each in kept}), len({each["pid"] for each in other})) == (1, 2)


def test_same_failure_twice_ends_the_step_with_65(play: Play) -> None:
    (play.folder / "fail-3").write_text("raise ValueError('a bug')\n")
    srun = play.srun(script=FAILING)
    assert srun.wait(SOON) == 65, play.said()
    for node in (0, 1):
        assert "taskd-net run: the job has ended: the same failure twice in a row" in play.said(f"out-{node}")


def test_loop_around_the_command_brings_a_killed_launcher_back(play: Play) -> None:
    again = 'while :; do "$@"; code=$?; [ $code -eq 137 ] || exit $code; done'
    srun = play.begin(*STEP, "--nodes=2", "sh", "-c", again, "again", *RUN, "--nproc-per-node=2", str(PLAIN))
    play.workers(0)
    play.kill(play.launcher(1))
    play.workers(1)
    play.finish()
    assert srun.wait(SOON) == 0, play.said()


def test_without_the_return_of_a_launcher_the_others_leave(play: Play) -> None:
    play.variables["TASKD_NET_NODE_TIMEOUT"] = "5"
    srun = play.srun("--kill-on-bad-exit=0")
    play.workers(0)
    play.kill(play.launcher(1))
    assert srun.wait(SOON) == 137, play.said()
    assert "taskd-net run: the job has ended: node 1 has not come within 5 s" in play.said("out-0")
    assert "n1: task 0: Exited with exit code 143" in play.said("said")


def test_kill_on_bad_exit_ends_the_step_at_once(play: Play) -> None:
    srun = play.srun("--kill-on-bad-exit=1")
    play.workers(0)
    play.kill(play.launcher(1))
    assert srun.wait(SOON) == 137, play.said()
    assert "n1: task 0: Exited with exit code 143" in play.said("said")
    assert "waits_for_nodes" not in play.said("out-0")


def test_scancel_ends_all(play: Play) -> None:
    srun = play.srun()
    play.workers(0)
    play.cluster.ask("scancel", play.job())
    assert srun.wait(SOON) == 143, play.said()
    for node in (0, 1):
        assert "taskd-net run: SIGTERM has come, and this node leaves" in play.said(f"out-{node}")


def test_step_on_one_node_of_two_is_one_node(play: Play) -> None:
    step = ("srun", "--nodes=1", "--ntasks=1", "--nodelist=n2", "--output=out-%n", *RUN, "--nproc-per-node=2")
    salloc = play.begin("salloc", "--nodes=2", "--ntasks-per-node=1", *step, str(PLAIN))
    play.workers(0, world=2)
    assert 'platform="Slurm step" node_rank=0 nodes=1' in play.placed(0)
    assert play.launcher(1)
    play.finish()
    assert salloc.wait(SOON) == 0


def test_shell_of_salloc_is_no_launcher_and_srun_from_it_is(play: Play) -> None:
    show = " ".join([*RUN, "--show-launcher", "--json"])
    assert play.begin("salloc", "--nodes=2", "--ntasks-per-node=1", "sh", "-c", f"{show}; srun {show}").wait(SOON) == 0
    shell, *step = (json.loads(line) for line in play.said("said").splitlines() if line.startswith("{"))
    assert (shell["platform"], shell["node_rank"], shell["nodes"]) == (None, 0, 1)
    assert sorted((each["platform"], each["node_rank"], each["nodes"], each["first_host"]) for each in step) == [
        *(("Slurm step", rank, 2, "n1") for rank in (0, 1))
    ]


def test_several_launchers_of_a_node_are_refused(play: Play) -> None:
    srun = play.begin("srun", "--nodes=2", "--ntasks-per-node=2", "--output=out-%t", *RUN, str(PLAIN))
    assert srun.wait(SOON) == 2
    for task in range(4):
        (line,) = (play.folder / f"out-{task}").read_text().splitlines()
        assert line.endswith(
            "Slurm step starts several launchers on a node: SLURM_STEP_NUM_TASKS is 4, and SLURM_STEP_NUM_NODES is 2: "
            "expected srun --ntasks-per-node=1"
        )
