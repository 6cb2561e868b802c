"""The folder of the ConfigMap `mindx-dl-fault-config`, as Kubernetes mounts it or as a person writes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Final

from taskd_net.base.bounded_file import read_file
from taskd_net.job.faults import editions
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.reload import Reload, Reloaded
from taskd_net.job.faults.rules import FILES, FaultRules
from taskd_net.job.manager.watching import LOOK_S, follow

_LINK: Final = "..data"
"""The link that Kubernetes leads to another folder, to change all files of a volume at once."""


def read_folder(folder: str | Path) -> dict[str, bytes]:
    """The bytes of the files in a folder, by their names; missing files are left out.

    All files are of one version of a volume of Kubernetes.

    Raises:
        OSError: the folder is missing, or a file cannot be read.
        ValueError: a file is larger than `editions.FILE_BYTES`, or cannot be read to its end in time.
    """
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"{path} is no folder")
    for _ in range(editions.FOLDER_READS):
        version = _version(path)
        files = {name: data for name in FILES if (data := _read(path / version / name)) is not None}
        if _version(path) == version:
            return files
    raise OSError(f"{path} changes while it is read")


def _version(folder: Path) -> str:
    try:
        return os.readlink(folder / _LINK)  # noqa: PTH115 - the text, which is compared
    except OSError:
        return ""


def _read(path: Path) -> bytes | None:
    try:
        return read_file(path, editions.FILE_BYTES, editions.FILE_READ_S).data
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


class FaultFolder:
    """The rules of a folder that may change.

    Args:
        folder: with the files.
        edition: by which they are read.
        linkdown_timeout: default of the documented FaultTimeout, in seconds.
        watch: a change that the file system tells of counts at once; else at the next period.
        log: takes the lines.

    Attributes:
        files: the bytes of the last good files, by their names.
    """

    def __init__(
        self,
        folder: str,
        log: Any,
        edition: Edition = Edition.DOCUMENTED,
        linkdown_timeout: int = editions.LINKDOWN_TIMEOUT.default or 0,
        *,
        watch: bool = True,
    ) -> None:
        self._folder = folder
        self._log = log
        self._edition = edition
        self._watch = watch
        self._reload = Reload(edition, linkdown_timeout)
        self.files: Mapping[str, bytes] = {}

    async def follow(self, take: Callable[[FaultRules], None], every: float = LOOK_S) -> None:
        """Read the files at once, and when they change, without end, in a thread of its own.

        Args:
            take: is called with the rules of each good change, in the thread that awaits.
            every: seconds between two looks without a change.
        """
        path = str(Path(self._folder) / FILES[0])
        await follow(path, self.look, take, tells=self._watch, every=every)

    def look(self, told: bool = True) -> FaultRules | None:
        """Look at the files. It blocks for a bounded time.

        Args:
            told: the file system tells of a change; else they are read if the period is over.

        Returns:
            Their rules if they have changed and are good; else None.
        """
        now = monotonic()
        if now < self._reload.due and not (told and self._watch):
            return None
        try:
            seen: dict[str, bytes] | str = read_folder(self._folder)
        except (OSError, ValueError) as error:
            seen = str(error)
        reloaded = self._reload.look(seen, now)
        if reloaded is None:
            return None
        self._say(reloaded)
        if reloaded.rules is not None and not isinstance(seen, str):
            self.files = seen
        return reloaded.rules

    def _say(self, reloaded: Reloaded) -> None:
        shown = reloaded.problems[: editions.PROBLEMS_LOGGED]
        for problem in shown:
            self._log.warning("fault_file_problem", folder=self._folder, problem=str(problem))
        if len(reloaded.problems) > len(shown):
            more = len(reloaded.problems) - len(shown)
            self._log.warning("fault_file_problems", folder=self._folder, more=more, all="taskd-net faults check")
        rules = reloaded.rules
        if rules is None:
            reason = reloaded.reason
            self._log.error(
                "handling 'mindx-dl-fault-config' configmap change failed", folder=self._folder, reason=reason
            )
            return
        fields = {
            "folder": self._folder,
            "edition": self._edition.value,
            "codes": len(rules.codes),
            "frequency_rules": len(rules.frequency),
            "duration_rules": len(rules.duration),
        }
        # The last word is that of the device plugin of each edition.
        if self._edition is Edition.CURRENT:
            self._log.info("handling 'mindx-dl-fault-config' configmap change complete", **fields)
        else:
            self._log.info("handling 'mindx-dl-fault-config' configmap change succeed", **fields)
