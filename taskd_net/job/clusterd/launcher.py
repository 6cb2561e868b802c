"""The client of ClusterD of this process, by the platform's variables (TaskD API reference).

A launcher on the first node of a job without a Manager has a `LauncherClient`. The documented reports go through the
`DLRecoverManager` that was made last. Without one, the first report makes one, as TaskD does.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final

from taskd_net.base import threads
from taskd_net.base.codes import ConfigError, NodeError, TaskdNetError
from taskd_net.base.logger import late_logger
from taskd_net.job.clusterd.blocking import DLRecoverManager, last_made
from taskd_net.job.clusterd.controller import Controller, Ranks
from taskd_net.job.clusterd.pb import ClientInfo
from taskd_net.job.clusterd.place import clusterd_of_environment

log: Final = late_logger()

JOB: Final = "MINDX_TASK_ID"
ROLE: Final = "master agent"

LEAVE_S: Final = 2.0
"""Seconds that the end of a launcher waits for a controller that does not return."""


class LauncherClient:
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
    def of_environment(cls, framework: str, controller: Controller | None = None) -> LauncherClient | None:
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
    client = LauncherClient.of_environment(frame)
    if client is not None:
        client.start()


def report_stop_complete(code: int, msg: str, fault_ranks: Ranks) -> int:
    """Report that the training has stopped.

    Args:
        code: 0, or 404 where it has never started, or 499.
        msg: in words.
        fault_ranks: type of fault by global rank: 0 memory, 1 other, 2 network.

    Returns:
        ClusterD's code; 0 is success.

    Raises:
        ArgumentError, ArgumentTypeError: an argument is of no use; nothing is sent.
        ClusterdError: there is no answer; its cause is gRPC's error.
        NodeError: the last `DLRecoverManager` is closed.
        ConfigError: there was none, and a variable with the job or the address is missing.

    Source: TaskD API reference.
    """
    return _client().stop_complete(code, msg, fault_ranks)


def report_recover_strategy(fault_ranks: Ranks, strategy_list: Iterable[str]) -> int:
    """Report the strategies that can be carried out. See `report_stop_complete` for the rest."""
    return _client().strategies(fault_ranks, strategy_list)


def report_recover_status(code: int, msg: str, fault_ranks: Ranks, strategy: str) -> int:
    """Report the end of a strategy: 0; 201 with the ranks to isolate; 405, 406, 407, 499.

    Arguments, result and errors are those of `report_stop_complete`.
    """
    return _client().result(code, msg, fault_ranks, strategy)


def report_process_fault(fault_ranks: Ranks, fault_codes: Mapping[Any, Any] | None = None) -> int:
    """Report a fault that was seen here first. Its codes are not sent: ClusterD's wire has no place for them.

    Arguments, result and errors are those of `report_stop_complete`.
    """
    return _client().fault_ranks(fault_ranks, fault_codes)


def _client() -> DLRecoverManager:
    """The client that was made last, or one for the job and the address in the environment.

    Raises:
        ConfigError: `MINDX_TASK_ID`, or each variable with an address (`MINDX_SERVER_IP` …), is missing.
    """
    if (last := last_made()) is not None:
        return last
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
