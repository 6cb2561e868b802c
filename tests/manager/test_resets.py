"""Resets of devices, by a hook in Python and by a program."""

from __future__ import annotations

import asyncio
from pathlib import Path

import psutil
import pytest

from taskd_net.jobs.traffic import Reset
from taskd_net.logger import get_logger
from taskd_net.manager.resets import OnReset, Resets, program

RESET = Reset("host-b/Ascend910-3", (3, 7), 5.0, "u-1")


async def ended(hook: OnReset, reset: Reset = RESET) -> tuple[str, bool, str]:
    """The end of a reset."""
    found: asyncio.Queue[tuple[str, bool, str]] = asyncio.Queue()
    resets = Resets(hook, lambda *end: found.put_nowait(end), get_logger())
    resets.begin(reset)
    async with asyncio.timeout(10):
        return await found.get()


def script(folder: Path, text: str) -> OnReset:
    """A hook that runs a shell script."""
    file = folder / "hook"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return program(str(file))


async def test_a_program_gets_the_device_and_ends_with_0(tmp_path: Path) -> None:
    said = tmp_path / "said"
    hook = script(tmp_path, f'echo "$1 $2 $TASKD_NET_RESET_UUID $TASKD_NET_RESET_RANKS" > {said}')
    assert await ended(hook) == ("u-1", True, "")
    assert said.read_text() == "host-b Ascend910-3 u-1 3,7\n"


async def test_a_program_that_fails_says_why(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    uuid, done, reason = await ended(script(tmp_path, "echo 'no such chip' >&2; exit 7"))
    assert (uuid, done) == ("u-1", False)
    assert reason == f"{tmp_path / 'hook'} has ended with 7: no such chip"
    assert "reset_failed" in caplog.text


async def test_a_program_that_hangs_is_killed_when_its_time_has_passed(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hook = script(tmp_path, f"echo $$ > {pid}; exec sleep 600")
    assert await ended(hook, Reset("a/b", (), 0.3, "u-2")) == ("u-2", False, "the device is not back within 0.3 s")
    assert not psutil.pid_exists(int(pid.read_text()))


async def test_a_program_that_cannot_be_run_has_failed(tmp_path: Path) -> None:
    _, done, reason = await ended(program(str(tmp_path / "none")))
    assert not done and reason.endswith("cannot be run: No such file or directory")


async def test_a_hook_that_says_no_or_raises_has_failed() -> None:
    async def no(_: Reset) -> bool:
        return False

    async def raises(_: Reset) -> bool:
        raise RuntimeError("no card")

    assert await ended(no) == ("u-1", False, "the hook says that the device is not back")
    assert await ended(raises) == ("u-1", False, "RuntimeError: no card")


async def test_the_end_of_the_manager_ends_a_reset_without_a_word() -> None:
    began = asyncio.Event()

    async def hangs(_: Reset) -> bool:
        began.set()
        await asyncio.Event().wait()
        return True

    ends: list[object] = []
    resets = Resets(hangs, lambda *end: ends.append(end), get_logger())
    resets.begin(RESET)
    await began.wait()
    await resets.close()
    assert not ends
