"""Large writes take turns, whichever link they are on, and small messages pass between two of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, cast

import grpc
import pytest

from taskd_net import Position
from taskd_net.base import limits
from taskd_net.core.ready import Writes
from taskd_net.core.routes import LinkId
from taskd_net.net.links import batched
from taskd_net.net.links import large_writes as links_large_writes
from taskd_net.net.links.batched import BatchedLink
from taskd_net.net.links.large_writes import large_writes
from taskd_net.net.links.peer import CONTRACT
from taskd_net.net.links.session import Session
from taskd_net.net.links.tasknet import ToChild
from taskd_net.net.links.unary import UnaryWriter
from tests.links.pipes import FakeChannel, FakeNode, FakePipe, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)

LARGEST = limits.MESSAGE_BYTES
BODY = "x" * (LARGEST - 200)
CHILDREN = 6


async def turns_of_the_loop(count: int = 5) -> None:
    """Let the event loop turn so often."""
    for _ in range(count):
        await asyncio.sleep(0)


HOURS = 1024.0
"""Bytes for each second of rest, with which the second large write begins hours after the first one."""


async def test_first_write_begins_at_once_and_the_others_in_their_order() -> None:
    turns, begun, over = large_writes(), list[int](), asyncio.Event()

    def comes(number: int) -> Callable[[], None]:
        def come() -> None:
            begun.append(number)
            if number == 4:
                over.set()

        return come

    assert [turns.begin(LARGEST, comes(number)) for number in range(5)] == [True, False, False, False, False]
    assert not begun
    await soon(over.wait())
    assert begun == [1, 2, 3, 4]
    # After a while the first one need not wait.
    last = asyncio.Event()
    if not turns.begin(LARGEST, last.set):
        await soon(last.wait())


async def test_time_that_the_copying_takes_is_no_pause() -> None:
    """A write takes longer than the pause after it; the next one is still not begun in the same turn of the loop."""
    turns = large_writes()
    assert turns.begin(LARGEST, asyncio.Event().set)
    time.sleep(2.0 * LARGEST / links_large_writes.LARGE_WRITES_PER_S)  # noqa: ASYNC251 - the loop stands still
    later = asyncio.Event()
    assert not turns.begin(LARGEST, later.set)
    await soon(later.wait())


async def test_some_batches_begin_together() -> None:
    turns = large_writes()
    size, later = batched.BATCH_BYTES, asyncio.Event()
    assert all(turns.begin(size, later.set) for _ in range(links_large_writes.LARGE_WRITES_AHEAD // size))
    assert not turns.begin(size, later.set)
    await soon(later.wait())


class Fan:
    """A Mgr, its links to some children, and their streams."""

    def __init__(
        self,
        make: Callable[[FakeNode, LinkId, Position, FakePipe], Session[bytes]],
        per_second: float = links_large_writes.LARGE_WRITES_PER_S,
    ) -> None:
        self.node = FakeNode("Mgr")
        self.node.large_writes = large_writes(per_second)
        self.pipes: list[FakePipe] = []
        self.links: list[Session[bytes]] = []
        for rank in range(CHILDREN):
            child, pipe = Position.worker(0, rank), FakePipe()
            link_id = self.node.router.register(0.0, child).link or 0
            link = make(self.node, link_id, child, pipe)
            self.node.router.link_up(0.0, link_id, link, (), link.terms)
            self.node.links[link_id] = link
            self.pipes.append(pipe)
            self.links.append(link)
        self.running = [asyncio.create_task(link.run()) for link in self.links]

    def begun(self) -> int:
        """The number of writes that have begun."""
        return sum(pipe.begun.qsize() for pipe in self.pipes)

    def multicast(self) -> None:
        """Send one of the largest messages to all children."""
        self.node.send(frame(BODY, sync=False, to="Worker/0/All"))

    async def close(self) -> None:
        """Cut all streams."""
        for pipe in self.pipes:
            pipe.cut()
        await soon(asyncio.gather(*self.running))


def _batched(node: FakeNode, link: LinkId, child: Position, pipe: FakePipe) -> BatchedLink:
    return BatchedLink(node, link, child, pipe)


def _tasknet(node: FakeNode, link: LinkId, child: Position, pipe: FakePipe) -> ToChild:
    return ToChild(node, link, child, pipe, CONTRACT)


@pytest.mark.parametrize("make", [_batched, _tasknet])
async def test_multicast_is_copied_for_one_child_in_one_turn_of_the_loop(make: Any) -> None:
    fan = Fan(make, HOURS)
    fan.multicast()
    await turns_of_the_loop(20)
    assert fan.begun() == 1
    await fan.close()


@pytest.mark.parametrize("make", [_batched, _tasknet])
async def test_multicast_gets_to_all_children(make: Any) -> None:
    fan = Fan(make)
    fan.multicast()
    for pipe in fan.pipes:
        await soon(pipe.begun.get())
    await fan.close()


async def test_answers_do_not_wait_behind_a_large_message() -> None:
    fan = Fan(_batched, HOURS)
    fan.multicast()
    await turns_of_the_loop()
    answers = Writes()
    answers.accepted = ["u"]
    for link in fan.links:
        link.write(answers)
    await turns_of_the_loop()
    written = [pipe.begun.get_nowait() for pipe in fan.pipes]
    assert sum(len(data) > LARGEST // 2 for data in written) == 1
    await fan.close()


async def test_small_messages_of_other_links_pass() -> None:
    fan = Fan(_batched, HOURS)
    for rank in range(CHILDREN - 1):
        fan.node.send(frame(BODY, sync=False, to=f"Worker/0/{rank}"))
    fan.node.send(frame("small", sync=False, to=f"Worker/0/{CHILDREN - 1}"))
    await turns_of_the_loop()
    assert fan.pipes[-1].begun.qsize() == 1 and fan.begun() == 2
    await fan.close()


async def test_link_that_ends_before_its_turn_leaves_its_message_unwritten() -> None:
    fan = Fan(_batched, HOURS)
    fan.multicast()
    await turns_of_the_loop()
    fan.pipes[1].cut()
    await soon(fan.running[1])
    [(left, _)] = fan.links[1].unwritten()
    assert len(left.data) > len(BODY)
    assert fan.pipes[1].begun.empty()
    await fan.close()


async def test_turn_of_a_link_that_has_ended_is_the_next_ones() -> None:
    fan = Fan(_batched)
    fan.multicast()
    fan.pipes[1].cut()
    await soon(fan.running[1])
    for pipe in (fan.pipes[0], *fan.pipes[2:]):
        await soon(pipe.begun.get())
    await fan.close()


class Calls:
    """A writer of calls whose answers wait."""

    def __init__(self, per_second: float = links_large_writes.LARGE_WRITES_PER_S) -> None:
        self.channel = FakeChannel()
        self.channel.gate.clear()
        channel, turns = cast(grpc.aio.Channel, self.channel), large_writes(per_second)
        self.writer = UnaryWriter(
            channel, Position.proxy(0), Position.mgr(), CONTRACT, 3.0, turns, lambda _: None, lambda *_: None
        )
        for number in range(3):
            self.writer.put(frame(BODY, uuid=str(number), src="Worker/0/0", to="Mgr"), 60.0)


async def test_one_large_call_begins_in_one_turn_of_the_loop() -> None:
    calls = Calls(HOURS)
    await turns_of_the_loop(20)
    assert calls.channel.calls.qsize() == 1
    assert len(calls.writer.close()) == 2


async def test_all_large_calls_begin() -> None:
    calls = Calls()
    assert [await soon(calls.channel.calls.get()) for _ in range(3)] == ["0", "1", "2"]
    calls.channel.gate.set()
    await soon(calls.writer.finish())
