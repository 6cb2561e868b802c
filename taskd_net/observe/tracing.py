"""Tracing of messages, where its extra is installed."""

from __future__ import annotations

from taskd_net.base.codes import ConfigError
from taskd_net.base.position import Position
from taskd_net.net.links.session import Tracer


def load_tracer(position: Position) -> Tracer:
    """The tracer of a node.

    Raises:
        ConfigError: the extra `tracing` is not installed.
    """
    try:
        from taskd_net.observe.spans import SpanTracer
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        text = "tracing is True; expected its extra to be installed: pip install 'taskd-net[tracing]'"
        raise ConfigError(text) from error
    return SpanTracer(position)
