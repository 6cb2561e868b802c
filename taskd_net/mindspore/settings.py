"""The times of a launcher, from the environment."""

from __future__ import annotations

from typing import Final

from taskd_net.job.agent.agent import GRACE_EXIT_S
from taskd_net.job.arguments import seconds_of_environment
from taskd_net.job.frameworks.mindspore.settings import FINISH_PAUSE, FINISH_PAUSE_S, restart_pause
from taskd_net.mindspore.machine import Times

LOOK_S: Final = 1.0
"""Seconds between two looks of a launcher without a Manager at its workers and the platform's files, as TaskD's."""

RESET_LOOK_AGAIN_S: Final = 5.0
"""Seconds between two looks of such a launcher that must not start its workers yet, as with TaskD's."""

RESET_START_S: Final = 900.0
"""Seconds that such a launcher waits to start its workers, as TaskD's: the reset of a node's devices. Then it leaves
with 1."""

REPLACE_S: Final = 120.0
"""Seconds after a worker's failure for the platform's order to restart it alone, as with TaskD's launcher."""

FAILURE_PAUSE_S: Final = 10.0
"""Seconds between a worker's failure and the end of the others where none is restarted alone, as with TaskD's launcher:
the platform's files may say more meanwhile."""

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
        look=LOOK_S,
        gate_look=RESET_LOOK_AGAIN_S,
        gate=seconds_of_environment(START_WAIT, RESET_START_S),
        restart=restart_pause(),
        replace=seconds_of_environment(REPLACE_WAIT, REPLACE_S),
        failed=seconds_of_environment(FAILURE_PAUSE, FAILURE_PAUSE_S),
        finish=seconds_of_environment(FINISH_PAUSE, FINISH_PAUSE_S),
        grace=seconds_of_environment(EXIT_WAIT, GRACE_EXIT_S),
    )
