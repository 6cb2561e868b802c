"""The calls of a Manager."""

from taskd_net.job.api import init_taskd_manager, start_taskd_manager

__all__ = ["init_taskd_manager", "start_taskd_manager"]
