"""Installed distributions that share an import package, by their RECORDs.

A wheel cannot declare a conflict. pip installs a distribution over the files of another one, and the removal of either
takes the files of both. So the import packages of TaskD look here with their first import, and `taskd-net doctor
--compat` does on demand.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

COMPAT: Final = "taskd-net-compat"
"""The distribution with the import packages of TaskD and Elastic-Agent."""

PACKAGES: Final = ("taskd", "mindx_elastic")
"""Its import packages."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution.

    Args:
        name: in pip's normal form.
        version: as installed.
        folder: of the import path, in which its files are.
        files: of the import package that was asked for, relative to the folder.
    """

    name: str
    version: str
    folder: Path
    files: tuple[str, ...]

    @property
    def ours(self) -> bool:
        """True for the distribution of this project."""
        return self.name == COMPAT

    @property
    def missing(self) -> list[str]:
        """Files that are installed no more."""
        return [file for file in self.files if not (self.folder / file).exists()]

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def owners(package: str, path: Iterable[str] | None = None) -> list[Distribution]:
    """The installed distributions that have files of an import package, in the order of the import path.

    Args:
        package: a top-level package.
        path: folders to look in. Default: `sys.path`.
    """
    found = []
    folders = dict.fromkeys(Path(entry or ".").resolve() for entry in (sys.path if path is None else path))
    for folder in folders:
        for info in sorted(folder.glob("*.dist-info")):
            if files := _files(info / "RECORD", package):
                name, _, version = info.name.removesuffix(".dist-info").partition("-")
                found.append(Distribution(name.lower().replace("_", "-").replace(".", "-"), version, folder, files))
    return found


def _files(record: Path, package: str) -> tuple[str, ...]:
    """The files of a package in a RECORD, whose lines are `path,hash,size`; none where it cannot be read.

    Compiled files are left out: they come and go.
    """
    begin = f"{package}/"
    try:
        text = record.read_text(errors="replace")
    except OSError:  # a distribution of another installer
        return ()
    if not text.startswith(begin) and f"\n{begin}" not in text:
        return ()
    paths = (line.partition(",")[0] for line in text.splitlines() if line.startswith(begin))
    return tuple(path for path in paths if "/__pycache__/" not in path)


def require_alone(package: str) -> None:
    """Refuse an import package whose files are those of two distributions.

    A distribution in another folder of the import path is a RuntimeWarning, as its files are not in use.

    Args:
        package: one of `PACKAGES`.

    Raises:
        ImportError: another distribution has the package in the same folder; the text names both, and the remedy.
    """
    found = owners(package)
    others = [each for each in found if not each.ours]
    if not others:
        return
    ours = next((each for each in found if each.ours), None)
    if ours is not None and (mixed := [other for other in others if other.folder == ours.folder]):
        raise ImportError(f"{shared(package, ours, mixed)}. {separate(mixed)}", name=package)
    text = f"{COMPAT} is in use for the package {package}; {_named(others)} has it too, in {others[0].folder}"
    warnings.warn(f"{text}. {remove(others)}", RuntimeWarning, stacklevel=3)


def shared(package: str, ours: Distribution, others: Sequence[Distribution]) -> str:
    """The fault of distributions with the same package in one folder."""
    return f"{ours} and {_named(others)} both have the package {package} in {ours.folder}, and overwrite each other"


def separate(others: Sequence[Distribution]) -> str:
    """The remedy for that."""
    return f"Remove both, and install {COMPAT} again: pip uninstall {_names(others)} {COMPAT}"


def remove(others: Sequence[Distribution]) -> str:
    """The remedy for a distribution of others."""
    return f"Remove it: pip uninstall {_names(others)}"


def _named(distributions: Sequence[Distribution]) -> str:
    return ", ".join(map(str, distributions))


def _names(distributions: Sequence[Distribution]) -> str:
    return " ".join(dict.fromkeys(each.name for each in distributions))
