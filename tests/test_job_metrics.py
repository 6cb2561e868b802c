"""The counters of a Manager for Prometheus."""

from __future__ import annotations

import pytest

from taskd_net import Node
from taskd_net.faces.job_metrics import job_metrics
from taskd_net.job.manager import ManagerConfig
from taskd_net.observe.job_view import BooksView, JobView
from tests.manager.cluster import agent, leaves, managed
from tests.metrics import samples
from tests.observe.jobs import AT, IN_ETCD, WHOLE
from tests.polling import until


async def scrape(node: Node) -> dict[str, float]:
    """The samples about the job, with the values of their labels but the buckets'."""
    return {
        ",".join([sample.name.removeprefix("taskd_net_job"), *sample.labels.values()]): sample.value
        for sample in await samples(node)
        if sample.name.startswith("taskd_net_job") and "le" not in sample.labels
    }


async def test_a_round_is_counted() -> None:
    async with managed(ManagerConfig(job_id="J")) as (node, manager), leaves(node, agent(0), agent(1)) as (zero, one):
        assert "_restarts_left" not in await scrape(node), "no Agent has said it yet"
        for each in (zero, one):
            await each.register()
            await each.command()
        await one.fault(1)
        await one.command(), await zero.command()
        await until(lambda: manager.view().counters.acknowledged == 4)
        found = await scrape(node)
    assert found[",J"] == 1
    assert (found["_restarts_left"], found["_rounds_total"]) == (2, 1)
    assert (found["_decisions_total,PodReschedulingPlugin"], found["_agents,trouble"]) == (1, 1)
    assert (found["_commands_total"], found["_acknowledged_commands_total"], found["_lost_commands_total"]) == (4, 4, 0)
    assert found["_fault_to_command_seconds_count"] == 1 and 0 < found["_fault_to_command_seconds_sum"] < 10
    assert (found["_streams_owned"], found["_state_durable"], found["_plugins_off"]) == (1, 1, 0)


async def test_a_node_without_a_manager_has_none() -> None:
    async with managed(ManagerConfig(job_id="J")) as (node, manager):
        await manager.close()
        assert await scrape(node) == {}


@pytest.mark.parametrize("job", [WHOLE, JobView()], ids=["whole", "empty"])
def test_buckets_grow_up_to_the_count(job: JobView) -> None:
    (times,) = (metric for metric in job_metrics(job) if metric.name == "taskd_net_job_fault_to_command_seconds")
    buckets = [sample.value for sample in times.samples if sample.name.endswith("_bucket")]
    assert buckets == sorted(buckets) and buckets[-1] == job.counters.fault_to_command_count


def test_a_state_in_trouble_is_seen() -> None:
    found = {sample.name: sample.value for metric in job_metrics(WHOLE) for sample in metric.samples}
    assert (found["taskd_net_job_state_durable"], found["taskd_net_job_plugins_off"]) == (0, 1)
    assert (found["taskd_net_job_store_failures_total"], found["taskd_net_job_paused"]) == (1, 1)
    assert found["taskd_net_job_ended"] == 1


def test_job_that_goes_on_has_not_ended() -> None:
    found = {sample.name: sample.value for metric in job_metrics(JobView()) for sample in metric.samples}
    assert found["taskd_net_job_ended"] == 0


def test_leader_of_a_job_with_its_state_in_etcd() -> None:
    found = {
        ",".join([sample.name.removeprefix("taskd_net_job"), *sample.labels.values()]): sample.value
        for metric in job_metrics(IN_ETCD)
        for sample in metric.samples
        if "leader" in sample.name or "commit_" in sample.name
    }
    assert found == {
        "_leader_since_timestamp_seconds,10.0.0.7:9601": AT - 200, "_leader_decides": 1,
        "_leader_changes_total,J": 2, "_last_commit_timestamp_seconds": AT - 3,
    }  # fmt: skip
    assert not [metric.name for metric in job_metrics(WHOLE) if "leader" in metric.name or "commit_" in metric.name]


def test_clients_of_clusterd_are_counted() -> None:
    found = {
        ",".join([sample.name.removeprefix("taskd_net_job_clusterd"), *sample.labels.values()]): sample.value
        for metric in job_metrics(WHOLE)
        for sample in metric.samples
        if sample.name.startswith("taskd_net_job_clusterd")
    }
    assert found == {
        ",subscribed": 1, ",off": 0, ",away": 0, "_orders_total,taken": 12,
        "_orders_total,repeated": 1, "_orders_total,foreign": 2, "_orders_total,unreadable": 3,
        "_reports_total,sent": 5, "_reports_total,refused": 1, "_reports_total,unanswered": 4, "_reports_total,void": 1,
        "_keep_alives_total": 40, "_unknown_actions_total": 1, "_failed_actions_total": 2, "_reconnects_total": 6,
        "_rounds_total": 7,
    }  # fmt: skip
    assert not [metric.name for metric in job_metrics(JobView()) if "clusterd" in metric.name]


def test_books_are_exported() -> None:
    found = {
        ",".join([sample.name.removeprefix("taskd_net_job_"), *sample.labels.values()]): sample.value
        for metric in job_metrics(WHOLE)
        for sample in metric.samples
    }
    assert (found["goodput_ratio"], found["steps_total"], found["repeated_steps_total"]) == (0.812, 420, 10)
    assert (found["left_seconds"], found["seconds,data"], found["seconds,hang"]) == (1395.5, 152.74, 0.0)
    unmarked = JobView(books=BooksView(wall=5.0, seconds={"unknown": 5.0}))
    names = {metric.name for metric in job_metrics(unmarked)}
    assert "taskd_net_job_seconds" in names and "taskd_net_job_goodput_ratio" not in names
    marking = JobView(books=BooksView(wall=5.0, seconds={"steps": 5.0}, highest=3))
    assert "taskd_net_job_left_seconds" not in {metric.name for metric in job_metrics(marking)}


def test_hang_is_exported() -> None:
    def exported(job: JobView) -> dict[str, float]:
        samples = (sample for metric in job_metrics(job) for sample in metric.samples)
        return {
            ",".join([sample.name.removeprefix("taskd_net_job_"), *sample.labels.values()]): sample.value
            for sample in samples
            if sample.name.startswith(("taskd_net_job_hang", "taskd_net_job_guilty"))
        }

    states = {"hang,not watched": 0, "hang,goes on": 0, "hang,unknown": 0, "hang,suspected": 0, "hang,hung": 1}
    assert exported(WHOLE) == states | {"guilty_ranks": 1}
    assert exported(JobView())["hang,not watched"] == 1
