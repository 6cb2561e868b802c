"""The file with the groups of ranks, by a double of torch and torch_npu; tests/torch has the real torch."""

from __future__ import annotations

import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Final

import pytest

from taskd.python.adaptor.pytorch import group_info
from taskd.python.adaptor.pytorch.group_info import dump_group_info

RANK: Final = 5


class Group:
    """A group of ranks, as torch's ProcessGroup.

    Args:
        ranks: its ranks.
        name: torch's name of it.
        communicator: HCCL's name of it; None before its first use.
        title: the script's name of it.
    """

    def __init__(self, ranks: list[int], name: str, communicator: str | None = None, title: str | None = None) -> None:
        self.ranks = ranks
        self.group_name = name
        self.group_desc = title or "undefined"
        self._communicator = communicator
        self.options = SimpleNamespace(hccl_config={} if title is None else {"group_name": title})

    def _get_backend(self, device: str) -> Group:
        assert device == "the device npu"
        return self

    def get_hccl_comm_name(self, rank: int, *, init_comm: bool) -> str | None:
        """The communicator's name; a test never makes one."""
        assert rank == RANK and init_comm is False
        return self._communicator


WORLD: Final = Group(list(range(8)), "0", "group_name_0")
HCCL: Final = {
    WORLD: ("hccl", None),
    Group([1, 5], "1", "group_name_1", "tp"): ("hccl", None),
    Group([4, 5], "2", "group_name_2"): ("cpu:gloo,npu:hccl", None),
    Group([5, 6], "3"): ("hccl", None),
    Group([0, 1], "4", "group_name_4"): ("hccl", None),
    Group([5, 7], "5", title="dp"): ("gloo", None),
}


@pytest.fixture
def distributed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """torch's module with groups of HCCL and of gloo, in a job whose base is the test's folder."""
    torch, made = ModuleType("torch"), SimpleNamespace()
    made.is_available = made.is_initialized = lambda: True
    made.get_rank = lambda group=None: RANK if group is None else _index(group)
    made.get_group_rank = lambda group, rank: group.ranks.index(rank)
    made.get_process_group_ranks = lambda group: group.ranks
    made.group = SimpleNamespace(WORLD=WORLD)
    made.distributed_c10d = SimpleNamespace(_world=SimpleNamespace(pg_map=HCCL))
    torch.device = "the device {}".format  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.distributed", made)
    monkeypatch.setenv("MINDX_TASK_ID", "J")
    monkeypatch.setenv("GROUP_BASE_DIR", str(tmp_path))
    return made


def _index(group: Group) -> int:
    return group.ranks.index(RANK) if RANK in group.ranks else -1


def dumped(folder: Path) -> Any:
    """The content of the file of the rank."""
    return json.loads((folder / "J" / str(RANK) / "parallel_group.json").read_text())


def entry(name: str, rank: int, *ranks: int) -> dict[str, object]:
    return {"group_name": name, "group_rank": rank, "global_ranks": list(ranks)}


def test_each_group_of_the_rank_is_there_under_its_communicator(distributed: SimpleNamespace, tmp_path: Path) -> None:
    assert dump_group_info() is True
    assert dumped(tmp_path) == {
        "group_name_1": entry("tp", 1, 1, 5),
        "group_name_2": entry("", 1, 4, 5),
        "5": entry("dp", 0, 5, 7),
        "group_name_0": entry("default_group", 5, *range(8)),
    }
    assert [path.name for path in (tmp_path / "J" / "5").iterdir()] == ["parallel_group.json"]


@pytest.mark.parametrize("base", [None, "", "missing"])
def test_base_without_the_variable_or_its_folder(
    base: str | None, distributed: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_info, "MOUNTED", tmp_path / "mounted")
    if base is None:
        monkeypatch.delenv("GROUP_BASE_DIR")
    else:
        monkeypatch.setenv("GROUP_BASE_DIR", base and str(tmp_path / base))
    dump_group_info()
    assert "group_name_0" in dumped(tmp_path / "mounted")


def test_second_call_replaces_the_file_and_what_is_in_its_way(distributed: SimpleNamespace, tmp_path: Path) -> None:
    folder = tmp_path / "J" / str(RANK)
    folder.mkdir(parents=True)
    (tmp_path / "theirs").write_text("theirs")
    (folder / "parallel_group.json").symlink_to(tmp_path / "theirs")
    os.mkfifo(folder / f".parallel_group.json.{os.getpid()}-{threading.get_ident()}")
    for _ in range(2):
        dump_group_info()
        assert len(dumped(tmp_path)) == 4
    assert (tmp_path / "theirs").read_text() == "theirs"


def test_calls_at_the_same_time_leave_one_file(distributed: SimpleNamespace, tmp_path: Path) -> None:
    with ThreadPoolExecutor(20) as threads:
        assert all(threads.map(lambda _: dump_group_info(), range(40)))
    assert [path.name for path in (tmp_path / "J" / str(RANK)).iterdir()] == ["parallel_group.json"]


@pytest.mark.parametrize("job", ["", ".", "..", "a/b", "/"])
def test_job_that_is_no_name_of_a_folder(
    job: str,
    distributed: SimpleNamespace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("MINDX_TASK_ID", job)
    dump_group_info()
    assert "MINDX_TASK_ID is " in caplog.text and "expected the id of the job" in caplog.text
    assert not list(tmp_path.iterdir())


def test_groups_that_json_cannot_have_leave_no_file(distributed: SimpleNamespace, tmp_path: Path) -> None:
    distributed.get_group_rank = lambda *_: object()
    assert dump_group_info() is False
    assert not list((tmp_path / "J" / str(RANK)).iterdir())


def test_folder_that_is_a_link_is_left_alone(
    distributed: SimpleNamespace, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "J").mkdir()
    (tmp_path / "theirs").mkdir()
    (tmp_path / "J" / str(RANK)).symlink_to(tmp_path / "theirs")
    dump_group_info()
    assert "is a symbolic link; expected a folder" in caplog.text
    assert not list((tmp_path / "theirs").iterdir())


def broken(*_: object, **__: object) -> object:
    """Fail as a backend may."""
    raise RuntimeError("no device")


@pytest.mark.parametrize("name", ["is_initialized", "get_rank", "get_group_rank", "get_process_group_ranks"])
def test_failure_of_torch_is_one_line(
    name: str, distributed: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    setattr(distributed, name, broken)
    assert dump_group_info() is False
    assert [record.levelname for record in caplog.records] == ["ERROR"] and "no device" in caplog.text


@pytest.mark.parametrize("name", ["is_available", "is_initialized"])
def test_call_before_there_are_groups_is_one_line(
    name: str, distributed: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    setattr(distributed, name, lambda: False)
    dump_group_info()
    assert "expected a call after init_process_group" in caplog.text


def test_process_without_torch_is_one_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)
    dump_group_info()
    assert "expected a call after init_process_group" in caplog.text and "torch" not in sys.modules
