"""The state of a job in a sqlite3 file: named parts, committed together.

A commit reaches the operating system, not the disk: it survives the death of the process (kill -9), and a loss of power
costs the last commits at most, never the file. One process at a time uses a file.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from taskd_net.base.codes import ConfigError, TaskdNetError
from taskd_net.job.decide.state import NewerRelease

FILE_SCHEMA: Final = 1
"""Version of the tables; `taskd_net.job.decide.state.SCHEMA` is that of the parts."""

_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS part (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
)
_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")


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
