"""Mutual TLS on every link: who gets in, and who does not."""

from __future__ import annotations

import pytest

from tests.peers.certificates import Folder
from tests.peers.mesh import Mesh, both_links, soon

pytestmark = pytest.mark.timeout(60)


@both_links
@pytest.mark.both_loops
async def test_a_tree_over_tls(mesh: Mesh, certificates: Folder) -> None:
    tls = certificates.tls()
    mgr = await mesh.mgr(tls=certificates.listening())
    proxy = await mesh.proxy(0, mgr, tls=tls)
    worker = await mesh.worker(0, 3, proxy, tls=certificates.connecting())
    agent = await mesh.agent(0, proxy, tls=certificates.connecting())
    assert (await soon(worker.send("up", to="Mgr"))).ok
    assert (await soon(mgr.send("down", to=worker.position))).ok
    assert (await soon(agent.send("x" * 1_000_000, to=worker.position))).ok
    assert (await mgr.take()).body == "up"
    assert (await worker.take()).body == "down"
    assert len((await worker.take()).body) == 1_000_000
