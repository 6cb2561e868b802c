"""The platform's files on disk: missing, replaced, links, huge, of another kind, and on a file system that hangs."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net.base import bounded_file
from taskd_net.job.manager.changed_file import FILE_BYTES
from taskd_net.mindspore import files
from taskd_net.mindspore.files import FilesReader, Paths
from taskd_net.mindspore.machine import PlatformFiles


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(tmp_path / "reset.json", tmp_path / "version")


@pytest.fixture
def reader(paths: Paths) -> Iterator[FilesReader]:
    with FilesReader(paths) as made:
        yield made


@pytest.fixture
def hasty(paths: Paths) -> Iterator[FilesReader]:
    with FilesReader(paths, patience=0.05) as made:
        yield made


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (files.RESET_VARIABLE, files.VERSION_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    assert {name: str(path) for name, path in Paths.of_environment().by_name().items()} == {
        "reset": "/user/restore/reset/config/reset.json",
        "restart_type": "/user/restore/reset/config/restartType",
        "version": "/user/serverid/devindex/config/version",
    }
    monkeypatch.setenv(files.RESET_VARIABLE, "/a/b.json")
    monkeypatch.setenv(files.VERSION_VARIABLE, "/c/d")
    assert list(map(str, Paths.of_environment().by_name().values())) == ["/a/b.json", "/a/restartType", "/c/d"]


def test_content_is_the_present_one(reader: FilesReader, paths: Paths) -> None:
    assert reader.read() == PlatformFiles()
    paths.reset.write_bytes(b"{}")
    paths.version.write_bytes(b"1")
    assert reader.read() == PlatformFiles(b"{}", None, b"1")
    (paths.reset.parent / "new").write_bytes(b"{ }")
    (paths.reset.parent / "new").rename(paths.reset)
    (paths.reset.parent / "restartType").write_bytes(b"hotReset")
    assert reader.read() == PlatformFiles(b"{ }", b"hotReset", b"1")
    paths.reset.unlink()
    assert reader.read().reset is None


def test_links_and_other_kinds_are_as_if_missing(
    reader: FilesReader, paths: Paths, caplog: pytest.LogCaptureFixture
) -> None:
    target = paths.reset.parent / "target"
    target.write_bytes(b"{}")
    paths.reset.symlink_to(target)
    assert [reader.read().reset for _ in range(3)] == [None] * 3
    assert caplog.text.count("it is no plain file, but a link") == 1
    paths.reset.unlink()
    os.mkfifo(paths.reset)
    assert reader.read().reset is None
    assert "but a FIFO" in caplog.text
    paths.reset.unlink()
    paths.reset.mkdir()
    assert reader.read().reset is None
    assert "but a folder" in caplog.text
    paths.reset.rmdir()
    paths.reset.write_bytes(b" " * FILE_BYTES)
    assert reader.read().reset == b" " * FILE_BYTES
    paths.reset.write_bytes(b" " * (FILE_BYTES + 1))
    assert reader.read().reset is None
    assert "it has more than 1048576 bytes" in caplog.text


def test_file_system_that_hangs_holds_up_nobody(
    hasty: FilesReader, paths: Paths, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    paths.reset.write_bytes(b"{}")
    assert hasty.read().reset == b"{}"
    goes_on, real = threading.Event(), bounded_file.read_file

    def hangs(*arguments: object) -> object:
        goes_on.wait(10.0)
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(files, "read_file", hangs)
    assert [hasty.read().reset for _ in range(3)] == [b"{}"] * 3
    assert caplog.text.count("reset_files_hang") == 1
    paths.reset.write_bytes(b"{ }")
    goes_on.set()
    while hasty.read().reset != b"{ }":
        """Its answer comes soon."""
