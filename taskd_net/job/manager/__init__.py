"""The Manager of a job as a part of the Mgr node's process: the shell around `taskd_net.job.decide`.

    config = NodeConfig.mgr(listen="0.0.0.0:9601", confirms=True)
    async with Node(config) as node, Manager(node, ManagerConfig(job_id="J", state="j.sqlite3")) as manager:
        ...

- `runtime` feeds a `Job`, and carries out its outcomes; `dispatch` sends the commands.
- `succession` has one such Manager after another, where the state is in etcd and several processes may lead.
- `keeping` commits the state to a sqlite3 file, `history` has the last decisions, `views` shows it all.
- `loading` finds users' plugins, `guarded` runs each in a thread of its own.
- `changed_file` reads RetryTime, `watching` looks at it and at the profiling switch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from taskd_net.base.exports import late

if TYPE_CHECKING:
    from taskd_net.job.manager.config import ManagerConfig
    from taskd_net.job.manager.runtime import Manager
    from taskd_net.job.manager.succession import Succession

__all__ = ["Manager", "ManagerConfig", "Succession"]

_HOMES = {
    "taskd_net.job.manager.config": ("ManagerConfig",),
    "taskd_net.job.manager.runtime": ("Manager",),
    "taskd_net.job.manager.succession": ("Succession",),
}
__getattr__ = late(globals(), _HOMES)
