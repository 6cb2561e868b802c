"""The Manager that a launcher starts, in processes: it lives as long as its launcher, and comes back."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue

import pytest

from taskd_net.base.address import Address
from taskd_net.job import own_manager
from taskd_net.job.node_proxy import identified
from taskd_net.job.own_manager import NoManager, later, watched
from tests.manager import launcher
from tests.ports import free_port

SOON = 60.0
"""Seconds for one step on a busy machine."""

LIVING = "import sys; print('ready', flush=True); sys.stdin.read()"
"""A process that is ready, and ends with its input."""


class Launcher:
    """The process of `launcher.py`.

    Args:
        folder: for its output, and its temporary files.
        host: on which the Mgr listens.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.address = Address(host, free_port())
        self.out = folder / "out"
        own = ("TASKD_", "MASTER_", "POD_")
        variables = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        variables |= {"MASTER_ADDR": host, "TASKD_NET_MGR_PORT": str(self.address.port), "TMPDIR": str(folder)}
        variables["TASKD_STD_LOG_LEVEL"] = "INFO"  # otherwise an end in good order has no line
        with self.out.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, launcher.__file__, "1x1", "j"],
                cwd=folder,
                env=variables,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=subprocess.STDOUT,
            )

    def manager(self, other_than: int = 0) -> int:
        """The pid of the Manager, when there is one."""
        give_up_at = time.monotonic() + SOON
        while True:
            for pid in children(self.process.pid):
                if pid != other_than and b"--until-eof" in command_line(pid):
                    return pid
            assert time.monotonic() < give_up_at and self.process.poll() is None, self.out.read_text()
            select.select([], [], [], 0.002)

    def said(self, text: str, times: int = 1) -> str:
        """The output, when a text is in there so often."""
        give_up_at = time.monotonic() + SOON
        while (out := self.out.read_text()).count(text) < times:
            assert time.monotonic() < give_up_at, out
            select.select([], [], [], 0.02)
        return out

    def answers(self) -> None:
        """Wait until the Mgr says what it is."""
        give_up_at = time.monotonic() + SOON
        while (found := identified(self.address, None, 2.0)).about is None:
            assert time.monotonic() < give_up_at, self.out.read_text()
        assert (str(found.about.position), found.about.job_id) == ("Mgr/0", "j")


def children(parent: int) -> list[int]:
    """The pids of a process's children."""
    found = []
    for task in Path(f"/proc/{parent}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(pid) for pid in task.read_text().split()]
    return found


def command_line(pid: int) -> bytes:
    """The arguments of a process; nothing of one that has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def await_end(pid: int) -> None:
    """Wait until a process has ended that is no child of the test's."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(pid)
        assert select.select([descriptor], [], [], SOON)[0], f"{pid} lives"
        os.close(descriptor)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Launcher]:
    """A launcher with a Manager, which ends with the test."""
    made = Launcher(tmp_path)
    yield made
    assert made.process.stdin is not None
    made.process.stdin.close()
    made.process.kill()
    made.process.wait(SOON)


def test_manager_outlives_signals_to_all_and_ends_with_its_launcher(own: Launcher) -> None:
    pid = own.manager()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        os.kill(pid, number)  # while it imports its modules
    own.said("ready\n")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        os.killpg(pid, number)
    own.answers()
    assert own.manager() == pid
    own.process.kill()
    await_end(pid)


def test_manager_ends_in_good_order_with_the_job(own: Launcher) -> None:
    own.said("ready\n")
    pid = own.manager()
    assert own.process.stdin is not None
    own.process.stdin.close()
    assert own.process.wait(SOON) == 0
    assert not command_line(pid)
    assert "end of the input" in own.said("draining")


def test_manager_that_dies_is_started_again_with_its_state(own: Launcher) -> None:
    own.said("ready\n")
    first = own.manager()
    command = command_line(first)
    os.kill(first, signal.SIGKILL)
    second = own.manager(other_than=first)
    assert command_line(second) == command and b"--state" in command
    own.said("manager_started_again")
    own.answers()
    os.kill(second, signal.SIGKILL)
    own.manager(other_than=second)
    out = own.said("manager_ended", times=2)
    assert "SIGKILL" in out and out.count("ready\n") == 1


def test_manager_that_cannot_start_ends_its_launcher(tmp_path: Path) -> None:
    made = Launcher(tmp_path, host="192.0.2.1")
    with made.process:
        assert made.process.wait(SOON) == 1
    last = made.out.read_text().splitlines()[-1]
    reason = f"cannot listen on {made.address}: in use, or not an address of this machine"
    assert last == f"launcher: the Manager of the job cannot start: exit status 1: {reason}"


def test_manager_that_cannot_start_again_ends_the_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_manager, "PAUSE_S", 0.01)
    once = tmp_path / "once"
    script = f"import pathlib; pathlib.Path({str(once)!r}).touch(exist_ok=False); {LIVING}"
    given_up = SimpleQueue[None]()

    def block() -> None:
        with watched([sys.executable, "-c", script], lambda: given_up.put(None)):
            (pid,) = (each for each in children(os.getpid()) if str(once).encode() in command_line(each))
            os.kill(pid, signal.SIGKILL)
            given_up.get(timeout=SOON)
            raise InterruptedError

    with pytest.raises(NoManager, match=r"^the Manager of the job has ended 9 times in a row: exit status 1$"):
        block()


def test_program_that_is_missing_cannot_be_started() -> None:
    with pytest.raises(NoManager, match=r"cannot start: .*No such file"), watched(["/no/such/program"], list):
        pytest.fail("it has begun")


def test_manager_that_says_nothing_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_manager, "READY_S", 0.2)
    with (
        pytest.raises(NoManager, match=r"cannot start: it did not listen within 0\.2 s"),
        watched([sys.executable, "-c", "import sys; sys.stdin.read()"], list),
    ):
        pytest.fail("it has begun")


def test_manager_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_manager, "MGR_END_S", 0.2)
    with watched([sys.executable, "-c", f"{LIVING}; import time; time.sleep(600)"], list):
        (pid,) = (each for each in children(os.getpid()) if b"time.sleep(600)" in command_line(each))
    await_end(pid)


def test_block_that_fails_keeps_its_error() -> None:
    with pytest.raises(LookupError, match="nothing"), watched([sys.executable, "-c", LIVING], list):
        raise LookupError("nothing")


class Found:
    """A Manager for a launcher that finds after some looks that it has to start it.

    Args:
        looks: before it.
        trouble: of its start; None for none.
    """

    def __init__(self, looks: int = 0, trouble: NoManager | None = None) -> None:
        self.left = looks
        self.trouble = trouble
        self.said: SimpleQueue[object] = SimpleQueue()

    def find(self) -> AbstractContextManager[None] | None:
        self.left -= 1
        return None if self.left >= 0 else self.manager()

    @contextmanager
    def manager(self) -> Iterator[None]:
        if self.trouble is not None:
            self.said.put("trouble")
            raise self.trouble
        self.said.put("begins")
        try:
            yield
        except BaseException as error:
            self.said.put(error)
            raise
        else:
            self.said.put("ends")


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_manager, "LOOK_S", 0.01)


@pytest.mark.usefixtures("often")
def test_manager_whose_address_comes_later_is_started_then_and_ends_with_the_block() -> None:
    found = Found(looks=3)
    with later(found.find, SOON):
        assert found.said.get(timeout=SOON) == "begins"
        assert found.said.empty()
    assert found.said.get_nowait() == "ends"


@pytest.mark.usefixtures("often")
def test_manager_that_was_started_later_knows_how_the_block_ends() -> None:
    """Its state stays for the next start, or does not."""
    found = Found()

    def block() -> None:
        with later(found.find, SOON):
            assert found.said.get(timeout=SOON) == "begins"
            raise InterruptedError

    with pytest.raises(InterruptedError) as ended:
        block()
    assert found.said.get_nowait() is ended.value


@pytest.mark.usefixtures("often")
def test_manager_that_cannot_be_started_later_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    found = Found(trouble=NoManager("its port is taken"))
    with later(found.find, SOON):
        for _ in range(2):
            assert found.said.get(timeout=SOON) == "trouble"
    assert "manager_not_started" in caplog.text and "its port is taken" in caplog.text


@pytest.mark.usefixtures("often")
def test_launcher_looks_for_its_time_alone() -> None:
    found = Found(looks=1_000_000)
    with later(found.find, 0.1):
        time.sleep(0.3)
        looked = found.left
        time.sleep(0.1)
        assert found.left == looked < 1_000_000
    with later(Found(looks=1_000_000).find, SOON):
        pass  # it ends at once
