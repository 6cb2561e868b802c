"""The first process of a container, in a namespace of its own."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.manager.test_own_manager import children

SOON = 60.0
"""Seconds for one step on a busy machine."""

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="only root may make a namespace of processes here"
)

BEGIN = f"""
import os, signal, sys, time
sys.path[:0] = {sys.path!r}
from taskd_net.cli import first_process
if os.getpid() == 1:
    first_process.live()
"""


def started(script: str) -> subprocess.Popen[bytes]:
    """A script whose process is the first one of its namespace."""
    return subprocess.Popen(
        ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c", BEGIN + script],
        stdout=subprocess.PIPE,
    )


def test_orphans_are_reaped_and_the_status_is_the_commands() -> None:
    with started(
        """
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.2)
    os._exit(0)
os.wait()
until = time.monotonic() + 50
while True:
    ours = [each for each in os.listdir("/proc") if each.isdigit() and int(each) not in (1, os.getpid())]
    if not ours:
        sys.exit(7)
    assert time.monotonic() < until, ours
    time.sleep(0.02)
"""
    ) as process:
        assert process.wait(SOON) == 7


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_go_on_to_the_command(number: signal.Signals) -> None:
    script = f"signal.signal({number:d}, lambda *_: sys.exit(9)); print('up', flush=True); time.sleep(600)"
    with started(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        (first,) = children(process.pid)
        os.kill(first, number)
        assert process.wait(SOON) == 9


def test_command_that_is_killed_is_the_end_of_the_rest(tmp_path: Path) -> None:
    """A process that ends soon after it has its time; one that does not is ended."""
    ended = tmp_path / "ended"
    script = f"""
if os.fork() == 0:
    time.sleep(1.0)
    open({str(ended)!r}, "w").close()
    time.sleep(600)
print("up", flush=True)
time.sleep(600)
"""
    with started(script) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        (first,) = children(process.pid)
        (command,) = children(first)
        os.kill(command, signal.SIGKILL)
        began = time.monotonic()
        assert process.wait(SOON) == 128 + signal.SIGKILL
        assert time.monotonic() - began < 20.0
    assert ended.exists()


def test_terminals_signals_come_once() -> None:
    """Ctrl-C at a terminal goes to the command's own group."""
    controller, terminal = os.openpty()
    script = "signal.signal(2, lambda *_: print('SIGINT', flush=True)); print('up', flush=True)"
    command = ["setsid", "--ctty", "unshare", "--pid", "--fork", "--mount-proc", "--kill-child", sys.executable, "-c"]
    with subprocess.Popen(
        # Not signal.pause: a signal just before it would be noticed after the next one.
        [*command, f"{BEGIN}{script}\nwhile True: time.sleep(0.02)"],
        stdin=terminal,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        os.write(controller, b"\x03")
        assert process.stdout.readline() == b"SIGINT\n"
        assert not select.select([process.stdout], [], [], 0.5)[0]
        process.kill()
    os.close(controller)
    os.close(terminal)
