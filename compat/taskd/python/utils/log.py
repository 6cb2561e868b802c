"""TaskD's log object."""

from taskd_net.job.api.run_log import run_log

__all__ = ["run_log"]
