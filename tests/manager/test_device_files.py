"""Files about devices: ranks, and the list of separated ones."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest

from taskd_net.base.logger import get_logger
from taskd_net.job.manager.device_files import REMOVED_S, SeparatedList, read_names, read_ranks
from tests.polling import until


def test_ranks_of_a_mapping_file() -> None:
    assert read_ranks('{"host-a/npu-0": 0, "host-b/npu-1": 11}') == {"host-a/npu-0": 0, "host-b/npu-1": 11}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[]", "the mapping is .*; expected an object"),
        ('{"a/b": -1}', "rank of 'a/b' is -1; expected a whole number"),
        ('{"a/b": true}', "rank of 'a/b' is True"),
        ('{"": 1}', "device is ''"),
        ("{", "JSON|Expecting"),
    ],
)
def test_a_mapping_that_is_not_usable_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_ranks(text)


def test_names_of_a_list() -> None:
    assert read_names(" a/1,b/2\nc/3 ,, ") == {"a/1", "b/2", "c/3"}
    assert read_names("") == frozenset()


class Seen:
    """A list, and what was seen in it."""

    def __init__(self, path: Path) -> None:
        self.names: list[frozenset[str]] = []
        self.wanted = asyncio.Event()
        self.list = SeparatedList(str(path), self.take, get_logger())

    def take(self, names: Collection[str] | None) -> None:
        """Take what was seen."""
        if names is None:
            self.wanted.set()
        else:
            self.names.append(frozenset(names))


async def test_names_are_written_and_those_of_others_taken_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "separated"
    seen = Seen(file)
    await seen.list.write({"a/2", "a/1"}, ())
    assert file.read_text() == "a/1,a/2\n"
    file.write_text("a/1,a/2,x/9")
    await seen.list.write({"a/1", "a/2"}, {"a/1", "a/2"})
    await seen.list.write({"a/1"}, {"a/1"})
    assert caplog.text.count("separated_names_undone") == 1 and "devices=x/9" in caplog.text
    assert file.read_text() == "a/1\n" and seen.names[-1] == {"a/1"}
    seen.list.close()


async def test_a_name_that_was_removed_meanwhile_does_not_come_back(tmp_path: Path) -> None:
    file = tmp_path / "separated"
    seen = Seen(file)
    file.write_text("a/2")
    await seen.list.write({"a/1", "a/2", "a/3"}, {"a/1", "a/2"})
    assert file.read_text() == "a/2,a/3\n" and seen.names == [{"a/2", "a/3"}]
    seen.list.close()


async def test_a_list_is_on_the_disk_before_it_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loss of power after the rename could leave an empty list otherwise, which releases every device."""
    file, done = tmp_path / "separated", list[str]()
    fsync, replace = os.fsync, Path.replace

    def synced(descriptor: int) -> None:
        done.append("on the disk")
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> Path:
        done.append("replaced")
        return replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    seen = Seen(file)
    await seen.list.write({"a/1"}, ())
    assert done == ["on the disk", "replaced"]
    seen.list.close()


async def test_a_list_behind_a_link_is_written_where_it_leads(tmp_path: Path) -> None:
    shared, link = tmp_path / "shared", tmp_path / "separated"
    shared.write_text("a/1\n")
    link.symlink_to(shared)
    seen = Seen(link)
    await seen.list.write({"a/1", "a/2"}, {"a/1"})
    assert link.is_symlink() and shared.read_text() == "a/1,a/2\n"
    seen.list.close()


async def test_a_missing_file_removes_nothing(tmp_path: Path) -> None:
    seen = Seen(tmp_path / "separated")
    await seen.list.write({"a/1"}, {"a/1"})
    assert seen.names == [{"a/1"}]
    seen.list.close()


async def test_a_list_that_cannot_be_written_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("no folder")
    seen = Seen(tmp_path / "file" / "separated")
    await seen.list.write({"a/1"}, ())
    await seen.list.write({"a/1"}, ())
    assert caplog.text.count("separated_list_not_written") == 1
    assert not seen.names
    seen.list.close()


async def test_a_change_of_the_file_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "separated"
    file.write_text("a/1")
    seen = Seen(file)
    watching = asyncio.create_task(seen.list.watch())
    await until(lambda: seen.names == [{"a/1"}])
    file.write_text("")
    await until(lambda: seen.names[-1:] == [frozenset()])
    watching.cancel()
    await asyncio.wait([watching])
    seen.list.close()


async def test_a_list_that_is_rewritten_in_place_releases_nothing(tmp_path: Path) -> None:
    """An editor empties the file before it writes; a look, or a write of ours, may come between."""
    file = tmp_path / "separated"
    seen = Seen(file)
    await seen.list.write({"a/1", "a/2"}, ())
    seen.names.clear()
    file.write_text("")
    assert seen.list._look() is None
    writing = asyncio.create_task(seen.list.write({"a/1", "a/2", "a/3"}, {"a/1", "a/2"}))
    await asyncio.sleep(REMOVED_S / 2)
    file.write_text("a/2\n")
    await writing
    assert file.read_text() == "a/2,a/3\n" and seen.names == [{"a/2", "a/3"}]
    seen.list.close()


@pytest.mark.parametrize("how", ["removed", "folder removed", "fifo beside it", "full disk"])
async def test_a_list_that_is_gone_or_was_not_written_is_asked_for_until_it_is_written(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    file = tmp_path / "folder" / "separated"
    file.parent.mkdir()
    seen = Seen(file)
    await seen.list.write({"a/1"}, ())
    watching = asyncio.create_task(seen.list.watch())
    if how == "removed":
        file.unlink()
    elif how == "folder removed":
        shutil.rmtree(file.parent)
    else:
        beside = file.with_name("separated.new")
        os.mkfifo(beside) if how == "fifo beside it" else beside.symlink_to("/dev/full")
        await seen.list.write({"a/1", "a/2"}, {"a/1"})
        assert caplog.text.count("separated_list_not_written") == 1
        seen.wanted.clear()
        await until(seen.wanted.is_set)
        beside.unlink()
    await until(seen.wanted.is_set)
    await seen.list.write({"a/1", "a/2"}, {"a/1"})
    assert file.read_text() == "a/1,a/2\n"
    assert caplog.text.count("separated_list_written") == caplog.text.count("separated_list_not_written")
    watching.cancel()
    await asyncio.wait([watching])
    seen.list.close()
