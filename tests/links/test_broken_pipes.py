"""SIGPIPE while a thread has direct sockets."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from taskd_net.net.links import broken_pipes

pytestmark = pytest.mark.oldest


def blocked() -> bool:
    """True if SIGPIPE is blocked in this thread."""
    return signal.SIGPIPE in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.fixture
def deadly() -> Iterator[None]:
    """SIGPIPE at its default."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGPIPE, before)


def test_signal_is_blocked_from_the_first_socket_to_the_last(deadly: None) -> None:
    broken_pipes.opened()
    broken_pipes.opened()
    broken_pipes.closed()
    assert blocked()
    signal.raise_signal(signal.SIGPIPE)  # one that still waits must not be delivered at the end
    broken_pipes.closed()
    assert not blocked()


def test_ignored_signal_is_left_alone() -> None:
    """Programs that the application starts inherit the mask."""
    broken_pipes.opened()
    assert not blocked()
    broken_pipes.closed()


def test_mask_of_the_application_stays(deadly: None) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPIPE})
    broken_pipes.opened()
    broken_pipes.closed()
    assert blocked()
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_end_of_a_socket_that_another_thread_has_opened_counts_for_nothing(deadly: None) -> None:
    broken_pipes.closed()
    broken_pipes.opened()
    assert blocked()
    broken_pipes.closed()
    assert not blocked()
