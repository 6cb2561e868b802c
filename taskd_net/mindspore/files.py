"""The platform's files, read in a thread of their own: a file system that hangs stops no launcher."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Final, Self

from taskd_net.base import threads
from taskd_net.base.bounded_file import read_file
from taskd_net.base.logger import late_logger
from taskd_net.job.manager.changed_file import FILE_BYTES, READ_S
from taskd_net.job.manager.config import RESET_FILE
from taskd_net.mindspore.machine import PlatformFiles

log: Final = late_logger()

VERSION_FILE: Final = "/user/serverid/devindex/config/version"
"""The platform's file with the version of the rank table."""

RESTART_TYPE: Final = "restartType"
"""Name of the file beside the reset file."""

RESET_VARIABLE: Final = "TASKD_NET_RESET_FILE"
VERSION_VARIABLE: Final = "TASKD_NET_RANK_TABLE_VERSION"


@dataclass(frozen=True, slots=True)
class Paths:
    """Places of the platform's files.

    Args:
        reset: `reset.json`; `restartType` is beside it.
        version: the version of the rank table.
    """

    reset: Path = Path(RESET_FILE)
    version: Path = Path(VERSION_FILE)

    @classmethod
    def of_environment(cls) -> Paths:
        """The places in `TASKD_NET_RESET_FILE` and `TASKD_NET_RANK_TABLE_VERSION`, or the platform's own."""
        reset, version = os.environ.get(RESET_VARIABLE), os.environ.get(VERSION_VARIABLE)
        return cls(Path(reset or RESET_FILE), Path(version or VERSION_FILE))

    def by_name(self) -> dict[str, Path]:
        """The places, by the fields of `PlatformFiles`."""
        return {"reset": self.reset, "restart_type": self.reset.with_name(RESTART_TYPE), "version": self.version}


class FilesReader:
    """Reads the files when asked.

    Args:
        paths: their places.
        patience: seconds for an answer of the file system.
    """

    def __init__(self, paths: Paths, patience: float = READ_S) -> None:
        self._patience = patience
        self._paths = paths.by_name()
        self._last = PlatformFiles()
        self._hangs = False
        self._told: dict[str, str] = {}  # reason by file
        self._asked: SimpleQueue[bool] = SimpleQueue()
        self._answers: SimpleQueue[PlatformFiles] = SimpleQueue()
        self._thread = threads.start(self._run, "reads reset files")

    def read(self) -> PlatformFiles:
        """The present content; where the file system does not answer in time, that of the last answer."""
        if not self._hangs:
            self._asked.put(True)
        try:
            self._last = self._answers.get(timeout=self._patience if not self._hangs else 0.001)
            self._hangs = False
        except Empty:
            if not self._hangs:
                log.warning("reset_files_hang", seconds=self._patience)
            self._hangs = True
        return self._last

    def close(self) -> None:
        """End the thread. It is not waited for while the file system hangs."""
        self._asked.put(False)
        if not self._hangs:
            self._thread.join(self._patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        """Read the files each time that it is asked, in the thread of this object."""
        while self._asked.get():
            files = PlatformFiles()
            for name, path in self._paths.items():
                files = replace(files, **{name: self._bytes(path)})
            self._answers.put(files)

    def _bytes(self, path: Path) -> bytes | None:
        """The content of a file; None where it is missing or no plain file."""
        try:
            mode = path.lstat().st_mode
            if not stat.S_ISREG(mode):
                raise OSError(f"it is no plain file, but {_KINDS.get(stat.S_IFMT(mode), 'another kind')}")
            data = read_file(path, FILE_BYTES, self._patience).data
        except (FileNotFoundError, NotADirectoryError):
            self._told.pop(path.name, None)
            return None
        except (OSError, ValueError) as error:
            if self._told.get(path.name) != str(error):
                log.warning("reset_file_unreadable", file=str(path), reason=str(error))
            self._told[path.name] = str(error)
            return None
        self._told.pop(path.name, None)
        return data


_KINDS: Final = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO"}
