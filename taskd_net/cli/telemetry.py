"""Export of a command's spans, by the variables of OpenTelemetry (`OTEL_TRACES_EXPORTER` and the others).

A command is a process of its own, so it sets up the SDK, as an application would. Exporters are found by their entry
points, as by `opentelemetry-instrument`; the SDK reads all other variables.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from taskd_net import ConfigError
from taskd_net.base.logger import get_logger

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from opentelemetry.sdk.trace.export import SpanExporter

EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_GROUP: Final = "opentelemetry_traces_exporter"
_BY_PROTOCOL: Final = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}


def start() -> None:
    """Set up the SDK, unless it is set up.

    Raises:
        ConfigError: the extra `tracing`, or an exporter that is asked for, is not installed.
    """
    try:
        from opentelemetry import trace
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        text = "tracing is True; expected its extra to be installed: pip install 'taskd-net[tracing]'"
        raise ConfigError(text) from error
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return  # set up by `opentelemetry-instrument`
    names = [name for name in map(str.strip, os.environ.get(EXPORTER, "").split(",")) if name not in ("", "none")]
    if not names:
        log = get_logger()
        log.warning("spans_discarded", reason=f"{EXPORTER} names no exporter")
        return
    exporters = [_exporter(name) for name in names]
    provider = TracerProvider()
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _exporter(name: str) -> SpanExporter:
    # importlib.metadata costs 20 ms and 2 MiB: commands without an exporter do without.
    from importlib.metadata import entry_points

    known: dict[str, EntryPoint] = {entry.name: entry for entry in entry_points(group=_GROUP)}
    wanted = name
    if name == "otlp":
        protocol = next((value for value in map(os.environ.get, _PROTOCOLS) if value), "")
        installed = (each for each in _BY_PROTOCOL.values() if each in known)
        wanted = _BY_PROTOCOL.get(protocol) or next(installed, name)
    if wanted not in known:
        text = f"{EXPORTER} is {name!r}; expected one that is installed: {', '.join(sorted(known))}"
        raise ConfigError(text + "; for otlp: pip install opentelemetry-exporter-otlp-proto-http")
    made: SpanExporter = known[wanted].load()()
    return made
