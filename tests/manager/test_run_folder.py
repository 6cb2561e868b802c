"""The folder of a run: whose state a start goes on with, and who may have written it."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.base.limits import NODE_S
from taskd_net.job import own_manager, run_folder
from taskd_net.job.own_manager import NoManager
from taskd_net.job.run_folder import FORGOTTEN_S, KEEP_S, RunFolder, users_folder


class Clock:
    """A clock, in place of the machine's."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock, and a folder for temporary files of the test's own."""
    made = Clock()
    monkeypatch.setattr(run_folder, "_clock", made)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return made


def run(job_id: str = "j", address: str = "h:9601", size: str = "2x8") -> RunFolder:
    """A start of a job."""
    return RunFolder(job_id, address, size, 100.0)


def state(of: RunFolder) -> Path:
    """A file of the Manager's in there."""
    return of.path / "manager-state.sqlite3"


@pytest.mark.usefixtures("clock")
def test_a_start_while_a_run_lives_goes_on_with_its_state() -> None:
    state(run()).touch()
    assert state(run()).exists()
    assert run().path.stat().st_mode & 0o777 == 0o700


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("other", [{"job_id": ""}, {"address": "h:9602"}, {"size": "1x8"}])
def test_a_start_of_another_job_or_size_begins_clean(other: dict[str, str]) -> None:
    state(run()).touch()
    assert not state(run(**other)).exists()
    assert state(run()).exists() == ("size" not in other)


def test_a_run_is_over_when_its_node_was_away_for_too_long(clock: Clock) -> None:
    state(run()).touch()
    clock.now += 99.0
    run().keep()
    clock.now += 100.0 + KEEP_S
    assert state(run()).exists()
    clock.now += 101.0 + KEEP_S
    assert not state(run()).exists()


@pytest.mark.usefixtures("clock")
def test_a_start_of_the_machine_ends_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state(run()).touch()
    monkeypatch.setattr(run_folder, "_BOOT", tmp_path / "missing")
    assert not state(run()).exists()
    state(run()).touch()
    assert state(run()).exists()


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize("text", ["", "a b", "boot x 2x8", "\xff\xfe x"])
def test_a_word_that_cannot_be_read_is_none(text: str) -> None:
    first = run()
    state(first).touch()
    (first.path / "alive").write_text(text, "latin-1")
    assert not state(run()).exists()


def test_folders_of_others_are_removed_when_nobody_can_wait_for_them(clock: Clock) -> None:
    old, half = run("old"), run("half")
    (half.path / "alive").unlink()
    clock.now += FORGOTTEN_S
    run()
    assert old.path.exists()
    clock.now += 1.0
    run()
    assert not old.path.exists() and half.path.exists()


@pytest.mark.usefixtures("clock")
def test_a_run_that_has_ended_leaves_nothing() -> None:
    ended = run()
    ended.remove()
    ended.remove()
    assert list(users_folder().iterdir()) == []


@pytest.mark.usefixtures("clock")
def test_a_folder_that_is_not_this_users_alone_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"taskd-net-{os.geteuid()}"
    path.touch()
    with pytest.raises(ConfigError, match="is no folder; remove it"):
        run()
    path.unlink()
    (tmp_path / "elsewhere").mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="is a symlink; remove it"):
        run()
    path.unlink()
    path.mkdir(mode=0o755)
    with pytest.raises(ConfigError, match="open to others, with mode 755; expected 700"):
        run()
    path.chmod(0o700)
    owner = os.geteuid()
    path.rename(tmp_path / f"taskd-net-{owner + 1}")
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    with pytest.raises(ConfigError, match=f"belongs to the user {owner}; remove it"):
        run()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(ConfigError, match=r"cannot be made: .*set TMPDIR"):
        run()


@pytest.mark.usefixtures("clock")
def test_a_run_whose_folder_cannot_be_made_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    users_folder()

    def full(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(RunFolder, "keep", full)
    with pytest.raises(ConfigError, match="the folder of the run cannot be made: no space left"):
        run()


class Signalled(Exception):
    """The exception of a signal handler."""

    def __init__(self, sigval: object) -> None:
        super().__init__(sigval)
        self.sigval = sigval


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("error", "stays"),
    [
        (None, False),
        (SystemExit(1), False),
        (Signalled(signal.SIGINT), False),
        (Signalled(signal.SIGTERM), True),
        (NoManager("it cannot be started again"), True),
    ],
)
def test_the_state_stays_where_the_others_wait_for_this_node(error: BaseException | None, stays: bool) -> None:
    kept = run()
    own_manager._over(kept, None, error, None)
    assert kept.path.exists() == stays


@pytest.mark.parametrize(("text", "seconds"), [("60", 60.0), ("x", NODE_S)])
def test_time_of_a_node_is_the_managers_setting(monkeypatch: pytest.MonkeyPatch, text: str, seconds: float) -> None:
    monkeypatch.setenv("TASKD_NET_NODE_TIMEOUT", text)
    assert own_manager._node_timeout() == seconds


@pytest.mark.usefixtures("clock")
def test_starts_at_once_share_the_folder_that_the_first_has_made() -> None:
    """Two launchers on the host of the endpoint begin together."""
    starts = 4
    together = threading.Barrier(starts, timeout=20.0)

    def start(_: int) -> bool:
        together.wait()
        made = run()
        state(made).touch()
        together.wait()
        return state(made).exists()

    with ThreadPoolExecutor(starts) as pool:
        for _ in range(50):
            assert all(pool.map(start, range(starts)))
            run().remove()


@pytest.mark.usefixtures("clock")
def test_start_beside_one_that_hangs_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder, "LOCK_S", 0.1)
    with run_folder._locked(users_folder()), pytest.raises(ConfigError, match="the folder of the run cannot be made"):
        run()
