"""Plugins: the base class, and the twelve that every Manager has."""

from __future__ import annotations

from taskd_net.jobs.plugins.elastic_training import ElasticTraining
from taskd_net.jobs.plugins.fault_level import FaultLevel
from taskd_net.jobs.plugins.hot_switch import HotSwitch
from taskd_net.jobs.plugins.in_place import InPlace
from taskd_net.jobs.plugins.job_rescheduling import JobRescheduling
from taskd_net.jobs.plugins.ordered_epochs import OrderedEpochs
from taskd_net.jobs.plugins.plugin import AnyPlugin, Plugin, Progress
from taskd_net.jobs.plugins.pod_rescheduling import PodRescheduling
from taskd_net.jobs.plugins.profiling import Profiling
from taskd_net.jobs.plugins.recover import Recover
from taskd_net.jobs.plugins.stop_train import StopTrain
from taskd_net.jobs.plugins.stress_test import StressTestPlugin
from taskd_net.jobs.plugins.switch_nic import SwitchNicPlugin

__all__ = ["AnyPlugin", "Plugin", "Progress", "built_in"]


def built_in() -> list[AnyPlugin]:
    """The plugins of TaskD's Manager, and InPlacePlugin, EpochPlugin and FaultLevelPlugin, which are ours."""
    return [
        *(Profiling(), SwitchNicPlugin(), StressTestPlugin(), OrderedEpochs(), FaultLevel()),
        *(StopTrain(), Recover(), ElasticTraining(), InPlace(), PodRescheduling(), JobRescheduling(), HotSwitch()),
    ]
