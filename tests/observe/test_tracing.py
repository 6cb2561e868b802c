"""The tracer of a node, where its extra is installed and where not."""

from __future__ import annotations

import sys

import pytest

from taskd_net import ConfigError, Node, NodeConfig, Position
from taskd_net.observe.spans import SpanTracer
from taskd_net.observe.tracing import load_tracer

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


async def test_extra_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "taskd_net.observe.spans", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    node = Node(NodeConfig.mgr(listen="127.0.0.1:0", tracing=True))
    with pytest.raises(ConfigError, match=r"tracing is True; expected .* pip install 'taskd-net\[tracing\]'"):
        await node.start()
    await node.close()


def test_tracer_makes_spans() -> None:
    assert isinstance(load_tracer(Position.mgr()), SpanTracer)


def test_other_modules_that_are_missing_are_no_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "taskd_net.observe.spans")
    monkeypatch.setitem(sys.modules, "taskd_net.observe.spans", None)
    with pytest.raises(ModuleNotFoundError):
        load_tracer(Position.mgr())
