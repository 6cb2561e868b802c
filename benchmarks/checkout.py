"""The package of another checkout: out of git's history, and in benchmarks of this one that run with it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Final

HERE = Path(__file__).resolve().parents[1]

# The package is imported first, as both checkouts have benchmarks.
_RUN = """
import runpy, sys
tree, here, module = sys.argv[1:4]
sys.path[0] = tree
import taskd_net
assert taskd_net.__file__.startswith(tree), taskd_net.__file__
sys.path[0] = here
sys.argv[:4] = [module]
runpy.run_module(module, run_name="__main__")
"""


ROOMS: Final = {
    r"job\.decide": "jobs",
    r"job\.clusterd": "recover",
    r"job\.keep": "etcd",
    r"net\.joining": "transport",
    r"node\.node": "node",
    r"(?:base|faces|job|net|node)\.": "",
    r"(?:base|faces|job|net|node)(?= import)": "",
}
"""Rooms of the package, as patterns, with their names in a checkout before there were rooms. The first match counts."""

_ROOM: Final = re.compile(r"\btaskd_net\.(?:" + "|".join(f"({room})" for room in ROOMS) + ")")


def before_rooms(text: str) -> str:
    """The text of a benchmark with the names that modules had before there were rooms."""

    def name(found: re.Match[str]) -> str:
        assert found.lastindex is not None
        return f"taskd_net.{list(ROOMS.values())[found.lastindex - 1]}"

    return _ROOM.sub(name, text).replace("taskd_net. import", "taskd_net import")


def extract(commit: str, folder: Path) -> None:
    """Put the package of a commit into a folder, out of git's history.

    Args:
        commit: any name that git has for it.
        folder: gets the folder `taskd_net`.

    Raises:
        LookupError: the history of this checkout has no such commit, as that of an archive or a shallow clone.
    """
    archive = subprocess.run(["git", "archive", commit, "taskd_net"], cwd=HERE, capture_output=True, check=False)
    if archive.returncode:
        raise LookupError(f"commit is {commit}; the history of this checkout has none: {archive.stderr.decode()}")
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")


def run(tree: Path, module: str, *arguments: str) -> str:
    """Run a benchmark in a process of its own.

    Args:
        tree: the checkout whose package is measured.
        module: the benchmark, a module of this checkout.
        arguments: its command line.

    Returns:
        The standard output.

    Raises:
        CalledProcessError: The benchmark failed; a note of it has the standard error.
    """
    with _benchmarks_for(tree) as here:
        command = [sys.executable, "-c", _RUN, str(tree.resolve()), str(here), module, *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr)
            raise


@contextmanager
def _benchmarks_for(tree: Path) -> Iterator[Path]:
    """A folder with the benchmarks of this checkout, as the package of another one needs them."""
    if (tree / "taskd_net" / "base").exists():
        yield HERE
        return
    with tempfile.TemporaryDirectory() as folder:
        for path in (HERE / "benchmarks").rglob("*.py"):
            copy = Path(folder) / path.relative_to(HERE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(before_rooms(path.read_text()))
        yield Path(folder)
