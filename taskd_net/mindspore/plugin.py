"""`MSRunPlugin`: msrun's workers under the platform's files, without a Manager (TaskD API reference, MSRunPlugin)."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, NoReturn

from taskd_net.base.codes import ConfigError
from taskd_net.base.logger import late_logger
from taskd_net.job import arguments
from taskd_net.job.agent.workers import START_WORKER_LIST, Operators
from taskd_net.job.clusterd.controller import Controller
from taskd_net.job.clusterd.launcher import LauncherClient
from taskd_net.job.frameworks.mindspore import MINDSPORE
from taskd_net.job.frameworks.mindspore.scheduler import end_scheduler
from taskd_net.job.frameworks.mindspore.workers import MindSporeWorkers
from taskd_net.job.member import Refused, log_file
from taskd_net.job.node_proxy import AgentsProxy
from taskd_net.mindspore.files import Paths
from taskd_net.mindspore.launcher import Launcher, times_of_environment
from taskd_net.mindspore.machine import Times

log: Final = late_logger()

REPLACES: Final = "ENABLE_RESTART_FAULT_PROCESS"
LOCAL_WORKERS: Final = "MS_LOCAL_WORKER"


class MSRunPlugin:
    """Runs the workers of msrun on one node as the platform's reset files say.

    msrun makes it where TaskD's Agent cannot be initialised. Without arguments it takes its paths and times from the
    environment, see docs/mindspore.md.

    Args:
        paths: of the platform's files.
        times: waiting times.
        controller: of the training framework, for ClusterD's orders; by default MindIO's, where it is installed.

    Source: TaskD API reference.
    """

    def __init__(
        self, *, paths: Paths | None = None, times: Times | None = None, controller: Controller | None = None
    ) -> None:
        self._paths = paths
        self._times = times
        self._controller = controller
        self._operators = Operators()

    def register_callbacks(self, operator: str, func: Callable[..., object]) -> None:
        """Register one of msrun's functions; a later one replaces it.

        Args:
            operator: `KILL_WORKER`, `START_ALL_WORKER`, `MONITOR`, or `START_WORKER_LIST`, without which no rank is
                restarted alone.
            func: the function; see `taskd_net.job.frameworks.mindspore.workers`.

        Raises:
            ConfigError: an operator of another name, or nothing that can be called.

        Source: TaskD API reference.
        """
        self._operators.register(operator, func)

    def start(self) -> NoReturn:
        """Run the workers to their end, in the thread that calls. msrun ignores what this returns, so it never does.

        Raises:
            SystemExit: always, where it could begin. Status 0: all workers have finished. Status 1: the platform or
                ClusterD has ended the node, or workers have failed or could not be started.
            Refused: a function is not registered; names it.
            ConfigError: a variable is of no use; names it.

        Source: TaskD API reference.
        """
        workers = MindSporeWorkers(self._operators)
        replaceable = self._operators.has(START_WORKER_LIST)
        self._operators.require([name for name in workers.needs if name != START_WORKER_LIST])
        node_rank = arguments.server_rank({}, MINDSPORE.rank_variable)
        framework = MINDSPORE.name.lower()
        launcher = Launcher(
            workers,
            self._paths or Paths.of_environment(),
            self._times or times_of_environment(),
            ranks_of_node(node_rank, os.environ.get(LOCAL_WORKERS, "")),
            replaces=replaceable and replaces(node_rank),
            clusterd=LauncherClient.of_environment(framework, self._controller) if node_rank == 0 else None,
        )
        with log_file(f"agent-{node_rank}.log"):
            proxy = _proxy(node_rank)
            try:
                outcome = launcher.run()
            finally:
                if proxy is not None:
                    proxy.close()
                end_scheduler()
        raise SystemExit(outcome.status)


def replaces(node_rank: int) -> bool:
    """True where the platform may have single ranks of this node restarted."""
    return node_rank != 0 and os.environ.get(REPLACES, "").strip().lower() == "on"


def ranks_of_node(node_rank: int, workers: str) -> frozenset[int]:
    """Global ranks of a node, where every node has as many workers; none where their number is unknown."""
    number = arguments.rank(workers, LOCAL_WORKERS) if workers else 0
    return frozenset(range(node_rank * number, (node_rank + 1) * number))


def _proxy(node_rank: int) -> AgentsProxy | None:
    """Start the Proxy of the node, for Workers that have a Mgr."""
    listen = os.environ.get(arguments.UPSTREAM) or f"{arguments.LOOPBACK}:{arguments.PROXY_PORT}"
    try:
        proxy = AgentsProxy(node_rank, listen, MINDSPORE.mgr_variable, {})
        proxy.start()
    except (ConfigError, Refused) as error:
        # The launcher itself needs no mesh.
        log.error("own_proxy_failed", reason=str(error))
        return None
    return proxy
