"""The guardian's program: it ends the sessions of a process that has ended."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import taskd_net

PROGRAM = Path(taskd_net.__file__).parent / "torch" / "guard.py"
SOON = 20.0
STUBBORN = "trap '' TERM; echo; while :; do sleep 1; done"
SLEEPS = "echo; sleep 1000"


class Session:
    """A shell that leads a session."""

    def __init__(self, script: str) -> None:
        self.process = subprocess.Popen(["/bin/sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True)
        assert self.process.stdout is not None
        self.process.stdout.readline()

    def ended(self) -> int:
        """Wait until it and everything in it has ended. Returns its exit code."""
        assert self.process.stdout is not None
        with self.process.stdout:
            self.process.stdout.read()  # ends with the last process that holds it
        return self.process.wait(SOON)


@pytest.fixture
def guard() -> Iterator[subprocess.Popen[bytes]]:
    """A guardian with a short grace."""
    process = subprocess.Popen([sys.executable, "-I", "-S", PROGRAM, "0.2"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()
    assert process.stdin is not None
    process.stdin.close()


def say(guard: subprocess.Popen[bytes], text: str) -> None:
    assert guard.stdin is not None
    guard.stdin.write(text.encode())
    guard.stdin.flush()


def ignored(pid: int) -> set[int]:
    """The signals that a process ignores."""
    (line,) = re.findall(r"SigIgn:\t(\w+)", Path(f"/proc/{pid}/status").read_text())
    return {number for number in range(1, 65) if int(line, 16) >> (number - 1) & 1}


def test_guarded_sessions_end_with_the_input(guard: subprocess.Popen[bytes]) -> None:
    gentle, stubborn, frozen, released = Session(SLEEPS), Session(STUBBORN), Session(SLEEPS), Session(SLEEPS)
    os.kill(frozen.process.pid, signal.SIGSTOP)
    for each in (gentle, stubborn, frozen, released):
        say(guard, f"+{each.process.pid}\n")
    say(guard, f"-{released.process.pid}\n")
    assert guard.stdin is not None
    guard.stdin.close()
    assert guard.wait(SOON) == 0
    assert (gentle.ended(), stubborn.ended(), frozen.ended()) == (-signal.SIGTERM, -signal.SIGKILL, -signal.SIGTERM)
    assert released.process.poll() is None
    os.killpg(released.process.pid, signal.SIGKILL)
    released.ended()


def test_sessions_that_are_gone_are_no_trouble(guard: subprocess.Popen[bytes]) -> None:
    session = Session("echo")
    say(guard, f"+{session.process.pid}\n")
    session.ended()
    assert guard.stdin is not None
    guard.stdin.close()
    assert guard.wait(SOON) == 0


def test_signals_do_not_end_it(guard: subprocess.Popen[bytes]) -> None:
    session = Session(SLEEPS)
    say(guard, f"+{session.process.pid}\n")
    numbers = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2}
    # All of them: some are ignored from the start in what a shell has put into the background.
    while not numbers <= set(ignored(guard.pid)):
        assert guard.poll() is None
    for number in numbers:
        os.kill(guard.pid, number)
    assert guard.stdin is not None
    guard.stdin.close()
    assert guard.wait(SOON) == 0
    assert session.ended() == -signal.SIGTERM
