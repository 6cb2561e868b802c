"""The client of ClusterD on the first node of a job without a Manager."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from taskd_net import threads
from taskd_net.api.launcher import JOB, ROLE, clusterd_of_environment
from taskd_net.codes import NodeError, TaskdNetError
from taskd_net.logger import late_logger
from taskd_net.recover import DLRecoverManager, pb
from taskd_net.recover.controller import Controller

log: Final = late_logger()

LEAVE_S: Final = 2.0
"""Seconds that the end of a launcher waits for a controller that does not return."""


class Clusterd:
    """The client, in a thread of its own from its first start on.

    Args:
        job_id: id of the job.
        address: of ClusterD.
        framework: `mindspore` or `pytorch`.
        controller: of the training framework; None for MindIO's, where it is installed.
    """

    def __init__(self, job_id: str, address: str, framework: str, controller: Controller | None = None) -> None:
        self._info = pb.ClientInfo(jobId=job_id, role=ROLE)
        self._address = address
        self._framework = framework
        self._controller = controller
        self._manager: DLRecoverManager | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def of_environment(cls, framework: str, controller: Controller | None = None) -> Clusterd | None:
        """The client for the job and the address in the environment; None, with one line, where one is missing."""
        job_id = os.environ.get(JOB, "")
        address = clusterd_of_environment()
        if job_id and address:
            return cls(job_id, address, framework, controller)
        log.info("no_clusterd", reason=f"it needs {JOB} and a variable with its address, such as MINDX_SERVER_IP")
        return None

    def start(self, killed: Callable[[], None]) -> None:
        """Start the client; a second time, the controller anew.

        Args:
            killed: called when ClusterD has sent killMaster.
        """
        try:
            if self._manager is None:
                manager = DLRecoverManager(self._info, self._address, controller=self._controller, killed=killed)
                try:
                    self._thread = threads.start(partial(self._run, manager), "clusterd", application=True)
                except NodeError:
                    manager.close()
                    raise
                self._manager = manager
            else:
                self._manager.restart_controller()
        except (TaskdNetError, ValueError, TypeError) as error:
            # A job trains without its recovery, too.
            log.error("clusterd_failed", reason=str(error))

    def close(self) -> None:
        """End the client and the controller."""
        if self._manager is not None and self._thread is not None:
            self._manager.close()
            self._thread.join(LEAVE_S)

    def _run(self, manager: DLRecoverManager) -> None:
        try:
            if manager.init_clusterd():
                manager.start_subscribe(self._framework)
            else:
                log.info("no_clusterd", reason="recovery is switched off for the job")
        except TaskdNetError as error:
            log.info("clusterd_ended", reason=str(error))
