"""The status page in a real browser, of a real mesh of processes."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page

from tests.browser.watched import Watched
from tests.cli.processes import Command, Daemon

pytestmark = [pytest.mark.browser, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="session")]


async def page_of(daemon: Daemon) -> str:
    """The URL of a daemon's status page."""
    return (await daemon.said(r"page_listening .*url=(http://127\.0\.0\.1:\d+/)"))[1]


async def test_a_killed_worker_turns_red(chromium: Browser, tmp_path: Path) -> None:
    """Check it at the Mgr and at its Proxy. The aim is 3 s; the assertion has no such limit."""
    job = ("--expect", "1x2", "--http-port", "0")
    async with (
        Daemon("mgr", *job, logs=tmp_path) as mgr,
        Daemon("proxy", "--upstream", mgr.address, "--http-port", "0", logs=tmp_path) as proxy,
        Command("listen", "--as", "Worker/0/0", "--upstream", proxy.address) as survivor,
        Command("listen", "--as", "Worker/0/1", "--upstream", proxy.address) as victim,
        Watched(chromium) as page,
        Watched(chromium) as of_proxy,
    ):
        await survivor.said("ready")
        await victim.said("ready")
        await page.goto(await page_of(mgr))
        await of_proxy.goto(await page_of(proxy))
        worker = '#tree [data-position="Worker/0/1"]'
        for one in (page, of_proxy):
            await one.wait_for_selector(worker + ".joined")
        await page.wait_for_function(
            "() => document.getElementById('missing').textContent.startsWith('No rank is missing')"
        )
        assert await of_proxy.inner_text("h1") == "Proxy 0"
        killed = time.monotonic()
        victim.signal(signal.SIGKILL)

        async def red(name: str, seen: Page) -> None:
            await seen.wait_for_selector(worker + ".lost")
            print(f"\nkilled Worker red on the page of the {name} after {time.monotonic() - killed:.2f} s")
            fill = await seen.eval_on_selector(worker + " .shape", "(it) => getComputedStyle(it).fill")
            assert fill == "rgb(200, 50, 28)"

        await asyncio.gather(red("Mgr", page), red("Proxy", of_proxy))
        await page.wait_for_function(
            "() => document.getElementById('missing').innerText.includes('Worker 1 on node 0')"
        )
        await page.wait_for_selector('#tree [data-position="Worker/0/0"].joined')


async def test_the_page_says_when_its_node_is_gone(chromium: Browser, tmp_path: Path) -> None:
    async with Watched(chromium, expected=("Failed to load resource", "failed: ")) as page:
        async with Daemon("mgr", "--http-port", "0", logs=tmp_path) as mgr:
            await page.goto(await page_of(mgr))
            await page.wait_for_function("() => document.getElementById('connection').textContent.startsWith('Live')")
            mgr.signal(signal.SIGTERM)
            assert await mgr.exit_code() == 0
        await page.wait_for_selector("body.stale")
