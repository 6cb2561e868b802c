"""The meter of an event loop's turns."""

from __future__ import annotations

import asyncio
import time
from functools import partial

from tests.faults.turns import TurnMeter

WORK_S = 0.02


def work() -> None:
    until = time.thread_time() + WORK_S
    while time.thread_time() < until:
        pass


def test_longest_turn_counts_the_work_of_one_turn_and_no_pause() -> None:
    meter = TurnMeter()

    async def turns() -> tuple[float, float]:
        for _ in range(3):
            work()
            await asyncio.sleep(0)
        worked = meter.take_longest()
        time.sleep(2.0 * WORK_S)  # the loop stands still, and the processor is free  # noqa: ASYNC251
        await asyncio.sleep(0)
        return worked, meter.take_longest()

    with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, meter)) as runner:
        worked, slept = runner.run(turns())
    assert WORK_S <= worked < 2.0 * WORK_S
    assert slept < WORK_S


def test_work_of_several_callbacks_of_one_turn_adds_up() -> None:
    meter = TurnMeter()

    async def turns() -> float:
        await asyncio.sleep(0)
        meter.take_longest()
        for _ in range(3):
            asyncio.get_running_loop().call_soon(work)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return meter.take_longest()

    with asyncio.Runner(loop_factory=partial(asyncio.SelectorEventLoop, meter)) as runner:
        assert runner.run(turns()) >= 3.0 * WORK_S
