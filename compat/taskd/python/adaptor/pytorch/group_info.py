"""The groups of ranks of a training."""

from taskd_net.job.api.group_info import dump_group_info

__all__ = ["dump_group_info"]
