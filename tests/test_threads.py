"""Threads of the package: their signal masks, and a limit of the process."""

from __future__ import annotations

import signal
import threading

import pytest

from taskd_net import NodeError, threads

pytestmark = pytest.mark.oldest

SOON = 10.0


def masks(*, application: bool = False) -> set[signal.Signals | int]:
    """The mask of a thread, started here."""
    found: list[set[signal.Signals | int]] = []
    thread = threads.start(
        lambda: found.append(signal.pthread_sigmask(signal.SIG_BLOCK, ())), "test", application=application
    )
    thread.join(SOON)
    return found[0]


def test_own_thread_gets_no_signal_of_the_process() -> None:
    mask = masks()
    assert mask >= {signal.SIGPIPE, signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1, signal.SIGXFSZ}
    assert not mask & {signal.SIGSEGV, signal.SIGFPE, signal.SIGPROF}
    assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


def test_thread_with_functions_of_the_application_has_its_mask() -> None:
    """Programs that they start inherit it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        expected = before | {signal.SIGUSR2}
        assert masks(application=True) == expected
        found: list[set[signal.Signals | int]] = []
        threads.start(lambda: found.append(masks(application=True)), "test").join(SOON)
        assert found == [expected]
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_thread_that_cannot_be_started_is_an_error_with_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(NodeError, match=r"cannot start the thread 'test': can't start new thread; see ulimit"):
        threads.start(lambda: None, "test")
