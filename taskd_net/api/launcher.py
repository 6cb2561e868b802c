"""The client of ClusterD of a launcher, by the platform's variables."""

from __future__ import annotations

import os
from typing import Final

from taskd_net.api.arguments import ENVIRONMENT
from taskd_net.codes import ConfigError
from taskd_net.manager.config import CLUSTERD_VARIABLES
from taskd_net.recover import DLRecoverManager, pb

JOB: Final = "MINDX_TASK_ID"
ROLE: Final = "master agent"


def init_grpc_client(frame: str = "pytorch") -> None:
    """Become ClusterD's client for the job of this process, and carry out its orders in this thread.

    It returns where recovery is switched off for the job (403).

    Args:
        frame: the training framework, for the log.

    Raises:
        ConfigError: `MINDX_TASK_ID`, or each variable with an address (`MINDX_SERVER_IP` …), is missing.

    Source: TaskD API reference, `recover_manager`.
    """
    job = os.environ.get(JOB)
    if not job:
        raise ConfigError(f"{JOB} is not set; expected the id of the job, in the environment")
    address = clusterd_of_environment()
    if address is None:
        raise ConfigError("MINDX_SERVER_IP is not set; expected the host of ClusterD, in the environment")
    manager = DLRecoverManager(pb.ClientInfo(jobId=job, role=ROLE), address)
    try:
        if manager.init_clusterd():
            manager.start_subscribe(frame)
    finally:
        manager.close()


def clusterd_of_environment() -> str | None:
    """The address of ClusterD in the environment; None where nobody says it."""
    for variable, read in ({f"{ENVIRONMENT}CLUSTERD_ADDR": str} | CLUSTERD_VARIABLES).items():
        if (text := os.environ.get(variable)) and (found := read(text)) is not None:
            return found
    return None
