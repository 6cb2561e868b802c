"""MindSpore: msrun."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from taskd_net.job.arguments import rank_of_environment
from taskd_net.job.frameworks.kind import TrainingFramework

if TYPE_CHECKING:
    from taskd_net.job.agent.plans import Plans
    from taskd_net.job.agent.workers import LocalWorkers, Operators


def _supervised(operators: Operators, _: object) -> tuple[LocalWorkers, Plans]:
    from taskd_net.job.frameworks.mindspore import settings
    from taskd_net.job.frameworks.mindspore.workers import MindSporeWorkers

    return MindSporeWorkers(operators), settings.plans()


def _no_agent() -> str:
    from taskd_net.job.frameworks.mindspore import settings

    return f"{settings.MSRUN} is plugin" if settings.msrun_takes_plugin() else ""


MINDSPORE: Final = TrainingFramework(
    name="MindSpore",
    short="ms",
    rank_variable="MS_NODE_RANK",
    mgr_variable="MS_SCHED_HOST",
    node_of_worker=partial(rank_of_environment, "MS_NODE_RANK"),
    switch_nic="mindspore.communication.management:_comm_switch_nic",
    stress_test="mindspore.utils:stress_detect",
    supervised=_supervised,
    no_agent=_no_agent,
)
