"""A job of 100,000 nodes, every one a Router of its own, in one process: the design carries far beyond our machines."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

import pytest

from taskd_net.base.limits import INBOX
from taskd_net.base.position import Position
from taskd_net.core.router import RouterConfig
from tests.simulation.mesh import Mesh, Node, Tree

NODES = 100_000
BRANCHES = 20
PROXIES_PER_BRANCH = 10
"""The head of the branch and nine Proxies below it; each has an Agent and Workers."""
UNICASTS = 10_000
WAVE = 500
"""Unicasts under way together."""


def job(size: int) -> Tree:
    """Build the tree: the Mgr, two levels of Proxies, and below each Proxy its Agent and its share of the Workers."""
    tree: Tree = {Position.mgr(): None}
    proxies = []
    for branch in range(BRANCHES):
        head = Position.proxy(branch * PROXIES_PER_BRANCH)
        tree[head] = Position.mgr()
        below = [Position.proxy(branch * PROXIES_PER_BRANCH + number) for number in range(1, PROXIES_PER_BRANCH)]
        tree |= dict.fromkeys(below, head)
        proxies += [head, *below]
    tree |= {Position.agent(proxy.server_rank): proxy for proxy in proxies}
    workers = size - len(tree)
    for rank in range(workers):
        proxy = proxies[rank * len(proxies) // workers]
        tree[Position.worker(proxy.server_rank, rank)] = proxy
    assert len(tree) == size
    return tree


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Keep the garbage collector from walking millions of objects that are all alive."""
    gc.disable()
    yield
    gc.enable()
    gc.collect()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("size", [2_000, pytest.param(NODES, marks=[pytest.mark.long])])
def test_routers_of_a_large_job(size: int, no_collector: None, capsys: pytest.CaptureFixture[str]) -> None:
    @contextmanager
    def phase(name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        with capsys.disabled():
            print(f"\n  {size:,} routers: {name:<44} {time.perf_counter() - started:6.2f} s", end="", flush=True)

    with phase("made"):
        mesh = Mesh(job(size), config=lambda position: RouterConfig(inbox=INBOX[position.role]))
    nodes = list(mesh.nodes.values())
    mgr = mesh.nodes[Position.mgr()]

    with phase("all have joined"):
        mesh.run()
    mesh.check_idle()
    assert len(mgr.router.routes) == size - 1

    count = min(UNICASTS, size)
    with phase(f"{count:,} unicasts between random pairs"):
        unicasts(mesh, nodes, count)

    workers = [node for node in nodes if node.position.role == "Worker"]
    with phase(f"broadcast to {len(workers):,} Workers"):
        broadcast(mesh, mgr, workers)

    head = mgr.children[0]
    branch = list(subtree(head))
    with phase(f"a branch of {len(branch):,} is lost and forgotten"):
        for node in branch:
            mesh.crash(node)
        mesh.settle(31.0)
    assert {node.position.identity for node in branch}.isdisjoint(mgr.router.routes)
    assert len(mgr.router.routes) == size - 1 - len(branch)

    with phase("it has returned"):
        for node in branch:
            mesh.start(node)
        mesh.run()
    mesh.check_idle()

    with phase("its head alone is lost, and returns"):
        mesh.crash(head)
        mesh.start(head)
        mesh.run()
    mesh.check_idle()
    mesh.check()
    with phase(f"broadcast to {len(workers):,} Workers again"):
        broadcast(mesh, workers[0], workers[1:])
    with capsys.disabled():
        print()


def unicasts(mesh: Mesh, nodes: list[Node], count: int) -> None:
    """Send between random pairs, many at a time; each arrives once, at the right node."""
    chance = Random(20_000)
    for _ in range(count // WAVE):
        wave = [(mesh.send(chance.choice(nodes), to.position), to) for to in chance.sample(nodes, WAVE)]
        mesh.run()
        for sent, to in wave:
            assert sent.ack is not None and sent.ack.ok, (sent, sent.ack)
            assert [frame.uuid for frame in mesh.take(to)] == [sent.uuid]


def broadcast(mesh: Mesh, sender: Node, workers: list[Node]) -> None:
    """Send to every Worker; each gets one copy, over links that each carry it once, and nobody else gets any."""
    before = sum(len(node.received) for node in mesh.nodes.values())
    mesh.crossings = Counter()
    sent = mesh.send(sender, "Worker/All/All")
    mesh.run()
    assert sent.ack is not None and sent.ack.ok, sent.ack
    for worker in workers:
        assert [frame.uuid for frame in mesh.take(worker)] == [sent.uuid]
    assert sum(len(node.received) for node in mesh.nodes.values()) == before + len(workers)
    assert set(mesh.crossings.values()) == {1}
    links = len(workers) + BRANCHES * PROXIES_PER_BRANCH + (sender.parent is not None)
    assert len(mesh.crossings) == links
    mesh.crossings = None


def subtree(node: Node) -> Iterator[Node]:
    """The node and everybody below it, parents first."""
    yield node
    for child in node.children:
        yield from subtree(child)
