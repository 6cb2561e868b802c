"""The signals of a launcher, sent to this process or to one of its own."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

from taskd_net.base.waiting import taken
from taskd_net.job.launcher_signals import EarlySigint, LauncherSignals, catches, pass_on

SOON = 60.0
"""Seconds for one step on a busy machine."""

ENDING = (signal.SIGTERM, signal.SIGINT)


class Ended(Exception):
    """A signal ends the launcher."""

    def __init__(self, sigval: signal.Signals) -> None:
        super().__init__(sigval.name)
        self.sigval = sigval


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[bytes]]:
    """A process that says `SIGUSR1` when it gets that, and has no handler for SIGUSR2."""
    script = "import signal; signal.signal(10, lambda *_: print('SIGUSR1', flush=True)); print('up', flush=True)"
    with subprocess.Popen(
        [sys.executable, "-c", f"{script}\nimport time\nwhile True: time.sleep(0.02)"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        yield process
        process.kill()


@pytest.mark.parametrize("number", ENDING)
def test_a_wait_ends_by_a_signal_and_the_handlers_of_before_are_back(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in (*ENDING, signal.SIGUSR1)]
    threading.Timer(0.2, os.kill, (os.getpid(), number)).start()
    with pytest.raises(Ended, match=number.name), LauncherSignals(Ended, ENDING):
        taken(SimpleQueue[None]())
    assert [signal.getsignal(each) for each in (*ENDING, signal.SIGUSR1)] == before


def test_a_second_sigterm_changes_nothing() -> None:
    with LauncherSignals(Ended, ENDING):
        with pytest.raises(Ended):
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)


EARLY = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from taskd_net.job.launcher_signals import EarlySigint
early = EarlySigint()
os.kill(os.getpid(), signal.SIGUSR1)
os.kill(os.getpid(), signal.SIGUSR2)
assert not early.has_come
os.kill(os.getpid(), signal.SIGINT)
assert early.has_come
os.kill(os.getpid(), signal.SIGINT)
"""
LATER = f"""
import os, signal, sys
sys.path[:0] = {sys.path!r}
from taskd_net.job.launcher_signals import LauncherSignals
with LauncherSignals(lambda number: LookupError(number), [signal.SIGTERM, signal.SIGINT]):
    try:
        os.kill(os.getpid(), signal.SIGTERM)
    except LookupError:
        os.kill(os.getpid(), signal.SIGINT)
"""
"""Processes that get a second SIGINT."""


def test_an_early_sigint_waits_for_the_block() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)}
    try:
        early = EarlySigint()
        with LauncherSignals(Ended, ENDING) as signals:
            signals.take(early)
        os.kill(os.getpid(), signal.SIGINT)
        assert early.has_come
        with pytest.raises(Ended, match="SIGINT"), LauncherSignals(Ended, ENDING) as signals:
            signals.take(early)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.mark.parametrize("script", [EARLY, LATER], ids=["early", "later"])
def test_a_second_sigint_ends_the_process_at_once(script: str) -> None:
    assert subprocess.run([sys.executable, "-c", script], timeout=SOON, check=False).returncode == 130


def test_handlers_that_somebody_has_replaced_are_taken_over_again() -> None:
    with LauncherSignals(Ended, ENDING) as signals:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signals.renew()
        with pytest.raises(Ended):
            os.kill(os.getpid(), signal.SIGTERM)


def test_another_thread_leaves_the_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = SimpleQueue[object]()

    def run() -> None:
        with LauncherSignals(Ended, ENDING) as signals:
            signals.renew()
            seen.put(signal.getsignal(signal.SIGTERM))

    threading.Thread(target=run).start()
    assert seen.get(timeout=SOON) == before


def test_a_signal_is_passed_on_to_workers_with_a_handler(
    worker: subprocess.Popen[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    assert worker.stdout is not None
    with LauncherSignals(Ended, ENDING) as signals:
        signals.workers = lambda: {3: worker.pid}
        os.kill(os.getpid(), signal.SIGUSR1)
        assert worker.stdout.readline() == b"SIGUSR1\n"
        os.kill(os.getpid(), signal.SIGUSR2)
        give_up_at = time.monotonic() + SOON
        while "signal_not_passed_on" not in caplog.text:
            assert time.monotonic() < give_up_at
            select.select([], [], [], 0.02)
    assert "ranks=3" in caplog.text and "SIGUSR2" in caplog.text
    assert worker.poll() is None


def test_a_signal_without_workers_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    pass_on(signal.SIGUSR1, {})
    assert "no worker runs" in caplog.text


def test_a_process_that_has_ended_catches_nothing(worker: subprocess.Popen[bytes]) -> None:
    assert catches(worker.pid, signal.SIGUSR1) and not catches(worker.pid, signal.SIGUSR2)
    worker.kill()
    worker.wait(SOON)
    assert not catches(worker.pid, signal.SIGUSR1)


def test_a_signal_of_the_users_own_list_ends_the_launcher() -> None:
    with pytest.raises(Ended, match="SIGUSR1"), LauncherSignals(Ended, (*ENDING, signal.SIGUSR1)):
        os.kill(os.getpid(), signal.SIGUSR1)
