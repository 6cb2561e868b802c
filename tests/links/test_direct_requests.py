"""Requests over a direct link: a join without calls, replies by number, bounds, and links that end or move."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from taskd_net import Code, Position
from taskd_net.core.ready import Kind as RoutesKind
from taskd_net.net.joining.announcements import Announcements
from taskd_net.net.links import direct_requests
from taskd_net.net.links.direct_requests import Answering, Asking
from taskd_net.net.links.grpc_calls import CallFailed, GrpcRequests
from taskd_net.net.links.remote import Caller, remote_of
from taskd_net.net.wire import link_pb2
from taskd_net.net.wire.link_requests import Announcing, LinkReply, Request, read_request, write_reply, write_request
from taskd_net.net.wire.requests import write_announcement
from taskd_net.net.wire.socket_frames import FrameError, FrameKind, Greeting, write_frame, write_greeting
from taskd_net.observe import status_codec
from taskd_net.observe.ledger import Report
from tests.peers.certificates import Folder
from tests.peers.direct_child import DirectChild
from tests.peers.mesh import Mesh, soon
from tests.peers.stubs import pb
from tests.ports import free_address
from tests.wire.test_socket_frames import fed, reader_of

pytestmark = pytest.mark.timeout(60)

WORKER = Position.worker(0, 0)
MGR = Position.mgr()


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes that offer direct links."""
    async with Mesh("direct") as mesh:
        yield mesh


def announcement(*path: Position, child: Position = WORKER, uuid: str = "a") -> bytes:
    """An announcement."""
    return write_announcement(uuid, child, path or [child])


async def test_nodes_join_report_and_leave_without_a_call(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*_: object) -> None:
        raise AssertionError("a call of gRPC")

    monkeypatch.setattr(GrpcRequests, "announce", called)
    monkeypatch.setattr(GrpcRequests, "report", called)
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    worker = await mesh.worker(0, 0, proxy)
    assert (await soon(mgr.send("x", to=worker.position))).ok
    await mesh.until(lambda: mgr.driver.view.reporters)
    await soon(worker.close())
    await mesh.until(lambda: proxy.driver.view.ledger.has_ended("Worker/0/0"))
    assert await soon(proxy.withdraw(10.0))
    assert mgr.driver.router.routes.next_hop(Position.proxy(0)) is None


async def test_leaf_is_accepted_and_announced_in_one_write(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with DirectChild("Worker/0/0") as child:
        await child.register(mgr.address or "")
        reader = await child.connect_socket()
        child.put(
            write_greeting(Greeting(child.offer[1], False))
            + child.request(number=7, announcement=announcement(), patience=3000, routes="complete")
        )
        data = await soon(reader.read(4096))
        (accepted, _), (reply, payload) = fed(reader_of(4096), data, [4096])
        assert (accepted, reply) == (FrameKind.ACCEPTED, FrameKind.REPLY)
        answer = link_pb2.Reply.FromString(payload)
        assert (answer.number, pb.Ack.FromString(answer.ack).code) == (7, 0)
        assert mgr.driver.router.routes.next_hop(WORKER) is not None


async def test_ack_of_a_proxy_comes_when_the_mgr_knows_the_way(mesh: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    taken, hold = asyncio.Event(), asyncio.Event()
    take = Announcements.take

    async def held(announcements: Announcements, *arguments: Any) -> Any:
        if announcements._router is mgr.driver.router:
            taken.set()
            await hold.wait()
        return await take(announcements, *arguments)

    monkeypatch.setattr(Announcements, "take", held)
    async with DirectChild("Worker/0/0") as child:
        await child.register(proxy.address or "")
        await child.open()
        asked = asyncio.create_task(child.call("PathDiscovery", announcement()))
        await soon(taken.wait())
        assert not asked.done()
        assert mgr.driver.router.routes.next_hop(WORKER) is None
        hold.set()
        assert (await soon(asked)).code == 0
        assert mgr.driver.router.routes.next_hop(WORKER) is not None


async def test_replies_match_by_number_in_any_order(mesh: Mesh) -> None:
    """Below a Proxy without a parent an announcement waits, and a report does not."""
    proxy = await mesh.proxy(0, free_address(), join=False)
    async with DirectChild("Worker/0/0") as child:
        await child.register(proxy.address or "")
        await child.open()
        waits = asyncio.create_task(child.call("PathDiscovery", announcement()))
        reply = await soon(child.ask(report=status_codec.write_report(Report(first=True)), patience=3000))
        assert status_codec.read_pace(reply.pace) > 0.0
        assert not waits.done()
        await child.cut()
        waits.cancel()
        await asyncio.gather(waits, return_exceptions=True)


async def test_parent_answers_nothing_after_the_patience_of_the_child(mesh: Mesh) -> None:
    proxy = await mesh.proxy(0, free_address(), join=False)
    async with DirectChild("Worker/0/0") as child:
        await child.register(proxy.address or "")
        await child.open()
        for _ in range(3 * direct_requests.REQUESTS):
            child.put(child.request(number=99, announcement=announcement(), patience=20))
            await asyncio.sleep(0.005)
        reply = await soon(child.ask(report=status_codec.write_report(Report()), patience=3000))
        assert reply.pace
        assert mesh.count("violation") == 0


async def test_announcement_of_another_child_is_refused(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    other = await mesh.worker(0, 1, mgr)
    async with DirectChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        ack = await soon(child.call("PathDiscovery", announcement(child=other.position)))
        assert ack.code == Code.DST_TYPE_ILLEGAL
        assert mgr.statistics.violations == 1
        assert (await soon(mgr.send("x", to=other.position))).ok


async def test_request_that_cannot_be_read_costs_the_link_and_a_bad_announcement_its_code(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    async with DirectChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        assert (await soon(child.call("PathDiscovery", b"\xff"))).code == Code.NIL_MESSAGE
        reply = await soon(child.ask(report=b"\xff", patience=3000))
        assert pb.Ack.FromString(reply.ack).code == Code.CLIENT_ERR
        child.put(write_frame(FrameKind.REQUEST, b"\xff"))
        await mesh.logged("child_lost")
        assert mgr.statistics.violations == 1


async def test_more_requests_than_a_child_has_cost_its_link(mesh: Mesh) -> None:
    proxy = await mesh.proxy(0, free_address(), join=False)
    async with DirectChild("Worker/0/0") as child:
        await child.register(proxy.address or "")
        await child.open()
        for number in range(direct_requests.REQUESTS + 1):
            child.put(child.request(number=number, announcement=announcement(), patience=60_000))
        await mesh.logged("child_lost")
        assert proxy.statistics.violations == 1
    await mesh.until(lambda: not proxy.driver._requests)


@pytest.mark.timeout(180)
async def test_requests_of_a_child_that_reads_nothing_are_bounded(mesh: Mesh) -> None:
    """Replies that it does not read count as requests under way."""
    mgr = await mesh.mgr()
    async with DirectChild("Worker/0/0") as child:
        await child.join(mgr.address or "")
        assert child._reader is not None and child.writer is not None
        child._reader.cancel()
        await asyncio.gather(child._reader, return_exceptions=True)
        uuid = "u" * 200
        request = child.request(number=1, announcement=announcement(uuid=uuid), patience=60_000)
        async with asyncio.timeout(100):
            while not mesh.count("child_lost"):
                child.put(request * 8)
                await child.writer.drain() if child.writer.transport.get_write_buffer_size() < 1 << 20 else None
                await asyncio.sleep(0)
        assert mgr.statistics.violations >= 1


async def test_parent_that_asks_its_child_costs_the_link() -> None:
    asking = Asking(MGR)
    with pytest.raises(FrameError, match="a request of the parent"):
        asking.arrived(FrameKind.REQUEST, b"")
    with pytest.raises(FrameError, match="the bytes are not a reply"):
        asking.arrived(FrameKind.REPLY, b"\xff")


async def test_request_under_way_is_answered_after_a_renewal(
    mesh: Mesh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = Folder(tmp_path)
    mgr = await mesh.mgr(tls=certificates.listening())
    worker = await mesh.worker(0, 0, mgr, tls=certificates.connecting())
    taken, hold = asyncio.Event(), asyncio.Event()
    take = Announcements.take

    async def held(announcements: Announcements, *arguments: Any) -> Any:
        taken.set()
        await hold.wait()
        return await take(announcements, *arguments)

    monkeypatch.setattr(Announcements, "take", held)
    assert worker.driver.joiner is not None
    stay = worker.driver.joiner._stay
    assert stay is not None
    before = stay.session
    asked = asyncio.create_task(stay.requests.announce(Announcing(announcement()), 30.0))
    await soon(taken.wait())
    await soon(worker.driver.joiner._renewals[0]._move(stay))
    assert stay.session is not before
    await soon(before.over.wait())
    hold.set()
    assert (await soon(asked)).ok
    assert mesh.count("child_lost") == mesh.count("upstream_lost") == 0


async def test_requests_that_moved_to_another_socket_count_until_they_are_answered() -> None:
    hold = asyncio.Event()

    async def reported(*_: object) -> bytes:
        await hold.wait()
        return b""

    served = SimpleNamespace(reported=reported)
    caller = Caller(remote_of("ipv4:127.0.0.1:40001"), lambda: None)
    before, after = (Answering(cast(Any, served), WORKER, caller, lambda _: "") for _ in range(2))
    pipe = Pipe()
    for end in (before, after):
        end.attach(pipe)
    request = write_request(Request(1, b"report", 30.0))
    for _ in range(direct_requests.REQUESTS - 1):
        before.arrived(FrameKind.REQUEST, request)
    after.follow(before)
    after.arrived(FrameKind.REQUEST, request)
    with pytest.raises(FrameError, match="more than"):
        after.arrived(FrameKind.REQUEST, request)
    under_way = set(after._under_way)
    hold.set()
    await asyncio.gather(*under_way)
    # Replies have left.
    pipe.unsaid.clear()
    for _ in range(direct_requests.REQUESTS):
        after.arrived(FrameKind.REQUEST, request)
    after.ended()


class Pipe:
    """A link that keeps what is said."""

    def __init__(self) -> None:
        self.unsaid: list[bytes] = []

    def say(self, frame: bytes) -> None:
        """Keep a frame."""
        self.unsaid.append(frame)

    @property
    def number(self) -> int:
        """The number of the last request."""
        ((_, payload),) = fed(reader_of(10_000), self.unsaid[-1], [10_000])
        return read_request(payload).number


async def test_end_of_the_link_fails_what_is_under_way_at_once() -> None:
    asking, pipe = Asking(MGR), Pipe()
    asking.attach(pipe)
    announced = asyncio.create_task(asking.announce(Announcing(b"", RoutesKind.WITHDRAW), 1000.0))
    reported = asyncio.create_task(asking.report(b"", 1000.0))
    await asyncio.sleep(0)
    asking.ended()
    ack = await soon(announced)
    assert (ack.code, ack.src) == (Code.NETWORK_ACK_LOST, MGR)
    with pytest.raises(CallFailed, match="no answer"):
        await soon(reported)


async def test_reply_that_comes_too_late_is_dropped() -> None:
    asking, pipe = Asking(MGR), Pipe()
    asking.attach(pipe)
    assert (await asking.announce(Announcing(b""), 0.01)).code == Code.NETWORK_ACK_LOST
    asking.arrived(FrameKind.REPLY, write_reply(LinkReply(pipe.number, b"")))
    report = asyncio.create_task(asking.report(b"", 10.0))
    await asyncio.sleep(0)
    asking.arrived(FrameKind.REPLY, write_reply(LinkReply(pipe.number, b"here")))
    assert await soon(report) == b"here"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(
    st.lists(st.sampled_from(["announce", "report", "ping", "garbled"]), min_size=1, max_size=8),
    st.lists(st.integers(1, 60), min_size=1, max_size=4),
)
def test_requests_are_answered_alike_however_the_stream_is_cut(asked: list[str], cuts: list[int]) -> None:
    async def answers() -> tuple[list[tuple[int, int]], bool]:
        async with Mesh("direct") as mesh, DirectChild("Worker/0/0") as child:
            mgr = await mesh.mgr()
            await child.register(mgr.address or "")
            reader = await child.connect_socket()
            stream = write_greeting(Greeting(child.offer[1], False))
            for number, what in enumerate(asked):
                if what == "ping":
                    stream += write_frame(FrameKind.PING)
                elif what == "report":
                    stream += child.request(number=number, report=status_codec.write_report(Report()), patience=9000)
                else:
                    data = announcement() if what == "announce" else b"\xff"
                    stream += child.request(number=number, announcement=data, patience=9000)
            at = turn = 0
            while at < len(stream):
                child.put(stream[at : at + cuts[turn % len(cuts)]])
                at, turn = at + cuts[turn % len(cuts)], turn + 1
                await asyncio.sleep(0)
            got = reader_of(10_000)
            kinds: set[int] = set()
            codes: list[tuple[int, int]] = []
            async with asyncio.timeout(20):
                # Several pings that come together have one answer.
                while len(codes) < len(asked) - asked.count("ping") or (
                    "ping" in asked and FrameKind.PONG not in kinds
                ):
                    frames = fed(got, await reader.read(4096), [4096])
                    assert kinds or frames[0][0] == FrameKind.ACCEPTED
                    kinds |= {kind for kind, _ in frames}
                    replies = [
                        link_pb2.Reply.FromString(payload) for kind, payload in frames if kind == FrameKind.REPLY
                    ]
                    codes += [(reply.number, pb.Ack.FromString(reply.ack).code) for reply in replies]
            return sorted(codes), FrameKind.PONG in kinds

    codes, pong = asyncio.run(answers())
    expected = [
        (number, Code.NIL_MESSAGE if what == "garbled" else 0) for number, what in enumerate(asked) if what != "ping"
    ]
    assert (codes, pong) == (expected, "ping" in asked)
