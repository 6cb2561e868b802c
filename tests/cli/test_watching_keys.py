"""Single keys from a terminal."""

from __future__ import annotations

import asyncio
import io
import os
import pty
import signal
import sys
import termios
from collections.abc import Iterator

import pytest

from taskd_net.cli.watching import end_at_once, keys


@pytest.fixture(autouse=True)
def signals_stay() -> Iterator[None]:
    """Put the signals of the test process back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


async def test_each_key_of_a_terminal_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    controller, terminal = pty.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        before = termios.tcgetattr(terminal)
        pressed: asyncio.Queue[str] = asyncio.Queue()
        with keys(pressed.put_nowait):
            assert termios.tcgetattr(terminal)[3] != before[3]
            os.write(controller, b"ab\x1b[B\x1b[5~\x1bOA\x1b")
            async with asyncio.timeout(60):
                found = [await pressed.get() for _ in range(6)]
            assert found == ["a", "b", "\x1b[B", "\x1b[5~", "\x1bOA", "\x1b"]
        assert termios.tcgetattr(terminal) == before
    os.close(controller)


async def test_without_a_terminal_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("a"))
    pressed: list[str] = []
    with keys(pressed.append):
        await asyncio.sleep(0)
    assert pressed == []


def test_signals_are_the_systems_again() -> None:
    end_at_once()
    assert {signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)} == {signal.SIG_DFL}
