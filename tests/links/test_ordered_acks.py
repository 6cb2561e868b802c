"""One Ack for each message, in order and in time, or a new stream."""

import asyncio
import time

import pytest

from taskd_net.base.position import Position
from taskd_net.core.frame import Ack
from taskd_net.net.links.ordered_acks import PULSE_S, OrderedAcks, Pulse
from tests.peers.mesh import soon


def ack(uuid: str) -> Ack:
    return Ack(uuid, 0, Position.mgr())


class Stream:
    """The stream of the line, and its clock."""

    def __init__(self) -> None:
        self.time = 0.0
        self.written: list[str] = []
        self.ends = 0
        self.line = OrderedAcks(lambda: self.time, lambda ack: self.written.append(ack.uuid), self._end)

    def _end(self) -> None:
        self.ends += 1


def test_order_is_that_of_the_messages() -> None:
    stream = Stream()
    one, two, three = (stream.line.expect() for _ in range(3))
    stream.line.answer(two, ack("2"))
    assert stream.written == []
    stream.line.answer(one, ack("1"))
    assert stream.written == ["1", "2"]
    stream.line.answer(three, ack("3"))
    assert stream.written == ["1", "2", "3"]


def test_second_answer_to_one_message_is_dropped() -> None:
    stream = Stream()
    one, two = stream.line.expect(), stream.line.expect()
    for uuid in ("1", "again"):
        stream.line.answer(one, ack(uuid))
    stream.line.answer(two, ack("2"))
    stream.line.answer(one, ack("and again"))
    assert stream.written == ["1", "2"]


async def test_line_is_empty_when_the_last_message_has_its_ack() -> None:
    stream = Stream()
    await soon(stream.line.empty(), 10.0)
    one, two = stream.line.expect(), stream.line.expect()
    emptied = asyncio.create_task(stream.line.empty())
    for answer, uuid in ((two, "2"), (one, "1")):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not emptied.done()
        stream.line.answer(answer, ack(uuid))
    await soon(emptied, 10.0)


@pytest.mark.parametrize(("waited", "takes", "late"), [(0.0, 2.9, False), (0.0, 2.95, True), (1.0, 2.0, True)])
def test_answer_that_comes_too_late_ends_the_stream(waited: float, takes: float, late: bool) -> None:
    stream = Stream()
    one, two = stream.line.expect(waited), stream.line.expect()
    stream.time = takes
    stream.line.answer(one, ack("1"))
    stream.line.answer(two, ack("2"))
    assert (stream.written, stream.ends) == (([], 1) if late else (["1", "2"], 0))


async def test_loop_that_stood_still_is_noticed() -> None:
    """Frames read just afterwards may have come in at any time meanwhile."""
    pulse = Pulse(asyncio.get_running_loop())
    began = time.monotonic()
    time.sleep(0.5 + PULSE_S)  # noqa: ASYNC251 - this is what it is about
    assert 0.4 < pulse.waited() < time.monotonic() - began
    await asyncio.sleep(0)
    assert 0.4 < pulse.waited() < time.monotonic() - began
    # And it is forgotten when the loop turns again, however busy the machine is.
    async with asyncio.timeout(10.0):
        while pulse.waited() > 0.1:  # noqa: ASYNC110 - time is what it tells
            await asyncio.sleep(0.01)
    pulse.stop()
