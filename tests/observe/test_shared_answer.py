"""One answer for all who ask at the same time."""

from __future__ import annotations

import asyncio

import pytest

from taskd_net.observe import shared_answer
from taskd_net.observe.shared_answer import SharedAnswer

pytestmark = pytest.mark.oldest


class Look:
    """Counts its looks; each lasts until it may end."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.now = 100.0
        self.count = 0
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()

    def clock(self) -> float:
        return self.now

    async def look(self) -> bytes:
        self.count += 1
        self.begun.set()
        await self.may_end.wait()
        self.now += self.seconds
        return b"%d" % self.count


async def test_a_look_under_way_is_not_for_those_who_ask_later() -> None:
    look = Look(0.0)
    shared = SharedAnswer(look.clock, look.look)
    first = asyncio.create_task(shared.get())
    await look.begun.wait()
    look.now += 0.001
    later = [asyncio.create_task(shared.get()) for _ in range(8)]
    look.may_end.set()
    assert await first == b"1"
    assert await asyncio.gather(*later) == [b"2"] * 8


async def test_a_long_look_makes_a_long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    look, slept = Look(2.0), []
    look.may_end.set()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("taskd_net.observe.shared_answer.asyncio.sleep", sleep)
    shared = SharedAnswer(look.clock, look.look)
    assert await shared.get() == b"1"
    look.now += 1.0
    assert await shared.get() == b"2"
    assert slept[1] == pytest.approx(2.0 / shared_answer.LOAD - 1.0)


async def test_a_look_that_fails_fails_for_one_caller() -> None:
    async def fail() -> bytes:
        raise LookupError

    shared = SharedAnswer(lambda: 1.0, fail)
    for _ in range(2):
        with pytest.raises(LookupError):
            await shared.get()
