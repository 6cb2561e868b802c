"""The driver of a Router: its timer, and the lines that it logs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from taskd_net import Code, NodeConfig
from taskd_net.core.ready import Lost
from taskd_net.driver import Driver
from tests.core.routers import frame
from tests.peers.mesh import soon


class Ticking(Driver):
    """A Mgr's driver that notes its ticks instead of telling the Router."""

    def __init__(self) -> None:
        super().__init__(NodeConfig.mgr())
        self._loop = asyncio.get_running_loop()
        self.ticks: asyncio.Queue[float] = asyncio.Queue()

    def _tick(self) -> None:
        self._timer, self._armed = None, float("inf")
        self.ticks.put_nowait(self.now())


async def test_tick_comes_once_at_the_earliest_deadline() -> None:
    driver = Ticking()
    now = driver.now()
    for seconds in (60.0, 0.01):
        driver._arm(now + seconds)
    assert driver._armed == now + 0.01
    assert await soon(driver.ticks.get()) >= now + 0.01
    assert driver._timer is None and driver.ticks.empty()


async def test_driver_that_was_not_started_has_no_timer() -> None:
    driver = Driver(NodeConfig.mgr())
    driver._arm(1.0)
    assert (driver.running, driver._timer, driver._armed) == (False, None, float("inf"))


async def test_disarmed_timer_never_fires() -> None:
    driver = Ticking()
    driver._arm(driver.now())
    driver._disarm()
    await asyncio.sleep(0.01)
    assert driver.ticks.empty()


async def test_lost_messages_are_logged_once_a_second_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Ticking()
    now = 0.0
    monkeypatch.setattr(driver, "now", lambda: now)
    counts: list[int] = []

    class Log:
        def warning(self, event: str, *, count: int, **_: object) -> None:
            assert event == "messages_lost"
            counts.append(count)

    log: Any = Log()
    driver.log = log
    lost = Lost(frame("Worker/0/0"), Code.NO_ROUTE, driver.position, "words")
    for now in (0.0, 0.5, 0.9, 1.0):  # noqa: B007 - read by the clock
        driver._log_lost(lost)
    assert counts == [1, 3]
