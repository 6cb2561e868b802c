"""Reachability: every pair of roles both ways, trees of any depth, lists of ranks and `All`."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from taskd_net import Code, NodeConfig, Position
from tests.peers.mesh import Mesh, WatchedNode, both_links, soon

pytestmark = pytest.mark.timeout(180)


async def job(mesh: Mesh, **settings: Any) -> list[WatchedNode]:
    """Two nodes of a job, with a third behind a Proxy below the second one's.

    ```
    Mgr ─┬─ Proxy 0 ── Agent 0, Worker 0, Worker 1
         └─ Proxy 1 ─┬─ Agent 1, Worker 2
                     └─ Proxy 2 ── Agent 2, Worker 3
    ```
    """
    mgr = await mesh.mgr(**settings)
    proxy_0 = await mesh.proxy(0, mgr, **settings)
    proxy_1 = await mesh.proxy(1, mgr, **settings)
    proxy_2 = await mesh.proxy(2, proxy_1, **settings)
    leaves = [
        await mesh.agent(0, proxy_0, **settings),
        await mesh.worker(0, 0, proxy_0, **settings),
        await mesh.worker(0, 1, proxy_0, **settings),
        await mesh.agent(1, proxy_1, **settings),
        await mesh.worker(1, 2, proxy_1, **settings),
        await mesh.agent(2, proxy_2, **settings),
        await mesh.worker(2, 3, proxy_2, **settings),
    ]
    return [mgr, proxy_0, proxy_1, proxy_2, *leaves]


def inboxes(nodes: Sequence[WatchedNode]) -> dict[str, int]:
    """Waiting messages by node, without the nodes that have none."""
    return {str(node.position): node.waiting() for node in nodes if node.waiting()}


@pytest.mark.oldest
@pytest.mark.both_loops
@both_links
async def test_every_pair_of_nodes_both_ways(mesh: Mesh) -> None:
    nodes = await job(mesh)
    for sender in nodes:
        for receiver in nodes:
            body = f"from {sender.position}"
            ack = await sender.send(body, to=receiver.position, mtype="PAIR")
            assert (ack.code, ack.src) == (0, receiver.position), (sender.position, receiver.position)
            assert (await sender.post(body, to=receiver.position, mtype="PAIR")).ok
            for sync in (True, False):
                message = await receiver.take()
                assert (message.body, message.mtype, message.sync) == (body, "PAIR", sync)
                assert (message.src, message.dst) == (sender.position, receiver.position)
                assert message.create_time > 1_600_000_000_000
    assert not inboxes(nodes)
    assert not any(node.statistics.duplicates or node.statistics.lost for node in nodes)


@pytest.mark.both_loops
@both_links
async def test_proxies_four_deep(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxies = [mgr]
    for rank in range(4):
        proxies.append(await mesh.proxy(rank, proxies[-1]))
    deep = await mesh.worker(3, 0, proxies[-1])
    shallow = await mesh.worker(0, 1, proxies[1])
    for one, other in ((mgr, deep), (deep, shallow), (proxies[2], deep), (deep, proxies[1])):
        for sender, receiver in ((one, other), (other, one)):
            assert (await sender.send("x", to=receiver.position)).src == receiver.position
            assert (await receiver.take()).src == sender.position
    ack = await mgr.send("to all", to="Worker/All/All")
    assert ack.ok
    assert inboxes([mgr, *proxies, deep, shallow]) == {"Worker/3/0": 1, "Worker/0/1": 1}
    assert mgr.routes() == {
        node.position: proxies[1].position for node in (*proxies[1:], deep, shallow)
    }  # fmt: skip


async def test_routes_of_a_node_are_the_tree_below_it(mesh: Mesh) -> None:
    nodes = await job(mesh)
    mgr, proxy_0, proxy_1, proxy_2, agent_0, worker_0, worker_1, agent_1, worker_2, agent_2, worker_3 = nodes
    below_0 = (agent_0, worker_0, worker_1)
    below_2 = (agent_2, worker_3)
    assert proxy_0.routes() == {node.position: node.position for node in below_0}
    assert proxy_2.routes() == {node.position: node.position for node in below_2}
    via_2 = {node.position: proxy_2.position for node in (proxy_2, *below_2)}
    assert proxy_1.routes() == {agent_1.position: agent_1.position, worker_2.position: worker_2.position} | via_2
    assert mgr.routes() == {node.position: proxy_0.position for node in (proxy_0, *below_0)} | {
        node.position: proxy_1.position for node in (proxy_1, agent_1, worker_2, proxy_2, *below_2)
    }


WORKERS = {"Worker/0/0", "Worker/0/1", "Worker/1/2", "Worker/2/3"}
AGENTS = {"Agent/0", "Agent/1", "Agent/2"}
PROXIES = {"Proxy/0", "Proxy/1", "Proxy/2"}


RECEIVERS = {
    "Worker/All/All": WORKERS,
    "Worker/0/All": {"Worker/0/0", "Worker/0/1"},
    "Worker/0,2/All": {"Worker/0/0", "Worker/0/1", "Worker/2/3"},
    "Worker/All/0,3": {"Worker/0/0", "Worker/2/3"},
    "Worker/All/2": {"Worker/1/2"},
    "Worker/0/0,1": {"Worker/0/0", "Worker/0/1"},
    "Agent/All": AGENTS,
    "Agent/0,2": {"Agent/0", "Agent/2"},
    "Proxy/All": PROXIES,
    "Proxy/0,1,2": PROXIES,
    "Mgr/All": {"Mgr/0"},
}


@both_links
async def test_one_copy_for_each_receiver_but_the_sender(mesh: Mesh) -> None:
    """From every place in the tree; Agents never get Workers' messages, nor the reverse."""
    nodes = await job(mesh, inbox=64)
    for to, receivers in RECEIVERS.items():
        for sync in (True, False):
            await one_copy_for_each(mesh, nodes, to, receivers, sync)


async def one_copy_for_each(mesh: Mesh, nodes: Sequence[WatchedNode], to: str, receivers: set[str], sync: bool) -> None:
    """Send to these receivers from each node, and see what each inbox gets of it."""
    expected = {str(node.position): 0 for node in nodes}
    for sender in nodes:
        name = str(sender.position)
        if receivers == {name}:
            continue  # no receiver left: 5002, another test
        ack = await (sender.send if sync else sender.post)(f"from {name}", to=to)
        assert ack.ok, (name, to, sync, ack)
        for receiver in receivers - {name}:
            expected[receiver] += 1
    wanted = {name: count for name, count in expected.items() if count}
    await mesh.until(lambda: inboxes(nodes) == wanted)
    # One more round trip to each node on every link: a late second copy would arrive before it.
    for node in nodes[1:]:
        assert (await nodes[0].send("last", to=node.position)).ok
        assert (await node.send("last", to="Mgr")).ok
    for node in nodes:
        sources = [(await node.take()).src for _ in range(node.waiting())]
        seen = [str(src) for src in sources][: expected[str(node.position)]]
        assert len(set(seen)) == len(seen), (to, sync)
        assert str(node.position) not in seen, (to, sync)
    assert not any(node.statistics.duplicates or node.statistics.lost for node in nodes)


@both_links
async def test_a_message_crosses_each_link_once_however_many_lie_behind_it(mesh: Mesh) -> None:
    nodes = await job(mesh)
    mgr, _, proxy_1, *_ = nodes
    before = [node.statistics.forwarded for node in nodes]
    assert (await mgr.send("x", to="Worker/All/All")).ok
    copies = {
        str(node.position): node.statistics.forwarded - count
        for node, count in zip(nodes, before, strict=True)
        if node.statistics.forwarded > count
    }
    assert copies == {"Mgr/0": 2, "Proxy/0": 2, "Proxy/1": 2, "Proxy/2": 1}
    assert proxy_1.waiting() == 0


@both_links
async def test_broadcast_says_which_node_failed_and_the_others_have_it(mesh: Mesh) -> None:
    nodes = await job(mesh)
    full = next(node for node in nodes if str(node.position) == "Worker/2/3")
    for _ in range(8):
        assert (await full.send("fills it", to=full.position)).ok
    for sender in (nodes[0], nodes[5]):
        ack = await sender.send("x", to="Worker/All/All")
        assert (ack.code, ack.src) == (Code.RECV_BUF_BUSY, full.position)
    assert inboxes(nodes) == {"Worker/0/0": 1, "Worker/0/1": 2, "Worker/1/2": 2, "Worker/2/3": 8}


@both_links
async def test_broadcast_after_a_failure_is_sent_again_without_second_copies(mesh: Mesh) -> None:
    nodes = await job(mesh)
    mgr = nodes[0]
    full = next(node for node in nodes if str(node.position) == "Worker/0/1")
    for _ in range(8):
        assert (await full.send("fills it", to=full.position)).ok
    failed = await mgr.send("x", to="Worker/All/All")
    assert failed.code == Code.RECV_BUF_BUSY
    await full.take_all(8)
    assert (await mgr.send("x", to="Worker/All/All", uuid=failed.uuid)).ok
    assert inboxes(nodes) == dict.fromkeys(WORKERS, 1)


@both_links
async def test_broadcast_that_matches_nobody_has_no_route(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    for sender, to in ((mgr, "Agent/All"), (worker, "Agent/All"), (worker, "Worker/All/All"), (proxy, "Worker/7/All")):
        ack = await sender.send("x", to=to)
        assert (ack.code, ack.src) == (Code.NO_ROUTE, mgr.position), (sender.position, to)


@both_links
async def test_list_with_a_rank_that_does_not_exist_reaches_the_others(mesh: Mesh) -> None:
    nodes = await job(mesh)
    for sender in (nodes[0], nodes[5]):
        ack = await sender.send("x", to="Worker/All/1,3,99")
        assert (ack.code, ack.src) == (Code.NO_ROUTE, nodes[0].position)
    assert inboxes(nodes) == {"Worker/0/1": 2, "Worker/2/3": 2}


@both_links
async def test_many_at_once_from_everywhere(mesh: Mesh) -> None:
    """With hundreds in flight on each stream, every send gets its own answer."""
    nodes = await job(mesh, inbox=4096, ack_timeout=20.0)
    rounds = 6

    async def send(sender: WatchedNode, receiver: WatchedNode, i: int) -> None:
        to = receiver.position if i % 3 else Position("Worker", "9", str(i))
        ack = await sender.send(f"{i}", to=to)
        assert (ack.code, ack.src) == ((0, receiver.position) if i % 3 else (Code.NO_ROUTE, nodes[0].position))

    await soon(
        asyncio.gather(*(send(one, other, i) for one in nodes for other in nodes for i in range(rounds))), timeout=25
    )
    assert [node.waiting() for node in nodes] == [len(nodes) * rounds * 2 // 3] * len(nodes)


@pytest.mark.oldest
@pytest.mark.both_loops
@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost"])
async def test_ip_versions_and_names(mesh: Mesh, host: str) -> None:
    listen = f"[{host}]:0" if ":" in host else f"{host}:0"
    mgr = await mesh.mgr(listen)
    proxy = await mesh.proxy(0, mgr, listen)
    worker = await mesh.worker(0, 0, proxy)
    assert mgr.address is not None and mgr.address.startswith(listen[:-1])
    assert (await worker.send("x", to="Mgr")).ok
    assert (await mgr.send("x", to=worker.position)).ok


async def test_ranks_and_identities(mesh: Mesh) -> None:
    """The processRank of a Mgr, Proxy or Agent does not matter, neither in a node nor in a `dst`."""
    mgr = await mesh.mgr()
    old = NodeConfig(position=Position("Agent", "0", "1700000000"), upstream=mgr.address)
    agent = await mesh.start(old)
    await agent.joined(10)
    assert (await mgr.send("x", to=Position("Agent", "0", "whatever"))).src.identity == Position.agent(0)
    assert (await agent.send("x", to=Position("Mgr", "0", ""))).ok
    assert (await agent.take()).dst == Position.agent(0)
