"""Settings of msrun's launcher, from the environment."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import shown
from taskd_net.job import arguments
from taskd_net.job.frameworks.mindspore.plans import MindSporePlans

RESTART_PAUSE_S: Final = 60.0
"""Seconds between the end of all MindSpore workers and their start on a node with NPUs, as TaskD's Agents wait: the
devices are freed meanwhile."""

RESTART_RANKS_PAUSE_S: Final = 15.0
"""The same where only some ranks are started again, at most."""

FINISH_PAUSE_S: Final = 10.0
"""Seconds between the end of a node's last MindSpore worker and the Agent's, as TaskD's Agents wait."""

RESTART_PAUSE: Final = "TASKD_NET_RESTART_PAUSE"
FINISH_PAUSE: Final = "TASKD_NET_FINISH_PAUSE"
MSRUN: Final = "TASKD_NET_MSRUN"
DEVICES: Final = Path("/dev")


def restart_pause() -> float:
    """Seconds between the end of all MindSpore workers and their start.

    Raises:
        ConfigError: `TASKD_NET_RESTART_PAUSE` is no number of seconds.
    """
    has_npu = any(DEVICES.glob("davinci[0-9]*"))
    return arguments.seconds_of_environment(RESTART_PAUSE, RESTART_PAUSE_S if has_npu else 0.0)


def msrun_takes_plugin() -> bool:
    """True where `TASKD_NET_MSRUN` is `plugin`: the job has no Manager, and msrun is to take MSRunPlugin.

    Raises:
        ConfigError: it is neither `agent` nor `plugin`.
    """
    choice = os.environ.get(MSRUN, "").strip().lower() or "agent"
    if choice not in ("agent", "plugin"):
        raise ConfigError(f"{MSRUN} is {shown(choice)}; expected agent or plugin")
    return choice == "plugin"


def plans() -> MindSporePlans:
    """The plans for MindSpore's workers, with the times of the environment.

    Raises:
        ConfigError: a variable is no number of seconds.
    """
    pause = restart_pause()
    finish = arguments.seconds_of_environment(FINISH_PAUSE, FINISH_PAUSE_S)
    return MindSporePlans(pause, min(pause, RESTART_RANKS_PAUSE_S), finish)
