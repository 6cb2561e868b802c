"""A page with a watched console: any line there fails the test."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

from playwright.async_api import Browser, Page

WIDE: Final = (1280, 800)
PATIENCE_MS: Final = 20_000


class Watched:
    """A page of a browser, as a context.

    Args:
        browser: the browser.
        size: of the window.
        scheme: the user's preferred colours.
        expected: first words of permitted lines on the console.
    """

    def __init__(
        self,
        browser: Browser,
        size: tuple[int, int] = WIDE,
        scheme: str = "light",
        expected: tuple[str, ...] = (),
    ) -> None:
        self._browser = browser
        self._settings: dict[str, Any] = {
            "viewport": {"width": size[0], "height": size[1]},
            "color_scheme": scheme,
            "reduced_motion": "reduce",
            "timezone_id": "UTC",
        }
        self._expected = expected
        self._page: Page | None = None
        self.console: list[str] = []

    async def __aenter__(self) -> Page:
        page = await self._browser.new_page(**self._settings)
        page.on("console", lambda message: self.console.append(message.text))
        page.on("pageerror", lambda error: self.console.append(f"exception: {error}"))
        page.on("requestfailed", lambda request: self.console.append(f"failed: {request.url}"))
        page.set_default_timeout(PATIENCE_MS)
        self._page = page
        return page

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._page is not None
        # Closing ends the current request.
        said = list(self.console)
        await self._page.close()
        if error is None:
            assert [line for line in said if not line.startswith(self._expected)] == []
