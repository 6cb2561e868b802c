"""Instructions of a launcher about restarts, beside the mode of its Manager."""

from __future__ import annotations

import pytest

from taskd_net.job.agent.agent import Told

PLATFORM = "the Manager leaves failed nodes to a platform, and restarts none of them (--restarts platform), whatever"
JOB = "the Manager restarts what fails (--restarts job), whatever"


@pytest.mark.parametrize(
    ("told", "restarts", "said"),
    [
        (Told(), False, ""),
        (Told(3), False, ""),
        (Told(3, "--max-restarts 3"), True, ""),
        (
            Told(3, "--max-restarts 3"),
            False,
            f"{PLATFORM} --max-restarts 3 says; this launcher follows it",
        ),
        (Told(None, "the address of ClusterD", job=False), False, ""),
        (
            Told(None, "the address of ClusterD", job=False),
            True,
            f"{JOB} the address of ClusterD says; this launcher follows it",
        ),
    ],
)
def test_a_launcher_objects_where_its_manager_does_the_other(told: Told, restarts: bool, said: str) -> None:
    assert told.objection(restarts=restarts) == said
