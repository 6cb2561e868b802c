"""torch's elastic agent under TaskD's Manager: TaskD's Agent (`job.agent`) around torch's own functions."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final

from torch.distributed.elastic.agent.server import RunResult, Worker, WorkerGroup, WorkerSpec, WorkerState
from torch.distributed.elastic.agent.server.health_check_server import HealthCheckServer
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.timer import FileTimerServer

from taskd_net.base.cause import Cause
from taskd_net.base.codes import TaskdNetError
from taskd_net.base.logger import late_logger
from taskd_net.base.untrusted import shown
from taskd_net.job import node_proxy
from taskd_net.job.agent.agent import Agent, Told
from taskd_net.job.agent.messages import Meeting
from taskd_net.job.agent.records import Records
from taskd_net.job.agent.workers import KILL_WORKER, MONITOR, RESTART, START_ALL_WORKER, Operators
from taskd_net.job.api.agent import initialise, run
from taskd_net.job.arguments import LOOPBACK, server_rank
from taskd_net.job.frameworks.pytorch import PYTORCH
from taskd_net.job.launcher_signals import LauncherSignals
from taskd_net.job.member import LoggedError, reported
from taskd_net.torch import clean_store, seam
from taskd_net.torch.context import RankContext, require_command, start_processes
from taskd_net.torch.guardian import Guardian
from taskd_net.torch.health import PORT, HealthServer, Loop
from taskd_net.torch.meeting import MeetingHandler, serve_store
from taskd_net.torch.reasons import Failures

log: Final = late_logger()


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
        start_program: run the script by the start program (`start.py`); the entrypoint is Python.
        failures: takes in those of the workers.
        told: what the launcher was told about restarts.
        signals: the launcher's own handlers, in place of torch's.

    Raises:
        UnsupportedTorch: the installed torch has not been checked.
        NoCommand: the entrypoint is a Python function.
        ConfigError: the rank of the node is no whole number.
    """

    def __init__(
        self,
        *arguments: Any,
        node_rank: int | None = None,
        start_program: bool = False,
        failures: Failures | None = None,
        told: Told | None = None,
        signals: LauncherSignals | None = None,
        **named: Any,
    ) -> None:
        seam.check()
        super().__init__(*arguments, **named)
        require_command(self._worker_group.spec.entrypoint)
        self._server_rank = server_rank({} if node_rank is None else {"ServerRank": node_rank}, PYTORCH.rank_variable)
        self._start_program = start_program
        self._failures_of_ranks = failures or Failures()
        self._told = told or Told()
        self._signals = signals
        self._renew: Callable[[], object] = list if signals is None else signals.renew
        if signals is not None:
            signals.workers = self._running
        self.records = Records()
        self._guardian: Guardian
        self._supervised: Agent | None = None
        self._health_check_server: HealthCheckServer | None  # torch sets it
        self._loop = Loop()
        self._meeting: Meeting | None = None
        self._store_server: Any = None
        # Handler, address and port, for a start in which the nodes meet as torch does.
        self._torchs_rendezvous: tuple[Any, Any, Any] | None = None

    def offer(self) -> tuple[str, int]:
        """Make a fresh store for the workers of the next start, on node 0.

        Returns:
            Its address, `HOST:PORT`, or an empty text on another node; and the number of workers.
        """
        spec = self._worker_group.spec
        if self._server_rank:
            return "", spec.local_world_size
        host = spec.master_addr or os.environ.get("MASTER_ADDR") or spec.local_addr or LOOPBACK
        self._store_server, port = serve_store(host)
        return f"{host}:{port}", spec.local_world_size

    @property
    def first_failure(self) -> Cause | None:
        """The first failure of the workers since their last start; None without one."""
        return self._failures_of_ranks.first

    def meet(self, meeting: Meeting | None) -> None:
        """Take the outcome of a meeting for the next start; None: torch's rendezvous decides."""
        self._meeting = meeting

    def take_meeting(self, meeting: Meeting) -> None:
        """Take the outcome of a meeting of other nodes: workers that start alone from now on get its store."""
        self._meeting = meeting
        spec = self._worker_group.spec
        handler = MeetingHandler(meeting, self._server_rank, spec.rdzv_handler.get_run_id())
        spec.rdzv_handler, spec.master_addr, spec.master_port = handler, handler.host, handler.port
        self._context.move_store(handler.host, handler.port)

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
            try:
                with self._in_place_of_torchs():
                    self._start_healthcheck()
                return super().run(role)
            finally:
                self.records.close()
                if self._health_check_server is not None:
                    self._health_check_server.stop()

    def _invoke_run(self, role: str = "default") -> RunResult:
        operators = Operators()
        for operator, function in (
            (START_ALL_WORKER, self._initialize_workers),
            (KILL_WORKER, self._stop_workers),
            (RESTART, self._restart_workers),
            (MONITOR, self._monitor_workers),
        ):
            operators.register(operator, function)
        try:
            with reported("init_taskd_agent"):
                config = {"Framework": PYTORCH.name, "ServerRank": self._server_rank}
                self._supervised = agent = initialise(config, self, operators, told=self._told)
        except LoggedError as error:
            raise NotSupervised("the Agent could not be initialised; the log says why") from error
        assert agent is not None
        try:
            with reported("start_taskd_agent"):
                result = run(agent)
        except LoggedError as error:
            raise NotSupervised("the Agent could not run the workers; the log says why") from error
        finally:
            self._failures_of_ranks.ended, self._failures_of_ranks.left = agent.ended, agent.left
            if self._signals is not None:
                self._signals.said = agent.said_end
            self._supervised = None
        if not isinstance(result, RunResult):
            raise NotSupervised("the Agent was destroyed")
        if self._meeting is None:
            with self._loop.busy():
                self._exit_barrier()  # node 0 has the workers' store, so it stays until the others have finished
        return result

    def _rendezvous(self, worker_group: WorkerGroup) -> None:
        with self._loop.busy():
            self._meet(worker_group)

    def _meet(self, worker_group: WorkerGroup) -> None:
        spec = worker_group.spec
        if self._torchs_rendezvous is None:
            self._torchs_rendezvous = spec.rdzv_handler, spec.master_addr, spec.master_port
        if self._meeting is not None:
            handler = MeetingHandler(self._meeting, self._server_rank, spec.rdzv_handler.get_run_id())
            spec.rdzv_handler, spec.master_addr, spec.master_port = handler, handler.host, handler.port
            # The same at all nodes, and a number that never comes twice in a run: scripts key stores by it.
            self._remaining_restarts = spec.max_restarts - self._meeting.restarts
            super()._rendezvous(worker_group)
            return
        spec.rdzv_handler, spec.master_addr, spec.master_port = self._torchs_rendezvous
        super()._rendezvous(worker_group)
        if worker_group.group_rank != self._server_rank:
            text = f"the rendezvous has made this node {worker_group.group_rank}, and its Agent is {self._server_rank}"
            raise NotSupervised(f"{text}; use the static rendezvous, with --node-rank")
        clean_store.meet(worker_group)

    def _assign_worker_ranks(
        self, store: Any, group_rank: int, group_world_size: int, spec: WorkerSpec
    ) -> list[Worker]:
        if self._meeting is None:
            assigned: list[Worker] = super()._assign_worker_ranks(store, group_rank, group_world_size, spec)
            return assigned
        worlds = self._meeting.local_worlds
        first, world = sum(worlds[:group_rank]), sum(worlds)
        return [
            Worker(
                local_rank=local,
                global_rank=first + local,
                role_rank=first + local,
                world_size=world,
                role_world_size=world,
            )
            for local in range(spec.local_world_size)
        ]

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, Any]:
        with self._in_place_of_torchs():
            pids: dict[int, Any] = super()._start_workers(worker_group)
        return pids

    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        """End all workers of the node, or those of a part of the group."""
        with self._loop.busy():
            if worker_group is self._worker_group:
                super()._stop_workers(worker_group)
            else:
                local_ranks = [worker.local_rank for worker in worker_group.workers]
                self._context.stop_ranks(local_ranks, self._shutdown_timeout)

    def _restart_workers(self, worker_group: WorkerGroup) -> None:
        """Restart the workers of a group in place: without rendezvous, with their ranks."""
        workers = {worker.local_rank: worker for worker in worker_group.workers}
        with self._loop.busy():
            pids = self._context.restart_ranks(workers, self._shutdown_timeout)
        for local_rank, pid in pids.items():
            workers[local_rank].id = pid

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        result = super()._monitor_workers(worker_group)
        worker_group.state = result.state
        self._loop.move()
        return result

    def _setup_healthcheck(self) -> None:
        """Do nothing at a start of the workers: `run` has started the server for all of them."""

    def _start_healthcheck(self) -> None:
        """Start the server of `TORCHELASTIC_HEALTH_CHECK_PORT`, unless the caller has given one."""
        port = os.environ.get(PORT)
        if self._health_check_server is not None or port is None:
            return
        super()._setup_healthcheck()
        if self._health_check_server is None:
            log.warning("no_health_check", reason=f"{PORT} is {shown(port)}; expected a number")

    def _shutdown(self, death_sig: signal.Signals = signal.SIGTERM, timeout: int = 30) -> None:
        server, self._health_check_server = self._health_check_server, None  # torch would stop it between two attempts
        try:
            super()._shutdown(death_sig, timeout)
        finally:
            self._health_check_server = server

    def _running(self) -> dict[int, int]:
        """The processes of the workers that run, by global rank."""
        context = self._pcontext
        if not isinstance(context, RankContext):
            return {}
        running = context.running
        return {
            each.global_rank: running[each.local_rank]
            for each in self._worker_group.workers
            if each.local_rank in running
        }

    def _in_place_of_torchs(self) -> AbstractContextManager[None]:
        own = self._guardian, self._failures_of_ranks, self._start_program
        return seam.replaced(
            start_processes=partial(start_processes, *own, renew=self._renew, records=self.records),
            create_healthcheck_server=self._create_healthcheck_server,
            watchdog=Watchdog,
        )

    def _create_healthcheck_server(self, alive_callback: object, port: int, timeout: int) -> HealthServer:
        """Make the server of the loop's own moves: torch's callback gives the present time, or the watchdog's moves."""
        return HealthServer(lambda: math.ceil(time.time() - self._loop.seconds), port, timeout, self._health)

    def _health(self) -> dict[str, object]:
        """The state of the Agent, the Proxy and the workers; those of the loop's last turn."""
        watchdog = self._worker_watchdog
        progress = None if watchdog is None else round(time.time() - watchdog.get_last_progress_time(), 1)
        group, context, agent = self._worker_group, self._pcontext, self._supervised
        states = context.states if isinstance(context, RankContext) else {}
        return {
            "agent": {
                "rank": self._server_rank,
                "state": group.state.name,
                "joined": None if agent is None else agent.node.is_joined,
            },
            "proxy": {"joined": node_proxy.joined()},
            "workers": [
                {
                    "rank": worker.global_rank,
                    "local_rank": worker.local_rank,
                    "pid": worker.id,
                    "state": states.get(worker.local_rank, WorkerState.INIT).name,
                }
                for worker in group.workers
            ],
            "loop_seconds": round(self._loop.seconds, 1),
            "watchdog_seconds": progress,
        }

    @property
    def _context(self) -> RankContext:
        assert isinstance(self._pcontext, RankContext)
        return self._pcontext


class Watchdog(FileTimerServer):
    """torch's watchdog (`TORCHELASTIC_ENABLE_FILE_TIMER`), which ends a worker whose timer has expired.

    torch's own ends the agent after it, as one failed worker is the end of all of them there. Here the Agent lives, and
    reports the worker to the Manager. Arguments are torch's.
    """

    def _reap_worker(self, worker_pid: int, signal: int) -> bool:
        if worker_pid == os.getpid():
            return True
        log.error("timer_expired", pid=worker_pid, signal=signal)
        ended: bool = super()._reap_worker(worker_pid, signal)
        return ended
