"""A node's counters for Prometheus, from the extra `metrics`; docs/operations.md explains each.

A scrape reads the counters that the node keeps anyway, at one moment, in the node's own loop. The state of the mesh and
the text are made in the thread that answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import CancelledError
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Self

from taskd_net.base.address import Address
from taskd_net.base.codes import ConfigError
from taskd_net.base.position import Role
from taskd_net.base.states import State
from taskd_net.core.counters import LinkCounters
from taskd_net.faces.job_metrics import job_metrics
from taskd_net.node.node import Node
from taskd_net.observe import status_codec as wire
from taskd_net.observe.document import document
from taskd_net.observe.job_view import JobView
from taskd_net.observe.ledger import Record
from taskd_net.observe.records import Mesh
from taskd_net.version import __version__

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from taskd_net.faces.side_port import Event, Receive, Send, SidePort

KEEP_S: Final = 1.0
"""Seconds for which one scrape answers all that ask: Prometheus asks every 15 s, and a Mgr with 5,000 children is busy
for some 10 ms with one."""

PATIENCE_S: Final = 5.0
"""Seconds that a scrape waits for the node's loop; Prometheus itself waits for 10."""


class Collector:
    """The metrics of one node, for a registry of prometheus_client.

    Args:
        node: a node that was started.
        loop: the node's event loop.
        patience: seconds, as `PATIENCE_S`.
    """

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop, patience: float = PATIENCE_S) -> None:
        self._node = node
        self._loop = loop
        self._patience = patience

    def collect(self) -> Iterator[Metric]:
        """All metrics. Waits for the node's loop, so it is called in another thread.

        Raises:
            TimeoutError: the loop did not answer in time.
        """
        asked = asyncio.run_coroutine_threadsafe(self._read(), self._loop)
        try:
            metrics, time, records, job = asked.result(self._patience)
        except (TimeoutError, CancelledError):
            asked.cancel()
            raise TimeoutError("the node's event loop did not answer") from None
        yield from metrics
        if job is not None:
            yield from job_metrics(job)
        if self._node.position.role == Role.MGR:
            yield from self._of_the_mesh(time, records)

    async def _read(self) -> tuple[list[Metric], float, Sequence[Record], JobView | None]:
        """Read the counters, of the Mgr the time and the records of the mesh, and the job; in the node's loop."""
        view, look = self._node.driver.view, self._node.driver.job_view
        if self._node.position.role == Role.MGR:
            await view.look_in_parts()
        return list(self._of_the_node()), view.wall(), view.records(), None if look is None else look()

    def _of_the_node(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        node = self._node
        router = node.driver.router
        counters, statistics, up, door = router.counters, router.statistics, router.upstream, router.gate
        children = list(router.children.by_id.values())

        info = GaugeMetricFamily("taskd_net_node", "This node, its version; always 1.", labels=("position", "version"))
        info.add_metric((str(node.position.identity), __version__), 1)
        yield info
        if node.driver.certificate_ends is not None:
            ends = GaugeMetricFamily(
                "taskd_net_certificate_expiry_timestamp_seconds", "End of the certificates in use.", labels=("use",)
            )
            for use, end in node.driver.certificate_ends().items():
                ends.add_metric((use,), end.timestamp())
            yield ends
        yield GaugeMetricFamily("taskd_net_joined", "1 while the Mgr knows the way to this node.", int(node.is_joined))

        if node.config.upstreams:
            parents = GaugeMetricFamily(
                "taskd_net_upstream", "1 for the address of the parent in use, 0 for the others.", labels=("address",)
            )
            for address in map(str, node.config.upstreams):
                parents.add_metric((address,), int(up is not None and up.up and address == node.upstream))
            yield parents

        messages = CounterMetricFamily("taskd_net_messages", "Messages by way and outcome.", labels=("way", "code"))
        for way, outcomes in counters.outcomes.items():
            by_code = outcomes.by_code | ({0: statistics.delivered} if way == "inbox" else {})
            for code, number in sorted(by_code.items()):
                messages.add_metric((way, str(code)), number)
        yield messages

        over = CounterMetricFamily("taskd_net_link_messages", "Messages that went over links.", labels=("link", "way"))
        size = CounterMetricFamily("taskd_net_link_bytes", "Bytes of those messages.", labels=("link", "way"))
        flight = GaugeMetricFamily(
            "taskd_net_in_flight_messages", "Sent messages that wait for their answer.", labels=("link",)
        )
        queued = GaugeMetricFamily("taskd_net_queued_messages", "Messages that wait to be written.", labels=("link",))
        written = 0
        for name, links, forgotten in (
            ("children", children, counters.forgotten),
            *(() if up is None else (("upstream", [up], LinkCounters()),)),
        ):
            total = LinkCounters()
            for each in (forgotten, *(link.counters for link in links)):
                total.add(each)
            written += total.sent
            over.add_metric((name, "out"), total.sent)
            over.add_metric((name, "in"), total.received)
            size.add_metric((name, "out"), total.sent_bytes)
            size.add_metric((name, "in"), total.received_bytes)
            flight.add_metric((name,), sum(link.in_flight.count for link in links))
            queued.add_metric((name,), sum(link.queued_messages for link in links))
        yield from (over, size, flight, queued)

        acks = HistogramMetricFamily(
            "taskd_net_ack_seconds", "Time from sending a message to its answer; sampled.", labels=("way",)
        )
        for way, outcomes in counters.outcomes.items():
            if way == "down" or (way == "up" and up is not None):
                latency = outcomes.latency
                bounds = [(repr(bound), number) for bound, number in latency.octaves()]
                acks.add_metric((way,), [*bounds, ("+Inf", latency.count)], latency.total)
        yield acks
        batches = HistogramMetricFamily("taskd_net_batch_messages", "Messages in one write.")
        # Class n has those below 2 to the n.
        below = list(accumulate(counters.batches))
        bounds = [(str(2**bits - 1), number) for bits, number in enumerate(below)]
        batches.add_metric((), [*bounds[1:-1], ("+Inf", below[-1])], written)
        yield batches

        room = door.room if door.open else 0
        yield GaugeMetricFamily("taskd_net_inbox_messages", "Messages in the inbox.", door.held)
        yield GaugeMetricFamily("taskd_net_inbox_room_messages", "Messages that fit into the inbox.", room)
        yield GaugeMetricFamily("taskd_net_inbox_line_messages", "Messages in line before the inbox.", len(door.line))
        places = GaugeMetricFamily("taskd_net_children", "Children that have a place here.", labels=("state",))
        silent = sum(link.up and link.silent for link in children)
        places.add_metric((State.JOINED.value,), sum(link.up for link in children) - silent)
        places.add_metric((State.NOT_ANSWERING.value,), silent)
        lost = sum(not link.up and not node.driver.view.has_ended(link) for link in children)
        places.add_metric((State.LOST.value,), lost)
        yield places
        yield GaugeMetricFamily("taskd_net_routes", "Routes to nodes below.", len(router.routes))
        reconnects = 0 if up is None else max(0, up.streams - 1)
        for name, text, number in (
            ("sent", "Messages that this node's own application has sent.", statistics.sent),
            ("child_joins", "Streams that children have opened.", counters.joins),
            ("child_losses", "Streams of children that have ended.", counters.losses),
            ("reconnects", "Joins after a loss of the parent.", reconnects),
            ("broadcasts", "Broadcasts and multicasts that passed this node.", counters.broadcasts),
            ("late_acks", "Answers that came too late and were dropped.", statistics.late_acks),
            ("duplicates", "Messages that had been delivered before and were suppressed.", statistics.duplicates),
            ("violations", "Refused claims of another identity, and requests beyond a limit.", statistics.violations),
            ("lost_messages", "sync=false messages that were given up after their first hop.", statistics.lost),
        ):
            yield CounterMetricFamily(f"taskd_net_{name}", text, number)

    def _of_the_mesh(self, time: float, records: Sequence[Record]) -> Iterator[Metric]:
        from prometheus_client.core import GaugeMetricFamily

        root, expected = self._node.position.identity, self._node.driver.view.expected
        summary = document(Mesh(root, time, expected, wire.read_records(records)))["summary"]
        nodes = GaugeMetricFamily("taskd_net_mesh_nodes", "Nodes of the whole mesh, by state.", labels=("state",))
        for state in State:
            nodes.add_metric((state.value,), summary[state.value])
        yield nodes
        if expected:
            yield GaugeMetricFamily("taskd_net_missing_ranks", "Expected ranks that are missing.", summary["missing"])


class MetricsServer:
    """The metrics of a node over HTTP, in the node's event loop. As a context it is closed at the end.

    Args:
        node: a node that was started; for `bind` alone, one that will be.
        listen: `host:port`; port 0 takes any free port.
        allowed_hosts: host names by which scrapers reach it; IP addresses and `localhost` always pass.
    """

    def __init__(self, node: Node, listen: str, allowed_hosts: Collection[str] = ()) -> None:
        self._node = node
        self._listen = Address.parse(listen, "metrics_port")
        self._allowed_hosts = allowed_hosts
        self._scraping = asyncio.Lock()
        self._port: SidePort | None = None
        self._text = b""
        self._stale_at = float("-inf")

    def bind(self) -> None:
        """Bind the address, before the node itself listens. Scrapes wait until the context is entered.

        Raises:
            ConfigError: the address cannot be bound, or the extra is not installed.
        """
        try:
            from prometheus_client import CollectorRegistry, ProcessCollector

            from taskd_net.faces.side_port import SidePort
        except ImportError as error:
            text = f"metrics_port is {self._listen}; metrics need {error.name}: pip install 'taskd-net[metrics]'"
            raise ConfigError(text) from error
        self._registry = CollectorRegistry()
        self._registry.register(Collector(self._node, asyncio.get_running_loop()))
        ProcessCollector(registry=self._registry)
        self._port = SidePort(self._answer, self._listen, "metrics_port", self._allowed_hosts)

    async def __aenter__(self) -> Self:
        """Begin to serve.

        Raises:
            ConfigError: as for `bind`, if that was not called.
        """
        if self._port is None:
            self.bind()
        assert self._port is not None
        self._port.serve()
        return self

    async def __aexit__(self, *error: object) -> None:
        """Stop serving; a scrape under way gets no answer. Idempotent."""
        if self._port is not None:
            await self._port.close()

    @property
    def address(self) -> Address:
        """The address that was bound."""
        assert self._port is not None
        return self._port.address

    async def _answer(self, scope: Event, _: Receive, send: Send) -> None:
        from prometheus_client import CONTENT_TYPE_LATEST

        from taskd_net.faces.side_port import answer

        if scope["method"] not in ("GET", "HEAD"):
            await answer(send, 405, "text/plain", b"")
            return
        try:
            await answer(send, 200, CONTENT_TYPE_LATEST, await self._scrape())
        except TimeoutError as error:
            await answer(send, 503, "text/plain", str(error).encode())

    async def _scrape(self) -> bytes:
        """The text of all metrics, made once for all that ask within `KEEP_S`."""
        from prometheus_client import generate_latest

        loop = asyncio.get_running_loop()
        async with self._scraping:
            if loop.time() >= self._stale_at:
                self._text = await asyncio.to_thread(generate_latest, self._registry)
                self._stale_at = loop.time() + KEEP_S
            return self._text
