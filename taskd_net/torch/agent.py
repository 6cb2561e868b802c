"""torch's elastic agent under TaskD's Manager: TaskD's loop (`taskd_net.api.agent`) around torch's own functions."""

from __future__ import annotations

import os
from functools import partial
from typing import Any

from torch.distributed.elastic.agent.server import RunResult, WorkerGroup
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent

from taskd_net.address import Address
from taskd_net.api import init_taskd_agent, register_func, start_taskd_agent
from taskd_net.api.agent import RANK_VARIABLE
from taskd_net.api.arguments import server_rank
from taskd_net.api.operators import KILL_WORKER, MONITOR, RESTART, START_ALL_WORKER
from taskd_net.api.worker import UPSTREAM
from taskd_net.codes import TaskdNetError
from taskd_net.torch import clean_store, seam
from taskd_net.torch.context import RankContext, require_command, start_processes
from taskd_net.torch.guardian import Guardian


class NotSupervised(TaskdNetError):
    """The Agent could not begin; the log says why."""


class ElasticAgent(LocalElasticAgent):
    """A LocalElasticAgent whose workers start, stop and restart as the Manager commands, all of them or one by one.

    `run` joins the mesh at the variable `TASKD_NET_UPSTREAM` (default 127.0.0.1:9602), asks the Manager for the go, and
    reports workers that fail. The Manager decides on restarts: `max_restarts` is the number that the Agent offers it.
    When all workers of the node have succeeded, `run` waits for the other nodes as torch does, and returns torch's
    RunResult. It raises SystemExit where TaskD's Agent leaves: see `taskd_net.start_taskd_agent`.

    Args:
        arguments, named: those of torch's LocalElasticAgent.
        node_rank: rank of this node. Default: the variable `RANK` of the platform, or 0.

    Raises:
        UnsupportedTorch: the installed torch has not been checked.
        NoCommand: the entrypoint is a Python function.
        ConfigError: the rank of the node is no whole number.
    """

    def __init__(self, *arguments: Any, node_rank: int | None = None, **named: Any) -> None:
        seam.check()
        super().__init__(*arguments, **named)
        require_command(self._worker_group.spec.entrypoint)
        self._server_rank = server_rank(
            {} if node_rank is None else {"ServerRank": node_rank}, RANK_VARIABLE["PyTorch"]
        )
        self._guardian: Guardian

    def run(self, role: str = "default") -> RunResult:
        """Run the workers to their end.

        Args:
            role: of torch; there is one.

        Returns:
            torch's result.

        Raises:
            SystemExit: the Agent has to leave.
            SignalException: a signal of `--signals-to-handle` has come; the workers have been ended.
            NotSupervised: the Agent could not begin.
        """
        with Guardian() as self._guardian:
            return super().run(role)

    # ---- torch's steps

    def _invoke_run(self, role: str = "default") -> RunResult:
        for operator, function in (
            (START_ALL_WORKER, self._initialize_workers),
            (KILL_WORKER, self._stop_workers),
            (RESTART, self._restart_workers),
            (MONITOR, self._monitor_workers),
        ):
            register_func(operator, function)
        if not init_taskd_agent(self._config(), cls=self):
            raise NotSupervised("the Agent could not be initialised; the log says why")
        result = start_taskd_agent()
        if not isinstance(result, RunResult):
            raise NotSupervised("the Agent could not run the workers, or was destroyed; the log says why")
        self._exit_barrier()  # node 0 has the workers' store, so it stays until the others have finished
        return result

    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        super()._rendezvous(worker_group)
        if worker_group.group_rank != self._server_rank:
            text = f"the rendezvous has made this node {worker_group.group_rank}, and its Agent is {self._server_rank}"
            raise NotSupervised(f"{text}; use the static rendezvous, with --node-rank")
        clean_store.meet(worker_group)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        with seam.starting_with(partial(start_processes, self._guardian)):
            pids: dict[int, Any] = super()._start_workers(worker_group)
        return pids

    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """End all workers of the node, or those of a part of the group."""
        if worker_group is self._worker_group:
            super()._stop_workers(worker_group)
        else:
            self._context.stop_ranks([worker.local_rank for worker in worker_group.workers], self._shutdown_timeout)

    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """Restart the workers of a group in place: without rendezvous, with their ranks."""
        workers = {worker.local_rank: worker for worker in worker_group.workers}
        for local_rank, pid in self._context.restart_ranks(workers, self._shutdown_timeout).items():
            workers[local_rank].id = pid

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = super()._monitor_workers(worker_group)
        worker_group.state = result.state
        return result

    @property
    def _context(self) -> RankContext:
        assert isinstance(self._pcontext, RankContext)
        return self._pcontext

    def _config(self) -> dict[str, object]:
        config: dict[str, object] = {"Framework": "PyTorch", "ServerRank": self._server_rank}
        if upstream := os.environ.get(UPSTREAM):
            address = Address.parse(upstream, UPSTREAM)
            config |= {"UpstreamAddr": address.host, "UpstreamPort": address.port}
        return config
