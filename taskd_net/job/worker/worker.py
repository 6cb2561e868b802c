"""The Worker: one training process of the job (docs/contract.md, section 7; TaskD API reference, "TaskD Worker").

The environment names the node of the process, as its framework's launcher sets it: `GROUP_RANK` (`pt`, torchrun), else
`RANK` and `LOCAL_WORLD_SIZE`; or `MS_NODE_RANK` (`ms`, msrun). `TASKD_NET_UPSTREAM` is the `host:port` of its Proxy, by
default 127.0.0.1:9602. `TASKD_NET_CA`, `TASKD_NET_CLIENT_KEY` and `TASKD_NET_CLIENT_CRT` are the files of TLS.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from taskd_net.base import fork, limits
from taskd_net.base.body import Body
from taskd_net.base.codes import ConfigError, NodeError
from taskd_net.base.position import Position
from taskd_net.base.vocabulary import (
    ACTION,
    INCARNATION,
    PROFILING_COMMANDS,
    REGISTER,
    WORKER_COMMANDS,
    WORKER_REGISTERS,
)
from taskd_net.job import arguments
from taskd_net.job.exchange import REGISTER_EVERY_S, RETRY_S, Fencing, from_mgr
from taskd_net.job.frameworks.kind import TrainingFramework
from taskd_net.job.member import StartGuard, leave, log
from taskd_net.job.profiling_domains import ProfilingSwitch
from taskd_net.job.profiling_switch import LOOK_S, SwitchWatch
from taskd_net.job.worker.attendant import BEAT_S, Attendant
from taskd_net.job.worker.disk import PRUNE_S, Pruner
from taskd_net.job.worker.receiver import HandlerThread
from taskd_net.job.worker.reporting import WorkerReports
from taskd_net.net.wire.codec import Message
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig

MTYPE: Final = "default"
_KINDS_NAMED: Final = 256


@dataclass(frozen=True, slots=True)
class Command(Body):
    """A received message, for a handler.

    Args:
        src: the sender; the Mgr, as a rule.
        uuid: of the message; resends have the same.
    """

    src: Position = field(default_factory=Position.mgr)
    uuid: str = ""


Handler = Callable[[Command], object]


class Handlers:
    """The application's handlers of commands. They belong to the application, so they outlive a Worker."""

    def __init__(self) -> None:
        self._by_kind: dict[int | str, Handler] = {}
        self._missing: set[tuple[int, str]] = set()

    def register(self, command: int | str, handler: Handler | None) -> None:
        if handler is None:
            self._by_kind.pop(command, None)
        else:
            self._by_kind[command] = handler

    def call(self, command: Command) -> bool:
        """Call the handler of a command: that of its code, else that of its msg_type. Returns whether there is one."""
        handler = self._by_kind.get(command.code) or self._by_kind.get(command.msg_type)
        if handler is not None:
            handler(command)
        return handler is not None

    def miss(self, command: Command) -> None:
        """Log a command without a handler: one line for each kind, none per message."""
        kind = (command.code, command.msg_type)
        if len(self._missing) < _KINDS_NAMED and kind not in self._missing:
            self._missing.add(kind)
            code, msg_type = kind
            log.warning("command_without_handler", code=code, msg_type=msg_type, src=str(command.src))


@dataclass(frozen=True, slots=True)
class WorkerTimes:
    """Times of a Worker in seconds, each as the constant says that is its default."""

    repeat: float = REGISTER_EVERY_S
    retry: float = RETRY_S
    beat: float = BEAT_S
    switch: float = LOOK_S
    prune: float = PRUNE_S
    handler: float = limits.HANDLER_GRACE_S
    close: float = limits.CLOSE_GRACE_S


class Worker:
    """The Worker of this process, from init to destroy.

    Args:
        config: the node.
        rank: its global rank.
        framework: its training framework.
        limit_mb: MB of the profiling files.
        handlers: the application's.
        times: that no user sets.
    """

    def __init__(
        self,
        config: NodeConfig,
        rank: int,
        framework: TrainingFramework,
        limit_mb: int,
        handlers: Handlers,
        times: WorkerTimes = WorkerTimes(),
    ) -> None:
        self._times = times
        self._handlers = handlers
        self.node = _early.take(config) or BlockingNode(config).start()
        registration = Body(REGISTER, WORKER_REGISTERS, extension={INCARNATION: str(uuid4())})
        self.reports = WorkerReports(self.node, registration, MTYPE, repeat=times.repeat, retry=times.retry)
        self._attendant = Attendant(self.node, rank, framework, MTYPE, self.reports.remember, times.beat)
        self._terms = Fencing()
        self._receiver = HandlerThread(self.node, self._take)
        self._switch = SwitchWatch(self._switched, every=times.switch)
        self._pruner = Pruner(limit_mb, times.prune)
        self._start = StartGuard()
        self._turn = fork.Lock()  # handlers run one after another

    def start(self) -> None:
        """Register with the Mgr, serve its commands, and keep the bound on the profiling folder.

        Raises:
            NodeError: a thread cannot be started; another call starts what is missing.
        """
        with self._start.step():
            self._receiver.start()
            self._switch.start()
            self._pruner.start()
            self.node.beside(self.reports.stay_registered)

    def close(self) -> None:
        """Leave the mesh, and end every thread but that of a device call."""
        self._switch.end()
        self.reports.close(self._times.close)
        leave(self.node)
        self._pruner.close()
        self._switch.close()
        self._receiver.join(self._times.handler)

    def _take(self, message: Message, body: Body) -> None:
        """Handle a message: the application first, then this package."""
        commanded = body.msg_type == ACTION or body.code in WORKER_COMMANDS
        if commanded and not (from_mgr(message) and self._terms.admits(message, body)):
            return
        if body.code in PROFILING_COMMANDS:
            self._switch.end()  # the Mgr has the say from now on
        command = Command(body.msg_type, body.code, body.message, body.extension, message.src, message.uuid)
        self._obey(command)

    def _switched(self, switch: ProfilingSwitch) -> None:
        """Carry the profiling switch of the file out, as the Mgr's command to the same effect."""
        command = Command(ACTION, PROFILING_COMMANDS.start + switch.state, src=self.node.position)
        try:
            self._obey(command)
        except (Exception, SystemExit) as error:
            log.error("handler_failed", code=command.code, msg_type=command.msg_type, exc_info=error)

    def _obey(self, command: Command) -> None:
        with self._turn:
            if self._handlers.call(command):
                return
        if command.msg_type == ACTION and command.code in WORKER_COMMANDS:
            self._attendant.take(command)
        else:
            self._handlers.miss(command)


class _Early:
    """The node that has begun to join before its Worker was initialised."""

    def __init__(self) -> None:
        self._node: BlockingNode | None = None

    def join(self, config: NodeConfig) -> None:
        """Begin to join."""
        self._node = BlockingNode(config).start()

    def take(self, config: NodeConfig) -> BlockingNode | None:
        """The node, if its Worker is the one of these settings; another one ends."""
        node, self._node = self._node, None
        if node is None or node.config == config:
            return node
        leave(node)
        return None


_early: Final = _Early()


def join_early(framework: TrainingFramework, rank_variable: str) -> None:
    """Begin to join the mesh before `init_taskd_worker`, in a training process of an Agent whose Manager waits for it.

    Joining takes longer than all else that the others wait for, and this process has its framework to import meanwhile.
    It changes nothing in other processes, and in children of a training process, whose environment is the same.

    Args:
        framework: of this process.
        rank_variable: variable with its global rank.
    """
    if os.environ.get(arguments.IN_PLACE) != "on" or os.environ.get(arguments.AGENT_PID) != str(os.getppid()):
        return
    try:
        _early.join(node_config(arguments.rank_of_environment(rank_variable), framework))
    except (ConfigError, NodeError) as error:  # `init_taskd_worker` says it again
        log.debug("joins_later", reason=str(error))


def node_config(rank: int, framework: TrainingFramework) -> NodeConfig:
    """The settings of the Worker's node.

    Raises:
        ConfigError: a variable of the environment is missing or not usable.
    """
    server_rank = framework.node_of_worker()
    upstream = os.environ.get(arguments.UPSTREAM) or f"{arguments.LOOPBACK}:{arguments.PROXY_PORT}"
    secured, job_id = arguments.secured({}, listens=False, connects=True), arguments.job_id()
    try:
        return NodeConfig.worker(server_rank=server_rank, rank=rank, job_id=job_id, upstream=upstream, tls=secured)
    except ConfigError as error:
        raise ConfigError(f"{arguments.UPSTREAM}: {error}") from None
