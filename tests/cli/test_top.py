"""The table of `taskd-net top`."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from taskd_net.cli import mesh as module
from taskd_net.cli.top import table, top
from taskd_net.observe.document import document
from taskd_net.observe.rates import Rate
from taskd_net.states import State
from tests.cli.clients import Client, mesh


def test_rows_are_sorted_and_trouble_is_red() -> None:
    found = document(mesh(State.JOINED, State.LOST))
    rates = {"Worker/0/0": Rate(down_messages=1.0), "Worker/0/1": Rate(up_messages=5.0, up_bytes=2000.0)}
    lines = table(found, rates, "rate", "Worker")
    assert lines[0][0].startswith("Mgr/0: 3 nodes, 1 in trouble") and lines[0][0].endswith("by rate")
    assert [line.split()[0] for line, _ in lines[2:]] == ["Worker/0/1", "Worker/0/0"]
    assert [style for _, style in lines[2:]] == ["red", ""]
    assert lines[2][0].split()[2:5] == ["0", "5", "2.0"]


@pytest.mark.parametrize("by", ["rate", "bytes", "latency", "flight", "inbox", "node"])
def test_every_order_takes_every_node(by: str) -> None:
    assert len(table(document(mesh(State.JOINED, State.GONE)), {}, by, None)) == 2 + 3


def test_json_is_the_document_with_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "end_at_once", lambda: None)
    monkeypatch.setattr(module, "NodeClient", Client(mesh(State.JOINED), mesh(State.JOINED)))
    done = CliRunner().invoke(top, ["--count", "2", "--interval", "0.1", "--json"])
    first, second = map(json.loads, done.output.splitlines())
    assert first["node"] == second["node"] == "Mgr/0"
    assert set(second["rates"]) == {"Mgr/0", "Worker/0/0"}
