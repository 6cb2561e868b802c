"""The state of a job in its file: commits in a thread of their own, within a time limit.

The file is sqlite3's, with named parts that are committed together. A commit reaches the operating system, not the
disk: it survives the death of the process (kill -9), and a loss of power costs the last commits at most, never the
file. One process at a time uses a file.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from taskd_net.base.codes import ConfigError, NodeError, TaskdNetError
from taskd_net.base.untrusted import json_value
from taskd_net.job.decide.plain import from_plain, to_text
from taskd_net.job.decide.state import NewerRelease
from taskd_net.job.manager.threads import OwnThread
from taskd_net.observe.job_view import DecisionView, JobCounters, LeaderView

STORE_S: Final = 1.0
"""Seconds for one commit of the state. Then decisions and acknowledgements go on without it: a disk that hangs must not
stop a job."""

OPEN_S: Final = 10.0
"""Seconds for opening the state file and reading it, at the Manager's start."""

AGAIN_S: Final = 5.0
"""Seconds after a failed commit before the next attempt."""

LOOK_S: Final = 10.0
"""Seconds after a commit before a look whether the state file is in its place: longer is a job without a state."""

FILE_SCHEMA: Final = 1
"""Version of the tables; `taskd_net.job.decide.state.SCHEMA` is that of the parts."""

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")

T = TypeVar("T")

UNMARKED: Final = ("rest", "plugins", "devices")
"""Parts that come with each commit, changed or not."""


class Unshared:
    """The lead of a Manager whose state no other one can use: nobody takes it away."""

    lost = False
    """True where another Manager decides on this job."""

    async def confirmed(self) -> bool:
        """True at once: nobody else decides, and a state that is not stored stops nothing."""
        return True

    def term(self) -> int | None:
        """0: no fencing number."""
        return 0

    def leader_view(self) -> LeaderView:
        """Empty: nobody else could lead."""
        return LeaderView()

    def move(self, then: float, now: float) -> None:
        """The clock has moved, and nothing depends on it."""

    def hurry(self) -> None:
        """The Manager ends: nothing takes unbounded time anyway."""


class Keeping(Unshared):
    """The state file, while a Manager runs. A failure costs durability, and stops nothing.

    What could not be stored is kept, and stored with the next commit that works. A file that was removed is written
    again, whole.

    Args:
        path: the file.
        job_id: the job.
        counters: count failures, and say whether the file has everything.
        log: takes the lines.

    Attributes:
        again: time of the next `save`, also without changes: an attempt after a failure, and none before it, or a
            look whether the file is in its place.
        patience: seconds for one commit.
    """

    def __init__(self, path: str, job_id: str, counters: JobCounters, log: Any) -> None:
        self._store = Store(path, job_id)
        self._thread = OwnThread(f"state of {job_id}")
        self._counters = counters
        self._log = log
        self._unsaved: dict[str, str | None] = {}
        self._written: dict[str, str] = {}
        self._open = False
        self.again = 0.0
        self.patience = STORE_S

    async def load(self, now: float, read: Callable[[Mapping[str, str]], T]) -> T | None:
        """Open the file, and read the state in it; None where there is none.

        A file of another job, and one that is damaged, is renamed first.

        Args:
            now: the time.
            read: makes the state of its parts; a ConfigError means that they are damaged.

        Raises:
            ConfigError: a newer release has written the file, or another process uses it.
        """
        try:
            parts = await self._opened()
            self.again = now + LOOK_S
            if not parts:
                return None
            try:
                state = read(parts)
            except NewerRelease as error:
                raise NewerRelease(f"state is '{self.path}', but {error}") from None
            except ConfigError as error:
                await self._damaged(error)
                await self._opened()
                return None
            self._written = {name: parts[name] for name in UNMARKED if name in parts}
            return state
        except (OSError, sqlite3.Error, TimeoutError, NodeError) as error:
            self._failed(now, error)
            return None

    async def _opened(self) -> dict[str, str]:
        for _ in range(2):
            try:
                parts = await self._thread.call(self._store.open, OPEN_S)
                self._open = True
                return parts
            except OtherJob as error:
                aside = await self._set_aside(f"job-{error}")
                self._log.warning("state_of_another_job", file=str(self.path), renamed=aside, other=str(error))
            except Damaged as error:
                await self._damaged(error)
        raise sqlite3.OperationalError("a new file cannot be used either")

    async def _damaged(self, error: Exception) -> None:
        aside = await self._set_aside("damaged")
        self._log.warning("state_damaged", file=str(self.path), renamed=aside, reason=str(error))

    async def _set_aside(self, word: str) -> str:
        self._open = False
        return str(await self._call(partial(self._store.set_aside, word)))

    async def save(self, now: float, parts: Mapping[str, str | None]) -> bool:
        """Commit what has changed, unless the last attempt has failed a moment ago. Returns True: decisions go on."""
        self._unsaved |= {name: text for name, text in parts.items() if text is None or self._written.get(name) != text}
        if now < self.again and not (self._counters.durable and self._unsaved):
            return True
        try:
            if self._thread.busy and not self._counters.durable:  # it hangs
                raise TimeoutError
            if not self._open:
                await self._reopen()
            writing = dict(self._unsaved)
            await self._call(partial(self._store.write, writing))
        except Removed as error:
            self._open = False
            self._unsaved = {**error.parts, **self._unsaved}
            self._failed(now, error)
            self.again = now
            return await self.save(now, {})
        except (ConfigError, OSError, sqlite3.Error, TimeoutError, NodeError) as error:
            self._failed(now, error)
            return True
        self.again = now + LOOK_S
        self._unsaved.clear()
        for name, value in writing.items():
            if value is None:
                self._written.pop(name, None)
            elif name in UNMARKED:
                self._written[name] = value
        if not self._counters.durable:
            self._counters.durable = True
            self._log.info("state_durable", file=str(self._store.path))
        return True

    def move(self, then: float, now: float) -> None:
        """Take note that the clock has moved: the pause after a failure moves with it."""
        self.again += now - then

    async def close(self) -> None:
        """Close the file. A failure is one line in the log: what is committed stays so."""
        try:
            await self._thread.end(self._store.close, self.patience)
        except (sqlite3.Error, TimeoutError) as error:
            self._failed(0.0, error)

    @property
    def path(self) -> Path:
        """The file."""
        return self._store.path

    async def _reopen(self) -> None:
        """Open the file late. It holds nothing newer than what is in memory."""
        held = await self._opened()
        self._unsaved = {**dict.fromkeys(held), **self._written, **self._unsaved}

    async def _call(self, work: Callable[[], T]) -> T:
        return await self._thread.call(work, self.patience)

    def _failed(self, now: float, error: Exception) -> None:
        self.again = now + AGAIN_S
        self._counters.store_failures += 1
        if self._counters.durable:
            self._counters.durable = False
            reason = str(error) or f"no answer within {self.patience:g} s"
            self._log.error("state_not_stored", file=str(self._store.path), reason=reason)


def decision_part(number: int, decision: DecisionView | None) -> tuple[str, str | None]:
    """A decision of the history as a part of the state."""
    return f"decision/{number}", None if decision is None else to_text(decision)


def read_decisions(parts: Mapping[str, str]) -> list[DecisionView]:
    """The decisions among the parts of a state.

    Raises:
        ConfigError: one cannot be read.
    """
    kept = ((name, text) for name, text in parts.items() if name.startswith("decision/"))
    try:
        return [from_plain(DecisionView, json_value(text), name) for name, text in kept]
    except ValueError as error:
        raise ConfigError(f"stored decisions: {error}") from None


class Damaged(TaskdNetError):
    """The file is no state of a Manager; the text says why."""


class OtherJob(TaskdNetError):
    """The file is that of another job, whose id is the text."""


class Removed(TaskdNetError):
    """The file that was opened is no longer at its path.

    Attributes:
        parts: all that was committed to it.
    """

    def __init__(self, parts: dict[str, str]) -> None:
        super().__init__("the file was removed, or another one is in its place")
        self.parts = parts


class Store:
    """The state file of one job. Its methods block, and run in one thread at a time.

    Args:
        path: the file; made if it is missing, with its folder.
        job_id: the job.
    """

    def __init__(self, path: str | Path, job_id: str) -> None:
        self.path = Path(path).absolute()
        self._job_id = job_id
        self._connection: sqlite3.Connection | None = None
        self._files: list[tuple[int, int]] = []

    def open(self) -> dict[str, str]:
        """Open the file, and read all parts. One that is open is closed first.

        Raises:
            NewerRelease: a newer release has written it.
            ConfigError: another process uses it.
            OtherJob, Damaged: it is to be set aside.
            OSError, sqlite3.Error: it cannot be read or written.
        """
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=0.0, isolation_level=None, check_same_thread=False)
        try:
            parts = self._read(connection)
            files = self._in_place()
        except sqlite3.OperationalError as error:
            connection.close()
            if "locked" in str(error):
                raise ConfigError(f"state is '{self.path}'; another process uses this file") from None
            raise
        except sqlite3.DatabaseError as error:
            connection.close()
            raise Damaged(str(error)) from None
        except BaseException:
            connection.close()
            raise
        self._connection, self._files = connection, files
        return parts

    def _in_place(self) -> list[tuple[int, int]]:
        """The identities of the file and of its log; without those that are missing."""
        found = []
        for path in (self.path, self.path.with_name(f"{self.path.name}-wal")):
            with suppress(FileNotFoundError, NotADirectoryError):
                status = path.stat()
                found.append((status.st_dev, status.st_ino))
        return found

    def _read(self, connection: sqlite3.Connection) -> dict[str, str]:
        # One process alone, so no memory is shared through a file, which network file systems cannot do.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        ((schema,),) = connection.execute("PRAGMA user_version")
        if schema > FILE_SCHEMA:
            text = f"schema {schema}, of a newer release; this one reads up to {FILE_SCHEMA}"
            raise NewerRelease(f"state is '{self.path}', which has {text}")
        if (said := connection.execute("PRAGMA quick_check(1)").fetchone()) != ("ok",):
            raise Damaged(str(said and said[0]))
        if mode != "wal":
            raise sqlite3.OperationalError(f"the journal is {mode}; expected wal")
        # A file that has its tables is not written here: a Manager whose disk is full goes on from it.
        if schema < FILE_SCHEMA:
            connection.execute("BEGIN IMMEDIATE")
            for table in _TABLES:
                connection.execute(table)
            connection.execute("INSERT OR IGNORE INTO about VALUES ('job', ?)", (self._job_id,))
            connection.execute(f"PRAGMA user_version = {FILE_SCHEMA}")
            connection.execute("COMMIT")
        ((job,),) = connection.execute("SELECT value FROM about WHERE key = 'job'")
        if job != self._job_id:
            raise OtherJob(job)
        return self._parts(connection)

    def _parts(self, connection: sqlite3.Connection) -> dict[str, str]:
        return dict(connection.execute("SELECT name, value FROM part").fetchall())

    def write(self, parts: Mapping[str, str | None]) -> None:
        """Commit parts; None removes one. Without parts, look whether the file is in its place.

        Raises:
            Removed: the file is not in its place.
            OSError, sqlite3.Error: nothing was written.
        """
        connection = self._connection
        if connection is None:
            raise sqlite3.OperationalError("the file is not open")
        if self._in_place() != self._files:
            raise Removed(self._parts(connection))
        if not parts:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            gone = [(name,) for name, value in parts.items() if value is None]
            connection.executemany("DELETE FROM part WHERE name = ?", gone)
            kept = [(name, value) for name, value in parts.items() if value is not None]
            connection.executemany("INSERT OR REPLACE INTO part VALUES (?, ?)", kept)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # some errors have ended it
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def set_aside(self, word: str) -> Path:
        """Rename the file, which is closed; returns its new path, with this word and a number at its end."""
        self.close()
        word = re.sub(r"[^A-Za-z0-9_.-]", "_", word)[:64]
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.{word}-{number}")).exists():
            number += 1
        for suffix in _SUFFIXES:
            part = self.path.with_name(self.path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        return aside
