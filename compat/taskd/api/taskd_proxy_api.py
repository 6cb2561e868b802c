"""The calls of a Proxy."""

from taskd_net.job.api import destroy_taskd_proxy, init_taskd_proxy

__all__ = ["destroy_taskd_proxy", "init_taskd_proxy"]
