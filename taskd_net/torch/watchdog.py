"""torch's watchdog (`TORCHELASTIC_ENABLE_FILE_TIMER`), which ends a worker whose timer has expired, and that alone.

torch's own ends the agent after it, as one failed worker is the end of all of them there. Here the Agent lives, and
reports the worker to the Manager.
"""

from __future__ import annotations

import os
from typing import Final

from torch.distributed.elastic.timer import FileTimerServer

from taskd_net.base.logger import late_logger

log: Final = late_logger()


class Watchdog(FileTimerServer):
    """The watchdog of a node's workers; arguments are torch's."""

    def _reap_worker(self, worker_pid: int, signal: int) -> bool:
        if worker_pid == os.getpid():
            return True
        log.error("timer_expired", pid=worker_pid, signal=signal)
        ended: bool = super()._reap_worker(worker_pid, signal)
        return ended
