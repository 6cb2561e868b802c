"""The bound on the profiling folder, kept by several ranks at once."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from taskd_net.base.waiting import EndFlag
from taskd_net.job import api
from taskd_net.job.api import worker
from taskd_net.job.arguments import UPSTREAM
from taskd_net.job.worker import disk
from taskd_net.job.worker.worker import WorkerTimes
from tests.api.conftest import SOON, rank_3_of_8, until

KB = 1000


def write(profiling: Path, rank: str, count: int, *, since: int = 0, size: int = KB) -> list[Path]:
    """Make the files of a rank, a second apart, the oldest first."""
    paths = []
    for number in range(count):
        path = profiling / rank / f"step-{number % 2}" / f"{number:03}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(size))
        os.utime(path, ns=(0, (since + number) * 10**9))
        paths.append(path)
    return paths


def left(paths: list[Path]) -> list[int]:
    """Numbers of the files that are left."""
    return [number for number, path in enumerate(paths) if path.exists()]


def test_oldest_of_all_ranks_go_first(tmp_path: Path) -> None:
    old, new = write(tmp_path, "0", 10), write(tmp_path, "1", 10, since=5)
    assert disk.prune(tmp_path, 12 * KB) == 8
    # 0 to 4 are the oldest; then 5 of rank 0 and 0 of rank 1 are of one age.
    assert (left(old), left(new)) == ([7, 8, 9], [1, *range(2, 10)]) or (left(old), left(new)) == (
        [6, 7, 8, 9],
        [2, 3, 4, 5, 6, 7, 8, 9],
    )
    assert disk.prune(tmp_path, 12 * KB) == 0


def test_newest_of_each_rank_stay(tmp_path: Path) -> None:
    ranks = [write(tmp_path, str(rank), 5) for rank in range(3)] + [write(tmp_path, "9", 2)]
    assert disk.prune(tmp_path, 0) == 6
    assert [left(paths) for paths in ranks] == [[2, 3, 4]] * 3 + [[0, 1]]


def test_within_the_bound_nothing_goes(tmp_path: Path) -> None:
    paths = write(tmp_path, "0", 10)
    assert disk.prune(tmp_path, 10 * KB) == 0 and left(paths) == list(range(10))
    assert disk.prune(tmp_path / "missing", 0) == 0


def test_what_is_no_ranks_file_is_neither_counted_nor_touched(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    kept = write(outside, "5", 10)
    profiling = tmp_path / "profiling"
    kept += write(profiling, "rank-0", 10) + write(profiling, "-1", 10)
    (profiling / "notes.txt").write_bytes(bytes(100 * KB))
    (profiling / "7").symlink_to(outside / "5")
    paths = write(profiling, "0", 10)
    (profiling / "0" / "link").symlink_to(outside / "5")
    assert disk.prune(profiling, 6 * KB) == 4
    assert left(paths) == [4, 5, 6, 7, 8, 9]
    assert all(path.exists() for path in kept)


def test_file_that_vanishes_meanwhile_is_as_good_as_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, "0", 10)
    unlink = Path.unlink

    def race(path: Path) -> None:
        unlink(path)
        unlink(path)  # as if another rank had been quicker

    monkeypatch.setattr(Path, "unlink", race)
    assert disk.prune(tmp_path, 5 * KB) == 0
    assert left(paths) == [5, 6, 7, 8, 9]


def test_file_that_cannot_be_removed_is_made_up_for_by_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write(tmp_path, "0", 10)
    unlink = Path.unlink

    def refuse(path: Path) -> None:
        if path == paths[1]:
            raise PermissionError
        unlink(path)

    monkeypatch.setattr(Path, "unlink", refuse)
    assert disk.prune(tmp_path, 5 * KB) == 5
    assert left(paths) == [1, 6, 7, 8, 9]


def test_stops_when_it_is_to_end(tmp_path: Path) -> None:
    write(tmp_path, "0", 10)
    ended = EndFlag()
    ended.set()
    assert disk.prune(tmp_path, 0, ended) == 0


PRUNE = """
import sys
from pathlib import Path
from taskd_net.job.worker import disk
print("ready", flush=True)
sys.stdin.readline()
print(disk.prune(Path(sys.argv[1]), int(sys.argv[2])))
"""


def test_ranks_that_prune_at_once(tmp_path: Path) -> None:
    """None fails, and together they remove what one alone would have removed."""
    files = [path for rank in range(4) for path in write(tmp_path, str(rank), 300, since=rank, size=100)]
    command = [sys.executable, "-c", PRUNE, str(tmp_path), "40000"]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            for _ in range(4)
        ]
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        removed = [int(process.communicate(timeout=SOON)[0]) for process in processes]
        assert [process.returncode for process in processes] == [0] * 4
    assert sum(removed) == 800
    assert len(left(files)) == 400


def test_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert disk.folder() == tmp_path / "log" / "profiling"
    monkeypatch.setenv("TASKD_NET_PROFILING_PATH", "/elsewhere")
    assert disk.folder() == Path("/elsewhere")
    monkeypatch.delenv("TASKD_NET_PROFILING_PATH")
    monkeypatch.setattr(disk, "MOUNTED", tmp_path / "mounted")
    (tmp_path / "mounted").mkdir()
    assert disk.folder() == tmp_path / "mounted"
    (tmp_path / "mounted").rmdir()
    monkeypatch.delenv("TASKD_LOG_PATH")
    assert disk.folder() == Path("taskd_log/profiling").absolute()


def test_worker_keeps_the_bound(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    profiling = tmp_path / "log" / "profiling"
    first = write(profiling, "3", 5)
    assert worker.initialise(3, 0, times=WorkerTimes(prune=0.02)) and left(first) == [0, 1, 2, 3, 4]
    assert api.start_taskd_worker()
    until(lambda: left(first) == [2, 3, 4])
    second = write(profiling, "4", 5)
    until(lambda: left(second) == [2, 3, 4])
    assert api.destroy_taskd_worker()
