"""The end of a command by a signal."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from taskd_net.cli.signals import run_until_signal

pytestmark = pytest.mark.timeout(180)


def test_work_that_ends_by_itself_has_a_result() -> None:
    async def work() -> str:
        return "done"

    assert run_until_signal(work) == "done"


def test_work_that_fails_raises() -> None:
    async def work() -> None:
        raise LookupError("nothing")

    with pytest.raises(LookupError, match="nothing"):
        run_until_signal(work)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_cancels_the_work_and_is_the_result(number: signal.Signals) -> None:
    cleaned: list[str] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            cleaned.append("up")

    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        assert run_until_signal(work) == number
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert cleaned == ["up"]
