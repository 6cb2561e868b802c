"""Files of the platform that a Manager watches: the profiling switch becomes commands to the Workers."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
import watchfiles

from taskd_net.job import profiling_switch
from taskd_net.job.decide.events import ProfilingSwitch
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.job.manager.watching import watch
from tests.manager.cluster import SOON, leaves, managed, worker

OFTEN_S, SELDOM_S = 0.01, 3600.0
"""Seconds between two looks by time: one after another, and none."""

T = TypeVar("T")


async def soon(coming: Awaitable[T]) -> T:
    """Await what has to come."""
    async with asyncio.timeout(SOON):
        return await coming


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing tells of changes: looks come by time alone."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)


class Texts(asyncio.Queue[str]):
    """The texts of a file, each when it has changed."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._last = ""

    def look(self) -> str | None:
        try:
            text = self._path.read_text()
        except OSError:
            return None
        if text in ("", self._last):  # empty: it is being written
            return None
        self._last = text
        return text


@asynccontextmanager
async def watching(path: Path, every: float = SELDOM_S) -> AsyncIterator[Texts]:
    """A file that is watched."""
    texts = Texts(path)
    task = asyncio.create_task(watch(str(path), texts.look, texts.put_nowait, every=every))
    try:
        yield texts
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.wait([task])


def written(folder: Path, text: str) -> None:
    """Write into the file."""
    (folder / "file").write_text(text)


def renamed(folder: Path, text: str) -> None:
    """Replace the file in one step."""
    (folder / "new").write_text(text)
    (folder / "new").rename(folder / "file")


def volume(folder: Path, text: str, name: str = "file") -> None:
    """Update a volume as Kubernetes does: a new folder, and one rename that leads the link `..data` to it."""
    data = folder / f"..{text}"
    data.mkdir()
    (data / name).write_text(text)
    link = folder / "..data_tmp"
    link.symlink_to(data.name)
    link.rename(folder / "..data")
    if not (folder / name).is_symlink():
        (folder / name).symlink_to(f"..data/{name}")


@pytest.mark.parametrize("change", [written, renamed, volume])
async def test_change_is_seen_at_once(
    change: Callable[[Path, str], None], watched: asyncio.Queue[Path], tmp_path: Path
) -> None:
    change(tmp_path, "one")
    async with watching(tmp_path / "file") as texts:
        assert await soon(watched.get()) == tmp_path
        assert await soon(texts.get()) == "one"
        for text in ("two", "three"):
            change(tmp_path, text)
            assert await soon(texts.get()) == text
    assert watched.empty(), "one watch for all"


async def test_folder_may_come_later_and_be_replaced(watched: asyncio.Queue[Path], tmp_path: Path) -> None:
    outer, folder = tmp_path / "a", tmp_path / "a" / "b"
    async with watching(folder / "file") as texts:
        assert await soon(watched.get()) == tmp_path
        outer.mkdir()
        assert await soon(watched.get()) == outer
        folder.mkdir()
        assert await soon(watched.get()) == folder
        written(folder, "one")
        assert await soon(texts.get()) == "one"
        other = outer / "c"
        other.mkdir()
        written(other, "two")
        folder.rename(outer / "old")
        other.rename(folder)
        assert await soon(texts.get()) == "two"
        while await soon(watched.get()) != folder:
            """Between the two renames there was no such folder."""
        renamed(folder, "three")
        assert await soon(texts.get()) == "three"
        shutil.rmtree(outer)
        while await soon(watched.get()) != tmp_path:
            """The folders go one after another."""
        folder.mkdir(parents=True)
        written(folder, "four")
        assert await soon(texts.get()) == "four"


@pytest.mark.parametrize("error", [None, OSError("no space for watches"), RuntimeError("too many open files")])
async def test_looks_come_by_time_where_nothing_can_be_watched(
    error: Exception | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, often: None
) -> None:
    if error is not None:

        def fails(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setitem(sys.modules, "watchfiles", watchfiles)
        monkeypatch.setattr(watchfiles, "watch", fails)
    async with watching(tmp_path / "folder" / "file", OFTEN_S) as texts:
        (tmp_path / "folder").mkdir()
        for text in ("one", "two"):
            written(tmp_path / "folder", text)
            assert await soon(texts.get()) == text


async def test_changes_that_nobody_tells_of_are_seen_by_time(tmp_path: Path) -> None:
    """The file is a link to another folder, as on a file system that tells nothing."""
    there, here = tmp_path / "there", tmp_path / "here"
    there.mkdir()
    here.mkdir()
    (here / "file").symlink_to(there / "file")
    async with watching(here / "file", OFTEN_S) as texts:
        for text in ("one", "two"):
            written(there, text)
            assert await soon(texts.get()) == text


async def test_look_that_hangs_is_as_if_unchanged(tmp_path: Path, often: None) -> None:
    begun, free = asyncio.Event(), threading.Event()
    loop, taken = asyncio.get_running_loop(), asyncio.Queue[int]()

    def look() -> int:
        loop.call_soon_threadsafe(begun.set)
        assert free.wait(SOON)
        return 3

    tasks = [
        asyncio.create_task(watch(str(tmp_path / "file"), look, taken.put_nowait, every=OFTEN_S)) for _ in range(2)
    ]
    try:
        await soon(begun.wait())
        assert not await soon(asyncio.to_thread(taken.qsize)), "nobody else waits"
        tasks[0].cancel()
        await soon(asyncio.wait(tasks[:1]))
        free.set()
        assert await soon(taken.get()) == 3
    finally:
        free.set()
        tasks[1].cancel()
        await asyncio.wait(tasks)


def write(path: Path, **domains: str) -> None:
    """Replace the profiling switch in one step, as the platform does."""
    new = path.with_name("new")
    new.write_text(json.dumps(domains))
    new.rename(path)


@pytest.fixture
def path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The profiling switch."""
    path = tmp_path / "profilingSwitch"
    monkeypatch.setenv(profiling_switch.PATH, str(path))
    return path


async def test_workers_get_the_switch_of_the_file(path: Path, often: None) -> None:
    write(path, Step="on")
    config = ManagerConfig(job_id="J", nodes=1, processes_per_node=1)
    async with (
        managed(config, limits=ManagerLimits(look_s=OFTEN_S)) as (node, manager),
        leaves(node, worker(0, 0)) as (one,),
    ):
        await one.report("REGISTER", 101)
        assert (await one.command()).code == 710
        write(path, CommunicationOperator="on")
        assert (await one.command()).code == 711
        write(path)
        assert (await one.command()).code == 700
        assert manager.job.requests["ProfilingSwitch"] == ProfilingSwitch()


async def test_clusterd_has_the_say(path: Path, often: None) -> None:
    write(path, Step="on")
    limits = ManagerLimits(look_s=OFTEN_S)
    config = ManagerConfig(job_id="J", clusterd=True)
    async with managed(config, signals=asyncio.Queue(), limits=limits) as (_, manager):
        assert not any("profiling switch" in task.get_name() for task in manager._tasks)
        assert manager.job.requests["ProfilingSwitch"] is None


ENDS = """
import asyncio, os, sys, threading, time, types
from pathlib import Path
from taskd_net.job.manager.watching import watch

class Late:
    # It is collected after the functions of atexit. A thread that wants the interpreter from now on never gets it.
    def __del__(self, sleep=time.sleep, enumerate=threading.enumerate, write=os.write):
        alive = [thread.name for thread in enumerate() if thread.name.startswith("watches")]
        sleep(0.5)
        write(1, repr(alive).encode())

late = sys.modules["late"] = types.ModuleType("late")
late.last = Late()
del late
path, looks = Path(sys.argv[1]), threading.Semaphore(0)
watching = watch(str(path), looks.release, print)
threading.Thread(target=asyncio.run, args=(watching,), daemon=True).start()
looks.acquire()
while not looks.acquire(timeout=0.1):
    path.write_text(str(time.time()))  # until the folder is watched
time.sleep(0.3)  # it is watched again
"""


@pytest.mark.oldest
def test_process_ends_after_its_watching_threads(tmp_path: Path) -> None:
    """With old releases of `watchfiles` a thread that is still in it aborts the process, with newer ones it hangs."""
    command = [sys.executable, "-c", ENDS, str(tmp_path / "file")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "[]", "")
