"""The command `taskd-net`. One module (or package) per command; `group` is the list of them."""

from __future__ import annotations

import io
import os
import sys

from taskd_net.base import standard_files
from taskd_net.base.environment import silence


def main() -> None:
    """Run the command line; without the `cli` extra, say in one line how to install it and exit with 1."""
    _open_standard_files()
    if sys.argv[1:2] != ["run"]:  # whose training scripts would inherit it
        silence()
    try:
        import rich  # noqa: F401 - the commands import it, each with its first use

        from taskd_net.cli.group import group
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("click", "rich"):
            raise
        sys.exit(f"taskd-net needs {missing}, which is not installed. Install it with: pip install 'taskd-net[cli]'")
    group(prog_name="taskd-net")


def _open_standard_files() -> None:
    """Have all three standard files, and texts for them that quoting cannot break."""
    standard_files.open_missing()
    # Python's objects for files that were closed at its start are None.
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    # Arguments and variables may hold bytes that are no text; quoting them must not fail.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
