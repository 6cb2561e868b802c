"""Fixtures of the Manager's tests."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import watchfiles.main


@pytest.fixture
async def watched(monkeypatch: pytest.MonkeyPatch) -> asyncio.Queue[Path]:
    """The folders that are watched, each when its watch has begun."""
    real: Any = vars(watchfiles.main)["RustNotify"]
    loop = asyncio.get_running_loop()
    folders = asyncio.Queue[Path]()

    class Telling:
        """Stands before watchfiles' own class."""

        def __init__(self, paths: list[str], *more: Any) -> None:
            self._real = real(paths, *more)
            loop.call_soon_threadsafe(folders.put_nowait, Path(*paths))

        def __enter__(self) -> Any:
            return self._real.__enter__()

        def __exit__(self, *error: Any) -> None:
            self._real.__exit__(*error)

    monkeypatch.setattr(watchfiles.main, "RustNotify", Telling)
    return folders
