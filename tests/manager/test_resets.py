"""Resets of devices, by a hook in Python and by a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import psutil
import pytest

from taskd_net.base.limits import KILLED_S
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.traffic import Reset
from taskd_net.job.manager.resets import OnReset, Resets, program
from tests.polling import until

_kill = os.kill

RESET = Reset("host-b/Ascend910-3", (3, 7), 5.0, "u-1")


async def ended(hook: OnReset, reset: Reset = RESET) -> tuple[str, bool, str]:
    """The end of a reset."""
    found: asyncio.Queue[tuple[str, bool, str]] = asyncio.Queue()
    resets = Resets(hook, lambda *end: found.put_nowait(end), get_logger())
    resets.begin(reset)
    async with asyncio.timeout(10):
        return await found.get()


def script(folder: Path, text: str, killed_s: float = KILLED_S) -> OnReset:
    """A hook that runs a shell script."""
    file = folder / "hook"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return program(str(file), killed_s)


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


async def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    hook = script(tmp_path, f"sleep 600 & echo $! > {pid}; wait")
    assert await ended(hook, Reset("a/b", (), 0.3, "u-2")) == ("u-2", False, "the device is not back within 0.3 s")
    child = int(pid.read_text())
    await until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


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


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (asyncio.CancelledError(), "CancelledError: "),
        (TimeoutError("no answer of the card"), "TimeoutError: no answer of the card"),
        (type("Unprintable", (Exception,), {"__str__": None})(), "Unprintable"),
    ],
)
async def test_a_hook_that_raises_anything_has_failed(error: BaseException, reason: str) -> None:
    async def raises(_: Reset) -> bool:
        raise error

    assert await ended(raises) == ("u-1", False, reason)


async def test_a_hook_that_returns_something_true_has_succeeded() -> None:
    async def returns(_: Reset) -> bool:
        return "yes"  # type: ignore[return-value]

    assert await ended(returns) == ("u-1", True, "")


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


async def test_a_program_that_leaves_a_child_with_its_stderr_has_succeeded(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    try:
        assert await ended(script(tmp_path, f"sleep 600 & echo $! > {pid}; echo done >&2")) == ("u-1", True, "")
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_program_that_fails_with_a_child_left_says_why(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    try:
        _, _, reason = await ended(script(tmp_path, f"sleep 600 & echo $! > {pid}; echo bad >&2; exit 3"))
        assert reason.endswith("has ended with 3: bad")
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_program_that_outlives_sigkill_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in the state D, in which a driver holds it."""
    monkeypatch.setattr(os, "kill", lambda *_: None)
    monkeypatch.setattr(os, "killpg", lambda shell, _: _kill(shell, signal.SIGKILL))
    pid = tmp_path / "pid"
    hook = script(tmp_path, f"echo $$ > {pid}; exec sleep 600", killed_s=0.1)
    try:
        assert await ended(hook, Reset("a/b", (), 1.0, "u-2")) == ("u-2", False, "the device is not back within 1 s")
        assert "reset_hook_stuck" in caplog.text and pid.read_text().strip() in caplog.text
    finally:
        _kill(int(pid.read_text()), signal.SIGKILL)


async def test_a_hook_that_takes_no_end_is_left() -> None:
    over, begun = asyncio.Event(), asyncio.Event()

    async def deaf(_: Reset) -> bool:
        while not over.is_set():
            begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return True

    resets = Resets(deaf, lambda *_: None, get_logger(), patience=0.1)
    resets.begin(RESET)
    await begun.wait()
    await resets.close()
    over.set()
    await until(lambda: not resets._running)


PARENT = """
import asyncio, signal, sys
from taskd_net.job.decide.traffic import Reset
from taskd_net.job.manager.resets import ResetFailed, program

match sys.argv[1]:
    case "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    case "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])

async def main():
    try:
        print(await program(sys.argv[2])(Reset("a/b", (), 5.0, "u")))
    except ResetFailed as error:
        print(str(error).rpartition("/")[2])

run = asyncio.run
if sys.argv[3] == "uvloop":
    import uvloop
    run = uvloop.run
run(main())
"""
"""An application with a disposition of its own."""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
@pytest.mark.parametrize("chld", ["ignored", "blocked"])
@pytest.mark.parametrize(("text", "said"), [("sleep 0 & wait $!", "True"), ("exit 4", "hook has ended with 4")])
async def test_sigchld_of_the_application(tmp_path: Path, chld: str, loop: str, text: str, said: str) -> None:
    script(tmp_path, text)
    command = [sys.executable, "-c", PARENT, chld, str(tmp_path / "hook"), loop]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert out.decode().strip() == said and process.returncode == 0


async def test_a_program_inherits_no_file_of_the_application(tmp_path: Path) -> None:
    """One that it kept open would keep a port or a lock."""
    read, write = os.pipe()
    try:
        os.set_inheritable(write, True)
        said = tmp_path / "said"
        assert (await ended(script(tmp_path, f"ls -l /proc/$$/fd > {said}")))[1]
        assert os.readlink(f"/proc/self/fd/{write}") not in said.read_text()  # noqa: PTH115 - of a descriptor
    finally:
        os.close(read)
        os.close(write)
