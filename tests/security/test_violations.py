"""Peers that break the bounds of a link again and again: each time, their next stream has to wait."""

from __future__ import annotations

import asyncio
import time

import pytest

from taskd_net.core.links import VIOLATION_PAUSE_S
from taskd_net.core.ready import Reason
from tests.peers.links import LinkChild, LinkParent
from tests.peers.mesh import Mesh, soon
from tests.security.bystander.pair import Bystanders

pytestmark = pytest.mark.timeout(180)

NO_BATCH = bytes(1000)


async def test_child_that_breaks_the_bounds_waits_for_its_next_stream(mesh: Mesh) -> None:
    async with await Bystanders.beside(mesh, await mesh.mgr()) as others, LinkChild("Worker/0/0") as child:
        await child.join(others.parent.address or "")
        for _ in range(2):
            began = time.monotonic()
            await child.write(NO_BATCH)
            await child.ended()
            await child.open()
            assert time.monotonic() - began >= VIOLATION_PAUSE_S
        assert mesh.count("child_lost", child="Worker/0/0", reason=Reason.VIOLATION.value) == 2
        await others.undisturbed()


async def test_child_does_not_return_at_once_to_a_parent_that_breaks_the_bounds(mesh: Mesh) -> None:
    parent = await LinkParent().start()
    try:
        joining = asyncio.create_task(mesh.worker(0, 0, parent.address))
        stream = await parent.opened()
        await soon(joining)
        for _ in range(2):
            began = time.monotonic()
            await parent.write(stream, NO_BATCH)
            stream = await parent.opened()
            assert time.monotonic() - began >= VIOLATION_PAUSE_S
        await mesh.logged("violation", peer="Mgr/0", times=2)
    finally:
        await parent.stop()
