"""A daemon with a small disk of its own, which a test can fill."""

from __future__ import annotations

import errno
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cli.processes import Daemon

UNSHARE = ("unshare", "--user", "--map-root-user", "--mount")
KIB = 1024


def _may_mount() -> bool:
    """True if a process can have file systems of its own."""
    found = shutil.which("unshare") is not None
    return found and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(
    not _may_mount(), reason="needs mount namespaces, for a disk that is full for one process"
)


class OnSmallDisk(Daemon):
    """A daemon with a file system of its own in a folder.

    Args:
        disk: the folder.
        kib: size of the file system.
        arguments, logs: of the daemon.
        first: a command of the shell that runs before it.
    """

    def __init__(self, disk: Path, kib: int, *arguments: object, logs: Path, first: str = ":") -> None:
        super().__init__(*arguments, logs=logs)  # type: ignore[arg-type]
        self._disk = disk
        script = f'mount -t tmpfs -o size={kib}k tmpfs {disk} && {first} && exec "$0" -m taskd_net.cli "$@"'
        command = [*UNSHARE, "sh", "-c", script]
        self.program = ("-c", f"import os, sys; os.execvp('unshare', {command!r} + [sys.executable] + sys.argv[1:])")

    @property
    def disk(self) -> Path:
        """The folder, as the daemon sees it."""
        return Path(f"/proc/{self.pid}/root{self._disk}")

    def fill(self) -> None:
        """Leave no room."""
        with (self.disk / "ballast").open("wb", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(KIB))
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017 - it has to come
