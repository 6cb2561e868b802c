"""The metrics of a job's Manager; docs/operations.md explains each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from taskd_net.base.progress import Account
from taskd_net.observe.job_view import (
    CLUSTERD_STATES,
    HANG_STATES,
    BooksView,
    ClusterdView,
    HangView,
    JobCounters,
    JobView,
    LeaderView,
)

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


def job_metrics(job: JobView) -> Iterator[Metric]:
    """The metrics of one job."""
    from prometheus_client.core import GaugeMetricFamily

    info = GaugeMetricFamily("taskd_net_job", "The job that this node decides for; always 1.", labels=("id",))
    info.add_metric((job.job_id,), 1)
    yield info
    if job.restarts_left is not None:
        yield GaugeMetricFamily("taskd_net_job_restarts_left", "Restarts that the job has left.", job.restarts_left)
    agents = GaugeMetricFamily("taskd_net_job_agents", "Agents that have reported.", labels=("state",))
    agents.add_metric(("trouble",), job.agents_in_trouble)
    agents.add_metric(("silent",), job.agents_silent)
    agents.add_metric(("calm",), job.agents_known - job.agents_in_trouble - job.agents_silent)
    yield agents
    for name, text, number in (
        ("missing_nodes", "Nodes that all others wait for.", job.nodes_missing),
        ("ended", "1 where the Manager has ended the job, with a reason.", int(bool(job.ended))),
        ("workers", "Workers that have registered.", job.workers),
        ("paused", "1 while ClusterD holds Agents back from starting.", int(job.paused)),
        ("streams_owned", "Streams on which a plugin decides now.", sum(bool(stream.owner) for stream in job.streams)),
        ("plugins_off", "Plugins that are off until the Manager restarts.", len(job.plugins_off)),
        ("state_durable", "1 while the state has all that was decided.", int(job.counters.durable)),
    ):
        yield GaugeMetricFamily(f"taskd_net_job_{name}", text, number)
    if job.books.wall:
        yield from _books(job.books)
    yield from _hang(job.hang)
    if job.fault_mode:
        devices = GaugeMetricFamily("taskd_net_job_devices", "Devices with a fault, or isolated.", labels=("state",))
        devices.add_metric(("isolated",), job.devices_isolated)
        devices.add_metric(("faulty",), job.devices_known - job.devices_isolated)
        yield devices
    if job.leader.term:
        yield from _leader(job.job_id, job.leader)
    yield from _counters(job.counters)
    if job.clusterd.address:
        yield from _clusterd(job.clusterd)


def _books(books: BooksView) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    # No counter: time moves from one account to another when it is known what it was.
    time = GaugeMetricFamily("taskd_net_job_seconds", "Wall time of the run by account.", labels=("account",))
    for account in Account:
        time.add_metric((account.value,), books.seconds.get(account, 0.0))
    yield time
    if books.goodput is None:
        return
    yield GaugeMetricFamily("taskd_net_job_goodput_ratio", "Part of the wall time that went into steps.", books.goodput)
    yield CounterMetricFamily("taskd_net_job_steps", "Steps that were done, again or not.", books.done)
    yield CounterMetricFamily("taskd_net_job_repeated_steps", "Steps that the run had done before.", books.again)
    if books.left is not None:
        yield GaugeMetricFamily("taskd_net_job_left_seconds", "Time until the last step.", books.left)


def _hang(hang: HangView) -> Iterator[Metric]:
    from prometheus_client.core import GaugeMetricFamily

    states = GaugeMetricFamily("taskd_net_job_hang", "1 for the state of the watch over hangs.", labels=("state",))
    for state in HANG_STATES:
        states.add_metric((state,), int(state == hang.state))
    yield states
    yield GaugeMetricFamily("taskd_net_job_guilty_ranks", "Ranks that hold up the others.", len(hang.guilty))


def _leader(job_id: str, leader: LeaderView) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    began = GaugeMetricFamily(
        "taskd_net_job_leader_since_timestamp_seconds", "Begin of the leader's term.", labels=("leader",)
    )
    began.add_metric((leader.name,), leader.since)
    yield began
    yield GaugeMetricFamily(
        "taskd_net_job_leader_decides", "1 while the lease is confirmed, so that the leader decides.", leader.decides
    )
    # Each leader goes on with the number of the one before, so the job's name is what the samples have in common.
    changes = CounterMetricFamily("taskd_net_job_leader_changes", "Terms before the leader's.", labels=("id",))
    changes.add_metric((job_id,), leader.changes)
    yield changes
    if leader.committed:
        yield GaugeMetricFamily(
            "taskd_net_job_last_commit_timestamp_seconds", "Time of the last commit.", leader.committed
        )


def _counters(counters: JobCounters) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

    for name, text, number in (
        ("reports", "Messages of Agents and Workers that were taken in.", counters.reports),
        ("refused_reports", "Reports of strangers, and of nodes beyond the bound.", counters.refused),
        ("signals", "Requests and signals of ClusterD.", counters.signals),
        ("ticks", "Looks at what has changed.", counters.ticks),
        ("rounds", "Restarts of the job's processes, all of them or some.", counters.rounds),
        ("commands", "Commands, without resends.", counters.commands),
        ("resends", "Further sends of commands.", counters.resends),
        ("acknowledged_commands", "Commands that were taken.", counters.acknowledged),
        ("lost_commands", "Commands that were given up or superseded.", counters.lost),
        ("store_failures", "Commits of the state that failed.", counters.store_failures),
    ):
        yield CounterMetricFamily(f"taskd_net_job_{name}", text, number)
    by_plugin: tuple[tuple[str, str, Mapping[str, int]], ...] = (
        ("decisions", "Decisions by plugin.", counters.decisions),
        ("plugin_failures", "Exceptions and timeouts by plugin.", counters.plugin_failures),
    )
    for name, text, numbers in by_plugin:
        family = CounterMetricFamily(f"taskd_net_job_{name}", text, labels=("plugin",))
        for plugin, number in sorted(numbers.items()):
            family.add_metric((plugin,), number)
        yield family
    faults = CounterMetricFamily(
        "taskd_net_job_device_faults", "Decisions on faults of devices.", labels=("type", "level")
    )
    for name, number in sorted(counters.device_faults.items()):
        level, _, fault_type = name.rpartition(" ")
        faults.add_metric((fault_type, level), number)
    yield faults
    times = HistogramMetricFamily(
        "taskd_net_job_fault_to_command_seconds", "Time from a fault's report to the command that answers it."
    )
    bounds = [(repr(bound), number) for bound, number in counters.fault_to_command]
    count = counters.fault_to_command_count
    times.add_metric((), [*bounds, ("+Inf", count)], counters.fault_to_command_seconds)
    yield times


def _clusterd(client: ClusterdView) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    states = GaugeMetricFamily(
        "taskd_net_job_clusterd", "1 for the state of the client of ClusterD.", labels=("state",)
    )
    for state in CLUSTERD_STATES:
        states.add_metric((state,), int(state == client.state))
    yield states
    by_outcome = (
        ("orders", "Orders of ClusterD.", client.orders),
        ("reports", "Attempts at reports and results to ClusterD.", client.reports),
    )
    for name, text, numbers in by_outcome:
        family = CounterMetricFamily(f"taskd_net_job_clusterd_{name}", text, labels=("outcome",))
        for outcome, number in numbers.items():
            family.add_metric((outcome,), number)
        yield family
    for name, text, number in (
        ("keep_alives", "Signs of life of ClusterD.", client.keep_alives),
        ("unknown_actions", "Actions of orders that this release does not know.", client.unknown_actions),
        ("failed_actions", "Actions whose controller has raised, or does not exist.", client.failed_actions),
        ("reconnects", "Streams of signals after the first one, without those after a round.", client.reconnects),
        ("rounds", "Streams of signals that were opened at the end of a round.", client.rounds),
    ):
        yield CounterMetricFamily(f"taskd_net_job_clusterd_{name}", text, number)
