"""The client of ClusterD, which decides on the recovery of a job.

    manager = DLRecoverManager(pb.ClientInfo(jobId="J", role="master agent"), "10.0.0.7:8899")
    if manager.init_clusterd():
        manager.start_subscribe()

Read first: `client.py` (the core in an event loop), `life.py` (its decisions), `blocking.py` (the face for scripts).

- `reports` and `orders` check what goes out and what comes in; `rpcs` lists the methods, `codes` the codes.
- `controller` is the training framework's side, `mindio` one of it.
- `launcher` is the client by the platform's variables, with the documented reports; `place` reads the address in them.

It imports `decide` and what is below `job`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskd_net.base.exports import late

if TYPE_CHECKING:
    from taskd_net.job.clusterd import pb
    from taskd_net.job.clusterd.blocking import DLRecoverManager
    from taskd_net.job.clusterd.client import ClusterdError
    from taskd_net.job.clusterd.codes import Code
    from taskd_net.job.clusterd.controller import Controller, HandlerController, Reports
    from taskd_net.job.clusterd.launcher import (
        report_process_fault,
        report_recover_status,
        report_recover_strategy,
        report_stop_complete,
    )

__all__ = [
    "ClusterdError",
    "Code",
    "Controller",
    "DLRecoverManager",
    "HandlerController",
    "Reports",
    "pb",
    "report_process_fault",
    "report_recover_status",
    "report_recover_strategy",
    "report_stop_complete",
]

_HOMES = {
    "taskd_net.job.clusterd.blocking": ("DLRecoverManager",),
    "taskd_net.job.clusterd.launcher": (
        "report_process_fault",
        "report_recover_status",
        "report_recover_strategy",
        "report_stop_complete",
    ),
    "taskd_net.job.clusterd.client": ("ClusterdError",),
    "taskd_net.job.clusterd.codes": ("Code",),
    "taskd_net.job.clusterd.controller": ("Controller", "HandlerController", "Reports"),
}
__getattr__ = late(globals(), _HOMES, {"pb": "taskd_net.job.clusterd.pb"})
