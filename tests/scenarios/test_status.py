"""The state of the mesh, through real sockets: present and missing nodes, and the figures of each."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import grpc
import pytest

from taskd_net import Node
from taskd_net.base.address import Address
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.states import State
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.observe import status_codec as wire
from taskd_net.observe.client import NodeClient
from taskd_net.observe.document import document, healthy
from taskd_net.observe.ledger import Record, Report
from taskd_net.observe.records import NodeStatus
from taskd_net.observe.view import ViewBounds
from tests.peers.child import RawChild
from tests.peers.mesh import PATIENCE_S, Mesh, WatchedNode, both_links, soon
from tests.peers.mesh_state import forget_children, seen, states, until, until_joined
from tests.peers.parent import RawParent
from tests.peers.wire import Wire

pytestmark = pytest.mark.oldest


@pytest.fixture(autouse=True)
def quick(mesh: Mesh) -> None:
    """Report figures at once."""
    mesh.let(figures=0.05)


async def tree(mesh: Mesh) -> tuple[WatchedNode, WatchedNode, WatchedNode, WatchedNode]:
    """A Mgr, a Proxy below it, another Proxy below that, a Worker below that one."""
    mgr = await mesh.mgr(expect="3x1")
    near = await mesh.proxy(0, mgr)
    far = await mesh.proxy(1, near)
    return mgr, near, far, await mesh.worker(1, 1, far)


@both_links
async def test_mgr_knows_every_node_below_with_what_it_says_of_itself(mesh: Mesh) -> None:
    mgr, near, far, worker = await tree(mesh)
    assert (await worker.send("hello", to="Mgr")).ok
    nodes = await until(
        mgr, lambda now: now.get("Worker/1/1", {}).get("inbox") and now["Worker/1/1"]["up"]["ack_p99"] is not None
    )
    assert {position: node["parent"] for position, node in nodes.items()} == {
        "Mgr/0": None,
        "Proxy/0": "Mgr/0",
        "Proxy/1": "Proxy/0",
        "Worker/1/1": "Proxy/1",
    }
    assert {node["state"] for node in nodes.values()} == {"joined"}
    known = nodes["Worker/1/1"]
    assert known["link"] == next(iter(worker.driver.links.values())).kind
    assert (known["peer"], known["up"]["messages"], known["inbox"]["room"]) == ("taskd_net", 1, 8)
    assert known["address"].startswith("127.0.0.1:") and known["last_message"] >= known["since"] - 1
    assert (nodes["Proxy/1"]["listen"], nodes["Mgr/0"]["listen"]) == (far.address, mgr.address)
    assert nodes["Mgr/0"]["delivered"] == 1
    missing = document(mgr.mesh())["missing"]
    assert [entry["position"] for entry in missing] == ["Worker/0/0", "Proxy/2", "Worker/2/2"]
    assert set(seen(near)) == {"Proxy/0", "Proxy/1", "Worker/1/1"}


@both_links
async def test_a_lost_worker_is_known_far_above_at_once_and_forgotten_as_gone(mesh: Mesh) -> None:
    mgr, _, far, worker = await tree(mesh)
    await until_joined(mgr, "Worker/1/1")
    await worker.close(orderly=False)
    nodes = await until(mgr, lambda now: now["Worker/1/1"]["state"] == "lost")
    assert (nodes["Worker/1/1"]["link"], nodes["Worker/1/1"]["parent"]) == (None, "Proxy/1")
    far.driver.router.children.by_id[1].expires = 0.0
    far.driver.perform(far.driver.router.tick(far.driver.now() + 3600))
    assert states(far)["Worker/1/1"] == "gone"
    await until(mgr, lambda now: now["Worker/1/1"]["state"] == "gone")
    again = await mesh.worker(1, 1, far)
    await until(mgr, lambda now: now["Worker/1/1"]["state"] == "joined")
    await again.withdraw(PATIENCE_S)
    await again.close()
    await until(mgr, lambda now: now["Worker/1/1"]["state"] == "finished")
    forget_children(far)
    assert states(far) == {"Proxy/1": "joined", "Worker/1/1": "finished"}


@pytest.mark.parametrize("mesh", ["direct"], indirect=True)
async def test_node_that_gives_no_sign_of_life_is_not_answering_until_it_gives_one(mesh: Mesh) -> None:
    """It keeps its place, and is not missing. A node behind it cannot be reached, and is."""
    mesh.let(keepalive=0.25, keepalive_timeout=0.1, not_answering=0.4)
    mgr = await mesh.mgr(expect="1x1")
    middle = await mesh.proxy(0, mgr)
    async with Wire(middle.address or "") as wire:
        await mesh.worker(0, 0, wire.address)
        since = (await until_joined(mgr, "Worker/0/0"))["Worker/0/0"]["since"]
        wire.freeze()
        nodes = await until(mgr, lambda now: now["Worker/0/0"]["state"] == "not_answering")
        assert (nodes["Worker/0/0"]["link"], nodes["Worker/0/0"]["since"] > since) == ("direct", True)
        told = document(mgr.mesh())
        assert (told["summary"]["not_answering"], told["missing"], healthy(told)) == (1, [], False)
        assert mesh.count("not_answering", peer="Worker/0/0") == 1
        wire.thaw()
        nodes = await until_joined(mgr, "Worker/0/0")
        assert nodes["Worker/0/0"]["since"] == since
    async with Wire(mgr.address or "") as wire:
        proxy = await mesh.proxy(1, wire.address)
        await mesh.worker(1, 1, proxy)
        await until_joined(mgr, "Worker/1/1")
        wire.freeze()
        nodes = await until(mgr, lambda now: now["Proxy/1"]["state"] == "not_answering")
        assert nodes["Worker/1/1"]["state"] == "cut_off"
        wire.thaw()
        await until_joined(mgr, "Worker/1/1")


async def test_vanished_nodes_are_shown_for_their_time(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    await until(mgr, lambda now: now["Worker/0/0"]["inbox"])
    await worker.close(orderly=False)
    await mesh.until(lambda: states(mgr)["Worker/0/0"] == "lost")
    (link,) = mgr.driver.router.children.by_id.values()
    link.expires = 0.0
    mgr.driver.perform(mgr.driver.router.tick(mgr.driver.now() + 3600))
    assert states(mgr)["Worker/0/0"] == "gone"
    mgr.driver.view.bounds = ViewBounds(gone_s=-1.0)
    assert "Worker/0/0" not in states(mgr)


async def test_who_is_behind_a_lost_proxy_is_cut_off_until_it_is_back(mesh: Mesh) -> None:
    mgr, near, far, _ = await tree(mesh)
    await until_joined(mgr, "Worker/1/1")
    await near.close(orderly=False)
    await mesh.until(lambda: states(mgr)["Proxy/0"] == "lost")
    assert states(mgr) == {"Mgr/0": "joined", "Proxy/0": "lost", "Proxy/1": "cut_off", "Worker/1/1": "cut_off"}
    await mesh.until(lambda: states(far)["Proxy/1"] == "lost")
    await mesh.proxy(0, mgr, listen=str(near.address))
    await until(mgr, lambda now: {node["state"] for node in now.values()} == {"joined"} and len(now) == 4)


async def test_a_proxy_that_moves_is_shown_where_it_is(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    one, two = await mesh.proxy(1, mgr), await mesh.proxy(2, mgr)
    moves = await mesh.proxy(3, one)
    await until(mgr, lambda now: now.get("Proxy/3", {}).get("parent") == "Proxy/1")
    await moves.close(orderly=False)
    await until(mgr, lambda now: now["Proxy/3"]["state"] == "lost")
    await mesh.proxy(3, two)
    await until(mgr, lambda now: now["Proxy/3"]["parent"] == "Proxy/2" and now["Proxy/3"]["state"] == "joined")
    # Its old place forgets it only now.
    one.driver.router.children.by_id[1].expires = 0.0
    one.driver.perform(one.driver.router.tick(one.driver.now() + 3600))
    await mesh.worker(1, 1, one)
    nodes = await until_joined(mgr, "Worker/1/1")
    assert (nodes["Proxy/3"]["parent"], nodes["Proxy/3"]["state"]) == ("Proxy/2", "joined")


async def test_of_two_who_claim_a_place_the_end_of_the_older_one_says_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    one, two = await mesh.proxy(1, mgr), await mesh.proxy(2, mgr)
    older = await mesh.proxy(3, one)
    await until(mgr, lambda now: now.get("Proxy/3", {}).get("parent") == "Proxy/1")
    await mesh.proxy(3, two)
    await until(mgr, lambda now: now["Proxy/3"]["parent"] == "Proxy/2")
    await older.close(orderly=False)
    await mesh.until(lambda: one.driver.router.counters.losses)
    await mesh.worker(1, 1, one)
    nodes = await until_joined(mgr, "Worker/1/1")
    assert (nodes["Proxy/3"]["parent"], nodes["Proxy/3"]["state"]) == ("Proxy/2", "joined")
    assert states(one)["Proxy/3"] == "lost"


async def test_a_foreign_child_is_shown_with_what_its_parent_sees(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(proxy.address))
        await foreign.announce("Worker/7/70")
        assert (await foreign.send("Mgr/0", "x")).code == 0
        nodes = await until(mgr, lambda now: "Worker/7/70" in now and now["Proxy/7"]["up"]["messages"])
        known, behind = nodes["Proxy/7"], nodes["Worker/7/70"]
        assert (known["peer"], known["link"], known["state"]) == ("contract", "tasknet", "joined")
        assert (known["inbox"], known["version"], known["up"]["messages"]) == (None, None, 1)
        assert (behind["parent"], behind["state"], behind["peer"]) == ("Proxy/7", "joined", "")
        await foreign.cut()
        await until(mgr, lambda now: now["Proxy/7"]["state"] == "lost")
        assert states(mgr)["Worker/7/70"] == "cut_off"
    mesh_of_proxy = states(proxy)
    assert mesh_of_proxy["Worker/7/70"] == "cut_off"


async def test_a_foreign_parent_is_told_nothing(mesh: Mesh) -> None:
    async with RawParent() as parent:
        proxy = await mesh.proxy(0, parent.address)
        await mesh.worker(0, 0, proxy)
        assert states(proxy) == {"Proxy/0": "joined", "Worker/0/0": "joined"}
        # No reports are kept for it, and none was sent that it would refuse.
        assert proxy.driver.view.ledger.reports == 0
        assert not [event for event in mesh.events if event["event"] == "status_not_taken"]


async def test_reports_of_strangers_and_garbage_are_refused(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        tell: Any = channel.unary_unary(f"/{STATUS_SERVICE}/Tell")
        for position, data, text in [
            (("Worker", "9", "9"), b"", "not registered"),
            (("Worker", "0", "0"), b"\xff", "report"),
        ]:
            metadata = tuple(zip(("role", "serverrank", "processrank"), position, strict=True))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await tell(data, metadata=metadata)
            assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert text in str(refused.value.details())
    assert set(states(mgr)) == {"Mgr/0", "Worker/0/0"}
    # A child may have been forgotten while it reported.
    assert mesh.count("violation") == 0
    assert [event["child"] for event in mesh.events if event["event"] == "status_refused"] == ["Worker/0/0"]


async def test_a_leaf_tells_of_itself_alone_and_nobody_of_his_parent(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await mesh.worker(0, 0, mgr)
    before = await until(mgr, lambda now: all(node["inbox"] for node in now.values()) and len(now) == 3)
    node = wire.write_node(NodeStatus(proxy.position, State.JOINED, 1.0, "x"))
    for link in mgr.driver.router.children.by_id.values():
        mgr.driver.view.told(link, Report([Record("Worker/5/5", node), Record("Mgr/0", node)]))
        assert ("Worker/5/5" in states(mgr)) == (not link.is_leaf)
        mgr.driver.view.told(link, Report(gone=["Worker/5/5", "Mgr/0"]))
        now = seen(mgr)
        assert set(now) == set(before) and now["Mgr/0"]["peer"] == "taskd_net"


async def test_a_parent_that_does_not_take_a_report_gets_everything_again(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await until(mgr, lambda now: now["Proxy/0"]["inbox"])
    view, told, failed = mgr.driver.view, mgr.driver.view.told, []

    def fail(*arguments: Any) -> None:
        failed.append(arguments)
        view.told = told  # type: ignore[method-assign]
        raise Refusal(Code.CLIENT_ERR, "once")

    view.told = fail  # type: ignore[assignment, method-assign]
    await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    assert failed
    (event,) = (event for event in mesh.events if event["event"] == "status_not_taken")
    assert event["node"] == "Proxy/0"
    gc.collect()


async def test_what_does_not_change_is_not_told(mesh: Mesh) -> None:
    mgr, near, _, _ = await tree(mesh)
    await until(mgr, lambda now: now.get("Worker/1/1", {}).get("inbox") and now["Proxy/1"]["inbox"])
    calls = 0
    told = mgr.driver.view.told

    def count(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        told(*arguments)

    mgr.driver.view.told = count  # type: ignore[assignment, method-assign]
    looks, look = 0, near.driver.view.look_in_parts
    done = asyncio.Event()

    async def counted() -> None:
        nonlocal looks
        await look()
        looks += 1
        if looks == 10:
            done.set()

    near.driver.view.look_in_parts = counted  # type: ignore[method-assign]
    await soon(done.wait(), PATIENCE_S)
    assert calls <= 1


async def test_many_children_are_looked_at_in_parts(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    mgr.driver.view.bounds = ViewBounds(looks=1)
    # No record of a service remains.
    workers = [await mesh.worker(0, rank, mgr, service=rank == 2) for rank in range(3)]
    for worker in workers:
        assert (await worker.send("x", to="Mgr")).ok
    parts = mgr.driver.view.look_slices()
    next(parts)
    # One node is forgotten between two parts, and must not come back.
    await workers[2].withdraw(PATIENCE_S)
    await workers[2].close()
    await mesh.until(lambda: mgr.driver.router.counters.losses)
    mgr.driver.perform(mgr.driver.router.tick(mgr.driver.now() + 3600))
    assert len(list(parts)) == 2
    assert {p: known["up"]["messages"] for p, known in seen(mgr).items()} == {
        "Mgr/0": 0,
        "Worker/0/0": 1,
        "Worker/0/1": 1,
    }


async def test_the_document_of_another_process_is_the_same(mesh: Mesh) -> None:
    mgr, *_ = await tree(mesh)
    await until(mgr, lambda now: len(now) == 4 and all(node["inbox"] for node in now.values()))
    async with NodeClient(Address.parse(str(mgr.address)), PATIENCE_S) as asker:
        asked = document(await asker.mesh())
    own = document(mgr.mesh())
    assert asked["nodes"] == own["nodes"] and asked["missing"] == own["missing"]


async def test_a_node_that_was_not_started_knows_nothing() -> None:
    from taskd_net import NodeConfig

    with pytest.raises(RuntimeError, match="not started"):
        Node(NodeConfig.mgr()).mesh()
