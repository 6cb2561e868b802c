"""The batched link: what leaves together, how far one end is ahead, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from taskd_net import Ack, Code, Failure, Position
from taskd_net.core import acks as core_acks
from taskd_net.core import router
from taskd_net.core.acks import Answer
from taskd_net.core.ready import Answered, Key, Ready, Writes
from taskd_net.core.routes import LinkId
from taskd_net.net.links import batched
from taskd_net.net.wire import batches as wire_batches
from taskd_net.net.wire import codec, link_pb2
from taskd_net.net.wire.batches import read_batch, read_branches
from tests.links.cable import PROXY, WORKER, Cable, writes
from tests.links.pipes import bodies, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)

ALL = "Worker/All/All"


async def test_single_message_leaves_at_once(cable: Cable) -> None:
    cable.node.send(frame(uuid="a"))
    assert await cable.take() == (["a"], [3001], [], [])


async def test_what_queues_up_under_a_write_leaves_together(cable: Cable) -> None:
    cable.pipe.gate.clear()
    cable.node.send(frame(uuid="a"))
    assert (await cable.take())[0] == ["a"]
    for uuid in "bcd":
        cable.node.send(frame(uuid=uuid))
    assert cable.pipe.begun.empty()
    cable.pipe.gate.set()
    assert (await cable.take())[0] == ["b", "c", "d"]


async def test_batch_has_at_most_256_messages(cable: Cable) -> None:
    for message in bodies(600):
        cable.node.send(message)
    batches = [(await cable.take())[0] for _ in range(3)]
    assert [len(batch) for batch in batches] == [256, 256, 88]
    assert [uuid for batch in batches for uuid in batch] == [str(i) for i in range(600)]


async def test_batch_is_bounded_in_bytes_and_a_large_message_goes_alone(cable: Cable) -> None:
    for message in bodies(4, batched.BATCH_BYTES // 3 - 100):
        cable.node.send(message)
    cable.node.send(frame("x" * 2 * batched.BATCH_BYTES, uuid="large"))
    cable.node.send(frame(uuid="small"))
    assert [(await cable.take())[0] for _ in range(4)] == [["0", "1", "2"], ["3"], ["large"], ["small"]]
    assert all(len(data) <= batched.BATCH_BYTES + 1000 for data in cable.pipe.written[:2])


async def test_patience_is_milliseconds_and_0_only_where_nobody_waits(cable: Cable) -> None:
    for patience in (0.0, 0.0001, 0.0015, 1.5):
        cable.link.write(writes(frame(), patience))
    assert (await cable.take())[1] == [0, 1, 2, 1501]


async def test_queue_that_the_router_counts_is_counted_down_when_it_is_written(cable: Cable) -> None:
    cable.pipe.gate.clear()
    messages = bodies(3)
    for message in messages:
        cable.node.send(message)
    await cable.take()
    assert (cable.child.queued_messages, cable.child.queued_bytes) == (3, sum(len(one.data) for one in messages))
    cable.pipe.gate.set()
    await soon(cable.link.idle())
    assert (cable.child.queued_messages, cable.child.queued_bytes) == (0, 0)


async def test_stream_ends_under_a_write_when_the_answers_are_not_taken() -> None:
    """The child sends on and on, and reads nothing."""
    cable = Cable(numbered=True)
    cable.pipe.gate.clear()
    unread = cable.quota.room + router.ANSWERS_UNTAKEN
    message = frame(src="Worker/0/0", to="Mgr").data
    most = wire_batches.BATCH_MESSAGES
    for first in range(0, unread + most, most):
        batch = link_pb2.Batch(messages=[message] * most, patience=[3000] * most)
        batch.numbers.extend(range(first + 1, first + most + 1))
        cable.pipe.comes_in(batch.SerializeToString())
    await soon(cable.running)
    assert set(cable.node.accused) == {("Worker/0/0", Code.RECV_BUF_BUSY)}
    cable.pipe.cut()


async def test_answers_that_no_batch_can_have_together_leave_in_several() -> None:
    """None is lost, and what some say beside their code stays with them."""
    cable = Cable(PROXY, counts=True)
    cable.pipe.gate.clear()
    many = wire_batches.BATCH_ANSWERS + 100
    failures = tuple(Failure(Position.worker(0, rank), Code.NO_ROUTE) for rank in range(core_acks.FAILURES_TOLD))
    writes_ = Writes()
    writes_.accepted = [f"good {index}" for index in range(many)]
    src = Position.proxy(0)
    writes_.answers = [Answered(f"bad {i}", Ack(f"bad {i}", 5002, src, "", i, failures), False) for i in range(many)]
    cable.link.write(writes_)
    cable.pipe.gate.set()
    accepted: list[str] = []
    told: list[tuple[str, int | None]] = []
    while len(told) < many:
        batch = read_batch(await soon(cable.pipe.begun.get()))
        size = sum(map(len, batch.answers)) + sum(b.ByteSize() for b in batch.branches)
        assert size <= wire_batches.BATCH_ANSWER_BYTES
        accepted += batch.accepted
        branches = read_branches(batch.branches, PROXY)
        told += [
            (codec.read_ack(answer, PROXY).uuid, branches[index].receivers)
            for index, answer in enumerate(batch.answers)
        ]
        confirmation = link_pb2.Batch(taken=1).SerializeToString()
        cable.pipe.comes_in(confirmation)
    assert accepted == writes_.accepted
    assert told == [(f"bad {index}", index) for index in range(many)]
    cable.pipe.cut()
    await soon(cable.running)


async def test_broadcasts_of_one_batch_are_taken_in_by_slices(trunk: Cable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each costs as much as all its receivers, so the loop turns between two of them."""
    turn = 0
    turns: list[int] = []
    perform = trunk.node.perform

    def performed(ready: Ready) -> None:
        turns.append(turn)
        perform(ready)

    monkeypatch.setattr(trunk.node, "perform", performed)
    kinds = (ALL, "Mgr", "Mgr", ALL, ALL, "Mgr")
    trunk.comes_in(*((frame(uuid=f"{i}", src="Worker/0/0", to=to).data, 1000) for i, to in enumerate(kinds)))
    while len(turns) < 4:
        turn += 1
        await asyncio.sleep(0)
    assert turns == list(range(turns[0], turns[0] + 4))
    assert trunk.node.delivered == ["1", "2", "5"]


async def test_answers_of_one_batch_are_taken_in_by_slices(cable: Cable, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node of 0.1.0 may write thousands of Acks at once: other links have their turn; messages come after them."""
    taken: list[int] = []
    arrived = cable.node.router.answers_arrived

    def answers_arrived(now: float, link: LinkId, accepted: Sequence[Key], answers: Sequence[Answer]) -> Ready:
        taken.append(len(answers))
        assert not cable.node.delivered
        return arrived(now, link, accepted, answers)

    monkeypatch.setattr(cable.node.router, "answers_arrived", answers_arrived)
    acks = tuple(Ack(f"u{number}", Code.NO_ROUTE, WORKER) for number in range(batched.ANSWERS_AT_ONCE + 3))
    cable.comes_in((frame(uuid="after", src="Worker/0/0", to="Mgr").data, 1000), accepted=("a",), answers=acks)
    seen = []
    while not cable.node.delivered:
        seen.append(list(taken))
        await asyncio.sleep(0)
    assert [batched.ANSWERS_AT_ONCE] in seen, "they were taken in at once"
    assert taken == [batched.ANSWERS_AT_ONCE, 3]


async def test_later_answer_that_is_none_ends_the_stream(cable: Cable) -> None:
    good = codec.write_ack(Ack("u", Code.NO_ROUTE, WORKER))
    cable.pipe.comes_in(link_pb2.Batch(answers=[good] * batched.ANSWERS_AT_ONCE + [b"\xff"]).SerializeToString())
    await soon(cable.running)
    assert cable.node.accused == [("Worker/0/0", Code.NET_ERR)]


async def ahead(cable: Cable) -> None:
    """Write as many batches as may be written before the other end has taken one in."""
    for number in range(batched.BATCHES_AHEAD):
        cable.node.send(frame(uuid=str(number)))
        assert (await cable.take())[0] == [str(number)]


async def test_what_is_too_far_ahead_of_the_other_end_waits_and_leaves_together(cable: Cable) -> None:
    await ahead(cable)
    for uuid in "abc":
        cable.node.send(frame(uuid=uuid))
        await asyncio.sleep(0)
    assert cable.link.busy
    assert cable.pipe.begun.empty()
    cable.comes_in(taken=1)
    assert (await cable.take())[0] == ["a", "b", "c"]
    cable.node.send(frame(uuid="d"))
    cable.comes_in(taken=2**32 - 1)  # what cannot be: not more is allowed by it than by the truth
    assert (await cable.take())[0] == ["d"]
    for number in range(batched.BATCHES_AHEAD - 1):
        cable.node.send(frame(uuid=f"more {number}"))
        await cable.take()
    cable.node.send(frame(uuid="e"))
    await soon(cable.pipe.settled())
    assert cable.pipe.begun.empty()


async def test_what_was_taken_in_is_said_with_whatever_goes_back(cable: Cable) -> None:
    cable.comes_in((frame(uuid="up", src="Worker/0/0", to="Mgr").data, 1000))
    batch = link_pb2.Batch.FromString(await soon(cable.pipe.begun.get()))
    assert (list(batch.accepted), batch.taken) == (["up"], 1)


async def test_without_anything_to_send_back_it_is_said_after_two_batches(cable: Cable) -> None:
    post = frame(uuid="post", src="Worker/0/0", to="Mgr", sync=False).data
    cable.comes_in((post, 0))
    await soon(cable.pipe.settled())
    assert cable.pipe.begun.empty()
    cable.comes_in((post, 0))
    assert await soon(cable.pipe.begun.get()) == link_pb2.Batch(taken=2).SerializeToString()
    # Such a batch is not to be confirmed itself, or that would never end.
    for _ in range(4):
        cable.comes_in(taken=0)
    await soon(cable.pipe.settled())
    assert cable.pipe.begun.empty()


async def test_two_ends_that_are_both_too_far_ahead_let_each_other_go_on(cable: Cable) -> None:
    await ahead(cable)
    cable.node.send(frame(uuid="waits"))
    for _ in range(2):
        cable.comes_in((frame(uuid="post", src="Worker/0/0", to="Mgr", sync=False).data, 0))
    assert await soon(cable.pipe.begun.get()) == link_pb2.Batch(taken=2).SerializeToString()
    cable.comes_in(taken=2)
    assert (await cable.take())[0] == ["waits"]


async def test_link_is_not_idle_while_something_waits_for_the_other_end(cable: Cable) -> None:
    await ahead(cable)
    cable.node.send(frame(uuid="waits"))
    idle = asyncio.create_task(cable.link.idle())
    await soon(cable.pipe.settled())
    assert not idle.done()
    cable.comes_in(taken=1)
    await soon(idle)
    assert (await cable.take())[0] == ["waits"]


async def test_link_is_not_idle_while_a_write_is_under_way(cable: Cable) -> None:
    """Or a node that leaves would cut off its last answer."""
    cable.pipe.gate.clear()
    cable.node.send(frame(uuid="a"))
    await cable.take()
    idle = asyncio.create_task(cable.link.idle())
    await cable.pipe.settled()
    assert not idle.done()
    cable.pipe.gate.set()
    await soon(idle)
    assert len(cable.pipe.written) == 1


async def test_who_waits_for_the_last_write_waits_no_longer_than_the_stream_stands(cable: Cable) -> None:
    cable.pipe.gate.clear()
    cable.node.send(frame(uuid="a"))
    await cable.take()
    idle = asyncio.create_task(cable.link.idle())
    await cable.pipe.settled()
    assert not idle.done()
    cable.pipe.cut()
    await soon(idle)
    assert not cable.link.alive


async def test_what_waits_for_the_other_end_is_told_as_unwritten(cable: Cable) -> None:
    await ahead(cable)
    cable.node.send(frame(uuid="waits"))
    cable.pipe.cut()
    await soon(asyncio.shield(cable.running))
    assert [one.uuid for one, _ in cable.link.unwritten()] == ["waits"]


async def test_every_message_that_was_not_written_is_told_once(cable: Cable) -> None:
    """Nobody knows of the batch under way: 6001, which its `sync=false` messages learn at once."""
    cable.pipe.gate.clear()
    cable.node.send(frame(uuid="sync under way"))
    asked = cable.node.send(frame(uuid="async under way", sync=False))
    passed = frame(uuid="passed under way", src="Worker/9/9", sync=False)
    cable.node.perform(cable.node.router.messages_arrived(0.0, 99, (passed,), (None,), (None,)))
    await cable.take()
    cable.node.send(frame(uuid="sync queued"))
    cable.node.send(frame(uuid="async queued", sync=False))
    cable.pipe.cut()
    await soon(asyncio.shield(cable.running))
    assert asked == []
    assert [one.uuid for one, _ in cable.link.unwritten()] == ["sync queued", "async queued"]
    assert [(ack.code, ack.src) for ack in asked] == [(Code.NETWORK_ACK_LOST, WORKER)]
    assert cable.node.lost == ["passed under way"]
    assert cable.link.unwritten() == []


async def test_what_is_answered_counts_no_more_against_the_child(cable: Cable) -> None:
    """With code 0 or another, and of any size."""
    to = {"a": "Mgr", "b": "Mgr", "nowhere": "Worker/9/9", "large": "Mgr"}
    messages = {
        uuid: frame("x" * 9000 * (uuid == "large"), uuid=uuid, src="Worker/0/0", to=dst) for uuid, dst in to.items()
    }
    cable.comes_in(*((message.data, 1000) for message in messages.values()))
    _, _, accepted, answers = await cable.take()
    assert (accepted, [ack.uuid for ack in answers]) == (["a", "b", "large"], ["nowhere"])
    assert (cable.quota.messages, cable.quota.size) == (0, 0)


async def test_what_waits_for_its_answer_counts_until_the_link_ends(cable: Cable) -> None:
    cable.node.router.gate.room = 1
    for uuid in ("in", "waits"):
        cable.comes_in((frame("x" * 9000, uuid=uuid, src="Worker/0/0", to="Mgr").data, 1000))
    assert (await cable.take())[2] == ["in"]
    await cable.pipe.settled()
    assert cable.quota.messages == 1
    assert cable.quota.size > 9000
    cable.pipe.cut()
    await soon(asyncio.shield(cable.running))
    assert cable.link.unwritten() == []
    cable.node.perform(cable.node.router.link_down(0.0, cable.child.id, cable.link))
    assert (cable.quota.messages, cable.quota.size) == (0, 0)


async def test_small_message_that_waits_costs_its_place_and_no_bytes(cable: Cable) -> None:
    """The entry that waits for its answer is all that is left of it."""
    cable.node.router.gate.room = 1
    for uuid in ("in", "waits"):
        cable.comes_in((frame(uuid=uuid, src="Worker/0/0", to="Mgr").data, 1000))
    assert (await cable.take())[2] == ["in"]
    await cable.pipe.settled()
    assert (cable.quota.messages, cable.quota.size) == (1, 0)
    cable.pipe.cut()
    await soon(asyncio.shield(cable.running))
    assert cable.link.unwritten() == []
    cable.node.perform(cable.node.router.link_down(0.0, cable.child.id, cable.link))
    assert (cable.quota.messages, cable.quota.size) == (0, 0)


async def test_a_write_that_fails_is_the_end_of_the_link(cable: Cable) -> None:
    """Frames queued behind it were certainly not written."""
    cable.pipe.gate.clear()
    cable.node.send(frame(uuid="under way"))
    await cable.take()
    cable.node.send(frame(uuid="queued"))
    cable.pipe.fail_writes()
    await soon(asyncio.shield(cable.running))
    assert [one.uuid for one, _ in cable.link.unwritten()] == ["queued"]


async def test_written_messages_are_not_told(cable: Cable) -> None:
    cable.node.send(frame(uuid="a", sync=False))
    await cable.take()
    await soon(cable.link.idle())
    cable.pipe.cut()
    await soon(asyncio.shield(cable.running))
    assert cable.link.unwritten() == []


async def test_answer_after_the_end_is_dropped(cable: Cable) -> None:
    """The stream ended while the message waited before the inbox."""
    mgr = cable.node.router
    mgr.gate.room = 1
    for uuid in ("in", "waits"):
        cable.comes_in((frame(uuid=uuid, src="Worker/0/0", to="Mgr").data, 1000))
    assert (await cable.take())[2] == ["in"]
    cable.pipe.cut()
    await soon(asyncio.shield(cable.running))
    cable.node.perform(mgr.link_down(0.0, cable.child.id, cable.link))
    cable.node.perform(mgr.inbox_taken(0.0))
    assert cable.node.delivered == ["in", "waits"]
    assert not cable.link._has_output()


async def test_first_hop_that_has_a_post_has_not_delivered_a_sync_message_of_the_same_uuid(cable: Cable) -> None:
    sent = cable.node.send(frame(uuid="u"))
    await cable.take()
    # Each batch brings a message along, whose answer shows that the batch has been handled.
    cable.comes_in((frame(uuid="one", src="Worker/0/0", to="Mgr").data, 1), answers=(Ack("u", Code.OK, WORKER),))
    assert (await cable.take())[2] == ["one"]
    assert sent == []
    cable.comes_in((frame(uuid="two", src="Worker/0/0", to="Mgr").data, 1), accepted=("u",))
    assert (await cable.take())[2] == ["two"]
    assert sent == [Ack("u", Code.OK, WORKER, receivers=1)]
