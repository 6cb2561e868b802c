"""The client of ClusterD in Elastic-Agent's form (Elastic-Agent API reference)."""

from taskd_net.job import clusterd
from taskd_net.job.clusterd import (
    pb,
    report_process_fault,
    report_recover_status,
    report_recover_strategy,
    report_stop_complete,
)
from taskd_net.job.clusterd.blocking import Info

__all__ = [
    "DLRecoverManager",
    "pb",
    "report_process_fault",
    "report_recover_status",
    "report_recover_strategy",
    "report_stop_complete",
]


class DLRecoverManager(clusterd.DLRecoverManager):
    """The client of `taskd_net.job.clusterd`, over TLS by default.

    Args:
        info: `pb.ClientInfo` with `ip`, `port`, `taskId` and `role`; today's form is taken too.
        server_addr, secure_conn, cert_path: as of `taskd_net.job.clusterd.DLRecoverManager`.

    Raises:
        ArgumentError, ArgumentTypeError: the job or the role is of no use.
        ConfigError: the address or the file is of no use.

    Source: Elastic-Agent API reference.
    """

    def __init__(self, info: Info, server_addr: str, secure_conn: bool = True, cert_path: str = "") -> None:
        super().__init__(info, server_addr, secure_conn, cert_path)
