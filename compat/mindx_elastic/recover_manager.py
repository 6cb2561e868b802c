"""The client of ClusterD in Elastic-Agent's form."""

from taskd_net.job.clusterd import (
    pb,
    report_process_fault,
    report_recover_status,
    report_recover_strategy,
    report_stop_complete,
)
from taskd_net.job.clusterd.elastic import ElasticRecoverManager as DLRecoverManager

__all__ = [
    "DLRecoverManager",
    "pb",
    "report_process_fault",
    "report_recover_status",
    "report_recover_strategy",
    "report_stop_complete",
]
