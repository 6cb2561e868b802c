"""Trees of this version and of an earlier one: whoever is parent, hop and child, nobody sets an option for it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Mapping
from itertools import product
from pathlib import Path

import pytest

from taskd_net import Code
from taskd_net.base.address import Address
from taskd_net.observe.client import NodeClient
from taskd_net.observe.document import Document, by_position, document
from tests.peers.mesh import soon
from tests.polling import asked_until
from tests.scenarios.test_processes import PATIENCE_S, ROOT, NodeProcess

pytestmark = [pytest.mark.mixed, pytest.mark.timeout(180)]

EVERY = list(product(("now", "earlier"), repeat=3))[1:-1]
"""Versions of the Mgr, of the Proxy of node 0 and of its Worker, without the trees of one version."""


class Tree:
    """A Mgr, two Proxies, and a Worker below each; node 1 has the version that the Proxy of node 0 has not.

    Args:
        versions: of the Mgr, of Proxy 0, and of Worker 0.
        earlier: the folder of the earlier version.
    """

    def __init__(self, versions: tuple[str, ...], earlier: Path) -> None:
        mgr, hop, leaf = versions
        other = "earlier" if hop == "now" else "now"
        self._folders = {"now": ROOT, "earlier": earlier}
        self.versions = {"Mgr/0": mgr, "Proxy/0": hop, "Worker/0/0": leaf, "Proxy/1": other, "Worker/1/1": other}
        self.nodes: dict[str, NodeProcess] = {}

    def make(self, place: str, upstream: str = "", listen: str = "127.0.0.1:0") -> NodeProcess:
        """A node of the version that belongs to its place."""
        version = self.versions[place]
        role, *ranks = place.split("/")
        settings: dict[str, object] = {} if role == "Mgr" else {"server_rank": int(ranks[0]), "upstream": upstream}
        if version == "now":  # the earlier version knows no ids of jobs, and its nodes are members of any job
            settings["job_id"] = "mixed"
        if role == "Worker":
            settings["rank"] = int(ranks[1])
        else:
            settings |= {"listen": listen}
        return NodeProcess(role.lower(), settings, self._folders[version])

    async def start(self) -> None:
        """Start all, and wait until they have joined."""
        for place in self.versions:
            above = {"Mgr": "", "Proxy": "Mgr/0", "Worker": f"Proxy/{place[7:8]}"}[place.partition("/")[0]]
            node = self.nodes[place] = self.make(place, self.nodes[above].address if above else "")
            await node.start()
            await soon(node.joined.wait(), PATIENCE_S)

    async def stop(self) -> None:
        """End all."""
        for node in self.nodes.values():
            await node.stop()

    async def renew(self, place: str, version: str) -> None:
        """Kill a node, and start it in a version on the same port."""
        old = self.nodes[place]
        old.signal(signal.SIGKILL)
        await old.stop()
        self.versions[place] = version
        self.nodes[place] = self.make(place, str(old.settings.get("upstream", "")), old.address)
        await self.nodes[place].start()

    async def mesh(self) -> Mapping[str, Document]:
        """The nodes that the Mgr knows."""
        async with NodeClient(Address.parse(self.nodes["Mgr/0"].address), 5.0) as client:
            return by_position(document(await client.mesh()))


@pytest.fixture(params=EVERY, ids="-".join)
async def tree(request: pytest.FixtureRequest, earlier: Path) -> AsyncIterator[Tree]:
    """A tree that has joined."""
    tree = Tree(request.param, earlier)
    try:
        await tree.start()
        yield tree
    finally:
        await tree.stop()


async def every_pair(tree: Tree) -> None:
    """Every node reaches every other one, in order, with bodies of every size."""
    for sender in tree.nodes.values():
        for place in tree.nodes:
            if tree.nodes[place] is not sender:
                assert await sender.send(place) == (0, place)
    body = "x" * 2_000_000
    for src, dst in (("Worker/0/0", "Worker/1/1"), ("Worker/1/1", "Worker/0/0"), ("Mgr/0", "Worker/0/0")):
        assert await tree.nodes[src].send(dst, body) == (0, dst)


async def test_messages_of_every_kind(tree: Tree) -> None:
    await every_pair(tree)
    for sender in tree.nodes.values():
        assert (await sender.send("Worker/All/All"))[0] == Code.OK
        assert (await sender.send("Proxy/0,1"))[0] == Code.OK
    assert (await tree.nodes["Mgr/0"].send("Worker/0/7"))[0] == Code.NO_ROUTE
    many = [str(number) for number in range(200)]
    while not tree.nodes["Worker/1/1"].got.empty():
        tree.nodes["Worker/1/1"].got.get_nowait()
    for body in many:
        assert await tree.nodes["Worker/0/0"].send("Worker/1/1", body) == (0, "Worker/1/1")
    got = [(await soon(tree.nodes["Worker/1/1"].got.get()))["body"] for _ in many]
    assert got == many, "in order, and each once"


async def test_mgr_shows_every_node_and_its_end(tree: Tree) -> None:
    """A link is direct where both ends are of this version; a Mgr of the earlier one shows it by its name."""

    async def known() -> bool:
        nodes = await tree.mesh()
        return all(place in nodes and (nodes[place]["inbox"] or place == "Mgr/0") for place in tree.versions)

    assert await asked_until(known, PATIENCE_S)
    nodes = await tree.mesh()
    assert {nodes[place]["state"] for place in tree.versions} == {"joined"}
    for place in list(tree.versions)[1:]:
        both = {tree.versions[place], tree.versions[nodes[place]["parent"]]}
        assert nodes[place]["link"] == ("direct" if both == {"now"} else "batched"), place

    # The earlier version knows no orderly ends: its leaves are lost, and where its Mgr is told of one, it forgets it.
    below = {tree.versions["Proxy/0"], tree.versions["Worker/0/0"]}
    end = None if below == {"now"} else "lost"

    async def ended() -> bool:
        node = (await tree.mesh()).get("Worker/0/0")
        return (node and node["state"]) == end

    assert await tree.nodes["Worker/0/0"].leave() == 0
    assert await asked_until(ended, PATIENCE_S)


async def test_killed_and_stopped_nodes_cost_nobody_else_anything(tree: Tree) -> None:
    leaf, far = tree.nodes["Worker/0/0"], tree.nodes["Worker/1/1"]
    leaf.signal(signal.SIGSTOP)
    for sender in (tree.nodes["Mgr/0"], far):
        assert await sender.send("Worker/0/0", timeout=1.5) == (Code.NETWORK_ACK_LOST, "Worker/0/0")
    assert await far.send("Mgr/0") == (0, "Mgr/0")
    leaf.signal(signal.SIGCONT)

    async def back() -> bool:
        return (await far.send("Worker/0/0", timeout=2.0))[0] == Code.OK

    assert await asked_until(back, PATIENCE_S)
    leaf.signal(signal.SIGKILL)

    async def away() -> bool:
        return (await far.send("Worker/0/0", timeout=1.0))[0] == Code.NET_STREAM_NOT_INITED

    assert await asked_until(away, PATIENCE_S)
    assert await far.send("Proxy/0") == (0, "Proxy/0")


@pytest.mark.parametrize("place", ["Mgr/0", "Proxy/0"])
async def test_node_that_comes_back_in_the_other_version(tree: Tree, place: str) -> None:
    """An upgrade, and its way back: the nodes below rejoin by themselves, with the links that both ends have."""
    other = {"now": "earlier", "earlier": "now"}
    for _ in range(2):
        await tree.renew(place, other[tree.versions[place]])

        async def whole() -> bool:
            asked = (tree.nodes["Mgr/0"].send(place, timeout=2.0) for place in list(tree.nodes)[1:])
            return all([(await answer)[0] == Code.OK for answer in asked])

        assert await asked_until(whole, PATIENCE_S)
    await every_pair(tree)
