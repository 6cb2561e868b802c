"""Plugins: the base class, and the thirteen that every Manager has."""

from __future__ import annotations

from taskd_net.job.decide.plugins.elastic_training import ElasticTraining
from taskd_net.job.decide.plugins.fault_level import FaultLevel
from taskd_net.job.decide.plugins.hot_switch import HotSwitch
from taskd_net.job.decide.plugins.in_place import InPlace
from taskd_net.job.decide.plugins.job_rescheduling import JobRescheduling
from taskd_net.job.decide.plugins.ordered_epochs import OrderedEpochs
from taskd_net.job.decide.plugins.plugin import AnyPlugin, Plugin, Progress
from taskd_net.job.decide.plugins.pod_rescheduling import PodRescheduling
from taskd_net.job.decide.plugins.profiling import Profiling
from taskd_net.job.decide.plugins.recover import Recover
from taskd_net.job.decide.plugins.restarts import JobRestarts
from taskd_net.job.decide.plugins.stop_train import StopTrain
from taskd_net.job.decide.plugins.stress_test import StressTestPlugin
from taskd_net.job.decide.plugins.switch_nic import SwitchNicPlugin

__all__ = ["AnyPlugin", "Plugin", "Progress", "built_in"]


def built_in() -> list[AnyPlugin]:
    """The plugins of TaskD's Manager, and ours: InPlacePlugin, EpochPlugin, FaultLevelPlugin and RestartPlugin."""
    return [
        *(Profiling(), SwitchNicPlugin(), StressTestPlugin(), OrderedEpochs(), FaultLevel()),
        *(StopTrain(), Recover(), ElasticTraining(), InPlace(), JobRestarts(), PodRescheduling(), JobRescheduling()),
        HotSwitch(),
    ]
