"""Spans of one node, and the headers that carry them to the next."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from taskd_net import Code, Position
from taskd_net.observe import spans
from taskd_net.observe.spans import SpanTracer
from tests.core.routers import frame

pytestmark = pytest.mark.oldest


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans that have ended, of a provider of the test's own."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(spans, "get_tracer", provider.get_tracer)
    return exporter


def attributes(span: ReadableSpan) -> Mapping[str, object]:
    """The attributes of one span."""
    return span.attributes or {}


def test_answer_ends_the_span_of_a_send(ended: InMemorySpanExporter) -> None:
    traced, end = SpanTracer(Position.mgr()).sent(frame("Worker/0/1"))
    assert (traced.uuid, set(traced.span)) == ("u", {"traceparent"})
    assert not ended.get_finished_spans()
    end(Code.NO_ROUTE, Position.proxy(0))
    (span,) = ended.get_finished_spans()
    assert (span.name, span.kind) == ("taskd_net send", SpanKind.PRODUCER)
    assert (attributes(span)["taskd_net.code"], attributes(span)["taskd_net.code_from"]) == (5002, "Proxy/0")
    assert not span.status.is_ok
    end(Code.NO_ROUTE, Position.proxy(0))
    assert len(ended.get_finished_spans()) == 1


def test_hop_is_below_the_send(ended: InMemorySpanExporter) -> None:
    traced, answered = SpanTracer(Position.mgr()).sent(frame("Worker/0/1"))
    _, passed = SpanTracer(Position.proxy(0)).arrived(frame("Worker/0/1"), traced.span, awaited=True)
    assert passed is not None
    for end in (passed, answered):
        end(Code.OK, Position.worker(0, 1))
    hop, send = ended.get_finished_spans()
    assert hop.parent is not None and send.context is not None
    assert (hop.name, hop.parent.span_id) == ("taskd_net hop", send.context.span_id)
    assert "taskd_net.code_from" not in attributes(hop)


def test_hop_without_an_answer_ends_at_once(ended: InMemorySpanExporter) -> None:
    _, end = SpanTracer(Position.proxy(0)).arrived(frame("Worker/0/1", sync=False), {}, awaited=False)
    (span,) = ended.get_finished_spans()
    assert end is None and span.parent is None
