"""Answers of a node to those who ask: its state at that moment, and series of probes within bounds."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Collection
from typing import Any

import grpc
import pytest

from taskd_net import Node, Position
from taskd_net.base.address import Address
from taskd_net.base.cause import Place
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.stacks import StackGroup
from taskd_net.core.certificate_name import parse_all
from taskd_net.core.membership import Membership
from taskd_net.net.links.remote import Caller, Remote
from taskd_net.observe import probe_codec, status_codec
from taskd_net.observe.client import AskFailed, NodeClient, NoManager
from taskd_net.observe.document import Document, by_position, document
from taskd_net.observe.job_codec import Stacks, write_stacks_answer
from taskd_net.observe.job_view import JobView
from taskd_net.observe.probe_codec import ProbeSeries
from taskd_net.observe.service import PROBE_SERIES_PER_CALLER
from taskd_net.observe.shared_answer import SharedAnswer
from tests.peers.child import RawChild
from tests.peers.mesh import PATIENCE_S, Mesh, WatchedNode, soon

pytestmark = [pytest.mark.oldest, pytest.mark.timeout(180)]


def client(node: WatchedNode) -> NodeClient:
    """A client of a node."""
    return NodeClient(Address.parse(node.address or ""), PATIENCE_S)


async def told(node: Node) -> dict[str, Document]:
    """The answer of a node, by position."""
    async with NodeClient(Address.parse(str(node.address)), PATIENCE_S) as asker:
        return dict(by_position(document(await asker.mesh())))


async def test_figures_are_those_of_now_and_not_of_the_last_look(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr)
    for count in range(1, 4):
        assert (await worker.send("x", to="Mgr")).ok
        assert (await told(mgr))["Worker/0/0"]["up"]["messages"] == count


async def test_child_that_says_nothing_of_itself_has_joined_again_as_often_as_its_parent_has_seen(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/7") as foreign:
        await foreign.join(str(mgr.address))
        assert (await told(mgr))["Worker/0/7"]["reconnects"] == 0
        await foreign.cut()
        await mesh.logged("child_lost")
        assert (await told(mgr))["Worker/0/7"]["state"] == "lost"
        await foreign.join(str(mgr.address))
        assert (await told(mgr))["Worker/0/7"]["reconnects"] == 1


@pytest.mark.parametrize("links", ["batched", "tasknet"])
async def test_link_of_a_child_is_shown_as_what_it_is_while_it_stands(mesh: Mesh, links: str) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, mgr, links=links)
    assert (await told(mgr))["Worker/0/0"]["link"] == links
    await worker.close(orderly=False)
    await mesh.logged("child_lost")
    assert (await told(mgr))["Worker/0/0"]["link"] is None


async def test_service_refuses_what_cannot_be_done(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with client(mgr) as asking:
        for refused in (
            asking.trace(Position("Worker", "All", "All"), 1.0),
            asking.trace(Position.mgr(), float("nan")),
            asking.ping(ProbeSeries(Position.mgr(), -1.0)),
            asking.ping(ProbeSeries(Position("", "", ""), 1.0)),
        ):
            with pytest.raises(AskFailed, match="refused"):
                await anext(refused)


async def test_series_are_bounded_and_end_with_who_asks(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    endless = ProbeSeries(Position.mgr(), 1.0, 0, 0.01)
    async with client(mgr) as asking:
        running = [asking.ping(endless) for _ in range(PROBE_SERIES_PER_CALLER)]
        for series in running:
            assert (await anext(series)).ok
        with pytest.raises(AskFailed, match=f"{PROBE_SERIES_PER_CALLER} series of probes"):
            await anext(asking.ping(endless))
        for series in running:
            await series.aclose()  # type: ignore[attr-defined]

        async def freed() -> None:
            while True:
                try:
                    assert (await anext(asking.ping(endless))).ok
                    return
                except AskFailed:
                    await asyncio.sleep(0.01)

        await soon(freed())


async def test_series_does_not_hold_up_a_node_that_closes(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with client(mgr) as asking:
        series = asking.ping(ProbeSeries(Position.mgr(), 1.0, 0, 3600.0))
        assert (await anext(series)).ok
        assert await soon(mgr.drain(60.0))
        with pytest.raises(AskFailed, match="no node answers at"):
            assert [echo.code async for echo in series] == []


async def test_calls_keep_the_names_that_older_versions_ask_by(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with grpc.aio.insecure_channel(str(mgr.address)) as channel:
        about: Any = channel.unary_unary("/taskd_net.probe.Probe/About")
        assert probe_codec.read_about(await about(b"")).position == mgr.position
        tree: Any = channel.unary_unary("/taskd_net.status.TaskStatus/Tree")
        assert status_codec.read_mesh(await tree(b"")).root == mgr.position.identity
        forget: Any = channel.unary_unary("/taskd_net.status.TaskStatus/Forget")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await forget(status_codec.write_forget(Position.worker(0, 0)))
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
        for name, request in (
            ("Ping", probe_codec.write_ping(ProbeSeries(mgr.position, 1.0))),
            ("Trace", probe_codec.write_trace(mgr.position, 1.0)),
        ):
            series: Any = channel.unary_stream(f"/taskd_net.probe.Probe/{name}")
            assert [probe_codec.read_echo(data).code async for data in series(request)] == [0]


async def test_those_who_ask_for_the_tree_meanwhile_share_one_look(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look lasts until all have asked: the next one answers the others."""
    mgr = await mesh.mgr()
    looks, asked, all_have_asked = 0, 0, asyncio.Event()
    look, get = mgr.driver.view.look_in_parts, SharedAnswer.get

    async def counted() -> None:
        nonlocal looks
        looks += 1
        await all_have_asked.wait()
        await look()

    async def counted_get(self: SharedAnswer) -> bytes:
        nonlocal asked
        asked += 1
        if asked == 50:
            all_have_asked.set()
        return await get(self)

    monkeypatch.setattr(mgr.driver.view, "look_in_parts", counted)
    monkeypatch.setattr(SharedAnswer, "get", counted_get)
    async with client(mgr) as asking:
        answers = await asyncio.gather(*(asking.mesh() for _ in range(50)))
    assert {answer.root for answer in answers} == {mgr.position.identity}
    assert 1 <= looks <= 2


async def test_stacks_are_collected_for_a_caller_of_this_machine(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    asked: list[tuple[Collection[int], str]] = []
    groups = [StackGroup({3: 7}, stack=(Place("train.py", 1, "f"),))]

    async def collect(ranks: Collection[int], why: str) -> bytes:
        asked.append((ranks, why))
        return write_stacks_answer(Stacks(groups, (1, 2), "kept.txt", 0.5))

    async with client(mgr) as asking:
        with pytest.raises(NoManager, match=r"^Mgr/0 decides nothing"):
            await asking.stacks(())
        mgr.driver.job_stacks = collect
        assert await asking.stacks([5, 3]) == Stacks(groups, (1, 2), "kept.txt", 0.5)
        assert asked == [(frozenset({3, 5}), "asked for from ipv4:127.0.0.1")]
        with pytest.raises(AskFailed, match=r"refused: rank is -1; expected a whole number, at least 0$"):
            await asking.stacks([-1])

        async def busy(_: Collection[int], __: str) -> bytes:
            raise Refusal(Code.RECV_BUF_BUSY, "node 0 was asked 1 s ago")

        mgr.driver.job_stacks = busy
        with pytest.raises(AskFailed, match=r"refused: node 0 was asked 1 s ago$"):
            await asking.stacks(())


async def test_stacks_are_not_collected_for_others(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    monkeypatch.setattr(Remote, "is_of_this_machine", lambda *_: False)
    async with client(mgr) as asking:
        with pytest.raises(AskFailed, match=r"refused: Mgr/0 collects stacks for those who ask on its own machine, or"):
            await asking.stacks(())
    assert mgr.driver.server is not None
    service: Any = mgr.driver.server._services
    for uris, may in (
        (["taskd://j/Agent/*"], True),
        (["taskd://*/*/*"], True),
        (["taskd://j/Agent/0", "taskd://j/Proxy/*"], False),
        (["taskd://other/Agent/*"], False),
        ([], False),
    ):
        names = frozenset(parse_all(uris))
        caller = Caller(Remote("ipv4", "10.0.0.9", "5"), lambda names=names: names)  # type: ignore[misc]
        monkeypatch.setattr(mgr.driver.router, "membership", Membership("j"))
        assert service._may_collect(caller) is may, uris


async def test_job_is_that_of_a_look_after_the_question(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    looks = itertools.count(1)
    mgr.driver.job_view = lambda: JobView(f"look {next(looks)}")
    async with client(mgr) as asking:
        for number in range(1, 4):
            assert (await asking.job()).job_id == f"look {number}"
