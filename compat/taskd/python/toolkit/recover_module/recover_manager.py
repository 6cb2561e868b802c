"""The client of ClusterD."""

from taskd_net.job.clusterd import (
    DLRecoverManager,
    report_process_fault,
    report_recover_status,
    report_recover_strategy,
    report_stop_complete,
)
from taskd_net.job.clusterd.launcher import init_grpc_client
from taskd_net.net.wire import recover_pb2 as pb

__all__ = [
    "DLRecoverManager",
    "init_grpc_client",
    "pb",
    "report_process_fault",
    "report_recover_status",
    "report_recover_strategy",
    "report_stop_complete",
]
