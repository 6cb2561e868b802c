"""`taskd-net top` and `tree --watch`: as JSON, and in terminals."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import pytest
from click.testing import CliRunner

from taskd_net.base.states import State
from taskd_net.cli import watching as module
from taskd_net.cli.top import top
from tests.cli.clients import Client, mesh
from tests.cli.terminal import Terminal
from tests.peers.mesh import Mesh, WatchedNode


@pytest.fixture
async def nodes() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as nodes:
        yield nodes


@pytest.fixture
async def mgr(nodes: Mesh) -> WatchedNode:
    """A Mgr with a Proxy and 12 Workers, which expects one more."""
    mgr = await nodes.mgr(expect="1x13")
    proxy = await nodes.proxy(0, mgr)
    for rank in range(12):
        await nodes.worker(0, rank, proxy)
    return mgr


def test_json_is_the_document_with_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "end_at_once", lambda: None)
    monkeypatch.setattr(module, "NodeClient", Client(mesh(State.JOINED), mesh(State.JOINED)))
    done = CliRunner().invoke(top, ["--count", "2", "--interval", "0.1", "--json"])
    first, second = map(json.loads, done.output.splitlines())
    assert first["node"] == second["node"] == "Mgr/0"
    assert set(second["rates"]) == {"Mgr/0", "Worker/0/0"}


async def test_screen_of_top_takes_keys(mgr: WatchedNode) -> None:
    async with Terminal("top", "--by", "node", "--at", mgr.address, width=60, height=10) as screen:
        lines = await screen.shows(r"1-6 of 14; \? keys")
        assert lines[0].startswith("Mgr/0: 14 nodes, ") and len(lines) == 9
        assert lines[1].split() == ["NODE", "STATE", "OUT/s", "IN/s", "FAIL/s"]
        assert "no room: " in lines[-1] and all(len(line) <= 60 for line in lines)
        screen.press("\x1b[B\x1b[B")
        assert (await screen.shows("3-8 of 14"))[2].startswith("Worker/0/0 ")
        screen.press("?")
        await screen.shows("sort by rate, bytes, latency")
        screen.press("?/0/11\r")
        assert [line.split()[0] for line in (await screen.shows("1-1 of 1; with '0/11'"))[2:3]] == ["Worker/0/11"]
        screen.press("q")
        assert await screen.exit_code() == 0


async def test_dumb_terminal_gets_the_table_without_control_characters(mgr: WatchedNode) -> None:
    arguments = ("top", "--count", 1, "--at", mgr.address)
    async with Terminal(*arguments, width=200, height=10, TERM="dumb") as screen:
        assert await screen.exit_code() == 0
        await screen.shows("Worker/0/11")
        assert "\x1b" not in screen.text


async def test_tree_keeps_its_summary_in_sight_in_a_short_terminal(mgr: WatchedNode) -> None:
    async with Terminal("tree", "--watch", "--at", mgr.address, width=40, height=8) as screen:
        lines = await screen.shows("lines more: a taller terminal")
        assert lines[0].startswith("Mgr/0: 14 nodes") and lines[1].startswith("missing of 1x13: 1: Worker 12")
        assert len(lines) == 7 and all(len(line) <= 40 for line in lines)


async def test_lines_of_the_tree_do_not_wrap_through_it(mgr: WatchedNode) -> None:
    async with Terminal("tree", "--at", mgr.address, width=40, height=8) as screen:
        assert await screen.exit_code() == 1
        lines = await screen.shows("Worker/0/12  NEVER SEEN")
    assert all(len(line) <= 40 for line in lines)
    assert any(line.startswith("   │    ") for line in lines), lines
    assert all(line[:3] in ("├─ ", "└─ ", "│  ", "   ") for line in lines[3:] if not line.startswith("  ")), lines


@pytest.mark.parametrize(
    ("env", "coloured", "stem"),
    [
        ({}, True, "└─"),
        ({"NO_COLOR": "1"}, False, "└─"),
        ({"LC_ALL": "C"}, True, "`-"),
        ({"TERM": "dumb"}, False, "└─"),
    ],
    ids=["colour", "no colour", "ascii", "dumb"],
)
async def test_terminal_gets_what_it_understands(
    mgr: WatchedNode, env: dict[str, str], coloured: bool, stem: str
) -> None:
    async with Terminal("tree", "--at", mgr.address, width=80, height=50, **env) as screen:
        assert await screen.exit_code() == 1
        await screen.shows("NEVER SEEN")
    assert ("\x1b[32m" in screen.text) is coloured
    assert ("\x1b[" in screen.text) is (env.get("TERM") != "dumb")
    assert f"{stem} Proxy/0" in screen.text
