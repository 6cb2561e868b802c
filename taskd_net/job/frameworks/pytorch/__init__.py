"""PyTorch: torchrun and torch's elastic agent."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from taskd_net.base.codes import ConfigError
from taskd_net.job.arguments import rank_of_environment
from taskd_net.job.frameworks.kind import TrainingFramework

if TYPE_CHECKING:
    from taskd_net.job.agent.plans import Plans
    from taskd_net.job.agent.workers import LocalWorkers, Operators


def _node_of_worker() -> int:
    """The node's rank: as the launcher says it, since nodes may have different numbers of workers."""
    if os.environ.get("GROUP_RANK"):
        return rank_of_environment("GROUP_RANK")
    local = rank_of_environment("LOCAL_WORLD_SIZE")
    if local == 0:
        raise ConfigError("LOCAL_WORLD_SIZE is 0; expected at least 1")
    return rank_of_environment("RANK") // local


def _supervised(operators: Operators, cls: object) -> tuple[LocalWorkers, Plans]:
    from taskd_net.job.frameworks.pytorch.plans import PyTorchPlans
    from taskd_net.job.frameworks.pytorch.workers import PyTorchWorkers

    if cls is None:
        raise ConfigError("cls is None; expected the SimpleElasticAgent, as Framework is 'PyTorch'")
    return PyTorchWorkers(operators, cls), PyTorchPlans()


PYTORCH: Final = TrainingFramework(
    name="PyTorch",
    short="pt",
    rank_variable="RANK",
    mgr_variable="MASTER_ADDR",
    node_of_worker=_node_of_worker,
    switch_nic="torch_npu.npu:_comm_switch_nic",
    stress_test="torch_npu.npu:stress_detect",
    set_device="torch_npu.npu:set_device",
    supervised=_supervised,
)
