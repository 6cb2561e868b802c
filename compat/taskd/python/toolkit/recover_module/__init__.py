"""The client of ClusterD."""

from taskd_net.job.clusterd import DLRecoverManager

__all__ = ["DLRecoverManager"]
