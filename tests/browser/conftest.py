"""A headless Chromium for the tests of the status page: the system's own, never a download."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from playwright.async_api import Browser

# Without the extra `browser` there is nothing to collect; `make browser` fails then, because no test ran.
collect_ignore_glob = [] if find_spec("playwright") else ["test_*.py"]

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that retakes the pictures in docs/."""
    parser.addoption("--rewrite-pictures", action="store_true", help="take the pictures in docs/status-page/ anew")


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def chromium() -> AsyncIterator[Browser]:
    """A browser with its own profile, shared by all tests because it starts slowly."""
    from playwright.async_api import async_playwright

    path = shutil.which("chromium")
    assert path is not None, "no chromium here: `make browser` installs it on Debian, by apt-get as root"
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=FLAGS)
        try:
            yield browser
        finally:
            await browser.close()


@pytest.fixture(autouse=True)
def no_leaks(chromium: Browser) -> None:
    """Skip the check for leaks, because the browser's driver always has tasks and pipes."""
