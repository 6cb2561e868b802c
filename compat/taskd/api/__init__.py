"""The calls of TaskD's Python API."""

from typing import TYPE_CHECKING

from taskd_net.base.exports import late

if TYPE_CHECKING:
    from taskd_net.job.api import (
        destroy_taskd_proxy,
        destroy_taskd_worker,
        init_taskd_agent,
        init_taskd_manager,
        init_taskd_proxy,
        init_taskd_worker,
        register_func,
        start_taskd_agent,
        start_taskd_manager,
        start_taskd_worker,
    )

__all__ = [
    "destroy_taskd_proxy",
    "destroy_taskd_worker",
    "init_taskd_agent",
    "init_taskd_manager",
    "init_taskd_proxy",
    "init_taskd_worker",
    "register_func",
    "start_taskd_agent",
    "start_taskd_manager",
    "start_taskd_worker",
]

if not TYPE_CHECKING:  # a process has one role or two
    __getattr__ = late(globals(), {"taskd_net.job.api": __all__})
