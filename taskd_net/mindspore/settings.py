"""The times of a launcher, from the environment."""

from __future__ import annotations

from typing import Final

from taskd_net import job_limits
from taskd_net.api.agent_settings import FINISH_PAUSE, restart_pause
from taskd_net.api.arguments import seconds_of_environment
from taskd_net.mindspore.machine import Times

START_WAIT: Final = "TASKD_NET_START_WAIT"
REPLACE_WAIT: Final = "TASKD_NET_REPLACE_WAIT"
FAILURE_PAUSE: Final = "TASKD_NET_FAILURE_PAUSE"
EXIT_WAIT: Final = "TASKD_NET_EXIT_WAIT"


def times_of_environment() -> Times:
    """The times in the environment, or their defaults.

    Raises:
        ConfigError: a variable is no number of seconds.
    """
    return Times(
        look=job_limits.LAUNCHER_LOOK_S,
        gate_look=job_limits.RESET_LOOK_AGAIN_S,
        gate=seconds_of_environment(START_WAIT, job_limits.RESET_START_S),
        restart=restart_pause(),
        replace=seconds_of_environment(REPLACE_WAIT, job_limits.REPLACE_S),
        failed=seconds_of_environment(FAILURE_PAUSE, job_limits.FAILURE_PAUSE_S),
        finish=seconds_of_environment(FINISH_PAUSE, job_limits.FINISH_PAUSE_S),
        grace=seconds_of_environment(EXIT_WAIT, job_limits.GRACE_EXIT_S),
    )
