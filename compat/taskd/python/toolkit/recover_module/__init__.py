"""The client of ClusterD."""

from taskd_net.recover import DLRecoverManager

__all__ = ["DLRecoverManager"]
