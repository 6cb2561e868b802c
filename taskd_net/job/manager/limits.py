"""Times and sizes of a Manager that no user sets, each with the reason for its value."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.decide.job import CONTROLLER_S
from taskd_net.job.decide.snapshot import JobTimes
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.manager.loading import LOAD_S
from taskd_net.job.manager.outlook import ALONE_S, UNSURE_S
from taskd_net.job.manager.watching import LOOK_S


@dataclass(frozen=True, slots=True)
class ManagerLimits:
    """Times and sizes, with those of the rooms below."""

    job: JobTimes = JobTimes()
    clusterd: ClusterdTimes = ClusterdTimes()
    etcd: EtcdLimits = EtcdLimits()
    unsure_s: float = UNSURE_S
    alone_s: float = ALONE_S
    look_s: float = LOOK_S
    load_s: float = LOAD_S
    controller_s: float = CONTROLLER_S

    off_s: float = 30.0
    """Seconds after which ClusterD is asked again where recovery is switched off: an operator may have switched it
    on."""

    reply_pause_s: float = 1.0
    """Seconds between two attempts of a report or a result to ClusterD."""

    checkpoint_s: float = 45.0
    """Seconds after a fault that MindIO has reported until it writes a checkpoint, where ClusterD has sent no order. It
    would end the training after 60 s."""

    commands_a_turn: int = 50
    """Commands that are sent in one turn of the event loop: some 10 ms, in which it reads and writes nothing else."""
