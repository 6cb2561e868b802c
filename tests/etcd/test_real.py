"""The real etcd: commits, a lease, a leader that was replaced, and one Manager from end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net import Node, NodeConfig, job_limits
from taskd_net.codes import ConfigError
from taskd_net.etcd.client import EtcdClient, EtcdError
from taskd_net.etcd.leader import Leader
from taskd_net.etcd.place import Place
from taskd_net.etcd.store import Deposed, EtcdStore, require_job
from taskd_net.logger import get_logger
from taskd_net.manager import Manager, ManagerConfig
from tests.api.conftest import free_port
from tests.etcd.server import ETCD, WHY_NOT, etcd_server
from tests.manager.cluster import SOON, Leaf

pytestmark = pytest.mark.skipif(ETCD is None, reason=WHY_NOT)


async def ready(client: EtcdClient, place: Place) -> None:
    """Wait until the member answers."""
    for left in reversed(range(10)):
        try:
            await require_job(client, place, "J")
            return
        except EtcdError:
            if not left:
                raise


async def test_commits_of_any_size_and_of_one_leader_alone(tmp_path: Path) -> None:
    async with etcd_server(tmp_path) as address:
        place = Place.parse(f"etcd://{address}/taskd/J")
        client = EtcdClient(place)
        try:
            await ready(client, place)
            first = Leader(client, place, "a", get_logger())
            await first.take(1.0)
            store = EtcdStore(client, place, "J", first.number)
            assert await store.open() == {}
            parts: dict[str, str | None] = {f"agent/{rank}": "x" * 900 for rank in range(3_000)}
            parts |= {"rest": '"' * 1_700_000}
            store.begin(parts)
            await store.flush()
            store.begin({"rest": "2", "agent/0": None})
            await store.flush()
            with pytest.raises(ConfigError, match="but a leads this job"):
                await Leader(client, place, "b", get_logger()).take(0.0)
            number = first.number
            await first.give_back()
            second = Leader(client, place, "b", get_logger())
            await second.take(1.0)
            assert second.number > number and second.leaders == 2
            store.begin({"rest": "of a"})
            with pytest.raises(Deposed):
                await store.flush()
            del parts["agent/0"]
            assert await EtcdStore(client, place, "J", second.number).open() == parts | {"rest": "2"}
            await second.give_back()
        finally:
            await client.close()


async def test_manager_goes_on_where_the_one_before_was(tmp_path: Path) -> None:
    async with etcd_server(tmp_path) as address:
        place = Place.parse(f"etcd://{address}/taskd/J")
        client = EtcdClient(place)
        await ready(client, place)
        await client.close()
        port, settings = free_port(), ManagerConfig(job_id="J", state=str(place), reset_file=str(tmp_path / "none"))
        mgr = NodeConfig.mgr(listen=f"127.0.0.1:{port}", confirms=True)
        async with Node(NodeConfig.agent(server_rank=0, upstream=f"127.0.0.1:{port}")) as node:
            agent = Leaf(node)
            async with Node(mgr) as root, Manager(root, settings):
                await node.joined(SOON)
                await agent.register(Incarnation="process 0")
                start = await agent.command()
                assert (start.code, start.message) == (210, "3") and int(start.extension["Term"]) > 0
            async with Node(mgr) as root, Manager(root, settings) as manager:
                assert manager.job.state.records.agents[0].incarnation == "process 0"
                assert manager.job.state.records.restarts == 3


async def test_nobody_at_the_address_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_limits, "ETCD_CALL_S", 1.0)
    state = f"etcd://127.0.0.1:{free_port()}/taskd/J"
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0", confirms=True)) as root:
        with pytest.raises(ConfigError, match=r"expected an etcd that answers, but KV/Range at 127\.0\.0\.1"):
            await Manager(root, ManagerConfig(job_id="J", state=state)).start()
