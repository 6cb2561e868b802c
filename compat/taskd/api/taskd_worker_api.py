"""The calls of a Worker."""

from taskd_net.job.api import destroy_taskd_worker, init_taskd_worker, start_taskd_worker

__all__ = ["destroy_taskd_worker", "init_taskd_worker", "start_taskd_worker"]
