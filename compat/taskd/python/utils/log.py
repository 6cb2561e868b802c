"""TaskD's log object, for code that logs beside TaskD's calls (TaskD API reference, "run_log")."""

from __future__ import annotations

from typing import Final

from taskd_net.base import logs

__all__ = ["run_log"]

NAME: Final = "taskd"
FILE: Final = "taskd.log"

run_log: Final = logs.log_of(NAME, FILE)
"""A `logging.Logger` whose lines go to `taskd.log` and to the standard output; docs/api.md has the variables."""
