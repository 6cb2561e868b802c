"""A send as one OpenTelemetry trace across its hops, and no trace without the setting."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from taskd_net import Code
from taskd_net.net.links.traced import TracedLink
from tests.peers.child import RawChild
from tests.peers.mesh import Mesh, fast_links
from tests.peers.stubs import pb

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


@pytest.fixture(scope="session")
def provider() -> TracerProvider:
    """The application's tracing, set up once: the API takes one provider for the life of a process."""
    provider = TracerProvider(shutdown_on_exit=False)
    trace.set_tracer_provider(provider)
    return provider


@pytest.fixture
def spans(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    """The spans that have ended since the test began."""
    exporter = InMemorySpanExporter()
    processor = SimpleSpanProcessor(exporter)
    provider.add_span_processor(processor)
    yield exporter
    exporter.shutdown()


def way(exporter: InMemorySpanExporter) -> list[tuple[str, str, int | None]]:
    """Name, node and code of each span of the single trace, each below the one before."""
    by_id = {span.context.span_id: span for span in exporter.get_finished_spans()}
    assert len({span.context.trace_id for span in by_id.values()}) == 1
    children: dict[int | None, list[ReadableSpan]] = {}
    for span in by_id.values():
        above = span.parent.span_id if span.parent is not None and span.parent.span_id in by_id else None
        children.setdefault(above, []).append(span)
    found: list[tuple[str, str, int | None]] = []

    def walk(above: int | None) -> None:
        for span in sorted(children.get(above, ()), key=lambda span: str((span.attributes or {})["taskd_net.node"])):
            attributes = span.attributes or {}
            code = attributes.get("taskd_net.code")
            assert code is None or isinstance(code, int)
            found.append((span.name, str(attributes["taskd_net.node"]), code))
            walk(span.context.span_id)

    walk(None)
    return found


SEND, HOP = "taskd_net send", "taskd_net hop"


@fast_links
async def test_send_is_one_trace_across_its_hops(mesh: Mesh, spans: InMemorySpanExporter) -> None:
    mgr = await mesh.mgr(tracing=True)
    proxies = [await mesh.proxy(rank, mgr, tracing=True) for rank in range(2)]
    workers = [await mesh.worker(rank, rank, proxies[rank], tracing=True) for rank in range(2)]
    with trace.get_tracer("application").start_as_current_span("step") as step:
        assert (await workers[0].send("x", to="Worker/1/1")).ok
    assert (await workers[1].take()).body == "x"
    assert {span.context.trace_id for span in spans.get_finished_spans()} == {step.get_span_context().trace_id}
    sent = [span for span in spans.get_finished_spans() if span.name == SEND]
    assert [span.parent.span_id for span in sent if span.parent] == [step.get_span_context().span_id]
    hops = [span for span in spans.get_finished_spans() if span.name != "step"]
    spans.clear()
    spans.export(hops)
    assert way(spans) == [
        (SEND, "Worker/0/0", 0), (HOP, "Proxy/0", 0), (HOP, "Mgr/0", 0), (HOP, "Proxy/1", 0), (HOP, "Worker/1/1", 0),
    ]  # fmt: skip
    # Each span lies within the one above it.
    times = sorted((span.start_time or 0, span.end_time or 0) for span in hops)
    assert [end for _, end in times] == sorted((end for _, end in times), reverse=True)


@fast_links
async def test_failure_is_seen_where_it_happens(mesh: Mesh, spans: InMemorySpanExporter) -> None:
    mgr = await mesh.mgr(tracing=True)
    proxy = await mesh.proxy(0, mgr, tracing=True)
    worker = await mesh.worker(0, 0, proxy, tracing=True)
    assert (await worker.send("x", to="Worker/0/9")).code == Code.NO_ROUTE
    assert way(spans) == [(SEND, "Worker/0/0", 5002), (HOP, "Proxy/0", 5002), (HOP, "Mgr/0", 5002)]
    last = spans.get_finished_spans()[0]
    assert not last.status.is_ok
    assert (last.attributes or {})["taskd_net.code_from"] == "Mgr/0"


@fast_links
async def test_post_and_broadcast(mesh: Mesh, spans: InMemorySpanExporter) -> None:
    mgr = await mesh.mgr(tracing=True)
    proxy = await mesh.proxy(0, mgr, tracing=True)
    workers = [await mesh.worker(0, rank, proxy, tracing=True) for rank in range(2)]
    assert (await mgr.post("posted", to="Worker/0/1")).ok
    assert (await workers[1].take()).body == "posted"
    assert way(spans) == [(SEND, "Mgr/0", 0), (HOP, "Proxy/0", 0), (HOP, "Worker/0/1", None)]
    spans.clear()
    assert (await mgr.send("all", to="Worker/All/All")).ok
    for worker in workers:
        assert (await worker.take()).body == "all"
    assert way(spans) == [
        (SEND, "Mgr/0", 0), (HOP, "Proxy/0", 0), (HOP, "Worker/0/0", 0), (HOP, "Worker/0/1", 0),
    ]  # fmt: skip


@fast_links
async def test_many_at_once_and_large_ones_keep_their_spans_apart(mesh: Mesh, spans: InMemorySpanExporter) -> None:
    """In batches of the generated class, and in hand-written ones."""
    mgr = await mesh.mgr(tracing=True)
    worker = await mesh.worker(0, 0, mgr, tracing=True, inbox=100)
    bodies = [str(number) for number in range(20)] + ["x" * 100_000]
    for body in bodies:
        assert (await mgr.post(body, to=worker.position)).ok
    assert await worker.take_all(len(bodies)) == bodies
    ended = spans.get_finished_spans()
    assert len(ended) == 2 * len(bodies)
    assert len({span.context.trace_id for span in ended}) == len(bodies)


@pytest.mark.parametrize("without", ["mgr", "proxy", "worker"])
@fast_links
async def test_node_without_tracing_carries_messages_all_the_same(
    mesh: Mesh, spans: InMemorySpanExporter, without: str
) -> None:
    mgr = await mesh.mgr(tracing=without != "mgr")
    proxy = await mesh.proxy(0, mgr, tracing=without != "proxy")
    worker = await mesh.worker(0, 0, proxy, tracing=without != "worker")
    for sender, receiver in ((mgr, worker), (worker, mgr)):
        assert (await sender.send("x", to=receiver.position)).ok
        assert (await receiver.take()).body == "x"
    nodes = {str((span.attributes or {})["taskd_net.node"]) for span in spans.get_finished_spans()}
    assert str({"mgr": mgr, "proxy": proxy, "worker": worker}[without].position) not in nodes


@pytest.mark.parametrize("mesh", ["tasknet"], indirect=True)
async def test_nothing_of_it_goes_over_the_four_calls(mesh: Mesh, spans: InMemorySpanExporter) -> None:
    mgr = await mesh.mgr(tracing=True)
    proxy = await mesh.proxy(0, mgr, tracing=True)
    async with RawChild("Worker/0/5") as leaf:
        await leaf.join(proxy.address or "")
        assert (await mgr.send("x", to="Worker/0/5")).ok
        message = await leaf.take()
        assert (message.body, message.header.mtype) == ("x", "default")
        # It has the common fields alone.
        known = {field.name: getattr(message.header, field.name) for field in message.header.DESCRIPTOR.fields}
        alone = pb.Message(header=pb.MessageHeader(**known), body="x")
        assert message.SerializeToString() == alone.SerializeToString()
    assert way(spans) == [(SEND, "Mgr/0", 0)]


@fast_links
async def test_off_by_default(mesh: Mesh, spans: InMemorySpanExporter) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    assert (await mgr.send("x", to=worker.position)).ok
    assert not spans.get_finished_spans()
    assert not any(isinstance(link, TracedLink) for node in (mgr, worker) for link in node.driver.links.values())
    traced = await mesh.mgr(tracing=True)
    await mesh.worker(0, 0, traced)
    assert [isinstance(link, TracedLink) for link in traced.driver.links.values()] == [True]
