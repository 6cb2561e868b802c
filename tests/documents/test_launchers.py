"""docs/training.md says what schedulers do at a loss: each row of its table has plays, or the source of its words."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tests.documents.pages import PAGES, ROOT

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")

STEPS: Final = "tests/slurm/test_steps.py"
JOBS: Final = "tests/slurm/test_jobs.py"
MANIFESTS: Final = "tests/torch/test_manifests.py"
MPI: Final = "tests/slurm/test_mpi.py"

PLAYS: Final = {
    "Slurm": (
        f"{STEPS}::test_killed_rank_is_restarted",
        f"{STEPS}::test_without_the_return_of_a_launcher_the_others_leave",
        f"{STEPS}::test_kill_on_bad_exit_ends_the_step_at_once",
        f"{STEPS}::test_loop_around_the_command_brings_a_killed_launcher_back",
        f"{STEPS}::test_same_failure_twice_ends_the_step_with_65",
        f"{STEPS}::test_scancel_ends_all",
        f"{JOBS}::test_job_of_a_lost_node_is_queued_again",
        f"{JOBS}::test_job_that_is_not_killed_waits_for_its_lost_node",
        f"{JOBS}::test_requeued_job_begins_clean_and_says_its_attempt",
        f"{JOBS}::test_time_limit_leaves_time_for_a_checkpoint",
    ),
    "JobSet, Kubeflow Trainer, Volcano": (
        f"{MANIFESTS}::test_evicted_pod_starts_again_alone_and_the_other_one_waits_for_it",
        f"{MANIFESTS}::test_failure_that_would_come_again_ends_all_pods_with_the_code_of_the_policies",
        "tests/deploy/test_kubernetes.py::test_jobset_starts_all_pods_again_unless_the_failure_would_come_again",
        "tests/deploy/test_kubernetes.py::test_volcano_asks_for_the_exit_code_before_it_starts_all_pods_again",
    ),
    "Open MPI, MPICH, Intel MPI": (
        f"{MPI}::test_processes_on_two_hosts_become_one_training",
        f"{MPI}::test_killed_launcher_ends_all",
    ),
}
"""Tests of rows that were played, by row."""

SOURCES: Final = {
    "indexed Job": "the source of Kubernetes, its controller of Jobs, and Kueue's documents",
    "PyTorchJob": "Kubeflow's Training Operator 1.9.0: its reconciler, with the exit codes 0 to 255",
    "SkyPilot": "SkyPilot's documents of managed jobs",
    "dstack": "dstack's source: the runner's end of a job, and `retry` of its documents",
}
"""Sources of the other rows."""


def rows() -> list[str]:
    """The first column of the table about losses."""
    text = (ROOT / "docs" / "training.md").read_text()
    _, _, table = text.partition("| started by | a launcher or its node is lost |")
    return re.findall(r"(?m)^\| ([^|]+) \|", table.partition("\n\n")[0])


def test_each_row_has_plays_or_a_source() -> None:
    assert sorted(rows()) == sorted([*PLAYS, *SOURCES])


@pytest.mark.parametrize("play", [play for plays in PLAYS.values() for play in plays])
def test_play_is_there(play: str) -> None:
    path, _, name = play.partition("::")
    assert re.search(rf"(?m)^def {name}\(", (ROOT / path).read_text()), play
