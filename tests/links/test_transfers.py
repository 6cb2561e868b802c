"""Messages by unary calls: gathered when several come together, and each of them answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from taskd_net import Ack, Code, Position
from taskd_net.base.peer_limits import DEFAULT
from taskd_net.core.acks import Answer
from taskd_net.core.frame import Frame
from taskd_net.core.links import UP
from taskd_net.core.quota import Quota
from taskd_net.core.ready import Ready, Writes
from taskd_net.net.links import transfers
from taskd_net.net.links.transfers import GATHER_IDLE_S, GATHER_MESSAGES, GATHER_S, Transfers
from taskd_net.net.wire.codec import read_ack
from tests.links.pipes import FakeNode, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)

WORKER, MGR = Position.worker(0, 0), Position.mgr()


class Upstream:
    """The link to the parent.

    Attributes:
        forwarded: the uuids that have gone there.
        more: set with each.
    """

    def __init__(self) -> None:
        self.forwarded: list[str] = []
        self.more = asyncio.Event()

    def write(self, writes: Writes) -> None:
        """Messages go there."""
        self.forwarded += [frame.uuid for frame in writes.frames]
        self.more.set()


class Failed:
    """Calls that have failed.

    Attributes:
        errors: why.
        ended: the answers that have a code.
    """

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.ended: list[Ack] = []

    def answer(self, call: str, error: Exception, context: object) -> Ack:
        """A call has failed."""
        assert call == "TransferMessage"
        self.errors.append(error)
        return Ack("", Code.SERVER_ERR, MGR)

    async def end(self, ack: Ack, context: object, remote: object) -> None:
        """A call's answer has a code."""
        self.ended.append(ack)


class Serving:
    """A Proxy that has joined, one child, and the calls that are under way."""

    def __init__(self, idle: float = GATHER_IDLE_S, longest: float = GATHER_S, most: int = GATHER_MESSAGES) -> None:
        self.node = FakeNode("Proxy/0")
        self.up = Upstream()
        self.child = self.node.router.register(0.0, WORKER).link or 0
        self.node.router.link_up(0.0, self.child, "down")
        self.node.links[UP] = cast("Any", self.up)
        self.node.router.upstream_up(0.0, self.up, MGR)
        self.host, self.failures = self.node, Failed()
        self.budget = Quota(DEFAULT, Quota(DEFAULT))
        self.transfers = Transfers(cast("Any", self), idle, longest, most)
        self.calls: dict[str, asyncio.Task[bytes]] = {}

    def quota(self, _: int) -> Quota:
        """The quota of the one child."""
        return self.budget

    def bringer(self, *_: object) -> int:
        """The gate: everything comes from the one child."""
        return self.child

    def peer(self) -> str:
        """The context of every call."""
        return "ipv4:127.0.0.1:1"

    def time_remaining(self) -> float:
        """The context of every call."""
        return 3.0

    async def send(self, uuids: str) -> None:
        """Calls come in, one after the other."""
        for uuid in uuids:
            data = frame(uuid=uuid, src=str(WORKER), to="Mgr").data
            self.calls[uuid] = asyncio.create_task(self.transfers.take(data, cast("Any", self)))
        await asyncio.sleep(0)

    async def forwards(self, uuids: str) -> None:
        """Wait until the latest messages that have gone to the parent are these."""
        while self.up.forwarded[-len(uuids) :] != list(uuids):
            self.up.more.clear()
            await soon(self.up.more.wait())

    def answer(self, uuid: str) -> None:
        """The parent answers a message with 0."""
        self.node.perform(self.node.router.answers_arrived(0.0, UP, (), [Answer(uuid, Code.OK, MGR)]))


@pytest.fixture
async def serving(request: pytest.FixtureRequest) -> AsyncIterator[Serving]:
    """Calls that are still under way at the end are cancelled, and cost nothing any more. A parameter has its terms."""
    serving = Serving(*getattr(request, "param", ()))
    yield serving
    for call in serving.calls.values():
        call.cancel()
    await asyncio.gather(*serving.calls.values(), return_exceptions=True)
    serving.transfers.decide()
    assert (serving.budget.messages, serving.budget.size) == (0, 0)


patient = pytest.mark.parametrize("serving", [(0.01, 1000.0)], indirect=True)
"""Messages are gathered for some turns of the loop, and no longer."""


@patient
async def test_message_that_comes_alone_goes_at_once(serving: Serving) -> None:
    for uuid in "ab":
        await serving.send(uuid)
        assert serving.up.forwarded[-1] == uuid
        serving.answer(uuid)
        ack = read_ack(await soon(serving.calls[uuid]), WORKER)
        assert (ack.uuid, ack.code, ack.src) == (uuid, Code.OK, MGR)
    assert not serving.transfers.busy


@patient
async def test_messages_that_come_together_go_together(serving: Serving) -> None:
    await serving.send("abc")
    assert (serving.up.forwarded, serving.transfers.busy) == (["a"], True)
    await serving.forwards("abc")
    assert not serving.transfers.busy
    serving.answer("b")
    assert read_ack(await soon(serving.calls["b"]), WORKER).ok


@pytest.mark.parametrize("serving", [(1000.0, 0.05)], indirect=True)
async def test_messages_are_gathered_as_long_as_more_come(serving: Serving) -> None:
    began = time.monotonic()
    await serving.send("ab")
    await serving.forwards("ab")
    assert time.monotonic() - began >= 0.05


@patient
async def test_one_after_many_is_gathered_and_later_ones_are_not(serving: Serving) -> None:
    await serving.send("abx")
    await serving.forwards("abx")
    for uuid in "abx":
        serving.answer(uuid)
        await soon(serving.calls[uuid])
    gathered = []
    for uuid in "cdefghijkl":
        await serving.send(uuid)
        gathered.append(serving.transfers.busy)
        await serving.forwards(uuid)
        serving.answer(uuid)
        await soon(serving.calls[uuid])
    assert gathered == [True] * transfers.GATHER_DECISIONS + [False] * 2


@pytest.mark.parametrize("serving", [(1000.0, 1000.0, 3)], indirect=True)
async def test_so_many_messages_are_gathered_at_most(serving: Serving) -> None:
    await serving.send("abc")
    assert serving.up.forwarded == ["a"]
    await serving.send("de")
    assert serving.up.forwarded == ["a", "b", "c", "d"]


@patient
async def test_caller_that_has_gone_sends_nothing(serving: Serving) -> None:
    await serving.send("abc")
    serving.calls["b"].cancel()
    await asyncio.wait([serving.calls["b"]])
    await serving.forwards("ac")


@patient
async def test_fault_with_one_message_costs_the_others_nothing(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = serving.node.router.call_arrived

    def fail(now: float, came_from: int, message: Frame, *rest: Any, early: bool) -> Ready:
        if message.uuid == "b":
            raise IndexError
        return arrived(now, came_from, message, *rest, early=early)

    monkeypatch.setattr("taskd_net.core.router.Router.call_arrived", lambda _, *given, early: fail(*given, early=early))
    await serving.send("abc")
    assert read_ack(await soon(serving.calls["b"]), WORKER).code == Code.SERVER_ERR
    assert isinstance(serving.failures.errors[0], IndexError)
    assert [ack.code for ack in serving.failures.ended] == [Code.SERVER_ERR]
    await serving.forwards("ac")
    serving.answer("c")
    assert read_ack(await soon(serving.calls["c"]), WORKER).ok
