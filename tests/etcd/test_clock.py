"""A standby whose host's clock differs from that of the leader it follows."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.base.vocabulary import EXIT, RESTART_ALL, START
from tests.etcd.managers import Managers
from tests.etcd.server import ETCD, WHY_NOT, etcd_members
from tests.manager.cluster import Leaf

pytestmark = [pytest.mark.skipif(ETCD is None, reason=WHY_NOT), pytest.mark.timeout(180)]

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S


# gRPC takes a deadline from `time.time`, so no process can have a clock behind the machine's.
@pytest.mark.parametrize(("first", "second"), [(5 * HOUR_S, 0.0), (3650 * DAY_S, 0.0), (0.0, 5 * HOUR_S)])
async def test_standby_goes_on_with_a_round_that_a_leader_of_another_clock_began(
    tmp_path: Path, first: float, second: float
) -> None:
    """Agent 1 is away: nothing that waits for it ends, nobody is silent, and it gets its go when it is back."""
    async with AsyncExitStack() as stack:
        members = await stack.enter_async_context(etcd_members(tmp_path / "etcd", 1))
        managers = await stack.enter_async_context(Managers(members, tmp_path))
        await managers.start(0, shift=first)
        await managers.leads(0)
        await managers.start(1, shift=second)
        agents = []
        for rank in range(2):
            config = NodeConfig.agent(server_rank=rank, upstream=managers.upstream)
            agents.append(Leaf(await stack.enter_async_context(Node(config))))
        zero, one = agents
        for leaf in agents:
            await leaf.register(Incarnation="0")
        for leaf in agents:
            assert (await leaf.command()).code == START
        await one.fault(0)
        assert (await one.command()).code == EXIT
        assert (await zero.command()).code == RESTART_ALL
        managers.kill(0)
        await managers.leads(1)
        document = await managers.document()
        now = time.time() + second
        assert abs(document["time"] - now) < HOUR_S / 2 and abs(document["leader"]["since"] - now) < HOUR_S / 2
        assert all(each["time"] <= document["time"] for each in document["decisions"])
        assert [each["silent_since"] for each in document["agents"]] == [None, None], document["agents"]
        assert document["streams"], document
        await one.register(Incarnation="1")
        command = await one.command()
        while command.code == EXIT:
            command = await one.command()
        assert command.code == START
        assert (managers.of(1).errors.count("clock_went_back") == 1) == (first > second), managers.of(1).errors
