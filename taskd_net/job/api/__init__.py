"""The calls of TaskD's Python API for a training process, a launcher, a node and a job (docs/contract.md, section 7).

They return whether they have done what they were asked for. None raises, and each failure is one line in the log.
Every call returns within a bounded time, except `start_taskd_agent` and `start_taskd_manager`, which block while the
job runs. All may be called from any thread, and again after the `destroy_…` of the same role.

Read first: `worker.py`, `agent.py`, `proxy.py` and `manager.py`, a role each. `watcher.py`
is for a process that watches devices. The room imports all of `job`, `node` and what is below them.
"""

from typing import TYPE_CHECKING

from taskd_net.base.exports import late

if TYPE_CHECKING:
    from taskd_net.base.body import Body
    from taskd_net.job.api.agent import destroy_taskd_agent, init_taskd_agent, register_func, start_taskd_agent
    from taskd_net.job.api.manager import (
        Report,
        destroy_taskd_manager,
        init_taskd_manager,
        last_reports,
        start_taskd_manager,
    )
    from taskd_net.job.api.proxy import destroy_taskd_proxy, init_taskd_proxy
    from taskd_net.job.api.watcher import DeviceWatcher
    from taskd_net.job.api.worker import (
        destroy_taskd_worker,
        init_taskd_worker,
        register_handler,
        send_to_manager,
        start_taskd_worker,
    )
    from taskd_net.job.worker.worker import Command

__all__ = [
    "Body",
    "Command",
    "DeviceWatcher",
    "Report",
    "destroy_taskd_agent",
    "destroy_taskd_manager",
    "destroy_taskd_proxy",
    "destroy_taskd_worker",
    "init_taskd_agent",
    "init_taskd_manager",
    "init_taskd_proxy",
    "init_taskd_worker",
    "last_reports",
    "register_func",
    "register_handler",
    "send_to_manager",
    "start_taskd_agent",
    "start_taskd_manager",
    "start_taskd_worker",
]

_HOMES = {
    "taskd_net.job.api.agent": ("destroy_taskd_agent", "init_taskd_agent", "register_func", "start_taskd_agent"),
    "taskd_net.job.api.manager": (
        "Report",
        "destroy_taskd_manager",
        "init_taskd_manager",
        "last_reports",
        "start_taskd_manager",
    ),
    "taskd_net.job.api.proxy": ("destroy_taskd_proxy", "init_taskd_proxy"),
    "taskd_net.job.worker.worker": ("Command",),
    "taskd_net.job.api.worker": (
        "destroy_taskd_worker",
        "init_taskd_worker",
        "register_handler",
        "send_to_manager",
        "start_taskd_worker",
    ),
    "taskd_net.job.api.watcher": ("DeviceWatcher",),
    "taskd_net.base.body": ("Body",),
}

if not TYPE_CHECKING:  # a type checker would take any name for one that is here
    # A process has one role or two, and the parts of a Manager are most of the package.
    __getattr__ = late(globals(), _HOMES)
