"""The parent, in the order in which a node meets it; `test_checkup` has it with real parents."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from taskd_net import Position
from taskd_net.base.address import Address
from taskd_net.cli.doctor import upstream
from taskd_net.cli.doctor.finding import Verdict
from taskd_net.cli.doctor.upstream import check, clock
from taskd_net.observe.identify import Found, ServerKind
from taskd_net.observe.probe_codec import About
from taskd_net.version import __version__

PROXY = Position.proxy(0)


@pytest.fixture
def parent() -> Iterator[Address]:
    """An address that accepts connections."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield Address("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize(
    ("about", "states"),
    [
        (About(Position.mgr(), __version__, 0, None), ["ok", "ok", "ok"]),
        (About(Position.mgr(), "0.0.1", 0, None), ["ok", "warning", "ok"]),
        (About(Position.proxy(7), __version__, 0, None), ["warning", "ok", "ok"]),
        (About(PROXY, __version__, 0, Position.mgr()), ["wrong", "ok", "ok"]),
        (About(Position.mgr(), __version__, 0, None, "a"), ["ok", "ok", "ok"]),
        (About(Position.mgr(), __version__, 0, None, "b"), ["wrong", "ok", "ok"]),
    ],
)
async def test_a_node_of_ours_is_judged_by_its_description(
    parent: Address, monkeypatch: pytest.MonkeyPatch, about: About, states: list[str]
) -> None:
    async def identify(*_: object) -> Found:
        return Found(ServerKind.OURS, about)

    monkeypatch.setattr(upstream, "identify", identify)
    assert [found.state.value for found in await check(parent, PROXY, None, "a")] == [*states, "skipped"]


@pytest.mark.parametrize(
    ("kind", "state"), [(ServerKind.MESH, "ok"), (ServerKind.OTHER, "wrong"), (ServerKind.SILENT, "wrong")]
)
async def test_others_are_named_by_what_they_are(
    parent: Address, monkeypatch: pytest.MonkeyPatch, kind: ServerKind, state: str
) -> None:
    async def identify(*_: object) -> Found:
        return Found(kind)

    monkeypatch.setattr(upstream, "identify", identify)
    found = (await check(parent, PROXY, None))[0]
    assert (found.check, found.state.value) == ("upstream", state) and str(parent) in found.text


async def test_a_name_that_leads_nowhere_is_the_only_finding() -> None:
    (found,) = await check(Address("no.such.host.invalid", 1), PROXY, None)
    assert (found.check, found.state) == ("name", Verdict.WRONG)


@pytest.mark.parametrize(
    ("ahead", "error", "state"),
    [(0.9, 0.0, "ok"), (-0.9, 0.0, "ok"), (1.1, 0.0, "wrong"), (-1.1, 0.0, "wrong"), (3.0, 2.5, "ok")],
)
def test_clock_is_judged_by_what_is_certain(ahead: float, error: float, state: str) -> None:
    """A slow answer proves nothing."""
    found = clock(Found(ServerKind.OURS, None, ahead, error))
    assert found.state == state
    assert ("behind" if ahead > 0 else "ahead of") in found.text
