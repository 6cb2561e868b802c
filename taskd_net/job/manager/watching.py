"""Files of the platform that a Manager watches.

The folder is watched, because files are replaced: Kubernetes changes the target of the link `..data`. The file is also
looked at once a second: not every file system tells of changes, and `watchfiles` may be missing.
"""

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar
from weakref import WeakKeyDictionary

from taskd_net.base.codes import NodeError
from taskd_net.base.logger import late_logger
from taskd_net.job.manager.threads import OwnThread

LOOK_S: Final = 1.0
"""Seconds between two looks at the reset file where nothing tells of its changes. A look is one call of `stat`."""

STEP_MS: Final = 100
"""Milliseconds between two looks of a watching thread at what the kernel has told: a change is seen within 0.2 s, and
an idle Manager wakes ten times a second for some 20 µs."""

LEAVE_S: Final = 1.0
"""Seconds that the end of the process waits for a watching thread. More: a disk that hangs holds it up for longer."""

GATHER_MS: Final = 400
"""Milliseconds for which changes of one folder are taken together at most: an update of a ConfigMap makes several."""

T = TypeVar("T")

log: Final = late_logger()

_WATCHING: Final[WeakKeyDictionary[OwnThread, threading.Event]] = WeakKeyDictionary()


@atexit.register
def _leave() -> None:
    """Wait for the threads. One that returns from Rust while the interpreter ends aborts the process."""
    watching = list(_WATCHING.items())
    for thread, ended in watching:
        ended.set()
        thread.stop()
    for thread, _ in watching:
        thread.join(LEAVE_S)


async def watch(path: str, look: Callable[[], T | None], take: Callable[[T], None], *, every: float = LOOK_S) -> None:
    """Look at a file at once, when it changes, and again and again, without end, in a thread of its own.

    A file system that hangs holds up that thread alone, and counts as unchanged.

    Args:
        path: the file; its folder may be missing.
        look: returns what has changed, or None.
        take: is called with it in the thread that awaits.
        every: seconds between two looks without a change.
    """
    await follow(path, lambda _: look(), take, every=every)


async def follow(
    path: str,
    look: Callable[[bool], T | None],
    take: Callable[[T], None],
    *,
    tells: bool = True,
    every: float = LOOK_S,
) -> None:
    """The same for a look that costs more: it is told whether the file may have changed.

    Args:
        path: the file; its folder may be missing.
        look: gets True for a change that the file system tells of, and where one may have been missed; False in
            between. Returns what has changed, or None.
        take: is called with it in the thread that awaits.
        tells: the file system is listened to.
        every: seconds between two looks without a change.
    """
    thread, ended = OwnThread(f"watches {path}"), threading.Event()
    moments = _moments(path, ended, every, tells=tells)
    _WATCHING[thread] = ended
    told = False

    def seen() -> T | None:
        return look(next(moments, False))

    try:
        while True:
            try:
                value = await thread.call(seen, None)
            except NodeError as error:  # the process is at its limits, as a rule for a while
                if not told:
                    log.error("file_not_watched", file=path, reason=str(error))
                told = True
                await asyncio.sleep(every)
                continue
            told = False
            if value is not None:
                take(value)
    finally:
        ended.set()
        thread.stop()


def _moments(path: str, ended: threading.Event, every: float, *, tells: bool) -> Iterator[bool]:
    """Wait until it is time to look, again and again, until the end. Yields True where a change is likely."""
    folder = Path(path).absolute().parent
    likely = True
    while not ended.is_set():
        yield likely
        likely = False
        if tells:
            try:
                yield from _changes(folder, ended, every)
                likely = True
                continue
            except (OSError, RuntimeError, ModuleNotFoundError):
                """This system cannot watch the folder, has no watch left, or has no `watchfiles`."""
        ended.wait(every)


def _changes(folder: Path, ended: threading.Event, every: float) -> Iterator[bool]:
    """Wait for changes in a folder, each time for `every` seconds at most, until another folder is to be watched.

    Yields True for changes, and at first, for those between the look before and the beginning of the watch.

    Raises:
        OSError, RuntimeError, ModuleNotFoundError: it cannot be watched.
    """
    import watchfiles  # the library alone does without

    watched = _nearest(folder)
    changes = watchfiles.watch(
        watched[0],
        watch_filter=None,
        debounce=GATHER_MS,
        step=STEP_MS,
        stop_event=ended,
        rust_timeout=int(every * 1000),
        yield_on_timeout=True,
        raise_interrupt=False,
        recursive=False,
    )
    likely = True
    with closing(changes):
        for found in changes:
            if _nearest(folder) != watched:
                return
            yield likely or bool(found)
            likely = False


def _nearest(folder: Path) -> tuple[Path, int, int]:
    """The folder, or the nearest one above it that exists, and the identity of it."""
    for each in (folder, *folder.parents):
        try:
            status = each.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        return each, status.st_dev, status.st_ino
    raise FileNotFoundError(str(folder))
