"""Probes of one node, and what is said of those that are never sent."""

from __future__ import annotations

import pytest

from taskd_net import Code, Position
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
