"""The state file: parts, jobs, damage, schemas, and who may use it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.job.manager.keeping import FILE_SCHEMA, Damaged, OtherJob, Store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file in a folder that is not there."""
    return tmp_path / "folder" / "state"


def stored(path: Path, job: str = "J") -> dict[str, str]:
    """The parts in a file."""
    store = Store(path, job)
    try:
        return store.open()
    finally:
        store.close()


def test_parts_come_back(path: Path) -> None:
    store = Store(path, "J")
    assert store.open() == {}
    store.write({"a": "1", "b": "2"})
    store.write({"a": "3", "b": None, "c": None})
    store.close()
    store.close()
    assert stored(path) == {"a": "3"}


def test_commit_that_fails_changes_nothing(path: Path) -> None:
    store = Store(path, "J")
    store.open()
    store.write({"a": "1"})
    with pytest.raises(sqlite3.Error):
        store.write({"a": "2", "b": object()})  # type: ignore[dict-item]
    store.write({"c": "4"})
    store.close()
    assert stored(path) == {"a": "1", "c": "4"}
    with pytest.raises(sqlite3.OperationalError, match="not open"):
        store.write({})


def test_file_of_another_job_is_set_aside(path: Path) -> None:
    stored(path, "J/1")
    store = Store(path, "K")
    with pytest.raises(OtherJob, match="J/1"):
        store.open()
    asides = [store.set_aside("job-J/1").name]
    assert store.open() == {}
    asides.append(store.set_aside("job-J/1").name)
    assert asides == ["state.job-J_1-1", "state.job-J_1-2"]
    assert stored(path.with_name(asides[0]), "J/1") == {}


@pytest.mark.parametrize("content", [b"no database, but some text" * 100, None])
def test_damaged_file_is_known(path: Path, content: bytes | None) -> None:
    store = Store(path, "J")
    store.open()
    store.write({f"part {number}": "x" * 1000 for number in range(100)})
    store.close()
    data = bytearray(path.read_bytes())
    data[8192:16384] = bytes(8192)
    path.write_bytes(data if content is None else content)
    with pytest.raises(Damaged):
        store.open()
    store.set_aside("damaged")
    assert store.open() == {}
    store.close()


def test_newer_file_is_refused_in_words(path: Path) -> None:
    stored(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FILE_SCHEMA + 1}")
    connection.close()
    with pytest.raises(ConfigError, match=rf"schema {FILE_SCHEMA + 1}, of a newer release; this one reads up to"):
        Store(path, "J").open()


def test_file_in_use_is_refused(path: Path) -> None:
    first = Store(path, "J")
    first.open()
    first.write({"a": "1"})
    with pytest.raises(ConfigError, match="another process uses this file"):
        Store(path, "J").open()
    first.close()
    assert stored(path) == {"a": "1"}
