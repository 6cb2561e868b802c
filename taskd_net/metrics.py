"""A node's counters for Prometheus, from the extra `metrics`; docs/operations.md explains each.

A scrape reads the counters that the node keeps anyway, at one moment, in the node's own loop. Everything else happens
in the thread that answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from taskd_net.address import Address
from taskd_net.codes import ConfigError
from taskd_net.core.counters import Way
from taskd_net.core.link_counters import Latency, LinkCounters
from taskd_net.core.links import Link
from taskd_net.node import Node
from taskd_net.observe import status_codec as wire
from taskd_net.observe.document import document
from taskd_net.observe.ledger import Record
from taskd_net.observe.records import Mesh
from taskd_net.position import Role
from taskd_net.states import State
from taskd_net.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.metrics_core import Metric

PATIENCE_S: Final = 5.0
"""Seconds that a scrape waits for the node's loop; Prometheus itself waits for 10."""


class _Links(NamedTuple):
    """The links to the parent or to the children, added up."""

    counters: LinkCounters
    in_flight: int
    queued: int


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The counters of one moment."""

    joined: bool
    links: Mapping[str, _Links]
    outcomes: Mapping[Way, Mapping[int, int]]
    latency: Mapping[Way, tuple[list[tuple[float, int]], int, float]]
    batches: list[int]
    inbox: tuple[int, int, int]
    children: tuple[int, int]
    counters: Mapping[str, int]
    mesh: tuple[float, str, Sequence[Record]] | None


_COUNTERS: Final = {
    "sent": "Messages that this node's own application has sent.",
    "child_joins": "Streams that children have opened.",
    "child_losses": "Streams of children that have ended.",
    "reconnects": "Joins after a loss of the parent.",
    "broadcasts": "Broadcasts and multicasts that passed this node.",
    "late_acks": "Answers that came too late and were dropped.",
    "duplicates": "Messages that had been delivered before and were suppressed.",
    "violations": "Refused claims of another identity, and requests beyond a limit.",
    "lost_messages": "sync=false messages that were given up after their first hop.",
}


class Collector:
    """The metrics of one node, for a registry of prometheus_client.

    Args:
        node: a node that was started.
        loop: the node's event loop.
    """

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop

    def collect(self) -> Iterator[Metric]:
        """All metrics. Waits for the node's loop, so it is called in another thread.

        Raises:
            TimeoutError: the loop did not answer in time.
        """
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        asked = asyncio.run_coroutine_threadsafe(self._take(), self._loop)
        try:
            now = asked.result(PATIENCE_S)
        except (TimeoutError, CancelledError):
            asked.cancel()
            raise TimeoutError("the node's event loop did not answer") from None
        position = str(self._node.position.identity)
        info = GaugeMetricFamily("taskd_net_node", "This node, its version; always 1.", labels=("position", "version"))
        info.add_metric((position, __version__), 1)
        yield info
        yield GaugeMetricFamily("taskd_net_joined", "1 while the Mgr knows the way to this node.", int(now.joined))

        outcomes = CounterMetricFamily("taskd_net_messages", "Messages by way and outcome.", labels=("way", "code"))
        for way, codes in now.outcomes.items():
            for code, number in sorted(codes.items()):
                outcomes.add_metric((way, str(code)), number)
        yield outcomes
        messages = CounterMetricFamily(
            "taskd_net_link_messages", "Messages that went over links.", labels=("link", "way")
        )
        size = CounterMetricFamily("taskd_net_link_bytes", "Bytes of those messages.", labels=("link", "way"))
        flight = GaugeMetricFamily(
            "taskd_net_in_flight_messages", "Sent messages that wait for their answer.", labels=("link",)
        )
        queued = GaugeMetricFamily("taskd_net_queued_messages", "Messages that wait to be written.", labels=("link",))
        for name, links in now.links.items():
            messages.add_metric((name, "out"), links.counters.sent)
            messages.add_metric((name, "in"), links.counters.received)
            size.add_metric((name, "out"), links.counters.sent_bytes)
            size.add_metric((name, "in"), links.counters.received_bytes)
            flight.add_metric((name,), links.in_flight)
            queued.add_metric((name,), links.queued)
        yield from (messages, size, flight, queued)

        acks = HistogramMetricFamily(
            "taskd_net_ack_seconds", "Time from sending a message to its answer; sampled.", labels=("way",)
        )
        for way, (buckets, count, total) in now.latency.items():
            bounds = [*((repr(bound), number) for bound, number in buckets), ("+Inf", count)]
            acks.add_metric((way,), bounds, total)
        yield acks
        batches = HistogramMetricFamily("taskd_net_batch_messages", "Messages in one write.")
        _fill(batches, now.batches, sum(links.counters.sent for links in now.links.values()))
        yield batches

        held, room, line = now.inbox
        yield GaugeMetricFamily("taskd_net_inbox_messages", "Messages in the inbox.", held)
        yield GaugeMetricFamily("taskd_net_inbox_room_messages", "Messages that fit into the inbox.", room)
        yield GaugeMetricFamily("taskd_net_inbox_line_messages", "Messages in line before the inbox.", line)
        children = GaugeMetricFamily("taskd_net_children", "Children that have a place here.", labels=("state",))
        children.add_metric((State.JOINED.value,), now.children[0])
        children.add_metric((State.LOST.value,), now.children[1])
        yield children
        yield GaugeMetricFamily("taskd_net_routes", "Routes to nodes below.", now.counters["routes"])
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(f"taskd_net_{name}", text, now.counters[name])
        if now.mesh is not None:
            yield from self._of_the_mesh(*now.mesh)

    def _of_the_mesh(self, time: float, expected: str, records: Sequence[Record]) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        root = self._node.position.identity
        summary = document(Mesh(root, time, expected, wire.read_records(records)))["summary"]
        nodes = GaugeMetricFamily("taskd_net_mesh_nodes", "Nodes of the whole mesh, by state.", labels=("state",))
        for state in State:
            nodes.add_metric((state.value,), summary[state.value])
        yield nodes
        if expected:
            yield GaugeMetricFamily("taskd_net_missing_ranks", "Expected ranks that are missing.", summary["missing"])

    async def _take(self) -> _Snapshot:
        """Read the counters; in the node's loop."""
        node = self._node
        router = node.router
        counters, statistics, up, door = router.counters, router.statistics, router.upstream, router.door
        children = list(router.children.by_id.values())
        links = {"children": _sum(children, counters.forgotten)}
        if up is not None:
            links["upstream"] = _sum([up], LinkCounters())
        outcomes: dict[Way, dict[int, int]] = {way: dict(o.by_code) for way, o in counters.outcomes.items()}
        outcomes["inbox"][0] = statistics.delivered
        joined = sum(link.up for link in children)
        lost = sum(not link.up and not node.view.has_ended(link) for link in children)
        mesh = None
        if node.position.role == Role.MGR:
            await node.view.look_in_parts()
            mesh = (node.view.wall(), node.view.expected, node.view.records())
        return _Snapshot(
            joined=node.is_joined,
            links=links,
            outcomes=outcomes,
            latency={
                way: _histogram(counters.outcomes[way].latency) for way in _TIMED if way == "down" or up is not None
            },
            batches=list(counters.batches),
            inbox=(door.held, door.room if door.open else 0, len(door.line)),
            children=(joined, lost),
            counters={
                "routes": len(router.routes),
                "sent": statistics.sent,
                "child_joins": counters.joins,
                "child_losses": counters.losses,
                "reconnects": 0 if up is None else max(0, up.streams - 1),
                "broadcasts": counters.broadcasts,
                "late_acks": statistics.late_acks,
                "duplicates": statistics.duplicates,
                "violations": statistics.violations,
                "lost_messages": statistics.lost,
            },
            mesh=mesh,
        )


class MetricsServer:
    """The HTTP server of a node's metrics, with threads of its own.

    Args:
        node: a node that was started in the running event loop.
        listen: the address; port 0 takes any free port, which `address` names.

    Raises:
        ConfigError: the address cannot be bound, or the extra is not installed.
    """

    def __init__(self, node: Node, listen: Address) -> None:
        try:
            from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
        except ImportError as error:
            text = f"metrics_port is {listen}: prometheus-client is not installed: pip install 'taskd-net[metrics]'"
            raise ConfigError(text) from error
        registry = CollectorRegistry()
        registry.register(Collector(node, asyncio.get_running_loop()))
        ProcessCollector(registry=registry)
        try:
            self._server, self._thread = start_http_server(listen.port, listen.host, registry)
        except OSError as error:
            raise ConfigError(f"metrics_port is {listen}: cannot listen there: {error.strerror or error}") from error
        except UnicodeError as error:  # a name that DNS cannot have
            raise ConfigError(f"metrics_port is {listen}: cannot listen there: {error}") from error
        self.address = Address(listen.host, self._server.server_port)

    def close(self) -> None:
        """Stop serving; a scrape under way gets no answer."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


_TIMED: Final[tuple[Way, ...]] = ("up", "down")


def _sum(links: list[Link], forgotten: LinkCounters) -> _Links:
    total = LinkCounters()
    total.add(forgotten)
    for link in links:
        total.add(link.counters)
    return _Links(total, sum(link.in_flight.count for link in links), sum(link.queued_messages for link in links))


def _histogram(latency: Latency) -> tuple[list[tuple[float, int]], int, float]:
    return list(latency.octaves()), latency.count, latency.total


def _fill(family: HistogramMetricFamily, batches: list[int], messages: int) -> None:
    """The histogram of batch sizes: class n has those below 2 to the n."""
    below, bounds = 0, []
    for bits, number in enumerate(batches):
        below += number
        bounds.append((str(2**bits - 1), below))
    family.add_metric((), [*bounds[1:-1], ("+Inf", below)], messages)
