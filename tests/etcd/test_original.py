"""Nodes of the original and real Mgrs: refused by the standby, and below a Proxy of ours that has both addresses."""

from __future__ import annotations

import signal
from pathlib import Path

import grpc
import pytest

from taskd_net.base.body import Body
from tests.etcd.server import ETCD, WHY_NOT
from tests.etcd.test_standby import LEADS, job, term
from tests.peers.original.cluster import Originals
from tests.peers.original.node import OriginalNode
from tests.polling import PATIENCE_S, asked_until

pytestmark = [pytest.mark.skipif(ETCD is None, reason=WHY_NOT), pytest.mark.timeout(150)]


async def reported(agent: OriginalNode, msg_type: str, code: int, message: str = "") -> None:
    """Send a report until it is answered: an original Agent tries three times, a second apart, and again later."""

    async def sent() -> bool:
        return (await agent.send("Mgr/0", Body(msg_type, code, message).to_json())).ok

    assert await asked_until(sent, 2 * PATIENCE_S)


async def go(agent: OriginalNode) -> Body:
    """Register, ask for the go, and take the command."""
    await reported(agent, "REGISTER", 0)
    await reported(agent, "STATUS", 201, "3")
    while (command := Body.parse((await agent.take()).body)).code != 210:
        pass
    return command


async def test_they_are_with_the_next_leader_as_soon_as_it_leads(tmp_path: Path) -> None:
    async with job(tmp_path) as (_, _, leads, stands, proxy), Originals() as theirs:
        agent = await theirs.start("Agent/0", proxy.address)
        hop = await theirs.start("Proxy/1", proxy.address)
        other = await theirs.start("Agent/1", hop.address)
        # Its only address is that of the standby, as behind a virtual address that has moved too early.
        refused = await theirs.start("Agent/2", stands.address, join=False)
        before = [term(await go(each)) for each in (agent, other)]
        leads.signal(signal.SIGKILL)
        await stands.said(LEADS)
        await refused.joined()
        after = [term(await go(each)) for each in (agent, other, refused)]
        assert max(before) < min(after)
        assert refused.up is not None
        assert (grpc.StatusCode.UNAVAILABLE, f"standby of {leads.address}") in refused.up.refused
        for each in (agent, hop, other):
            assert each.up is not None
            assert each.up.joins == 1 and not each.up.refused, (
                "the Proxy of ours has changed its Mgr, and they have not"
            )
