"""Commits within a time limit: failures cost durability alone."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.state import NewerRelease
from taskd_net.job.manager.keeping import AGAIN_S, Keeping, Store
from taskd_net.observe.job_view import JobCounters


def keeping(path: Path, counters: JobCounters) -> Keeping:
    return Keeping(str(path), "J", counters, get_logger(job="J"))


def set_aside(folder: Path) -> list[str]:
    """The names of renamed files."""
    return [path.name for path in folder.iterdir() if path.name.endswith("-1")]


async def parts(path: Path) -> dict[str, str] | None:
    """The parts in a file."""
    kept = keeping(path, JobCounters())
    found = await kept.load(0.0, dict)
    await kept.close()
    return found


async def test_what_a_full_disk_refused_is_stored_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    counters, path = JobCounters(), tmp_path / "state"
    kept = keeping(path, counters)
    assert await kept.load(0.0, dict) is None
    await kept.save(1.0, {"rest": "1", "agent/1": "a"})
    write: Callable[[Store, Mapping[str, str | None]], None] = Store.write

    def full(store: Store, parts: Mapping[str, str | None]) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "write", full)
    for now in (2.0, 3.0, 2.0 + AGAIN_S):
        await kept.save(now, {"rest": "2", f"agent/{now:g}": "b"})
    assert (counters.durable, counters.store_failures) == (False, 2), "no attempt in the pause"
    lines = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert len(lines) == 1 and "database or disk is full" in lines[0]
    monkeypatch.setattr(Store, "write", write)
    await kept.save(60.0, {"rest": "2", "agent/1": None})
    assert counters.durable
    await kept.close()
    assert await parts(path) == {"rest": "2", "agent/2": "b", "agent/3": "b", "agent/7": "b"}


@pytest.mark.parametrize("what", ["file", "log", "folder", "other state", "no database"])
async def test_file_that_was_removed_is_written_again_whole(
    tmp_path: Path, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    counters, path = JobCounters(), tmp_path / "folder" / "state"
    kept = keeping(path, counters)
    await kept.load(0.0, dict)
    await kept.save(1.0, {"rest": "1", "agent/1": "a", "agent/2": "b"})
    path.with_name("state-wal").unlink()
    if what != "log":
        path.unlink()
    if what == "folder":
        path.parent.rmdir()
    if what == "no database":
        path.write_text("x" * 5000)
    if what == "other state":
        store = Store(path, "J")
        store.open()
        store.write({"agent/9": "stranger"})
        store.close()
    await kept.save(2.0, {"rest": "2", "agent/2": None})
    assert counters.durable and counters.store_failures == 1
    await kept.save(3.0, {"agent/3": "c"})
    await kept.close()
    assert await parts(path) == {"rest": "2", "agent/1": "a", "agent/3": "c"}
    assert caplog.text.count("state_not_stored") == caplog.text.count("state_durable") == 1
    assert "the file was removed, or another one is in its place" in caplog.text


async def test_file_that_was_removed_is_noticed_without_a_change(tmp_path: Path) -> None:
    counters, path = JobCounters(), tmp_path / "state"
    kept = keeping(path, counters)
    await kept.load(0.0, dict)
    await kept.save(1.0, {"rest": "1"})
    path.unlink()
    await kept.save(kept.again - 1.0, {"rest": "1"})
    assert not path.exists()
    await kept.save(kept.again, {"rest": "1"})
    assert path.exists() and counters.durable and kept.again > 10.0
    await kept.close()
    assert await parts(path) == {"rest": "1"}


async def test_removed_file_that_cannot_be_made_again_is_written_later(tmp_path: Path) -> None:
    counters, path = JobCounters(), tmp_path / "folder" / "state"
    kept = keeping(path, counters)
    await kept.load(0.0, dict)
    await kept.save(1.0, {"rest": "1", "agent/1": "a"})
    path.parent.rename(tmp_path / "moved")
    path.parent.write_text("in its place")
    for now in (2.0, 20.0):
        await kept.save(now, {"rest": "2"})
        assert not counters.durable
    path.parent.unlink()
    await kept.save(40.0, {})
    assert counters.durable
    await kept.close()
    assert await parts(path) == {"rest": "2", "agent/1": "a"}
    assert await parts(tmp_path / "moved" / "state") == {"rest": "1", "agent/1": "a"}


async def test_disk_that_hangs_delays_a_commit_for_a_bounded_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters, hangs = JobCounters(), threading.Event()
    kept = keeping(tmp_path / "state", counters)
    await kept.load(0.0, dict)
    kept.patience = 0.05
    write: Callable[[Store, Mapping[str, str | None]], None] = Store.write
    writes: list[int] = []

    def slow(store: Store, parts: Mapping[str, str | None]) -> None:
        hangs.wait()
        writes.append(len(parts))
        write(store, parts)

    monkeypatch.setattr(Store, "write", slow)
    for now in (1.0, 10.0, 20.0):
        await kept.save(now, {f"agent/{now:g}": "a"})
    assert (counters.durable, counters.store_failures) == (False, 3)
    kept.patience = 5.0
    hangs.set()
    while kept._thread.busy:
        await kept._thread.call(bool, 5.0)
    await kept.save(30.0, {})
    assert counters.durable and writes == [1, 3]
    await kept.close()
    assert set(await parts(tmp_path / "state") or ()) == {"agent/1", "agent/10", "agent/20"}


async def test_file_that_cannot_be_closed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keeping(tmp_path / "state", JobCounters())
    await kept.load(0.0, dict)
    await kept.save(1.0, {"rest": "1"})
    close = Store.close

    def failing(store: Store) -> None:
        close(store)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(Store, "close", failing)
    await kept.close()
    assert "disk I/O error" in caplog.records[-1].getMessage()
    monkeypatch.setattr(Store, "close", close)
    assert await parts(tmp_path / "state") == {"rest": "1"}


async def test_folder_that_cannot_be_written_costs_durability_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    counters = JobCounters()
    kept = keeping(tmp_path / "file" / "state", counters)
    assert await kept.load(0.0, dict) is None
    assert (counters.durable, kept.again) == (False, AGAIN_S)
    await kept.save(100.0, {"rest": "1"})
    assert counters.store_failures == 2
    (tmp_path / "file").unlink()
    await kept.save(200.0, {"rest": "1"})
    assert counters.durable
    await kept.close()
    assert await parts(tmp_path / "file" / "state") == {"rest": "1"}


@pytest.mark.parametrize("how", ["unreadable", "no database", "other job"])
async def test_file_that_is_not_this_jobs_state_is_renamed_and_said(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "state"
    if how == "no database":
        path.write_text("x" * 5000)
    else:
        store = Store(path, "other" if how == "other job" else "J")
        store.open()
        store.write({"rest": "nonsense"})
        store.close()
    kept = keeping(path, JobCounters())

    def read(parts: Mapping[str, str]) -> str:
        raise ConfigError("the stored state cannot be read: nonsense")

    assert await kept.load(0.0, read) is None
    await kept.save(1.0, {"rest": "1"})
    await kept.close()
    assert await parts(path) == {"rest": "1"}
    event = "state_of_another_job" if how == "other job" else "state_damaged"
    assert sum(f"event={event} " in record.getMessage() for record in caplog.records) == 1
    assert set_aside(tmp_path) == ["state.job-other-1" if how == "other job" else "state.damaged-1"]


async def test_newer_state_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path / "state", "J")
    store.open()
    store.write({"rest": "1"})
    store.close()
    kept = keeping(tmp_path / "state", JobCounters())

    def read(parts: Mapping[str, str]) -> None:
        raise NewerRelease("the stored state has schema 2, of a newer release; this one reads up to 1")

    with pytest.raises(NewerRelease, match=f"state is '{tmp_path}/state', but the stored state has schema 2"):
        await kept.load(0.0, read)
    await kept.close()
