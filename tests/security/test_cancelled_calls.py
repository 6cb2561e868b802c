"""Callers that go: thousands of calls are cancelled, or end at their deadlines, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Callable
from itertools import count, cycle
from typing import Any, Final

import grpc.aio
import pytest

from taskd_net import Position
from taskd_net.base import limits
from taskd_net.net.links.grpc_calls import STATUS_SERVICE
from taskd_net.observe import probe_codec, service
from taskd_net.observe.service import PROBE_SERVICE
from tests.fuzz.garbage import resident
from tests.peers.child import RawChild
from tests.peers.links import LinkChild
from tests.peers.mesh import Mesh, WatchedNode
from tests.peers.stubs import pb, position
from tests.polling import until
from tests.ports import free_address

MANY: Final = 10_000
"""Calls of a run in which leaked memory would show; a leaked entry shows in fewer."""

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.parametrize("calls", [2_000, pytest.param(MANY, marks=pytest.mark.matrix)]),
]

TOGETHER: Final = 500
GROWTH_BYTES: Final = 32 * 1024 * 1024
"""Allowed growth by the last half of the calls, up and down with gRPC's buffers. As many calls that are held take more
than 60 MiB."""


def held(node: WatchedNode) -> dict[str, int]:
    """The entries that a node keeps for requests under way, and its tasks."""
    router = node.driver.router
    links = router._topology.links()
    return {
        "requests": len(node.driver._requests),
        "open": len(router._sends.open),
        "in flight": sum(link.in_flight.count for link in links),
        "queued": sum(link.queued_messages for link in links),
        "announcing": sum(link.announcing for link in links),
        "quota": router.quota.messages + router.quota.size,
        # gRPC waits for the next call in a task that is not there for a moment after each.
        "tasks": sum(
            getattr(task.get_coro(), "__qualname__", "") != "AioServer._request_call" for task in asyncio.all_tasks()
        ),
    }


async def leave(
    mesh: Mesh,
    node: WatchedNode,
    calls: int,
    begin: Callable[[float], Any],
    waiting: Callable[[], int],
    together: int = TOGETHER,
) -> None:
    """Make the calls in turns: those of one are cancelled once they wait at the node, those of the next end in time.

    Args:
        mesh, node: where.
        calls: in all.
        begin: begins a call with this deadline in seconds.
        waiting: the number of calls that wait at the node.
        together: calls in a turn.
    """

    async def turn(deadline: float) -> None:
        mesh.events.clear()
        begun = [begin(deadline) for _ in range(together)]
        if deadline > 1.0:
            await until(lambda: waiting() >= together)
            for call in begun:
                call.cancel()
        for call in begun:
            await call.code()

    before, half = held(node), 0
    for made in range(0, calls, 2 * together):
        await turn(86_400.0)
        await turn(0.02)
        if made < calls // 2 <= made + 2 * together:
            gc.collect()
            half = resident()

    def left() -> dict[str, int]:
        return {what: now - before[what] for what, now in held(node).items() if now > before[what]}

    with contextlib.suppress(TimeoutError):
        await until(lambda: not left())
    assert not left()
    gc.collect()
    if calls == MANY:
        assert resident() - half < GROWTH_BYTES


async def test_registrations_that_are_held_back(mesh: Mesh, monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Of the original's leaves, whose position has just changed hands."""
    mgr = await mesh.mgr()
    async with RawChild("Worker/0/0", options=[("grpc.primary_user_agent", "grpc-go/1.28.0")]) as child:
        await child.join(mgr.address or "")
        link = mgr.driver.router.children.by_id[1]
        assert child._channel is not None
        register: Any = child._channel.unary_unary("/TaskNet/Register")
        request = pb.RegisterReq(uuid="u", pos=position("Worker/0/0")).SerializeToString()

        begun, held_back = count(), list[float]()
        pause = mgr.driver.router.register_pause

        def begin(deadline: float) -> Any:
            link.changed_hands(mgr.driver.now())
            if next(begun) % TOGETHER == 0:
                held_back.clear()
            return register(request, timeout=deadline)

        def register_pause(now: float, position: Position) -> float:
            held_back.append(pause(now, position))
            return held_back[-1]

        monkeypatch.setattr(mgr.driver.router, "register_pause", register_pause)
        await leave(mesh, mgr, calls, begin, lambda: sum(seconds >= limits.FIGHT_PAUSE_S for seconds in held_back))


async def test_announcements_that_wait_for_a_parent(mesh: Mesh, calls: int) -> None:
    proxy = await mesh.proxy(0, free_address(), join=False)
    me = position("Worker/0/0")
    request = pb.PathDiscoveryReq(uuid="u", proxyPos=me, path=[me]).SerializeToString()
    async with LinkChild("Worker/0/0") as child:
        await child.register(proxy.address or "")
        await child.open()
        # The node begins the tasks of a stream after it has accepted it.
        await until(lambda: "writes to Worker/0/0" in {task.get_name() for task in asyncio.all_tasks()})
        announce = child.channel.unary_unary("/TaskNet/PathDiscovery")
        await leave(
            mesh, proxy, calls, lambda deadline: announce(request, timeout=deadline), lambda: held(proxy)["announcing"]
        )


async def test_messages_in_flight(mesh: Mesh, calls: int) -> None:
    """They end here with the time that their answers have, as they are on their way."""
    mgr = await mesh.mgr(ack_timeout=0.2)
    async with RawChild("Worker/0/0") as sender, RawChild("Worker/0/1") as mute:
        mute.drop_acks, mute.relay = True, lambda _: asyncio.sleep(0)
        await mute.join(mgr.address or "")
        await sender.join(mgr.address or "")
        assert sender._channel is not None
        transfer: Any = sender._channel.unary_unary("/TaskNet/TransferMessage")
        request = sender.message("Worker/0/1", "x" * 5000).SerializeToString()
        # Not those that wait at a time: on a busy machine the first end before the last arrive.
        counters, begun, before = mgr.driver.router.children.by_id[2].counters, count(), 0

        def begin(deadline: float) -> Any:
            nonlocal before
            if next(begun) % 100 == 0:
                before = counters.received
            return transfer(request, timeout=deadline)

        await leave(mesh, mgr, calls, begin, lambda: counters.received - before, together=100)


@pytest.mark.parametrize("call", ["Ping", "Trace"])
async def test_probes_without_an_answer(mesh: Mesh, call: str, calls: int) -> None:
    """Over 16 connections, each with as many series as it may have."""
    mgr = await mesh.mgr()
    async with LinkChild("Worker/0/0") as mute, contextlib.AsyncExitStack() as stack:
        await mute.join(mgr.address or "")
        to = Position.worker(0, 0)
        series = probe_codec.ProbeSeries(to, 86_400.0)
        request = probe_codec.write_ping(series) if call == "Ping" else probe_codec.write_trace(to, 86_400.0)
        alone = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(mgr.address or "", options=alone) for _ in range(16)]
        probes: list[Any] = []
        for channel in channels:
            await stack.enter_async_context(channel)
            probes += [channel.unary_stream(f"/{PROBE_SERVICE}/{call}")] * service.PROBE_SERIES_PER_CALLER
        turn = cycle(probes)
        waiting = mgr.driver.router.children.by_id[1].in_flight
        await leave(
            mesh, mgr, calls, lambda deadline: next(turn)(request, timeout=deadline), lambda: waiting.count, len(probes)
        )


async def test_looks_at_the_tree(mesh: Mesh, calls: int) -> None:
    mgr = await mesh.mgr()
    async with grpc.aio.insecure_channel(mgr.address or "") as channel:
        tree: Any = channel.unary_unary(f"/{STATUS_SERVICE}/Tree")
        await leave(mesh, mgr, calls, lambda deadline: tree(b"", timeout=deadline), lambda: TOGETHER)
