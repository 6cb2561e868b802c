"""Ends of nodes: in good order or not, the records of them, and early forgetting."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from taskd_net import Code, NodeConfig
from taskd_net.base.address import Address
from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.core.ready import Kind
from taskd_net.net.links import peer as peers
from taskd_net.net.links.remote import Remote
from taskd_net.net.wire import codec, requests
from taskd_net.observe import status_codec as wire
from taskd_net.observe.client import AskFailed, NodeClient, NotForgotten
from taskd_net.observe.document import document
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


def missing(node: WatchedNode) -> list[str]:
    """The missing ranks, as a node sees them."""
    return [entry["position"] for entry in document(node.mesh())["missing"]]


async def leave(node: WatchedNode, way: str) -> None:
    """Leave in good order."""
    match way:
        case "withdraw":
            assert await node.withdraw(PATIENCE_S)
            await node.close(orderly=False)
        case "drain":
            assert await node.drain(PATIENCE_S)
        case "context":
            await node.__aexit__(None, None, None)
        case _:
            await node.close()


@both_links
@pytest.mark.parametrize("way", ["close", "withdraw", "drain", "context"])
async def test_a_rank_that_leaves_in_good_order_is_finished_and_not_missing(mesh: Mesh, way: str) -> None:
    mgr = await mesh.mgr(expect="1x1")
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    assert missing(mgr) == []
    await leave(worker, way)
    nodes = await until(mgr, lambda now: now["Worker/0/0"]["state"] == "finished")
    assert (nodes["Worker/0/0"]["parent"], nodes["Worker/0/0"]["link"]) == ("Proxy/0", None)
    assert missing(mgr) == []
    # The state stays when its place is given up.
    forget_children(proxy)
    assert states(proxy)["Worker/0/0"] == "finished"
    await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    assert mesh.count("status_not_taken") == 0


@pytest.mark.parametrize(
    ("error", "state"), [(ValueError("x"), "lost"), (KeyboardInterrupt(), "finished"), (SystemExit(0), "finished")]
)
async def test_a_context_that_ends_by_a_failure_has_not_finished(mesh: Mesh, error: BaseException, state: str) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    await worker.__aexit__(type(error), error, None)
    await until(mgr, lambda now: now["Worker/0/0"]["state"] == state)


async def test_a_job_that_has_ended_does_not_look_like_one_that_never_began(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="1x2")
    assert missing(mgr) == ["Proxy/0", "Worker/0/0", "Worker/0/1"]
    proxy = await mesh.proxy(0, mgr)
    nodes = [await mesh.worker(0, 0, proxy), await mesh.worker(0, 1, proxy), await mesh.agent(0, proxy)]
    await until(mgr, lambda now: len(now) == 5)
    for node in nodes:
        await node.close()
    await until(mgr, lambda now: [node["state"] for node in now.values()].count("finished") == 3)
    await proxy.drain(PATIENCE_S)
    await until(mgr, lambda now: now["Proxy/0"]["state"] == "stopped")
    forget_children(mgr)
    ended = {"Mgr/0": "joined", "Proxy/0": "stopped", "Agent/0": "finished"}
    assert states(mgr) == ended | {"Worker/0/0": "finished", "Worker/0/1": "finished"}
    assert missing(mgr) == []


async def test_who_is_below_a_stopped_proxy_is_cut_off_since_then_and_keeps_its_route(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="1x2")
    proxy = await mesh.proxy(0, mgr)
    await mesh.worker(0, 0, proxy)
    finished = await mesh.worker(0, 1, proxy)
    await until(mgr, lambda now: len(now) == 4)
    await finished.close()
    before = await until(mgr, lambda now: now["Worker/0/1"]["state"] == "finished")
    await proxy.drain(PATIENCE_S)
    nodes = await until(mgr, lambda now: now["Proxy/0"]["state"] == "stopped")
    assert nodes["Worker/0/0"]["state"] == "cut_off"
    assert nodes["Worker/0/0"]["since"] == nodes["Proxy/0"]["since"] > before["Worker/0/0"]["since"]
    assert missing(mgr) == ["Worker/0/0"]
    # The Worker lives, so a broadcast must not be acknowledged without it.
    assert (await mgr.send("x", to="Worker/All/All")).code == Code.NET_STREAM_NOT_INITED
    # The restarted Proxy knows nothing of earlier ends.
    await mesh.proxy(0, mgr, listen=str(proxy.address))
    nodes = await until_joined(mgr, "Worker/0/0")
    assert (nodes["Proxy/0"]["state"], nodes["Worker/0/1"]["state"]) == ("joined", "finished")
    # It stops for good: after the grace time, the nodes left below it are unknown.
    await mesh.nodes[-1].close()
    await until(mgr, lambda now: now["Proxy/0"]["state"] == "stopped")
    forget_children(mgr)
    assert states(mgr)["Worker/0/0"] == "cut_off"
    mgr.driver.view.bounds = ViewBounds(gone_s=-1.0)
    assert states(mgr) == {"Mgr/0": "joined", "Proxy/0": "stopped", "Worker/0/1": "finished"}


async def test_the_last_word_of_a_node_whose_place_is_taken_says_nothing(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    older = await mesh.worker(0, 0, mgr)
    position = older.position
    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        call: Any = channel.unary_unary("/TaskNet/PathDiscovery")
        request = requests.write_announcement("u", position, [position])
        # Over another connection than that of the current stream.
        answer = codec.read_ack(await call(request, metadata=peers.end_metadata(State.FINISHED)), Position.mgr())
    assert answer.ok
    await older.close(orderly=False)
    await until(mgr, lambda now: now["Worker/0/0"]["state"] == "lost")


async def test_a_parent_of_an_earlier_version_is_told_what_it_knows(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows no ends: a leaf that has left disappears, and a Proxy is lost, as before."""
    says = peers.parent_metadata

    def earlier(depth: int, offers: peers.Metadata, pace: float = 0.0, job: str = "") -> peers.Metadata:
        return tuple(pair for pair in says(depth, offers, pace, job) if depth or pair != peers.ENDS)

    monkeypatch.setattr(peers, "parent_metadata", earlier)
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    await worker.close()
    await until(mgr, lambda now: "Worker/0/0" not in now)
    assert states(proxy)["Worker/0/0"] == "finished"
    await proxy.close()
    await until(mgr, lambda now: now["Proxy/0"]["state"] == "lost")


async def test_a_foreign_parent_hears_no_last_word(mesh: Mesh) -> None:
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        announced = parent.requests["PathDiscovery"].qsize()
        await worker.close()
        assert announced and parent.requests["PathDiscovery"].qsize() == announced


async def test_closing_while_the_link_is_being_lost_ends_well(mesh: Mesh) -> None:
    """gRPC cancels the awaiting task when the channel of a call is closed."""
    mgr = await mesh.mgr()
    for rank in range(30):
        async with Wire(mgr.address or "") as wire:
            worker = await mesh.worker(0, rank, wire.address)
            assert (await mgr.send("x", to=worker.position)).ok
            wire.cut()
            await soon(worker.close())


async def test_a_service_is_shown_as_one_and_leaves_nothing_behind(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="2x0")
    one, _ = await mesh.proxy(0, mgr), await mesh.proxy(1, mgr)
    config = NodeConfig.agent(server_rank=1, upstream=str(one.address), service=True)
    service = await mesh.start(config)
    await service.joined(PATIENCE_S)
    nodes = await until_joined(mgr, "Agent/1")
    assert [position for position, node in nodes.items() if node["service"]] == ["Agent/1"]
    assert missing(mgr) == []
    await service.close()
    await until(mgr, lambda now: "Agent/1" not in now)
    assert set(states(one)) == {"Proxy/0"}
    # A killed one is lost for the grace time, and then forgotten.
    again = await mesh.start(config)
    await again.joined(PATIENCE_S)
    await again.close(orderly=False)
    await until(mgr, lambda now: now.get("Agent/1", {}).get("state") == "lost")
    forget_children(one)
    await until(mgr, lambda now: "Agent/1" not in now)


async def test_one_stray_agent_makes_no_node_miss_one(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="2x0")
    await mesh.proxy(0, mgr)
    await mesh.proxy(1, mgr)
    await mesh.agent(1000, mgr)
    assert missing(mgr) == []
    agent = await mesh.agent(0, mgr)
    assert missing(mgr) == []
    await agent.close(orderly=False)
    await until(mgr, lambda now: now["Agent/0"]["state"] == "lost")
    assert missing(mgr) == ["Agent/0"]


async def test_who_is_behind_a_foreign_proxy_is_known_since_it_was_announced(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Proxy/7") as foreign:
        await foreign.join(str(mgr.address))
        began = mgr.driver.view.wall()
        await foreign.announce("Worker/7/70")
        heard = mgr.driver.view.wall()
        await asyncio.sleep(0.3)
        # First look at it.
        nodes = seen(mgr)
        assert began - 0.01 <= nodes["Worker/7/70"]["since"] <= heard + 0.01
        assert nodes["Worker/7/70"]["state"] == "joined"
        # After a second announcement the first time counts; without an announcement the time is unknown.
        await foreign.announce("Worker/7/70")
        mgr.driver.router.routes.learn(Position.worker(7, 71), 1, 1)
        again = seen(mgr)
        assert again["Worker/7/70"]["since"] == nodes["Worker/7/70"]["since"]
        assert again["Worker/7/71"]["since"] is None


async def forget(node: WatchedNode, position: str) -> State | None:
    """Ask a node to forget another node."""
    async with NodeClient(Address.parse(str(node.address)), PATIENCE_S) as asker:
        return await asker.forget(Position.parse(position))


async def test_a_connected_node_is_not_forgotten(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    for position in ("Proxy/0", "Worker/0/0", "Mgr/0"):
        with pytest.raises(NotForgotten, match=f"^{position} is connected, and was not forgotten$"):
            await forget(mgr, position)
    with pytest.raises(NotForgotten, match=r"^Worker/9/9 is not known at Mgr/0$"):
        await forget(mgr, "Worker/9/9")
    assert (await mgr.send("x", to=worker.position)).ok
    # Nor can the asked node itself be forgotten while its parent is away.
    await mgr.close()
    await mesh.until(lambda: not proxy.is_joined)
    with pytest.raises(NotForgotten, match=r"^Proxy/0 is connected"):
        await forget(proxy, "Proxy/0")


async def test_a_lost_node_is_forgotten_at_once_with_its_place_and_its_routes(mesh: Mesh) -> None:
    mgr = await mesh.mgr(expect="1x1")
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    await worker.close(orderly=False)
    await until(mgr, lambda now: now["Worker/0/0"]["state"] == "lost")
    assert await forget(proxy, "Worker/0/0") is State.LOST
    assert len(proxy.driver.router.children) == 0
    await until(mgr, lambda now: "Worker/0/0" not in now)
    await mesh.until(lambda: Position.worker(0, 0) not in mgr.routes())
    assert (await mgr.send("x", to="Worker/0/0")).code == Code.NO_ROUTE
    assert [event["position"] for event in mesh.events if event["event"] == "forgotten"] == ["Worker/0/0"]
    # It returns with its old state.
    again = await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    assert (await mgr.send("x", to=again.position)).ok


async def test_what_the_mgr_has_forgotten_a_proxy_does_not_tell_it_again(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker, other = await mesh.worker(0, 0, proxy), await mesh.worker(0, 1, proxy)
    await until(mgr, lambda now: len(now) == 4)
    await worker.close()
    await until(mgr, lambda now: now["Worker/0/0"]["state"] == "finished")
    assert await forget(mgr, "Worker/0/0") is State.FINISHED
    assert Position.worker(0, 0) not in mgr.routes()
    # The Proxy still knows it, and reports everything after each join.
    forget_children(proxy)
    proxy.driver.view.ledger.begin()
    await other.close()
    await until(mgr, lambda now: now["Worker/0/1"]["state"] == "finished")
    assert set(states(mgr)) == {"Mgr/0", "Proxy/0", "Worker/0/1"}


async def test_with_a_proxy_all_are_forgotten_that_were_known_through_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    await proxy.close()
    await until(mgr, lambda now: now["Worker/0/0"]["state"] == "cut_off")
    assert await forget(mgr, "Proxy/0") is State.STOPPED
    assert set(states(mgr)) == {"Mgr/0"} and not mgr.routes()


async def test_a_route_alone_is_forgotten_and_one_that_is_cut_off(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    await mesh.worker(0, 0, proxy)
    await until_joined(mgr, "Worker/0/0")
    mgr.driver.perform(
        mgr.driver.router.announced(
            mgr.driver.now(), 1, Kind.ADD, [Position.worker(0, 7)], mgr.driver.request(lambda _: None), "u"
        )
    )
    assert await forget(mgr, "Worker/0/7") is None
    await proxy.close(orderly=False)
    await until(mgr, lambda now: now["Worker/0/0"]["state"] == "cut_off")
    assert await forget(mgr, "Worker/0/0") is State.CUT_OFF
    assert set(mgr.routes()) == {Position.proxy(0)}


async def test_only_who_is_on_the_same_machine_may_have_a_node_forget(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    await worker.close(orderly=False)
    await until(mgr, lambda now: now["Worker/0/0"]["state"] == "lost")
    monkeypatch.setattr(Remote, "is_of_this_machine", lambda *_: False)
    with pytest.raises(NotForgotten, match=r"^Mgr/0 forgets nodes only for those who ask on its own machine$"):
        await forget(mgr, "Worker/0/0")
    assert states(mgr)["Worker/0/0"] == "lost"


async def test_a_request_that_names_nobody_is_refused(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    monkeypatch.setattr(wire, "write_forget", lambda _: b"\xff")
    with pytest.raises(AskFailed, match=r"refused: .*the bytes are not a request to forget a node"):
        await forget(mgr, "Worker/0/0")
