"""The status page of an invented mesh, drawn in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, Page

from taskd_net.observe.job_view import JobView
from tests.browser.watched import WIDE, Watched
from tests.page.meshes import Made
from tests.page.stand import Stand

DRAWN = "() => performance.getEntriesByName('drawn').length > 0"


@asynccontextmanager
async def shown(
    chromium: Browser,
    made: Made,
    expected: str = "",
    *,
    scheme: str = "light",
    pace: float = 0.0,
    nap: float = 0.25,
    job: JobView | None = None,
    size: tuple[int, int] = WIDE,
) -> AsyncIterator[tuple[Page, Stand]]:
    """The drawn page of a mesh, and its server. The page closes first, so that it misses no answer."""
    async with Stand(made, expected, pace=pace, nap=nap, job=job) as stand, Watched(chromium, size, scheme) as page:
        await page.goto(stand.url)
        await page.wait_for_function(DRAWN)
        yield page, stand


def node(position: str) -> str:
    """The selector of a node in the picture."""
    return f'#tree [data-position="{position}"]'
