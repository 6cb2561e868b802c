"""The client of ClusterD of a launcher, by the platform's variables: on the first node of a job without a Manager."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from taskd_net.base import threads
from taskd_net.base.codes import ConfigError, NodeError, TaskdNetError
from taskd_net.base.logger import late_logger
from taskd_net.job.clusterd.blocking import DLRecoverManager
from taskd_net.job.clusterd.controller import Controller
from taskd_net.job.clusterd.pb import ClientInfo
from taskd_net.job.clusterd.place import clusterd_of_environment

log: Final = late_logger()

JOB: Final = "MINDX_TASK_ID"
ROLE: Final = "master agent"

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
        self._info = ClientInfo(jobId=job_id, role=ROLE)
        self._address = address
        self._framework = framework
        self._controller = controller
        self._manager: DLRecoverManager | None = None
        self._thread: threading.Thread | None = None

    @classmethod
    def of_environment(cls, framework: str, controller: Controller | None = None) -> Clusterd | None:
        """The client for the job and the address in the environment; None, with one line, where one is missing."""
        try:
            return cls(*_of_environment(), framework, controller)
        except ConfigError as error:
            log.info("no_clusterd", reason=str(error))
            return None

    def start(self, killed: Callable[[], None] | None = None) -> None:
        """Start the client; a second time, the controller anew. A client that has ended starts again.

        Args:
            killed: called when ClusterD has sent killMaster; None for nothing.
        """
        try:
            if self._manager is None or self._thread is None or not self._thread.is_alive():
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
        finally:
            manager.close()


def init_grpc_client(frame: str = "pytorch") -> None:
    """Become ClusterD's client for the job of this process, and carry out its orders in a thread of its own.

    It returns at once, and raises nothing: a launcher goes on without a client. One line in the log says why there is
    none: a variable is missing, or recovery is switched off for the job (403).

    Args:
        frame: the training framework, for the log.

    Source: TaskD API reference, `recover_manager`.
    """
    client = Clusterd.of_environment(frame)
    if client is not None:
        client.start()


def made_of_environment() -> DLRecoverManager:
    """A client for the job and the address in the environment.

    Raises:
        ConfigError: `MINDX_TASK_ID`, or each variable with an address (`MINDX_SERVER_IP` …), is missing.
    """
    job_id, address = _of_environment()
    return DLRecoverManager(ClientInfo(jobId=job_id, role=ROLE), address)


def _of_environment() -> tuple[str, str]:
    """The job and the address of ClusterD."""
    job_id = os.environ.get(JOB)
    if not job_id:
        raise ConfigError(f"{JOB} is not set; expected the id of the job, in the environment")
    address = clusterd_of_environment()
    if address is None:
        raise ConfigError("MINDX_SERVER_IP is not set; expected the host of ClusterD, in the environment")
    return job_id, address
