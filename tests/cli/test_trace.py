"""`taskd-net trace`, with a node in the test."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from taskd_net import Echo, Position
from taskd_net.base.states import State
from taskd_net.cli import probing
from taskd_net.cli.trace import trace
from taskd_net.observe.client import AskFailed
from taskd_net.observe.probe_codec import About
from taskd_net.observe.records import Mesh, NodeStatus, OwnFigures
from tests.cli.clients import Client

PROXY = Echo(0, Position.proxy(0), 0.001, "batched")
WORKER = Echo(0, Position.worker(0, 3), 0.002, "tasknet")
NOBODY = Echo(5002, Position.proxy(0), 0.001)


SHUT = "port 10.0.0.7:4711 does not answer, tried again every minute"
KNOWN = Mesh(
    Position.mgr(),
    2.0,
    "",
    [
        (Position.mgr(), NodeStatus(None, State.JOINED, 1.0, "taskd_net")),
        (
            Position.proxy(0),
            NodeStatus(
                Position.mgr(), State.JOINED, 1.0, "taskd_net", link="batched", own=OwnFigures(link_reason=SHUT)
            ),
        ),
        (Position.worker(0, 3), NodeStatus(Position.proxy(0), State.JOINED, 1.0, "original", link="tasknet")),
    ],
)


def traced(monkeypatch: pytest.MonkeyPatch, answer: object, *arguments: str) -> Result:
    """A run in which the node answers so."""
    monkeypatch.setattr(probing, "NodeClient", Client(answer, KNOWN))
    return CliRunner().invoke(trace, ["Worker/0/3", "--at", "h:1", *arguments])


def test_each_hop_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    done = traced(monkeypatch, [PROXY, WORKER])
    second = " 2  tasknet  Worker/0/3  2.0 ms  tasknet: a node of the original: it knows the four calls alone"
    lines = ["TRACE Worker/0/3 from Mgr/0 at h:1", f" 1  batched  Proxy/0  1.0 ms  batched: {SHUT}", second]
    assert (done.exit_code, done.output.splitlines()) == (0, [*lines, "reached Worker/0/3: 2 hops"])


def test_the_end_of_the_way_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    done = traced(monkeypatch, [PROXY, NOBODY])
    assert done.exit_code == 1
    assert done.output.splitlines()[2].startswith(" 2  -        5002 NO_ROUTE from Proxy/0: nobody on the way")
    assert done.output.splitlines()[-1] == "ends after Proxy/0"
    assert traced(monkeypatch, []).output.splitlines()[-1] == "ends after Mgr/0"


def test_one_object_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    found = json.loads(traced(monkeypatch, [PROXY, WORKER], "--json").output)
    assert (found["to"], found["from"], found["reached"]) == ("Worker/0/3", "Mgr/0", True)
    assert [hop["src"] for hop in found["hops"]] == ["Proxy/0", "Worker/0/3"]
    assert found["hops"][0]["link_reason"] == SHUT


def test_way_up_has_the_reason_of_the_asked_node_and_what_lies_further_away_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    up = PROXY._replace(src=Position.mgr())
    far = PROXY._replace(src=Position.proxy(9))
    client = Client([up, far], KNOWN)

    async def about() -> About:
        return About(Position.proxy(0), "1", 0, Position.mgr())

    client.about = about  # type: ignore[method-assign]
    monkeypatch.setattr(probing, "NodeClient", client)
    lines = CliRunner().invoke(trace, ["Proxy/9", "--at", "h:1"]).output.splitlines()
    assert lines[1:3] == [f" 1  batched  Mgr/0  1.0 ms  batched: {SHUT}", " 2  batched  Proxy/9  1.0 ms"]


def test_way_of_direct_links_alone_asks_for_no_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "NodeClient", Client([PROXY._replace(link="direct")]))
    done = CliRunner().invoke(trace, ["Proxy/0", "--at", "h:1"])
    assert done.output.splitlines()[1] == " 1  direct   Proxy/0  1.0 ms"


def test_nobody_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    done = traced(monkeypatch, AskFailed("nobody there"))
    assert (done.exit_code, done.output.splitlines()[-1]) == (3, "Error: nobody there")


@pytest.mark.parametrize("dest", ["Worker/All/All", "Worker/0/1,2", "Boss/0"])
def test_the_way_leads_to_one_node(dest: str) -> None:
    done = CliRunner().invoke(trace, [dest])
    assert done.exit_code == 2 and "DEST: " in done.output
