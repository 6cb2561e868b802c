"""The real etcd: commits, a lease, a leader that was replaced, and one Manager from end to end."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import signal
from pathlib import Path

import pytest

from taskd_net import Code, Node, NodeConfig
from taskd_net.base.body import Body
from taskd_net.base.codes import ConfigError
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.state import SCHEMA
from taskd_net.job.keep.client import EtcdClient, LeaseEnded
from taskd_net.job.keep.leader import LED, Leader
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import Deposed, EtcdStore, require_job
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.etcd_keeping import EtcdKeeping
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.net.wire import etcd_pb2 as wire
from tests.cli.processes import Daemon, run
from tests.etcd.server import ETCD, WHY_NOT, etcd_server
from tests.manager.cluster import SOON, Leaf, managed
from tests.manager.test_released import RELEASED
from tests.peers.mesh import soon
from tests.polling import until
from tests.ports import free_port

pytestmark = pytest.mark.skipif(ETCD is None, reason=WHY_NOT)


async def test_commits_of_any_size_and_of_one_leader_alone(tmp_path: Path) -> None:
    async with etcd_server(tmp_path) as etcd:
        place = Place.parse(f"etcd://{etcd.address}/taskd/J")
        client = EtcdClient(place)
        try:
            await require_job(client, place, "J")
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
    async with etcd_server(tmp_path) as etcd:
        place = Place.parse(f"etcd://{etcd.address}/taskd/J")
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


async def test_manager_goes_on_after_etcd_was_away_for_longer_than_the_lease(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else has led meanwhile. Until then it decides nothing, and the mesh carries messages."""
    limits = ManagerLimits(etcd=EtcdLimits(lease_s=2, renew_s=0.4, call_s=1.0))
    async with etcd_server(tmp_path) as etcd:
        settings = ManagerConfig(job_id="J", state=f"etcd://{etcd.address}/taskd/J", reset_file=str(tmp_path / "none"))
        async with (
            managed(settings, limits=limits) as (root, manager),
            Node(agent_of(root, 0)) as node,
            Node(agent_of(root, 1)) as other,
        ):
            agent, keeping = Leaf(node), manager._keeping
            await agent.register()
            first = int((await agent.command()).extension["Term"])
            etcd.process.send_signal(signal.SIGSTOP)
            await until(lambda: keeping.term() is None)
            waits = asyncio.create_task(Leaf(other).register())
            assert (await node.send("x", to="Agent/1", timeout=SOON)).ok
            assert (await other.receive()).body == "x"
            await asyncio.sleep(limits.etcd.lease_s)  # etcd ends the lease as soon as it goes on
            assert not waits.done()
            etcd.process.send_signal(signal.SIGCONT)
            await soon(waits)
            start = await Leaf(other).command()
            assert start.code == 210 and int(start.extension["Term"]) > first
            assert "event=leader_decides_nothing" in caplog.text and "lead_lost" not in caplog.text


async def test_manager_goes_on_with_a_state_of_0_2_0(tmp_path: Path) -> None:
    """It has no number of its schema, but in its parts."""
    async with etcd_server(tmp_path) as etcd:
        place = Place.parse(f"etcd://{etcd.address}/taskd/J")
        for name, value in json.loads((RELEASED / "0.2.0.etcd.json").read_text()).items():
            key, text = (base64.b64encode(each).decode() for each in (place.key(name), value.encode()))
            await etcd.ask("kv/put", key=key, value=text)
        settings = ManagerConfig(job_id="J", state=str(place), reset_file=str(tmp_path / "none"), clusterd=True)
        async with managed(settings) as (root, manager), Node(agent_of(root, 1)) as node:
            assert sorted(manager.job.state.records.agents) == [0, 1]
            assert (await Leaf(node).command()).code == 203, "which it had sent, and nobody had acknowledged"
            (led,) = (await etcd.ask("kv/range", key=base64.b64encode(place.key(LED)).decode()))["kvs"]
            assert json.loads(base64.b64decode(led["value"]))["schema"] == SCHEMA


async def test_manager_that_was_replaced_leaves_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with etcd_server(tmp_path) as etcd:
        place = Place.parse(f"etcd://{etcd.address}/taskd/J")
        settings = ManagerConfig(job_id="J", state=str(place), reset_file=str(tmp_path / "none"))
        client = EtcdClient(place)
        async with managed(settings) as (root, manager), Node(agent_of(root, 0)) as node:
            agent = Leaf(node)
            await agent.register()
            assert (await agent.command()).code == 210
            assert isinstance(manager._keeping, EtcdKeeping)
            leader, other = manager._keeping.leader, Leader(client, place, "b", get_logger())
            # A Manager that notices the end of its lease before the claim leads again.
            async with asyncio.timeout(SOON):
                while True:
                    assert leader._lease is not None
                    with contextlib.suppress(LeaseEnded):  # it has ended, and the Manager is about to notice
                        await client.revoke(wire.LeaseRevokeRequest(ID=leader._lease.id))
                    if await other.claim() is None:
                        break
            ack = await node.send(Body("STATUS", 202, "").to_json(), to="Mgr", timeout=1.0)
            await until(lambda: root.driver.job_view is None)
            assert not ack.ok
            assert (await node.send("x", to="Mgr", timeout=SOON)).code == Code.RECV_BUF_NIL
            assert await EtcdStore(client, place, "J", other.number).open()
            await other.give_back()
        await client.close()


def agent_of(root: Node, rank: int) -> NodeConfig:
    """An Agent below a Mgr."""
    return NodeConfig.agent(server_rank=rank, upstream=str(root.address))


async def test_nobody_at_the_address_is_one_line() -> None:
    limits = ManagerLimits(etcd=EtcdLimits(call_s=1.0))
    state = f"etcd://127.0.0.1:{free_port()}/taskd/J"
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0", confirms=True)) as root:
        with pytest.raises(ConfigError, match=r"expected an etcd that answers, but KV/Range at 127\.0\.0\.1"):
            await Manager(root, ManagerConfig(job_id="J", state=state), limits=limits).start()


async def test_prefix_with_keys_or_values_that_are_no_text_is_one_line(tmp_path: Path) -> None:
    async with etcd_server(tmp_path / "etcd") as etcd:
        job = ("--job-id", "J", "--state", f"etcd://{etcd.address}/taskd/J")

        async def refusal(*arguments: str) -> str:
            log = ("--log-path", tmp_path / "log", "--listen", "127.0.0.1:0")
            code, output, errors = await run("mgr", *arguments, *log)
            assert (code, output) == (1, "") and "Traceback" not in errors
            (line,) = (line for line in errors.splitlines() if line.startswith("Error: "))
            return line

        async def write(key: bytes, value: bytes) -> None:
            await etcd.ask("kv/put", key=base64.b64encode(key).decode(), value=base64.b64encode(value).decode())

        await write(b"foreign/\xff", b"1")
        line = await refusal(*job[:2], "--state", f"etcd://{etcd.address}/foreign")
        assert f"state is 'etcd://{etcd.address}/foreign', which has the key 'foreign/\\xff', where it is no" in line
        async with Daemon("mgr", *job, logs=tmp_path / "log") as mgr:
            mgr.signal(signal.SIGTERM)
            assert await mgr.exit_code() == 0
        await write(b"taskd/J/part/rest", b"\xfe\xff")
        text = f"state is 'etcd://{etcd.address}/taskd/J', which cannot be read: the value of 'part/rest' is no text"
        assert text in await refusal(*job)
        await write(b"taskd/J/part/rest", b"{")
        assert f"state is 'etcd://{etcd.address}/taskd/J', but the stored state cannot" in await refusal(*job)


@pytest.mark.timeout(120)
async def test_manager_that_was_killed_goes_on_at_another_address(tmp_path: Path) -> None:
    """Two processes at two addresses, one after the other; the Proxy has both, and its Agent notices little."""
    async with etcd_server(tmp_path / "etcd") as etcd:
        ports = free_port(), free_port()
        listen = [f"127.0.0.1:{port}" for port in ports]
        job = ("--job-id", "J", "--state", f"etcd://{etcd.address}/taskd/J", "--listen")
        async with (
            Daemon("mgr", *job, listen[0], logs=tmp_path / "a") as first,
            Daemon("proxy", "--upstream", ",".join(listen), logs=tmp_path / "proxy") as proxy,
            Node(NodeConfig.agent(server_rank=0, upstream=proxy.address)) as node,
        ):
            agent = Leaf(node)
            await agent.register(Incarnation="process 0")
            before = await agent.command()
            assert (before.code, before.message) == (210, "3")
            first.signal(signal.SIGKILL)
            code, _, errors = await run("mgr", *job[:-1], "--listen", "127.0.0.1:0", "--job-id", "K")
            assert code == 1 and "which has the state of job 'J'; expected that of 'K'" in errors
            async with Daemon("mgr", *job, listen[1], logs=tmp_path / "b") as second:
                assert second.address == listen[1]
                await agent.fault(0)
                again = await agent.command()
                assert int(again.extension["Term"]) > int(before.extension["Term"])
                code, output, errors = await run("job", "--at", second.address, "--json")
                assert code in (0, 1), errors
                assert json.loads(output)["state"]["file"].startswith("etcd://")
