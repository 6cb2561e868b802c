"""Spans of one node, and the headers that carry them to the next."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

from taskd_net import Ack, Code, Position
from taskd_net.observe import spans
from taskd_net.observe.spans import SpanTracer
from tests.core.routers import frame

pytestmark = pytest.mark.compat


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
    answers: list[Ack] = []
    traced, reply = SpanTracer(Position.mgr()).sent(frame("Worker/0/1"), answers.append)
    assert (traced.uuid, set(traced.span)) == ("u", {"traceparent"})
    assert not ended.get_finished_spans()
    ack = Ack("u", Code.NO_ROUTE, Position.proxy(0))
    reply(ack)
    (span,) = ended.get_finished_spans()
    assert (span.name, span.kind, answers) == ("taskd_net send", SpanKind.PRODUCER, [ack])
    assert (attributes(span)["taskd_net.code"], attributes(span)["taskd_net.code_from"]) == (5002, "Proxy/0")
    assert not span.status.is_ok
    reply(ack)
    assert len(ended.get_finished_spans()) == 1 and len(answers) == 2


def test_hop_is_below_the_send(ended: InMemorySpanExporter) -> None:
    traced, reply = SpanTracer(Position.mgr()).sent(frame("Worker/0/1"), lambda _: None)
    _, passed = SpanTracer(Position.proxy(0)).arrived(frame("Worker/0/1"), traced.span, lambda _: None)
    assert passed is not None
    for answer in (passed, reply):
        answer(Ack("u", Code.OK, Position.worker(0, 1)))
    hop, send = ended.get_finished_spans()
    assert hop.parent is not None and send.context is not None
    assert (hop.name, hop.parent.span_id) == ("taskd_net hop", send.context.span_id)
    assert "taskd_net.code_from" not in attributes(hop)


def test_hop_without_an_answer_ends_at_once(ended: InMemorySpanExporter) -> None:
    _, reply = SpanTracer(Position.proxy(0)).arrived(frame("Worker/0/1", sync=False), {}, None)
    (span,) = ended.get_finished_spans()
    assert reply is None and span.parent is None
