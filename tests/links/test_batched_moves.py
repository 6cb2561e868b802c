"""A batched link that moves to another stream."""

from __future__ import annotations

import asyncio

import pytest

from taskd_net import Code
from taskd_net.net.links.batched import BatchedLink
from taskd_net.net.wire import codec, link_pb2
from tests.links.cable import WORKER, Cable
from tests.links.pipes import FakePipe, bodies, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)


async def moved(cable: Cable) -> tuple[BatchedLink, FakePipe, asyncio.Task[None]]:
    """Let the link of the cable come to rest, and go on over another stream."""
    await soon(cable.link.pause())
    pipe = FakePipe()
    successor = BatchedLink(cable.node, cable.child.id, WORKER, pipe)
    cable.link.hand_over(successor)
    cable.node.links[cable.child.id] = successor
    cable.node.router.renewed(cable.child.id, successor)
    return successor, pipe, asyncio.create_task(successor.run())


async def test_a_link_comes_to_rest_when_its_write_is_done_and_what_queues_up_goes_on_elsewhere(cable: Cable) -> None:
    cable.pipe.gate.clear()
    answers = [cable.node.send(frame(uuid="a"))]
    assert (await cable.take())[0] == ["a"]
    answers += [cable.node.send(message) for message in bodies(2)]
    resting = asyncio.create_task(cable.link.pause())
    await asyncio.sleep(0)
    assert not resting.done()
    cable.pipe.gate.set()
    await soon(resting)
    answers.append(cable.node.send(frame(uuid="b")))
    assert cable.pipe.begun.empty() and len(cable.pipe.written) == 1
    successor, pipe, running = await moved(cable)
    batch = link_pb2.Batch.FromString(await soon(pipe.begun.get()))
    assert [codec.read_uuid(message) for message in batch.messages] == ["0", "1", "b"]
    assert cable.link.unwritten() == []
    assert not cable.link._has_output()
    # Answers come as they are, on the old stream or on the new one.
    cable.comes_in(accepted=("a",))
    await soon(cable.pipe.settled())
    pipe.comes_in(link_pb2.Batch(accepted=["0", "1", "b"]).SerializeToString())
    await soon(pipe.settled())
    assert [ack.code for [ack] in answers] == [Code.OK] * 4
    pipe.cut()
    await soon(running)
    assert successor.successor is None


async def test_what_still_comes_over_the_old_stream_is_taken_in_and_answered_over_the_new_one(cable: Cable) -> None:
    _, pipe, running = await moved(cable)
    await soon(cable.pipe.settled())
    assert cable.pipe.finished
    cable.comes_in((frame(uuid="late", src="Worker/0/0", to="Mgr").data, 1000))
    cable.comes_in((frame(uuid="lost", src="Worker/0/0", to="Worker/7/7").data, 1000))
    batch = link_pb2.Batch.FromString(await soon(pipe.begun.get()))
    accepted, answers = list(batch.accepted), list(batch.answers)
    while not answers:
        batch = link_pb2.Batch.FromString(await soon(pipe.begun.get()))
        accepted += batch.accepted
        answers += batch.answers
    assert cable.node.delivered == accepted == ["late"]
    assert [codec.read_ack(answer, WORKER).code for answer in answers] == [Code.NO_ROUTE]
    assert not cable.running.done()
    # The other end has written all that it had begun to.
    cable.pipe.cut()
    await soon(cable.running)
    assert cable.link.over.is_set()
    pipe.cut()
    await soon(running)


async def test_a_link_that_came_to_rest_for_nothing_goes_on(cable: Cable) -> None:
    await soon(cable.link.pause())
    cable.node.send(frame(uuid="a"))
    cable.link.resume()
    assert (await cable.take())[0] == ["a"]


async def test_a_stream_that_ends_while_it_is_to_come_to_rest(cable: Cable) -> None:
    cable.pipe.gate.clear()
    cable.node.send(frame(uuid="a"))
    await cable.take()
    resting = asyncio.create_task(cable.link.pause())
    await asyncio.sleep(0)
    cable.pipe.cut()
    await soon(resting)
    assert not cable.link.alive
