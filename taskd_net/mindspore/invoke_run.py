"""PyTorch's elastic agent under the platform's files, without a Manager, as Elastic-Agent ran it."""

from __future__ import annotations

import os
from typing import Any, Final

from taskd_net.job import arguments
from taskd_net.job.agent.workers import KILL_WORKER, MONITOR, RESTART, START_ALL_WORKER, Operators
from taskd_net.job.clusterd.controller import Controller
from taskd_net.job.clusterd.launcher import LauncherClient
from taskd_net.job.frameworks.pytorch import PYTORCH
from taskd_net.job.frameworks.pytorch.workers import PyTorchWorkers
from taskd_net.job.member import log_file
from taskd_net.mindspore.files import Paths
from taskd_net.mindspore.launcher import Launcher, times_of_environment
from taskd_net.mindspore.machine import Times
from taskd_net.mindspore.plugin import ranks_of_node

RECOVERS: Final = "ELASTIC_PROCESS_RECOVER_ENABLE"


def invoke_run(
    agent: Any,
    role: str = "default",
    *,
    paths: Paths | None = None,
    times: Times | None = None,
    controller: Controller | None = None,
) -> Any:
    """Run the workers of a SimpleElasticAgent as the platform's reset files say; takes the place of its `_invoke_run`.

    No rank is restarted alone: torch's agent ends all of them when one fails. Node 0 is a client of ClusterD where
    `ELASTIC_PROCESS_RECOVER_ENABLE` is 1.

    Args:
        agent: the SimpleElasticAgent.
        role: as of `_invoke_run`.
        paths, times, controller: as of `MSRunPlugin`.

    Returns:
        torch's RunResult: of workers that have all succeeded, or of those that have failed.

    Raises:
        SystemExit: status 1: the platform or ClusterD has ended the node, or the workers could not be started.
        ConfigError: a variable is of no use; names it.
        The exception of a signal handler of torch's.
    """
    operators = Operators()
    for operator, function in (
        (START_ALL_WORKER, agent._initialize_workers),
        (KILL_WORKER, agent._stop_workers),
        (RESTART, agent._restart_workers),
        (MONITOR, agent._monitor_workers),
    ):
        operators.register(operator, function)
    node_rank = arguments.server_rank({}, PYTORCH.rank_variable)
    recovers = node_rank == 0 and os.environ.get(RECOVERS) == "1"
    launcher = Launcher(
        PyTorchWorkers(operators, agent),
        paths or Paths.of_environment(),
        times or times_of_environment(),
        ranks_of_node(node_rank, str(getattr(agent._worker_group.spec, "local_world_size", ""))),
        replaces=False,
        clusterd=LauncherClient.of_environment(PYTORCH.name.lower(), controller) if recovers else None,
    )
    with log_file(f"agent-{node_rank}.log"):
        outcome = launcher.run()
    last = launcher.result
    if outcome.status == 0 and last is not None:
        agent._exit_barrier()  # node 0 has the workers' store, so it stays until the others have finished
        return last.result
    if last is not None and last.failed:
        return last.result
    raise SystemExit(outcome.status)
