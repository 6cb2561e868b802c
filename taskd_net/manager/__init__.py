"""The Manager of a job as a part of the Mgr node's process: the shell around `taskd_net.jobs`.

    async with Node(mgr) as node, Manager(node, ManagerConfig(job_id="J")) as manager:
        async for message in node.messages():
            manager.take(message)

- `runtime` feeds a `Job`, and carries out its outcomes; `dispatch` sends the commands.
- `store` keeps the state in a sqlite3 file, `history` the last decisions and the counters.
- `loading` finds users' plugins, `guarded` runs each in a thread of its own.
- `reset_file` watches RetryTime.
"""

from __future__ import annotations

from taskd_net.manager.config import ManagerConfig
from taskd_net.manager.runtime import Manager

__all__ = ["Manager", "ManagerConfig"]
