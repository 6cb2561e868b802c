"""Spans of OpenTelemetry: a send is a span, and each node on the message's way adds one below.

Imported by nodes with `tracing` alone, because it needs the extra of that name. Spans go to the provider that the
process has set up; without one they cost little and go nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, get_tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from taskd_net.base.codes import describe
from taskd_net.base.position import Position
from taskd_net.core.frame import Frame, Traced
from taskd_net.net.links.session import End
from taskd_net.version import __version__

_HEADERS = TraceContextTextMapPropagator()


class SpanTracer:
    """The spans of one node.

    Args:
        position: the node's.
    """

    def __init__(self, position: Position) -> None:
        self._position = position
        self._tracer = get_tracer("taskd_net", __version__)

    def sent(self, frame: Frame) -> tuple[Traced, End]:
        """Begin the span of a message of the application's own, below the caller's."""
        traced, span = self._begin("send", SpanKind.PRODUCER, frame, None)
        return traced, _end_of(span)

    def arrived(self, frame: Frame, headers: Mapping[str, str], *, awaited: bool) -> tuple[Traced, End | None]:
        """Begin the span of a message that came in, below the neighbour's.

        Where the neighbour awaits no answer, the span ends at once: nobody tells the outcome.
        """
        traced, span = self._begin("hop", SpanKind.CONSUMER, frame, _HEADERS.extract(headers, Context()))
        if not awaited:
            span.end()
            return traced, None
        return traced, _end_of(span)

    def _begin(self, name: str, kind: SpanKind, frame: Frame, above: Context | None) -> tuple[Traced, Span]:
        attributes: dict[str, str | bool | int] = {
            "taskd_net.node": str(self._position),
            "taskd_net.uuid": frame.uuid,
            "taskd_net.src": str(frame.src),
            "taskd_net.dst": str(frame.dst),
            "taskd_net.sync": frame.sync,
            "taskd_net.bytes": len(frame.data),
        }
        span = self._tracer.start_span(f"taskd_net {name}", above, kind, attributes)
        headers: dict[str, str] = {}
        _HEADERS.inject(headers, set_span_in_context(span, Context()))
        traced = Traced(frame.uuid, frame.sync, frame.src, frame.dst, frame.data, headers)
        traced.flow = frame.flow
        return traced, span


def _end_of(span: Span) -> End:
    def answered(code: int, src: Position) -> None:
        if span.is_recording():
            span.set_attribute("taskd_net.code", int(code))
            if code:
                span.set_attribute("taskd_net.code_from", str(src))
                span.set_status(Status(StatusCode.ERROR, describe(code)))
            span.end()

    return answered
