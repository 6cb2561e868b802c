"""The Agent: the launcher of one node's workers (docs/contract.md, section 7; TaskD API reference, "TaskD Agent").

A thin shell around `supervision.Supervisor`, which decides. Two threads share the work:

- The node's thread reads commands, counts seconds, notices the ends of workers, sends reports, and feeds the
  Supervisor. Nothing blocks it.
- The thread that called `start_taskd_agent` calls the framework's functions, one after another.

Faults are judged elsewhere: the Agent reports failed workers, and the Mgr decides.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final
from uuid import uuid4

from taskd_net.base import vocabulary
from taskd_net.base.codes import ConfigError
from taskd_net.base.waiting import taken
from taskd_net.job.api import agent_settings, arguments, plans
from taskd_net.job.api.agent_events import (
    Commanded,
    Done,
    Ended,
    Event,
    Failed,
    Ignored,
    Joined,
    Looked,
    Report,
    Tick,
    Woken,
)
from taskd_net.job.api.agent_messages import Go, read_command
from taskd_net.job.api.ends import Ends
from taskd_net.job.api.failed_calls import FailedCalls
from taskd_net.job.api.member import Once, Slot, by_signal, documented, leave, log
from taskd_net.job.api.mindspore import MindSporeWorkers
from taskd_net.job.api.node_proxy import AgentsProxy
from taskd_net.job.api.operators import LocalWorkers, Operators
from taskd_net.job.api.outbox import Heartbeat, Outbox
from taskd_net.job.api.plans import Call, Leave, Plans, PyTorchPlans, Return
from taskd_net.job.api.pytorch import PyTorchWorkers
from taskd_net.job.api.receiver import Terms, from_mgr, read_body
from taskd_net.job.api.reporting import REGISTER_EVERY_S, RETRY_S
from taskd_net.job.api.supervision import Supervisor, Times
from taskd_net.net.wire.codec import Message
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig
from taskd_net.node.node import Node
from taskd_net.node.reading import Reading

LOOK_S: Final = 1.0
"""Seconds between two looks of an Agent at its workers, and between two of its KEEP_ALIVEs, as TaskD's Agents do."""

JOIN_S: Final = 180.0
"""Seconds that an Agent has to join the mesh, as TaskD's: the start of a job's other pods. Then it leaves with 1."""

GO_S: Final = 900.0
"""Seconds that an Agent waits for the go after it has joined, as TaskD's mean to. Then it leaves with 1."""

LEAVE_S: Final = 3.0
"""Seconds that an Agent that leaves waits for the Mgr to take its last report: three attempts, as TaskD's make."""

MTYPE: Final = "DEFAULT"
RANK_VARIABLE: Final = {"PyTorch": "RANK", "MindSpore": "MS_NODE_RANK"}
MGR_VARIABLE: Final = {"PyTorch": "MASTER_ADDR", "MindSpore": "MS_SCHED_HOST"}

# Registered functions belong to the framework, so they outlive an Agent.
_operators: Final = Operators()


def times_of_environment() -> Times:
    """The times of an Agent, with the one that the environment sets."""
    return Times(JOIN_S, GO_S, REGISTER_EVERY_S, agent_settings.GRACE_EXIT_S, agent_settings.fault_timeout())


class Agent:
    """The Agent of this process, from init to destroy.

    Args:
        config: the node.
        workers: the workers.
        their_plans: the meaning of each command for them.
        proxy: the Proxy of the node, if this process is to run it.
        devices: names of the node's devices, by local rank.
        times: of its decisions; None for those of `times_of_environment`.
        look: seconds between two looks at the workers.
        retry: seconds before a report that the Mgr has not taken is sent again.
    """

    def __init__(
        self,
        config: NodeConfig,
        workers: LocalWorkers,
        their_plans: Plans,
        proxy: AgentsProxy,
        devices: Sequence[str] = (),
        *,
        times: Times | None = None,
        look: float = LOOK_S,
        retry: float = RETRY_S,
    ) -> None:
        self._times = times or times_of_environment()
        self._look_s = look
        self._retry = retry
        self._devices = devices
        self.workers = workers
        self._plans = their_plans
        self._start = Once()
        self._failures = FailedCalls()
        # To the thread that calls: the next call, or the end. A SimpleQueue, as a signal handler may put into it.
        self._jobs: SimpleQueue[Call | _End] = SimpleQueue()
        self._proxy = proxy
        self._proxy.start()
        self.node = BlockingNode(config).start()

    def begin(self) -> None:
        """Join, ask for the go and take commands, in the background.

        Raises:
            Refused: it has been started already, or a function is not registered.
            ConfigError: the variable with the Mgr's host is set meanwhile, and is no host.
        """
        _operators.require(self.workers.needs)
        self._proxy.start()
        self._start.take()
        self.node.beside(self._run)

    def serve(self) -> Leave | Return | None:
        """Call the framework's functions until the Agent is to leave. Returns how; None: it was closed."""
        while True:
            job = taken(self._jobs)
            if isinstance(job, _End):
                return job.outcome
            error: Exception | None = None
            answer: Event = Failed()
            pids: Collection[int] | None = None
            try:
                answer = self._carry_out(job)
                pids = self.workers.pids
            except Exception as raised:
                if by_signal(raised):
                    raise
                error = raised  # logged below; the Mgr sees the state of the workers in reports
            with suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self._called, job, answer, error, pids)

    def close(self) -> None:
        """Leave the mesh, with the Proxy after the Agent; `serve` returns after the current call."""
        leave(self.node)
        self._proxy.close()

    def _carry_out(self, call: Call) -> Done | Looked:
        workers = self.workers
        match call:
            case plans.StartAll(remaining):
                workers.start_all(remaining)
            case plans.KillAll():
                workers.kill_all()
            case plans.KillRanks(ranks):
                workers.kill_ranks(ranks)
            case plans.StartRanks(ranks):
                workers.start_ranks(ranks)
            case plans.AskToEnd():
                workers.ask_to_end()
            case plans.Look():
                return workers.look()
        return Done()

    # ---- in the node's thread

    async def _run(self, node: Node) -> None:
        self._loop = asyncio.get_running_loop()
        self._joins = 0
        self._terms = Terms()
        self._wakes: asyncio.TimerHandle | None = None
        self._outbox, self._heartbeat = Outbox(node, MTYPE, self._retry), Heartbeat(node, MTYPE)
        self._ends = Ends(lambda: self._feed(Ended()))
        self._over: asyncio.Future[Leave | Return] = self._loop.create_future()
        remaining = self.workers.remaining
        now = time.monotonic()
        self._supervisor = Supervisor(self._plans, self._times, str(uuid4()), remaining, now, self._devices)
        outcome: Leave | Return | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                parts = (self._outbox.run(), self._read(node), self._tick(node), self._first_join(node))
                work = [tasks.create_task(part) for part in parts]
                outcome = await self._over
                with suppress(TimeoutError):
                    async with asyncio.timeout(LEAVE_S):
                        await self._outbox.empty()
                for task in work:
                    task.cancel()
        except Exception:
            # Nobody supervises the workers any more.
            outcome = Leave(1, "a fault of this package")
            raise
        finally:
            self._wake_at(None)
            self._heartbeat.close()
            self._ends.close()
            self._jobs.put(_End(outcome))

    async def _read(self, node: Node) -> None:
        with Reading(node) as reading:
            async for message in node.messages():
                with reading.survive(message):
                    self._obey(message)

    def _obey(self, message: Message) -> None:
        if not from_mgr(message):
            return
        said = read_body(message)
        if not self._terms.admits(message, said):
            return
        src = str(message.src)
        log.info("command", code=said.code, msg_type=said.msg_type, message=said.message, src=src)
        try:
            command = read_command(said)
        except ValueError as error:
            log.error("command_failed", src=src, uuid=message.uuid, reason=str(error))
            return
        if isinstance(command, Go) and command.in_place:
            os.environ |= {arguments.IN_PLACE: "on", arguments.AGENT_PID: str(os.getpid())}  # for the workers
        self._feed(Commanded(command, message.uuid, said.extension.get(vocabulary.MEANT_FOR, "")))

    async def _first_join(self, node: Node) -> None:
        await node.joined()
        self._look_at_joins(node)

    async def _tick(self, node: Node) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            self._look_at_joins(node)
            self._feed(Tick())

    def _look_at_joins(self, node: Node) -> None:
        if node.is_joined and node.joins != self._joins:
            self._joins = node.joins
            self._feed(Joined())

    def _called(self, call: Call, answer: Event, error: Exception | None, pids: Collection[int] | None) -> None:
        """Take in the answer of one of the framework's functions, and the workers' processes after it."""
        if error is not None:
            self._failures.report(call, error)
        if self._over.done():
            return  # the call was under way at the end: nobody would close its descriptors again
        if pids is not None:
            self._ends.watch(pids)
        self._feed(answer)
        if isinstance(call, plans.StartAll | plans.StartRanks):
            # MONITOR alone tells the processes of MindSpore, and one may end within the first second.
            self._feed(Ended())

    def _woken(self) -> None:
        self._wakes = None
        self._feed(Woken())

    def _feed(self, event: Event) -> None:
        for action in self._supervisor.handle(event, time.monotonic(), int(time.time())):
            match action:
                case Report(report):
                    (self._heartbeat.beat if report.msg_type == vocabulary.KEEP_ALIVE else self._outbox.put)(report)
                case Ignored(command, reason):
                    log.info("command_ignored", command=type(command).__name__, reason=reason)
                case Leave(status, reason):
                    log.info("agent_leaves", code=status, reason=reason)
                    self._over.set_result(action)
                case Return():
                    self._over.set_result(action)
                case _:
                    self._jobs.put(action)
        self._wake_at(self._supervisor.due)

    def _wake_at(self, due: float | None) -> None:
        """End a pause in time, and not with the next second."""
        if self._wakes is not None:
            self._wakes.cancel()
        self._wakes = None
        if due is not None:
            self._wakes = self._loop.call_later(max(0.0, due - time.monotonic()), self._woken)


class _End:
    """The last job of an Agent.

    Args:
        outcome: the way in which it ends; None: it was closed.
    """

    def __init__(self, outcome: Leave | Return | None) -> None:
        self.outcome = outcome


slot: Final[Slot[Agent]] = Slot("agent")


def initialise(
    config: Mapping[str, object] = {},
    cls: object = None,
    proxy: Callable[[int, str, str, arguments.Settings], AgentsProxy] = AgentsProxy,
    **more: Any,
) -> bool:
    """Carry out `init_taskd_agent`, whose arguments are TaskD's, for an Agent with other times.

    Args:
        config, cls: as in that call.
        proxy: makes the Proxy of the node.
        more: further arguments of the `Agent`.

    Raises:
        ConfigError, Refused: as that call says in the log.
    """
    wanted = arguments.checked(config)
    name = wanted.get("Framework", "PyTorch")
    if not isinstance(name, str) or name not in RANK_VARIABLE:
        raise ConfigError(f"Framework is {name!r}; expected 'PyTorch' or 'MindSpore'")
    if name == "MindSpore" and agent_settings.msrun_takes_plugin():
        log.info("no_agent", reason=f"{agent_settings.MSRUN} is plugin")
        return False
    server_rank = arguments.server_rank(wanted, RANK_VARIABLE[name])
    upstream = arguments.upstream(wanted)
    secured = arguments.secured(wanted, listens=False, connects=True)
    node = NodeConfig.agent(server_rank=server_rank, upstream=upstream, tls=secured)
    own_proxy = proxy(server_rank, upstream, MGR_VARIABLE[name], wanted)
    workers: LocalWorkers
    their_plans: Plans
    if name == "PyTorch":
        if cls is None:
            raise ConfigError("cls is None; expected the SimpleElasticAgent, as Framework is 'PyTorch'")
        workers, their_plans = PyTorchWorkers(_operators, cls), PyTorchPlans()
    else:
        workers, their_plans = MindSporeWorkers(_operators), agent_settings.mindspore_plans()
    devices = agent_settings.device_names(wanted)
    slot.fill(lambda: Agent(node, workers, their_plans, own_proxy, devices, **more), f"agent-{server_rank}.log")
    return True


@documented
def init_taskd_agent(config: Mapping[str, object] = {}, cls: object = None) -> bool:
    """Make this process the Agent of its node. It joins in the background, whenever its Proxy is there.

    Where the platform names the Mgr's host and nobody listens at the upstream, the Proxy of the node runs in this
    process too, until the Agent's end; see `taskd_net.job.api.node_proxy`.

    Args:
        config: `Framework` (`PyTorch`, the default, or `MindSpore`), `UpstreamAddr` (127.0.0.1) and `UpstreamPort`
            (9602), without both `TASKD_NET_UPSTREAM`; `ServerRank` (the variable `RANK` for PyTorch, `MS_NODE_RANK` for
            MindSpore, else 0); `Devices` (names of the node's devices by local rank, as its device watcher says them;
            `TASKD_NET_DEVICES`, else none). `enable_tls` and `tls_conf`: as in `init_taskd_proxy`.
        cls: the SimpleElasticAgent; needed for PyTorch, and for nothing else.

    Returns:
        True, or False with one line in the log: a value is not usable or missing, there is an Agent already, this
        process is a forked child, or `TASKD_NET_MSRUN` is `plugin` (MindSpore), so that msrun takes MSRunPlugin.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    return initialise(config, cls)


@documented
def start_taskd_agent() -> object:
    """Register with the Mgr, ask for the go, and run the workers as it commands, in the thread that calls.

    Returns:
        The RunResult of PyTorch's MONITOR when all workers have succeeded. True: the Agent was destroyed. False with
            one line in the log: no Agent was initialised, it has been started, or a function is not registered. The
            Agent has left the mesh when this ends; `init_taskd_agent` may be called again.

    Raises:
        SystemExit: the process has to leave. Status 1: the Mgr has sent 203, or 208 or 210 without restarts left
            (PyTorch); no join, go or answer to a fault came in time; the workers could not be started; or the Mgr's
            host is of no use (MindSpore, which ignores a result). With MindSpore its scheduler is ended. Status 0: a
            graceful exit has been carried out, or all workers have finished (MindSpore).
        An exception with a `sigval`, as a signal handler of PyTorch's elastic agent raises it.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    agent = slot.member
    try:
        agent.begin()
    except ConfigError as error:
        if not agent.workers.ignores_results:
            raise
        log.error("call_failed", call="start_taskd_agent", reason=str(error))
        slot.clear(agent)
        agent.workers.leave()
        raise SystemExit(1) from error
    try:
        outcome = agent.serve()
    finally:
        slot.clear(agent)
    match outcome:
        case Leave(status, _):
            agent.workers.leave()
            raise SystemExit(status)
        case Return(result):
            return result
        case None:
            return True


@documented
def destroy_taskd_agent() -> bool:
    """Leave the mesh, and so end `start_taskd_agent`, from any thread. The workers are left alone.

    Returns:
        True, or False with one line in the log: no Agent was initialised.
    """
    slot.clear()
    return True


@documented
def register_func(operator: str, func: Callable[..., object]) -> bool:
    """Register what the Agent calls to carry out a command, before or after `init_taskd_agent`.

    Args:
        operator: `KILL_WORKER`, `START_ALL_WORKER`, `START_WORKER_LIST`, `MONITOR` or `RESTART`.
        func: the function; see `taskd_net.job.api.pytorch` and `taskd_net.job.api.mindspore` for what it is called
            with. It replaces the one before.

    Returns:
        True, or False with one line in the log: an operator of another name, or nothing that can be called.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    _operators.register(operator, func)
    return True
