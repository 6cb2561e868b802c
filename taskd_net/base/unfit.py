"""Processes that can have no node, for a reason that their script can change."""

from __future__ import annotations

import sys
from typing import Final

IMPORTS_MAIN: Final = (
    "this child of multiprocessing (spawn, forkserver) imports the main module again; expected the call below "
    '`if __name__ == "__main__":` there'
)
GEVENT: Final = (
    "gevent has replaced the threads and sockets of this process (gevent.monkey), so no thread of a node would run; "
    "expected a process without that"
)


def reason() -> str:
    """Say why this process can have no node now; empty where it can.

    A node at the top level of a main module would begin again in each child that imports it, at the parent's position.
    """
    process = sys.modules.get("multiprocessing.process")
    # The mark by which multiprocessing itself refuses to start processes in the meantime.
    if process is not None and getattr(process.current_process(), "_inheriting", False):
        return IMPORTS_MAIN
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and (monkey.is_module_patched("threading") or monkey.is_module_patched("socket")):
        return GEVENT
    return ""
