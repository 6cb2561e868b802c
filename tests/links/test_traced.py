"""The batched link of a node that traces messages: spans come in and leave with their messages, and end with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import pytest

from taskd_net import Code, Position
from taskd_net.core.frame import Frame, Traced
from taskd_net.core.ready import Writes
from taskd_net.net.links.session import End
from taskd_net.net.links.traced import TracedLink
from taskd_net.net.wire import codec
from taskd_net.net.wire.batches import read_batch, read_spans, write_batch, write_span
from taskd_net.net.wire.link_pb2 import Batch
from tests.links.pipes import FakeNode, FakePipe, frame
from tests.peers.mesh import soon

pytestmark = pytest.mark.timeout(60)

WORKER = Position.worker(0, 0)
ABOVE = {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": ""}
HERE = {"traceparent": f"00-{'a' * 32}-{'c' * 16}-01", "tracestate": ""}


class FakeTracer:
    """Every span of this node is `HERE`.

    Attributes:
        begun: the uuid and the headers of what came in, and whether its answer is awaited.
        ended: the uuid and the code with which a span ended.
    """

    def __init__(self) -> None:
        self.begun: list[tuple[str, Mapping[str, str], bool]] = []
        self.ended: list[tuple[str, int]] = []

    def sent(self, frame: Frame) -> tuple[Frame, End]:
        """Begin the span of a message of the application's own."""
        return self.traced(frame), lambda code, src: None

    def arrived(self, frame: Frame, headers: Mapping[str, str], *, awaited: bool) -> tuple[Frame, End | None]:
        """Begin the span of a message that came in."""
        self.begun.append((frame.uuid, headers, awaited))
        return self.traced(frame), (lambda code, src: self.ended.append((frame.uuid, code))) if awaited else None

    def traced(self, frame: Frame) -> Frame:
        """The message with its span."""
        return Traced(frame.uuid, frame.sync, frame.src, frame.dst, frame.data, HERE)


class Cable:
    """A Mgr that traces, and its link to a Worker."""

    def __init__(self) -> None:
        self.node, self.pipe, self.tracer = FakeNode("Mgr"), FakePipe(), FakeTracer()
        link_id = self.node.router.register(0.0, WORKER).link or 0
        self.link = self.new_link(link_id, self.pipe)
        self.node.router.link_up(0.0, link_id, self.link, (), self.link.terms)
        self.node.links[link_id] = self.link
        self.running = asyncio.create_task(self.link.run())

    def new_link(self, link_id: int, pipe: FakePipe) -> TracedLink:
        """A session of the link."""
        return TracedLink(self.node, link_id, WORKER, pipe, self.tracer, numbered=True)


@pytest.fixture
async def cable() -> AsyncIterator[Cable]:
    """A link that stands."""
    cable = Cable()
    yield cable
    cable.pipe.cut()
    await soon(cable.running)


def batch(*messages: Frame, patience: int = 1000, traced: tuple[str, ...] = ()) -> bytes:
    """A batch as a neighbour writes it."""
    count = len(messages)
    spans = [write_span(uuid, ABOVE) for uuid in traced]
    data = [message.data for message in messages]
    return write_batch(data, Batch(patience=[patience] * count, numbers=range(1, count + 1), spans=spans))


async def test_traced_message_leaves_with_its_span_and_any_other_without(cable: Cable) -> None:
    plain, traced = frame(uuid="plain"), frame(uuid="traced")
    writes = Writes()
    writes.frames = [plain, cable.tracer.traced(traced)]
    writes.patience, writes.numbers = [1.0, 1.0], [1, 2]
    cable.link.write(writes)
    written = read_batch(await soon(cable.pipe.begun.get()))
    assert [codec.read_uuid(data) for data in written.messages] == ["plain", "traced"]
    assert read_spans(written.spans) == {"traced": HERE}


async def test_spans_do_not_leave_twice(cable: Cable) -> None:
    for uuid in ("first", "second"):
        message = frame(uuid=uuid)
        cable.node.send(cable.tracer.traced(message) if uuid == "first" else message)
        written = read_batch(await soon(cable.pipe.begun.get()))
        assert read_spans(written.spans) == ({"first": HERE} if uuid == "first" else {})


async def test_span_of_a_message_that_came_in_ends_with_its_answer(cable: Cable) -> None:
    good, plain = (frame(uuid=uuid, src="Worker/0/0", to="Mgr") for uuid in ("good", "plain"))
    bad = frame(uuid="bad", src="Worker/0/0", to="Worker/9/9")
    cable.pipe.comes_in(batch(good, bad, plain, traced=("good", "bad")))
    await soon(cable.pipe.begun.get())
    assert cable.tracer.begun == [("good", ABOVE, True), ("bad", ABOVE, True)]
    assert sorted(cable.tracer.ended) == [("bad", Code.NO_ROUTE), ("good", Code.OK)]
    assert cable.node.delivered == ["good", "plain"]


async def test_span_without_an_awaited_answer_is_not_kept(cable: Cable) -> None:
    post = frame(uuid="post", sync=False, src="Worker/0/0", to="Mgr")
    cable.pipe.comes_in(batch(post, patience=0, traced=("post",)))
    await cable.pipe.settled()
    assert (cable.tracer.begun, cable.tracer.ended) == ([("post", ABOVE, False)], [])
    assert cable.link._ends == {}


async def test_spans_move_to_the_stream_that_goes_on(cable: Cable) -> None:
    """A message that came over the old stream is answered over the new one, and its span ends there."""
    ends: list[tuple[int, Position]] = []
    cable.link._ends[7] = lambda code, src: ends.append((code, src))
    cable.pipe.gate.clear()
    successor = cable.new_link(cable.link.link, other := FakePipe())
    await soon(cable.link.pause())
    cable.link.hand_over(successor)
    running = asyncio.create_task(successor.run())
    writes = Writes()
    writes.accepted = [7]
    successor.write(writes)
    assert list(read_batch(await soon(other.begun.get())).accepted_numbers) == [7]
    assert ends == [(Code.OK, Position.mgr())] and cable.link._ends == {}
    other.cut()
    await soon(running)
