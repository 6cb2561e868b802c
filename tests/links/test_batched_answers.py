"""Answers over the batched link, by uuid and by number."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from taskd_net import Ack, Code, Failure, Position
from taskd_net.core.acks import Told
from taskd_net.core.ready import Kind
from taskd_net.net.links.batched import ANSWERS_AT_ONCE, BatchedLink
from taskd_net.net.wire import codec, link_pb2
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.batches import read_batch, read_branches
from tests.links.cable import PROXY, WORKER, Cable, writes
from tests.links.pipes import FakePipe, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)


async def test_good_answers_go_as_uuids_and_others_as_acks(cable: Cable) -> None:
    cable.comes_in(
        (frame(uuid="good", src="Worker/0/0", to="Mgr").data, 1000),
        (frame(uuid="bad", src="Worker/0/0", to="Worker/9/9").data, 1000),
        (frame(uuid="nobody waits", src="Worker/0/0", to="Mgr").data, 0),
    )
    uuids, _, accepted, answers = await cable.take()
    assert (uuids, accepted) == ([], ["good"])
    assert answers == [Ack("bad", Code.NO_ROUTE, Position.mgr())]
    assert cable.node.delivered == ["good", "nobody waits"]


ALL = "Worker/All/All"
SILENT = (Failure(WORKER, Code.NETWORK_ACK_LOST),)


async def test_answer_to_a_broadcast_says_how_many(trunk: Cable) -> None:
    """Only where it has more to say than that there is one: the answer to a unicast stays a uuid."""
    trunk.comes_in(
        (frame(uuid="one", src="Worker/0/0", to="Mgr").data, 1000),
        (frame(uuid="none here", src="Worker/0/0", to=ALL).data, 1000),
        (frame(uuid="no rank", src="Worker/0/0", to="Worker/0/1,7").data, 1000),
        (frame(uuid="nowhere", src="Worker/0/0", to="Worker/9/9").data, 1000),
    )
    # Each broadcast is the end of a slice.
    batches = [read_batch(await soon(trunk.pipe.begun.get())) for _ in range(3)]
    acks = [codec.read_ack(answer, PROXY) for batch in batches for answer in batch.answers]
    assert [list(batch.accepted) for batch in batches] == [["one"], [], []]
    assert [(ack.uuid, ack.code) for ack in acks] == [("none here", 0), ("no rank", 5002), ("nowhere", 5002)]
    missing = (Failure(Position("Worker", "All", "7"), Code.NO_ROUTE),)
    said = [read_branches(batch.branches, PROXY) for batch in batches]
    assert said == [{0: Told(0)}, {0: Told(0, missing)}, {}]


async def test_earlier_version_gets_uuids_and_acks_alone() -> None:
    cable = Cable(PROXY)
    token = cable.node.request(lambda ack: None)
    cable.node.router.announced(0.0, cable.child.id, Kind.ADD, [WORKER, Position.worker(0, 1)], token, "a")
    cable.comes_in(
        (frame(uuid="none here", src="Worker/0/0", to=ALL).data, 1000),
        (frame(uuid="no rank", src="Worker/0/0", to="Worker/0/1,7").data, 1000),
    )
    batches = [read_batch(await soon(cable.pipe.begun.get())) for _ in range(2)]
    assert [list(batch.accepted) for batch in batches] == [["none here"], []]
    assert [len(batch.answers) for batch in batches] == [0, 1]
    assert not any(batch.branches for batch in batches)
    cable.pipe.cut()
    await soon(cable.running)


async def test_what_a_branch_says_reaches_the_sender(trunk: Cable) -> None:
    good, bad, bare = (trunk.node.send(frame(uuid=uuid, to=ALL)) for uuid in ("good", "bad", "bare"))
    await trunk.take()
    trunk.comes_in(
        accepted=("bare",),
        answers=(Ack("good", 0, WORKER, "", 2), Ack("bad", Code.NETWORK_ACK_LOST, WORKER, "", 1, SILENT)),
    )
    await soon(trunk.node.answered.wait())
    assert good == [Ack("good", 0, WORKER, receivers=2)]
    assert bad == [Ack("bad", Code.NETWORK_ACK_LOST, WORKER, "", 1, SILENT)]
    assert bare == [Ack("bare", 0, PROXY, receivers=1)]


async def test_what_a_branch_says_moves_with_the_answer(trunk: Cable) -> None:
    """A stream that goes on as another one takes along what was not written, in the order of the answers."""
    trunk.pipe.gate.clear()
    trunk.comes_in((frame(uuid="first", src="Worker/0/0", to="Mgr").data, 1000))
    await soon(trunk.pipe.begun.get())
    trunk.comes_in(
        (frame(uuid="nowhere", src="Worker/0/0", to="Worker/9/9").data, 1000),
        (frame(uuid="none here", src="Worker/0/0", to=ALL).data, 1000),
    )
    pausing = asyncio.create_task(trunk.link.pause())
    await asyncio.sleep(0)
    trunk.pipe.gate.set()
    await soon(pausing)
    pipe = FakePipe()
    successor = BatchedLink(trunk.node, trunk.child.id, PROXY, pipe, counts=True)
    trunk.link.hand_over(successor)
    trunk.node.links[trunk.child.id] = successor
    running = asyncio.create_task(successor.run())
    batch = read_batch(await soon(pipe.begun.get()))
    assert read_branches(batch.branches, PROXY) == {1: Told(0)}
    pipe.cut()
    await soon(running)


async def test_answers_that_come_in_reach_whoever_waits(cable: Cable) -> None:
    good, bad = cable.node.send(frame(uuid="good")), cable.node.send(frame(uuid="bad"))
    await cable.take()
    busy = Ack("bad", Code.RECV_BUF_BUSY, WORKER)
    cable.comes_in((frame(uuid="then", src="Worker/0/0", to="Mgr").data, 1), accepted=("good", "late"), answers=(busy,))
    assert (await cable.take())[2] == ["then"]
    assert (good, bad) == ([Ack("good", Code.OK, WORKER, receivers=1)], [busy._replace(receivers=0)])
    assert cable.node.router.statistics.late_acks == 1


async def test_message_behind_many_answers_under_which_the_node_fails_is_answered(
    cable: Cable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers are taken in 256 at a time; the writer sleeps meanwhile."""

    def fail(*_: object) -> None:
        raise RuntimeError("a fault of this node")

    monkeypatch.setattr(cable.node.router, "messages_arrived", fail)
    late = tuple(Ack(f"late {number}", Code.RECV_BUF_BUSY, WORKER) for number in range(ANSWERS_AT_ONCE + 1))
    cable.comes_in((frame(uuid="then", src="Worker/0/0", to="Mgr").data, 1000), answers=late)
    assert (await cable.take())[3] == [Ack("then", Code.SERVER_ERR, Position.mgr())]


async def test_message_that_cannot_be_read_is_answered_and_costs_the_others_nothing(
    cable: Cable, caplog: pytest.LogCaptureFixture
) -> None:
    too_far = pb.Message.FromString(frame(uuid="too far").data)
    too_far.header.dst.serverRank = "x"
    cable.comes_in(
        (b"\xff", 1000),
        (too_far.SerializeToString(), 1000),
        (too_far.SerializeToString(), 0),
        (frame(uuid="good", src="Worker/0/0", to="Mgr").data, 1000),
    )
    _, _, accepted, answers = await cable.take()
    assert accepted == ["good"]
    assert answers == [Ack("too far", Code.DST_SRV_RANK_ILLEGAL, Position.mgr())]
    assert caplog.text.count("event=message_refused node=Mgr peer=Worker/0/0 count=3") == 1


async def test_node_that_fails_under_a_batch_answers_5999_and_keeps_the_link(
    cable: Cable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    up = frame(uuid="up", src="Worker/0/0", to="Mgr").data
    with monkeypatch.context() as broken:
        broken.setattr("taskd_net.core.router.Router.messages_arrived", lambda *_: 1 // 0)
        cable.comes_in((up, 1000), (up, 0))
        assert (await cable.take())[3] == [Ack("up", Code.SERVER_ERR, Position.mgr())]
    assert "request_failed" in caplog.text
    assert not cable.running.done()
    cable.comes_in((up, 1000))
    assert (await cable.take())[2] == ["up"]


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x00", b"\x22\x01\xff"])
async def test_what_is_no_batch_ends_the_link(data: bytes, cable: Cable) -> None:
    """Only a node of ours is at the other end, so it is a violation: the child begins again."""
    cable.pipe.comes_in(data)
    await soon(asyncio.shield(cable.running))
    assert cable.node.accused == [("Worker/0/0", Code.NET_ERR)]


async def test_link_that_was_replaced_takes_in_nothing_more(cable: Cable) -> None:
    waiting = cable.node.send(frame(uuid="a"))
    await cable.take()
    cable.node.links[cable.child.id] = BatchedLink(cable.node, cable.child.id, WORKER, FakePipe())
    cable.comes_in((frame(uuid="up", src="Worker/0/0", to="Mgr").data, 1000), accepted=("a",))
    cable.pipe.comes_in(b"\xff")  # read after it, and ends the link
    await soon(asyncio.shield(cable.running))
    assert (waiting, cable.node.delivered) == ([], [])


@pytest.fixture
async def numbered() -> AsyncIterator[Cable]:
    """A link that stands, between two ends that answer by number."""
    cable = Cable(numbered=True)
    yield cable
    cable.pipe.cut()
    await soon(cable.running)


def up(uuid: str, to: str = "Mgr", *, sync: bool = True) -> bytes:
    """A message of the Worker."""
    return frame(uuid=uuid, src="Worker/0/0", to=to, sync=sync).data


async def test_messages_that_want_an_answer_are_numbered(numbered: Cable) -> None:
    numbered.pipe.gate.clear()
    numbered.node.send(frame(uuid="same"))
    first = link_pb2.Batch.FromString(await soon(numbered.pipe.begun.get()))
    numbered.node.send(frame(uuid="same", sync=False))
    numbered.link.write(writes(frame(uuid="passed on", sync=False), 0.0))
    numbered.node.send(frame(uuid="other"))
    numbered.pipe.gate.set()
    batch = link_pb2.Batch.FromString(await soon(numbered.pipe.begun.get()))
    assert (list(first.numbers), list(batch.numbers)) == ([1], [2, 0, 3])


async def test_answers_carry_the_numbers_of_the_other_end(numbered: Cable) -> None:
    batch = link_pb2.Batch(
        messages=[up("same"), up("same", "Worker/9/9"), up("post", sync=False), up("nobody waits")],
        patience=[1000, 1000, 1000, 0],
        numbers=[2**40, 7, 8, 0],
    )
    numbered.pipe.comes_in(batch.SerializeToString())
    answer = link_pb2.Batch.FromString(await soon(numbered.pipe.begun.get()))
    assert (list(answer.accepted), list(answer.accepted_numbers), list(answer.answer_numbers)) == ([], [2**40], [7, 8])
    assert [codec.read_ack(ack, WORKER).code for ack in answer.answers] == [Code.NO_ROUTE, Code.OK]
    assert numbered.node.delivered == ["same", "post", "nobody waits"]


async def test_answers_reach_whom_their_numbers_name(numbered: Cable) -> None:
    sent = [numbered.node.send(frame(uuid="same", sync=sync)) for sync in (True, True, False)]
    await soon(numbered.pipe.begun.get())
    busy = codec.write_ack(Ack("another uuid", Code.RECV_BUF_BUSY, WORKER))
    first_hop = codec.write_ack(Ack("", Code.OK, WORKER))
    answers = link_pb2.Batch(
        accepted=["same"], accepted_numbers=[2, 77], answers=[busy, first_hop], answer_numbers=[1, 3],
        messages=[up("then")], patience=[1], numbers=[1],
    )  # fmt: skip
    numbered.pipe.comes_in(answers.SerializeToString())
    assert list(link_pb2.Batch.FromString(await soon(numbered.pipe.begun.get())).accepted_numbers) == [1]
    delivered = Ack("same", Code.OK, WORKER, receivers=1)
    assert sent == [
        [Ack("same", Code.RECV_BUF_BUSY, WORKER, "", 0)], [delivered], [delivered._replace(receivers=None)]
    ]  # fmt: skip
    assert numbered.node.router.statistics.late_acks == 1


@pytest.mark.parametrize(
    "batch",
    [
        link_pb2.Batch(messages=[up("a")], patience=[1]),
        link_pb2.Batch(answers=[codec.write_ack(Ack("a", Code.NO_ROUTE, WORKER))]),
    ],
    ids=["message", "answer"],
)
async def test_batch_without_numbers_ends_the_link(batch: link_pb2.Batch, numbered: Cable) -> None:
    numbered.pipe.comes_in(batch.SerializeToString())
    await soon(asyncio.shield(numbered.running))
    assert numbered.node.accused == [("Worker/0/0", Code.NET_ERR)]


async def test_message_that_cannot_be_read_is_answered_by_its_number(numbered: Cable) -> None:
    batch = link_pb2.Batch(messages=[b"\xff"], patience=[1000], numbers=[5])
    numbered.pipe.comes_in(batch.SerializeToString())
    answer = link_pb2.Batch.FromString(await soon(numbered.pipe.begun.get()))
    assert list(answer.answer_numbers) == [5]
    assert codec.read_ack(answer.answers[0], WORKER).code == Code.NIL_MESSAGE


async def test_numbers_and_answers_go_on_over_another_stream(numbered: Cable) -> None:
    first = numbered.node.send(frame(uuid="same"))
    await soon(numbered.pipe.begun.get())
    await soon(numbered.link.pause())
    second = numbered.node.send(frame(uuid="same"))
    pipe = FakePipe()
    successor = BatchedLink(numbered.node, numbered.child.id, WORKER, pipe, numbered=True)
    numbered.link.hand_over(successor)
    numbered.node.links[numbered.child.id] = successor
    numbered.node.router.renewed(numbered.child.id, successor)
    running = asyncio.create_task(successor.run())
    assert list(link_pb2.Batch.FromString(await soon(pipe.begun.get())).numbers) == [2]
    numbered.pipe.comes_in(link_pb2.Batch(messages=[up("late")], patience=[1], numbers=[9]).SerializeToString())
    assert list(link_pb2.Batch.FromString(await soon(pipe.begun.get())).accepted_numbers) == [9]
    # The other end answers over whichever stream it likes.
    pipe.comes_in(link_pb2.Batch(accepted_numbers=[2, 1]).SerializeToString())
    await soon(pipe.settled())
    assert [ack.code for ack in (*first, *second)] == [Code.OK] * 2
    pipe.cut()
    numbered.pipe.cut()
    await soon(running)
