"""Probes of one node, and what is said of those that are never sent."""

from __future__ import annotations

import pytest

from taskd_net import Ack, Code, Position
from taskd_net.net.links import registry
from taskd_net.observe.prober import Prober
from tests.peers.mesh import Mesh, soon


@pytest.mark.parametrize(
    ("to", "code"),
    [
        (Position("Nobody", "0", "-1"), Code.DST_ROLE_ILLEGAL),
        (Position("Proxy", "x", "-1"), Code.DST_SRV_RANK_ILLEGAL),
        (Position("Worker", "0", "x"), Code.DST_PROCESS_RANK_ILLEGAL),
    ],
)
async def test_probe_to_no_position_is_answered_here_and_takes_no_time(mesh: Mesh, to: Position, code: int) -> None:
    mgr = await mesh.mgr()
    echo = await soon(mgr.ping(to))
    assert (echo.code, echo.src, echo.seconds) == (code, mgr.position, 0.0)
    assert echo.detail


async def test_trace_ends_after_64_hops(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    kind = registry.plain()
    asked: list[int | None] = []

    async def ask(_: object, to: Position, hops: int | None, timeout: float) -> tuple[Ack, float]:
        asked.append(hops)
        return Ack("u", kind.probed, Position.proxy(0)), 0.0

    monkeypatch.setattr(Prober, "_ask", ask)
    echoes = [echo async for echo in mgr.trace(Position.worker(0, 0))]
    assert asked == list(range(1, 65))
    assert len(echoes) == 64
