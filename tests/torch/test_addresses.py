"""`taskd-net run` in two pods: names that come late or lead elsewhere, and a pod that comes back at another address."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from benchmarks.supervision.__main__ import OURS
from benchmarks.supervision.job import Column, Place
from benchmarks.supervision.outcome import SUCCEEDS, see
from benchmarks.supervision.rows import Due
from tests.supervision.plays import BY_NAME
from tests.supervision.pods import PodsJob, leaves_in_each_wait, why_not

REASON = why_not()
pytestmark = [pytest.mark.skipif(bool(REASON), reason=REASON), pytest.mark.timeout(300)]


GIVEN_UP_S = 40.0
"""Seconds until all ranks step again, most of them for the import of torch. TCP takes minutes."""


SAME, REJOINS = OURS
WITH_STATE = replace(REJOINS, variables={**REJOINS.variables, "TASKD_NET_STATE": "state.sqlite3"})


@pytest.mark.parametrize(
    ("node", "column", "kept"),
    [(0, SAME, False), (1, SAME, False), (0, REJOINS, False), (1, REJOINS, True), (0, WITH_STATE, True)],
    ids=["0-same-script", "1-same-script", "0-rejoins", "1-rejoins", "0-rejoins-with-state"],
)
def test_training_goes_on_with_a_pod_at_another_address(node: int, column: Column, *, kept: bool) -> None:
    """Packets to the old address are lost, and ranks wait in collectives for them.

    With its host node 0 has lost the Manager's state, unless that is elsewhere. All start again then, also where they
    rejoin.

    Args:
        node: its pod changes.
        column: launcher and script.
        kept: the other ranks keep their processes.
    """
    with PodsJob(column) as job:
        for each in (0, 1):
            job.know(each)
        job.start()
        job.until_training(10)
        ranks, others, since = tuple(job.of_node(node)), job.of_node(1 - node), time.monotonic()
        before = [job.pid(rank) for rank in others]
        job.lose(node)
        job.replace(node)
        job.know(node)
        job.start(node)
        outcome = see(BY_NAME["launcher-1"], column, 0, job, Due(since, fresh=ranks))
        assert outcome.outcome == SUCCEEDS, outcome.words
        assert outcome.seconds < GIVEN_UP_S
        assert ([job.pid(rank) for rank in others] == before) is kept


SERVICE = "first-node-of-train"


def run(place: Place) -> list[str]:
    """The command of `taskd-net run`, whose nodes know node 0 by the name of a service."""
    module = ["-m", "taskd_net.cli", "run", f"--node-rank={place.node}", f"--master-addr={SERVICE}"]
    return [*module, f"--mgr-port={place.mgr}", f"--job-id={place.name}", *place.options]


def test_manager_is_started_when_the_name_of_its_service_leads_to_node_0() -> None:
    """It has led to a pod of before, so node 0 could not know that the Manager is its own."""
    column = Column("service", run)
    with PodsJob(column) as job:
        before = job.pods[0]
        job.know(0, SERVICE)
        job.replace(0)
        job.start()
        for node in (0, 1):
            job.says(node, "join_failed")
        assert before is not job.pods[0] and "starts_manager" not in job.words()
        since = time.monotonic()
        job.know(0, SERVICE)
        outcome = see(BY_NAME["launcher-1"], column, 0, job, Due(since))
        assert outcome.outcome == SUCCEEDS, outcome.words


def without_ranks(place: Place) -> list[str]:
    """The command of `taskd-net run` whose nodes get their ranks."""
    module = ["-m", "taskd_net.cli", "run", "--rdzv-backend=c10d", f"--rdzv-endpoint={place.host}:29400"]
    return [*module, f"--mgr-port={place.mgr}", f"--job-id={place.name}", *place.options]


def test_nodes_without_ranks_train_when_the_name_of_the_endpoint_comes() -> None:
    """The host of the endpoint knows itself by its own name, and its store has an address that others reach."""
    column = Column("without ranks", without_ranks)
    with PodsJob(column) as job:
        job.start()
        for node in (0, 1):
            job.says(node, "the name train-node-0-0.train is not known yet")
        since = time.monotonic()
        job.know(0)
        outcome = see(BY_NAME["launcher-1"], column, 0, job, Due(since))
        assert outcome.outcome == SUCCEEDS, outcome.words


def test_name_that_is_a_loopback_address_on_its_own_host() -> None:
    """Debian's `/etc/hosts` has such a line. gloo looks its own host up, too, and is told of the interface."""
    column = replace(SAME, variables={"GLOO_SOCKET_IFNAME": "eth0"})
    with PodsJob(column, own={0: "127.0.1.1 train-node-0-0.train train-node-0-0"}) as job:
        job.know(0)
        since = time.monotonic()
        job.start()
        outcome = see(BY_NAME["launcher-1"], column, 0, job, Due(since))
        assert outcome.outcome == SUCCEEDS, outcome.words


def test_sigterm_to_the_first_process_of_a_pod_in_each_wait() -> None:
    with PodsJob(SAME) as job:
        leaves_in_each_wait(job)
