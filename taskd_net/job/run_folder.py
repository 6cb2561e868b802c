"""The folder of a run: the state of the Manager that a launcher starts, kept for the launcher's next start.

It lies by the id of the job and the address of its Mgr in a folder of this user's alone, below the folder for temporary
files. That is one place for all sessions of a user; XDG_RUNTIME_DIR is another one in a session than in a service, and
goes with the last session. A start of the machine ends every run.

A run lives while its launcher says so, and for some time after: its other nodes wait for the return of this one so
long. A start meanwhile goes on with the state. Any other start, or one with another size, begins clean.
"""

from __future__ import annotations

import fcntl
import math
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple

from taskd_net.base.bounded_file import read_file
from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import natural

KEEP_S: Final = 10.0
"""Seconds between two words of a launcher that the run lives."""

FORGOTTEN_S: Final = 86_400.0
"""Seconds after which the folder of another run is removed: nobody waits longer for a node."""

LOCK_S: Final = 5.0
"""Seconds for other starts to look at the folder. Each takes milliseconds."""

LOCK_AGAIN_S: Final = 0.01
"""Seconds between two tries."""

ALIVE: Final = "alive"
"""Name of the file that says when the run lived last."""

_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")
"""The id of this start of the machine, in which the clock below counts."""

_MOST: Final = 2**40
_BYTES: Final = 256
_READ_S: Final = 2.0


class RunFolder:
    """The folder of a run.

    Args:
        job_id: of the job; empty for none.
        address: of its Mgr.
        size: of the job. A run of another size is another run.
        wait: seconds for which a run lives after its launcher.

    Attributes:
        path: the folder. It is there, with the state of a run that lives, or empty.

    Raises:
        ConfigError: the folder of this user is somebody else's, or cannot be made.
    """

    def __init__(self, job_id: str, address: str, size: str, wait: float) -> None:
        users = users_folder()
        self.path = users / sha256(f"{address} {job_id}".encode()).hexdigest()[:32]
        self._size = size
        try:
            with _locked(users):
                self._begin(users, wait)
        except OSError as error:
            raise ConfigError(f"the folder of the run cannot be made: {error}") from None

    def _begin(self, users: Path, wait: float) -> None:
        """Remove what is over, and make the folder.

        Raises:
            OSError: of the file system.
        """
        for path in users.iterdir():
            last = _last(path)
            if path == self.path:
                over = last is None or last.size != self._size or last.seconds > wait + KEEP_S
            else:
                over = last is not None and last.seconds > FORGOTTEN_S
            if over:
                shutil.rmtree(path, ignore_errors=True)
        self.path.mkdir(mode=0o700, exist_ok=True)
        self.keep()

    def keep(self) -> None:
        """Say that the run lives.

        Raises:
            OSError: of the file system.
        """
        written = self.path / f"{ALIVE}.new"
        written.write_text(f"{_boot()} {int(_clock())} {self._size}\n")
        written.replace(self.path / ALIVE)

    def remove(self) -> None:
        """The run is over: the next one begins clean."""
        shutil.rmtree(self.path, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one start at a time look at the folder: one of two at once would remove the folder that the other has made.

    Raises:
        OSError: of the file system, or another start has held it for `LOCK_S`.
    """
    give_up_at = time.monotonic() + LOCK_S
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= give_up_at:
                    raise
                time.sleep(LOCK_AGAIN_S)
        yield
    finally:
        os.close(descriptor)


class Last(NamedTuple):
    """The last word of a run.

    Args:
        seconds: since then.
        size: of the job.
    """

    seconds: float
    size: str


def _last(path: Path) -> Last | None:
    """The last word of a run; None where it has none that can be read."""
    try:
        boot, at, size = read_file(path / ALIVE, _BYTES, _READ_S, regular=True).data.decode().split()
    except (OSError, ValueError):
        return None
    seconds = natural(at, _MOST)
    if seconds is None:
        return None
    return Last(_clock() - seconds if boot == _boot() else math.inf, size)


def users_folder() -> Path:
    """The folder of this user for all runs.

    Raises:
        ConfigError: it is somebody else's, open to others, no folder, or cannot be made.
    """
    path = Path(tempfile.gettempdir()) / f"taskd-net-{os.geteuid()}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        about = path.lstat()
    except FileExistsError:
        raise ConfigError(f"{path} is no folder; remove it, or set TMPDIR") from None
    except OSError as error:
        raise ConfigError(f"the folder of this user cannot be made: {error}; set TMPDIR") from None
    if not stat.S_ISDIR(about.st_mode):
        raise ConfigError(f"{path} is a symlink; remove it, or set TMPDIR")
    if about.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to the user {about.st_uid}; remove it, or set TMPDIR")
    if about.st_mode & 0o077:
        raise ConfigError(f"{path} is open to others, with mode {about.st_mode & 0o777:o}; expected 700")
    return path


def _boot() -> str:
    try:
        return _BOOT.read_text().strip() or "-"
    except OSError:  # a sandbox
        return "-"


def _clock() -> float:
    """Seconds since the start of the machine, which no step of the wall clock moves."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)
