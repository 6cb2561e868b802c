"""The batched link over a stream that the test holds: what leaves together, what comes in, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from taskd_net import Ack, Code, Failure, Position, limits, link_limits
from taskd_net.core.acks import Answer, Told
from taskd_net.core.frame import Frame
from taskd_net.core.ready import Answered, Key, Kind, Ready, Writes
from taskd_net.core.routes import LinkId
from taskd_net.links.batched import BatchedLink
from taskd_net.wire import codec, link_pb2
from taskd_net.wire import tasknet_pb2 as pb
from taskd_net.wire.batches import branch_of, read_batch, read_branches
from tests.links.pipes import FakeNode, FakePipe, bodies, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(180)

WORKER = Position.worker(0, 0)
PROXY = Position.proxy(0)


def writes(message: Frame, patience: float) -> Writes:
    """One message."""
    one = Writes()
    one.frames, one.patience, one.numbers = [message], [patience], [0]
    return one


class Cable:
    """A Mgr, its link to a child, and the stream."""

    def __init__(self, child: Position = WORKER, *, numbered: bool = False, counts: bool = False) -> None:
        self.node = FakeNode("Mgr")
        self.pipe = FakePipe()
        self.child = self.node.router.children.by_id[self.node.router.register(0.0, child).link or 0]
        assert self.child.quota is not None
        self.quota = self.child.quota
        self.link = BatchedLink(self.node, self.child.id, child, self.pipe, numbered=numbered, counts=counts)
        self.node.router.link_up(0.0, self.child.id, self.link, (), self.link.terms)
        self.node.links[self.child.id] = self.link
        self.running = asyncio.create_task(self.link.run())

    async def take(self) -> tuple[list[str], list[int], list[str], list[Ack]]:
        """The next batch that is written: uuids of its messages, patience, accepted, answers."""
        batch = link_pb2.Batch.FromString(await soon(self.pipe.begun.get()))
        uuids = [codec.read_uuid(message) for message in batch.messages]
        answers = [codec.read_ack(answer, WORKER) for answer in batch.answers]
        return uuids, list(batch.patience), list(batch.accepted), answers

    def comes_in(
        self, *frames: tuple[bytes, int], accepted: tuple[str, ...] = (), answers: tuple[Ack, ...] = (), taken: int = 0
    ) -> None:
        """The child writes a batch; answers that say how many, with that."""
        branches = [branch_of(index, ack) for index, ack in enumerate(answers) if ack.receivers is not None]
        written = [codec.write_ack(ack) for ack in answers]
        batch = link_pb2.Batch(accepted=accepted, answers=written, taken=taken, branches=branches)
        for data, patience in frames:
            batch.messages.append(data)
            batch.patience.append(patience)
        self.pipe.comes_in(batch.SerializeToString())


@pytest.fixture
async def cable() -> AsyncIterator[Cable]:
    """A link that stands."""
    cable = Cable()
    yield cable
    cable.pipe.cut()
    await soon(cable.running)


# ---- what leaves


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
    for message in bodies(4, link_limits.BATCH_BYTES // 3 - 100):
        cable.node.send(message)
    cable.node.send(frame("x" * 2 * link_limits.BATCH_BYTES, uuid="large"))
    cable.node.send(frame(uuid="small"))
    assert [(await cable.take())[0] for _ in range(4)] == [["0", "1", "2"], ["3"], ["large"], ["small"]]
    assert all(len(data) <= link_limits.BATCH_BYTES + 1000 for data in cable.pipe.written[:2])


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
    unread = cable.quota.room + limits.ANSWERS_UNTAKEN
    message = frame(src="Worker/0/0", to="Mgr").data
    most = link_limits.BATCH_MESSAGES
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
    many = link_limits.BATCH_ANSWERS + 100
    failures = tuple(Failure(Position.worker(0, rank), Code.NO_ROUTE) for rank in range(limits.FAILURES_TOLD))
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
        assert size <= link_limits.BATCH_ANSWER_BYTES
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
    acks = tuple(Ack(f"u{number}", Code.NO_ROUTE, WORKER) for number in range(link_limits.ANSWERS_AT_ONCE + 3))
    cable.comes_in((frame(uuid="after", src="Worker/0/0", to="Mgr").data, 1000), accepted=("a",), answers=acks)
    seen = []
    while not cable.node.delivered:
        seen.append(list(taken))
        await asyncio.sleep(0)
    assert [link_limits.ANSWERS_AT_ONCE] in seen, "they were taken in at once"
    assert taken == [link_limits.ANSWERS_AT_ONCE, 3]


async def test_later_answer_that_is_none_ends_the_stream(cable: Cable) -> None:
    good = codec.write_ack(Ack("u", Code.NO_ROUTE, WORKER))
    cable.pipe.comes_in(link_pb2.Batch(answers=[good] * link_limits.ANSWERS_AT_ONCE + [b"\xff"]).SerializeToString())
    await soon(cable.running)
    assert cable.node.accused == [("Worker/0/0", Code.NET_ERR)]


# ---- how far one end is ahead of the other


async def ahead(cable: Cable) -> None:
    """Write as many batches as may be written before the other end has taken one in."""
    for number in range(link_limits.BATCHES_AHEAD):
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
    for number in range(link_limits.BATCHES_AHEAD - 1):
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


# ---- answers


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


@pytest.fixture
async def trunk() -> AsyncIterator[Cable]:
    """A link to a Proxy, whose ends say how many have a broadcast; two Workers lie behind it."""
    cable = Cable(PROXY, counts=True)
    token = cable.node.request(lambda ack: None)
    cable.node.router.announced(0.0, cable.child.id, Kind.ADD, [WORKER, Position.worker(0, 1)], token, "a")
    yield cable
    cable.pipe.cut()
    await soon(cable.running)


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


# ---- the end


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
    cable.node.router.door.room = 1
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
    cable.node.router.door.room = 1
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
    mgr.door.room = 1
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


# ---- a link that moves to another stream


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


# ---- answers by number


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
