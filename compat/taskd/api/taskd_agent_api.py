"""The calls of an Agent."""

from taskd_net.job.api import init_taskd_agent, register_func, start_taskd_agent

__all__ = ["init_taskd_agent", "register_func", "start_taskd_agent"]
