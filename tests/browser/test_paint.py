"""The time until a page of 2,000 nodes is painted."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pytest
from playwright.async_api import Browser

from tests.browser.pages import DRAWN
from tests.browser.watched import Watched
from tests.page.meshes import of_size
from tests.page.stand import Stand

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]

NODES = 2000
LOADS = 5


@dataclass(frozen=True, slots=True)
class Load:
    """One load of a page, all in seconds.

    Attributes:
        paint: from the request to the first paint.
        drawn: from the request to the whole tree on the screen.
        busy: processor time of the browser's main thread and of the server, until then.
    """

    paint: float
    drawn: float
    busy: float


async def load(chromium: Browser) -> Load:
    """Load the page of a mesh at which nobody has looked before."""
    made, expected = of_size(NODES)
    async with Stand(made, expected, nap=60.0) as stand, Watched(chromium) as page:
        meter = await page.context.new_cdp_session(page)
        await meter.send("Performance.enable", {"timeDomain": "threadTicks"})
        server = time.process_time()
        await page.goto(stand.url)
        await page.wait_for_function(DRAWN)
        server = time.process_time() - server
        metrics = {one["name"]: one["value"] for one in (await meter.send("Performance.getMetrics"))["metrics"]}
        paint, drawn = await page.evaluate(
            """[performance.getEntriesByName('first-contentful-paint')[0].startTime,
                performance.getEntriesByName('drawn')[0].duration]"""
        )
        return Load(paint / 1000.0, drawn / 1000.0, server + metrics["TaskDuration"])


async def test_first_paint_comes_within_a_second(chromium: Browser) -> None:
    """Processor time is compared, because the machine is shared; on one at rest, it is the time that passes."""
    loads = [await load(chromium) for _ in range(LOADS)]
    paint, drawn, busy = (min(getattr(one, name) for one in loads) for name in ("paint", "drawn", "busy"))
    print(
        f"\n{NODES} nodes: first paint {paint:.2f} s and whole tree {drawn:.2f} s after the request; busy {busy:.2f} s"
    )
    assert busy < 1.0
    # Of the best loads: a busy machine shows a frame later than the page's timer after it.
    assert paint <= drawn
