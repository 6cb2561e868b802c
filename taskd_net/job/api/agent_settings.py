"""The times of an Agent, from the environment."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from taskd_net.base.codes import ArgumentError, ConfigError
from taskd_net.base.untrusted import natural, shown
from taskd_net.job.api import arguments
from taskd_net.job.api.member import log
from taskd_net.job.api.plans import MindSporePlans
from taskd_net.job.faults.events import device_name

FAULT_TIMEOUT_S: Final = (300, 600)
"""Least and greatest seconds of `TASKD_REPORT_FAULT_TIMEOUT`; outside it is off, as in TaskD's Agents."""

RESTART_PAUSE_S: Final = 60.0
"""Seconds between the end of all MindSpore workers and their start on a node with NPUs, as TaskD's Agents wait: the
devices are freed meanwhile."""

RESTART_RANKS_PAUSE_S: Final = 15.0
"""The same where only some ranks are started again, at most."""

FINISH_PAUSE_S: Final = 10.0
"""Seconds between the end of a node's last MindSpore worker and the Agent's, as TaskD's Agents wait."""

GRACE_EXIT_S: Final = 600.0
"""Seconds that workers have to end after SIGTERM when the Mgr asks for a graceful exit: time to write a checkpoint."""

FAULT_TIMEOUT: Final = "TASKD_REPORT_FAULT_TIMEOUT"
RESTART_PAUSE: Final = "TASKD_NET_RESTART_PAUSE"
FINISH_PAUSE: Final = "TASKD_NET_FINISH_PAUSE"
MSRUN: Final = "TASKD_NET_MSRUN"
DEVICE_NAMES: Final = "TASKD_NET_DEVICES"
DEVICES: Final = Path("/dev")


def fault_timeout() -> float | None:
    """Seconds that a fault may stay unanswered; None: any time."""
    text = os.environ.get(FAULT_TIMEOUT)
    if not text:
        return None
    least, most = FAULT_TIMEOUT_S
    seconds = natural(text.strip(), most)
    if seconds is None or seconds < least:
        log.warning("no_fault_timeout", reason=f"{FAULT_TIMEOUT} is {shown(text)}; expected {least} to {most} seconds")
        return None
    return seconds


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


def mindspore_plans() -> MindSporePlans:
    """The plans for MindSpore's workers, with the times of the environment.

    Raises:
        ConfigError: a variable is no number of seconds.
    """
    pause = restart_pause()
    finish = arguments.seconds_of_environment(FINISH_PAUSE, FINISH_PAUSE_S)
    return MindSporePlans(pause, min(pause, RESTART_RANKS_PAUSE_S), finish)


def device_names(config: arguments.Settings) -> Sequence[str]:
    """`Devices`, names as a list or with commas between, or those of `TASKD_NET_DEVICES`, or none."""
    value = config.get("Devices", os.environ.get(DEVICE_NAMES, ""))
    names = [name.strip() for name in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, Sequence):
        raise ConfigError(f"Devices is {shown(value)}; expected names of devices, with commas between")
    try:
        return [device_name(name, "a name in Devices") for name in names if name != ""]
    except ArgumentError as error:
        raise ConfigError(str(error)) from None
