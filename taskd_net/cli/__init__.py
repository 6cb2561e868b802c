"""The command `taskd-net`. One module (or package) per command; `group` is the list of them."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; without the `cli` extra, say in one line how to install it and exit with 1."""
    try:
        from taskd_net.cli.group import group
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("click", "rich"):
            raise
        sys.exit(f"taskd-net needs {missing}, which is not installed. Install it with: pip install 'taskd-net[cli]'")
    group(prog_name="taskd-net")
