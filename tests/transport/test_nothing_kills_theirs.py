"""No call, message or fault makes a node of ours send anything that kills a node of the original.

A Proxy of ours with nodes of theirs above and below it, and one of ours that sends what it likes. The streams are in
memory; what is written on those to theirs is looked at as they would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import grpc
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from taskd_net.base.address import Address
from taskd_net.base.codes import Refusal
from taskd_net.base.position import Position
from taskd_net.core.links import UP
from taskd_net.core.ready import EndStream, Forgot, Kind, Ready
from taskd_net.net.joining.connecting import ParentConnection, Stay
from taskd_net.net.joining.join import Joiner
from taskd_net.net.joining.serve import MeshServer
from taskd_net.net.links import peer as peers
from taskd_net.net.links import registry
from taskd_net.net.links.batched import BatchedLink
from taskd_net.net.links.grpc_calls import GrpcRequests
from taskd_net.net.links.kind import Opened
from taskd_net.net.links.remote import remote_of
from taskd_net.net.links.session import Session
from taskd_net.net.links.tasknet import ToChild, ToParent
from taskd_net.net.links.transfers import Transfers
from taskd_net.net.retry import Backoff
from taskd_net.net.wire import codec
from taskd_net.net.wire.batches import write_batch
from taskd_net.net.wire.link_pb2 import Batch
from taskd_net.observe.service import NodeService
from tests.links.pipes import FakeNode, FakePipe
from tests.peers.original.forms import check_ack, check_message
from tests.peers.original.upstream import LARGEST
from tests.peers.stubs import pb
from tests.peers.stubs import position as wire

GO = (("user-agent", "grpc-go/1.57.0"),)


class Aborted(Exception):
    """A call was answered with a status."""


class FakeContext:
    """A call of a child."""

    def __init__(self, connection: str, metadata: tuple[tuple[str, str], ...]) -> None:
        self._connection = connection
        self._metadata = metadata

    def peer(self) -> str:
        return f"ipv4:127.0.0.1:{self._connection}"

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def time_remaining(self) -> float:
        return 1.0

    def set_trailing_metadata(self, metadata: object) -> None:
        pass

    async def abort(self, status: grpc.StatusCode, text: str) -> None:
        assert status is grpc.StatusCode.UNKNOWN and text
        raise Aborted


class Rig(FakeNode):
    """The Proxy, with its links."""

    def __init__(self) -> None:
        super().__init__("Proxy/0")
        self.calls: list[tuple[str, bytes]] = []
        self.answer = b""
        host, listen = cast("Any", self), Address("127.0.0.1", 0)
        services, kinds = NodeService(host, self.view, listen), registry.usable("batched")
        self.parent = MeshServer(host, self.view, services, listen, kinds=kinds, certified=False)
        self.child = Joiner(
            cast("Any", self),
            [Address("127.0.0.1", 1)],
            Backoff(0.1, 0.1),
            1.0,
            lambda _: None,
            kinds=registry.usable("tasknet"),
        )
        self.pipes: dict[str, FakePipe] = {}
        self.sessions: dict[str, Session[Any]] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def unary_unary(self, name: str) -> Any:
        """The channel to the parent."""

        async def call(data: bytes, **_: object) -> bytes:
            self.calls.append((name.rpartition("/")[2], data))
            return self.answer

        return call

    def start(self) -> None:
        router = self.router
        up = ToParent(cast("Any", self), UP, Position.mgr(), self._pipe("up"), peers.ORIGINAL, cast("Any", self), 1.0)
        self._run("up", up, UP)
        peer = peers.Peer(peers.ORIGINAL)
        requests = GrpcRequests(cast("Any", self), router.identity, Position.mgr(), peer)
        connection = ParentConnection(cast("Any", self), None, Opened(up, cast("Any", None)), requests)
        self.stay = Stay(connection, Position.mgr(), peer)
        self.perform(router.upstream_up(0.0, up, Position.mgr(), quirks=peers.ORIGINAL.parent))
        below = {"Worker/0/0": peers.ORIGINAL, "Proxy/1": peers.ORIGINAL, "Worker/0/1": peers.OURS}
        for number, (text, profile) in enumerate(below.items()):
            position = Position.parse(text)
            link = router.children.by_id[router.register(0.0, position, profile.child_quirks(position)).link or 0]
            self.parent.connections.came_over(remote_of(f"ipv4:127.0.0.1:{number}"), link.id, peers.Peer(profile))
            pipe, host = self._pipe(text), cast("Any", self)
            ours = profile is peers.OURS
            session: Session[Any] = BatchedLink(host, link.id, position, pipe) if ours else ToChild(
                host, link.id, position, pipe, profile
            )  # fmt: skip
            self._run(text, session, link.id)
            self.perform(router.link_up(0.0, link.id, session, (), session.terms))
        path = [Position("Agent", "1", "77"), Position.worker(1, 1), Position.worker(1, 2)]
        proxy = router.children.find(Position.proxy(1))
        assert proxy is not None
        self.perform(router.announced(0.0, proxy.id, Kind.ADD, path, self.request(lambda ack: None), "a"))

    def _pipe(self, name: str) -> FakePipe:
        self.pipes[name] = FakePipe()
        return self.pipes[name]

    def _run(self, name: str, session: Session[Any], link: int) -> None:
        self.sessions[name] = self.links[link] = session
        self.tasks.append(asyncio.create_task(session.run()))

    def perform(self, ready: Ready) -> None:
        for announce in ready.announcements:
            work = self.child._path_discovery(self.stay, announce.kind, announce.positions)
            self.tasks.append(asyncio.create_task(work))
        ready.announcements = []
        ready.notices = [notice for notice in ready.notices if not isinstance(notice, EndStream | Forgot)]
        super().perform(ready)

    async def call(self, name: str, data: bytes, connection: str) -> None:
        announcements = self.parent._announcements
        call = {"Register": self.parent._register, "PathDiscovery": announcements.path_discovery}
        transfers = next(one for one in self.parent._acceptors if isinstance(one, Transfers))
        guarded = self.parent.failures.guarded(call[name]) if name in call else transfers.take
        try:
            answer = await guarded(data, cast("Any", FakeContext(connection, GO)))
        except Aborted:
            return
        check_ack(pb.Ack.FromString(answer))

    async def stop(self) -> None:
        for session in self.sessions.values():
            session.close()
        for name, pipe in self.pipes.items():
            pipe.cut()
            self.sessions[name].unwritten()
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)

    def check(self) -> None:
        """Look at everything that has left towards theirs, as they would."""
        for name in ("Worker/0/0", "Proxy/1"):
            for data in self.pipes[name].written:
                assert len(data) <= LARGEST
                check_message(pb.Message.FromString(data), down=True)
        for data in self.pipes["up"].written:
            check_ack(pb.Ack.FromString(data))
        for call, data in self.calls:
            if call == "TransferMessage":
                check_message(pb.Message.FromString(data), down=False)
            else:
                request = pb.PathDiscoveryReq.FromString(data)
                assert call == "PathDiscovery" and request.HasField("proxyPos") and request.path


ROLES = st.sampled_from(["Mgr", "Proxy", "Agent", "Worker", "", "worker", "Boss"])
RANKS = st.sampled_from(["0", "1", "2", "9", "-1", "", "All", "0,1", "1,2,9", "x", "\u0661", "0,All"])
POSITIONS = st.builds(
    lambda role, *ranks: pb.Position(role=role, serverRank=ranks[0], processRank=ranks[1]), ROLES, RANKS, RANKS
)
NODES = st.sampled_from(
    ["Mgr/0", "Proxy/0", "Proxy/1", "Worker/0/0", "Worker/0/1", "Worker/1/1", "Agent/1", "Worker/7/7"]
)
TAILS = st.sampled_from(
    [b"", b"", b"", b"\x0a\x00", b"\x12\x01\xff", b"\x0a", b"\xff", b"\x12\x02ok", b"\x0a\x02\x22\x00"]
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A message that lacks something, says something odd, or has something behind it; or is in order."""
    message = pb.Message(body=draw(st.sampled_from(["", "body", "x" * 300])))
    if draw(st.integers(0, 9)):
        header = message.header
        header.SetInParent()
        header.uuid, header.sync = draw(st.sampled_from(["", "u", "v", "w" * 36])), draw(st.booleans())
        for name in ("src", "dst"):
            if draw(st.integers(0, 9)):
                node = draw(st.one_of(NODES.map(wire), POSITIONS))
                getattr(header, name).CopyFrom(node)
    data: bytes = message.SerializeToString() + draw(TAILS)
    return data[: draw(st.integers(0, len(data)))] if not draw(st.integers(0, 9)) else data


def acks() -> SearchStrategy[bytes]:
    plain = st.builds(
        lambda uuid, code, src: pb.Ack(uuid=uuid, code=code, src=src).SerializeToString(),
        st.sampled_from(["", "u", "v"]), st.sampled_from([0, 5001, 5002, 7777, 2**32 - 1]), st.none() | POSITIONS,
    )  # fmt: skip
    return st.one_of(plain, st.binary(max_size=20))


def requests() -> SearchStrategy[tuple[str, bytes]]:
    register = st.builds(lambda pos: pb.RegisterReq(uuid="r", pos=pos).SerializeToString(), st.none() | POSITIONS)
    paths = st.builds(
        lambda proxy, path: pb.PathDiscoveryReq(uuid="p", proxyPos=proxy, path=path).SerializeToString(),
        st.none() | POSITIONS | st.just(wire("Proxy/1")), st.lists(POSITIONS, max_size=3),
    )  # fmt: skip
    return st.one_of(
        st.tuples(st.just("Register"), register | st.binary(max_size=20)),
        st.tuples(st.just("PathDiscovery"), paths | st.binary(max_size=20)),
        st.tuples(st.just("TransferMessage"), messages()),
    )


DESTINATIONS = st.sampled_from(["Worker/All/All", "Worker/1/1,2", "Agent/All", "Boss/1", "Worker//1"])
BODIES = st.sampled_from(["", "body", "\ud800", "x" * 5000])
STEPS = st.one_of(
    st.tuples(st.just("send"), NODES | DESTINATIONS, st.booleans(), BODIES),
    st.tuples(st.just("batch"), st.lists(messages(), max_size=3), st.booleans(), st.binary(max_size=10)),
    st.tuples(st.just("down"), messages()),
    st.tuples(st.just("ack"), st.sampled_from(["Worker/0/0", "Proxy/1"]), acks()),
    st.tuples(st.just("answer"), acks()),
    st.tuples(st.just("call"), requests(), st.sampled_from(["0", "1", "2", "9"])),
    st.tuples(st.just("tick"), st.sampled_from([1.0, 4.0, 40.0])),
)


async def play(steps: Sequence[tuple[Any, ...]]) -> Rig:
    rig = Rig()
    rig.start()
    now = 0.0
    for step in steps:
        match step:
            case ("send", to, sync, body):
                try:
                    role, server, *process = to.split("/")
                    dst = Position(role, server, *process)
                    message = codec.Message("own", "m", sync, rig.router.position, dst, 1, body)
                    token = rig.request(lambda ack: None)
                    rig.perform(rig.router.submit(now, codec.write_message(message), token, 3.0))
                except Refusal:
                    continue
            case ("batch", found, awaited, raw):
                batch = write_batch(found, Batch(patience=[1000 if awaited else 0] * len(found)))
                session = rig.sessions["Worker/0/1"]
                session._take_in(batch if found else raw)
                while session._rest:  # the slices that the session's reader takes in turn by turn
                    session._take_in_rest()
            case ("down", data):
                rig.sessions["up"]._take_in(data)
            case ("ack", name, data):
                rig.sessions[name]._take_in(data)
            case ("answer", data):
                rig.answer = data
            case ("call", (name, data), connection):
                rig.tasks.append(asyncio.create_task(rig.call(name, data, connection)))
            case ("tick", seconds):
                now += seconds
                rig.perform(rig.router.tick(now))
        for _ in range(4):
            await asyncio.sleep(0)
    for _ in range(10):
        await asyncio.sleep(0)
    done = [task for task in rig.tasks if task.done() and not task.cancelled()]
    rig.perform(rig.router.close(now))
    for _ in range(4):
        await asyncio.sleep(0)
    await rig.stop()
    for task in done:
        assert task.exception() is None
    return rig


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=25))
def test_nothing_that_they_die_of_ever_leaves(steps: list[tuple[Any, ...]]) -> None:
    asyncio.run(play(steps)).check()


def written(src: str, to: str) -> bytes:
    """A sync message that is in order."""
    return codec.write_message(codec.Message("u" + to, "m", True, Position.parse(src), Position.parse(to), 1, "x")).data


def test_what_is_looked_at_does_leave() -> None:
    """The property would hold of a node that says nothing."""
    all_workers, direct = written("Worker/0/1", "Worker/All/All"), written("Worker/0/1", "Worker/0/0")
    unreadable = [data[:-1] + b"\xff" for data in (all_workers, direct)]
    steps = [
        ("batch", [all_workers, direct, *unreadable], True, b""),
        ("down", written("Mgr/0", "Proxy/0")),
        ("send", "Agent/1", True, "x"),
        ("call", ("PathDiscovery", b""), "1"),
    ]
    rig = asyncio.run(play(steps))
    rig.check()
    assert len(rig.pipes["Worker/0/0"].written) == 2
    down = [pb.Message.FromString(data).header for data in rig.pipes["Proxy/1"].written]
    assert [(header.sync, header.dst.processRank) for header in down] == [(False, "All"), (True, "77")]
    assert [pb.Ack.FromString(data).code for data in rig.pipes["up"].written] == [0]
    assert {call for call, _ in rig.calls} == {"TransferMessage", "PathDiscovery"}
