"""torch, imported once without its warnings, and processes that end with their test."""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

WITHOUT_TORCH = ("test_beat.py", "test_guard.py", "test_start.py", "test_write_reason.py")

HERE = "tests/torch/"

if find_spec("torch") is None:
    collect_ignore = [path.name for path in Path(__file__).parent.glob("test_*.py") if path.name not in WITHOUT_TORCH]
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch without NumPy
        import torch.distributed.run
    # The first server of torch's store opens a pipe of libuv, which lasts as long as the process.
    torch.distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need torch."""
    for item in items:
        if item.nodeid.startswith(HERE) and item.path.name not in WITHOUT_TORCH:
            item.add_marker("torch")


@pytest.fixture(autouse=True)
def signals() -> Iterator[None]:
    """Handlers of signals stay as they were: torch sets its own."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
