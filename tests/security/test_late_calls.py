"""A parent whose loop stands still past the deadlines of its children's calls: it accuses none of them.

gRPC forgets where a call comes from when its deadline passes, and hands it over all the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

import grpc
import pytest

from taskd_net.base.codes import Code
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.observe.ledger import Report
from taskd_net.observe.status_codec import write_report
from tests.peers.links import stream_metadata
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.peers.stubs import pb, position
from tests.security.http2 import DATA, Http2

pytestmark = pytest.mark.timeout(60)

CHILD: Final = "Proxy/7"
TELL: Final = f"/{STATUS_SERVICE}/Tell"
TOO_LATE: Final = (("grpc-timeout", "100m"),)
OURS: Final = (("taskd-net-version", "1"),)


Call = Callable[[Any, Any], Awaitable[Any]]


class Held:
    """The loop stands still between the receipt of each call with a deadline and its handler, until that has passed.

    Attributes:
        handled: calls with a deadline whose handlers have ended.
        holds: False where the test itself holds the loop, later.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.handled = 0
        self.holds = True
        self._served = asyncio.Event()
        made = grpc.unary_unary_rpc_method_handler
        monkeypatch.setattr(
            grpc, "unary_unary_rpc_method_handler", lambda call, **named: made(self._late(call), **named)
        )

    def _late(self, call: Call) -> Call:
        async def late(data: Any, context: Any) -> Any:
            if context.time_remaining() is None:
                return await call(data, context)
            while self.holds and context.peer():
                time.sleep(0.01)  # noqa: ASYNC251 - the loop is to stand still
            try:
                return await call(data, context)
            finally:
                self.handled += 1
                self._served.set()

        return late

    async def ends(self, calls: int = 1) -> None:
        """Wait until so many late calls have been handled."""
        while self.handled < calls:
            self._served.clear()
            await soon(self._served.wait())


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Before the node starts."""
    return Held(monkeypatch)


@pytest.fixture
async def mgr(held: Held, mesh: Mesh) -> AsyncIterator[WatchedNode]:
    """A Mgr, which has accused nobody in the end."""
    mgr = await mesh.mgr()
    yield mgr
    assert mgr.statistics.violations == 0
    assert mesh.count("violation") == 0


class Child(Http2):
    """A child that does not end its calls itself, as a stopped process."""

    def make(self, method: str, data: bytes, *metadata: tuple[str, str]) -> int:
        """Begin a call. Returns its stream."""
        path = method if "/" in method else f"/TaskNet/{method}"
        return self.open(path, *stream_metadata(CHILD), *metadata, data=data)

    async def code(self, stream: int) -> int:
        """The code of a call that is answered by an Ack."""
        got = await self.until(lambda got: got.kind == DATA and got.stream == stream)
        assert got is not None
        code: int = pb.Ack.FromString(got.payload[5:]).code
        await self.answer(stream)
        return code

    async def join(self) -> None:
        """Register, open the stream, and announce itself."""
        await self.greet()
        assert await self.code(self.make("Register", REGISTER, *OURS)) == Code.OK
        stream = self.open("/TaskNet/InitServerDownStream", *stream_metadata(CHILD))
        await self.until(lambda got: got.stream == stream)
        assert await self.code(self.make("PathDiscovery", ANNOUNCEMENT)) == Code.OK


ME: Final = position(CHILD)
REGISTER: Final[bytes] = pb.RegisterReq(uuid="u", pos=ME).SerializeToString()
ANNOUNCEMENT: Final[bytes] = pb.PathDiscoveryReq(uuid="u", proxyPos=ME, path=[ME]).SerializeToString()
HEADER: Final = pb.MessageHeader(uuid="m", mtype="x", sync=True, src=ME, dst=position("Mgr/0"), createTime=1)
MESSAGE: Final[bytes] = pb.Message(header=HEADER, body="x").SerializeToString()
REPORT: Final = write_report(Report(gone=[]))


@pytest.mark.parametrize(
    ("method", "data"),
    [("PathDiscovery", ANNOUNCEMENT), ("TransferMessage", MESSAGE), (TELL, REPORT)],
    ids=["announcement", "message", "report"],
)
async def test_call_of_a_child_is_handled_after_its_deadline(
    mgr: WatchedNode, held: Held, method: str, data: bytes
) -> None:
    async with Child(mgr.address or "") as child:
        await child.join()
        child.make(method, data, *TOO_LATE)
        await held.ends()
        # It registers again, as after a timeout, and goes on.
        assert await child.code(child.make("Register", REGISTER, *OURS)) == Code.OK
        assert await child.code(child.make("PathDiscovery", ANNOUNCEMENT)) == Code.OK
        assert mgr.waiting() == 0, "nobody awaits the answer of the message"


async def test_registration_is_handled_after_its_deadline(mgr: WatchedNode, held: Held) -> None:
    """Nobody would have its place: a peer of no address."""
    async with Child(mgr.address or "") as child:
        await child.greet()
        child.make("Register", REGISTER, *OURS, *TOO_LATE)
        await held.ends()
        assert len(mgr.driver.router.children) == 0
        assert await child.code(child.make("Register", REGISTER, *OURS)) == Code.OK


async def test_report_whose_deadline_passes_before_its_turn(
    mgr: WatchedNode, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.holds = False
    monkeypatch.setattr(mgr.driver.view, "charge", lambda *_: time.sleep(0.5))
    async with Child(mgr.address or "") as child:
        await child.join()
        child.make(TELL, REPORT, *TOO_LATE)
        await held.ends()
