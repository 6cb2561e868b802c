"""The client of ClusterD."""

from taskd_net.net.wire import recover_pb2 as pb
from taskd_net.recover import (
    DLRecoverManager,
    report_process_fault,
    report_recover_status,
    report_recover_strategy,
    report_stop_complete,
)
from taskd_net.recover.launcher import init_grpc_client

__all__ = [
    "DLRecoverManager",
    "init_grpc_client",
    "pb",
    "report_process_fault",
    "report_recover_status",
    "report_recover_strategy",
    "report_stop_complete",
]
