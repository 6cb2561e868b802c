"""The Worker: one training process of the job (docs/contract.md, section 7; TaskD API reference, "TaskD Worker").

The environment names the node of the process, as its framework's launcher sets it: `RANK` and `LOCAL_WORLD_SIZE` (`pt`,
torchrun), or `MS_NODE_RANK` (`ms`, msrun). `TASKD_NET_UPSTREAM` is the `host:port` of its Proxy, by default
127.0.0.1:9602. `TASKD_NET_CA`, `TASKD_NET_CLIENT_KEY` and `TASKD_NET_CLIENT_CRT` are the files of TLS.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

from taskd_net.base import fork, limits
from taskd_net.base.body import Body
from taskd_net.base.codes import ConfigError, NodeError
from taskd_net.base.position import Position
from taskd_net.base.untrusted import shown
from taskd_net.base.vocabulary import (
    ACTION,
    INCARNATION,
    PROFILING_COMMANDS,
    REGISTER,
    WORKER_COMMANDS,
    WORKER_REGISTERS,
)
from taskd_net.job import arguments
from taskd_net.job.api.attendant import BEAT_S, Attendant
from taskd_net.job.api.disk import PRUNE_S, Pruner
from taskd_net.job.api.receiver import HandlerThread
from taskd_net.job.api.reporting import WorkerReports
from taskd_net.job.exchange import REGISTER_EVERY_S, RETRY_S, Fencing, from_mgr
from taskd_net.job.frameworks.kind import TrainingFramework
from taskd_net.job.frameworks.registry import of_worker
from taskd_net.job.member import Singleton, StartGuard, documented, leave, log
from taskd_net.job.profiling_domains import ProfilingSwitch
from taskd_net.job.profiling_switch import LOOK_S, SwitchWatch
from taskd_net.net.wire.codec import Message
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig

UPSTREAM: Final = arguments.UPSTREAM
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


class _Handlers:
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


_handlers: Final = _Handlers()


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
        times: that no user sets.
    """

    def __init__(
        self,
        config: NodeConfig,
        rank: int,
        framework: TrainingFramework,
        limit_mb: int,
        times: WorkerTimes = WorkerTimes(),
    ) -> None:
        self._times = times
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
            if _handlers.call(command):
                return
        if command.msg_type == ACTION and command.code in WORKER_COMMANDS:
            self._attendant.take(command)
        else:
            _handlers.miss(command)


slot: Final[Singleton[Worker]] = Singleton("worker")


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
        _early.join(_settings(arguments.rank_of_environment(rank_variable), framework))
    except (ConfigError, NodeError) as error:  # `init_taskd_worker` says it again
        log.debug("joins_later", reason=str(error))


def _settings(rank: int, framework: TrainingFramework) -> NodeConfig:
    """The settings of the Worker's node.

    Raises:
        ConfigError: a variable of the environment is missing or not usable.
    """
    server_rank = framework.node_of_worker()
    upstream = os.environ.get(UPSTREAM) or f"{arguments.LOOPBACK}:{arguments.PROXY_PORT}"
    secured = arguments.secured({}, listens=False, connects=True)
    try:
        return NodeConfig.worker(server_rank=server_rank, rank=rank, upstream=upstream, tls=secured)
    except ConfigError as error:
        raise ConfigError(f"{UPSTREAM}: {error}") from None


def initialise(
    rank_id: int, upper_limit_of_disk_in_mb: int = 5000, framework: str = "pt", times: WorkerTimes = WorkerTimes()
) -> bool:
    """Carry out `init_taskd_worker`, whose arguments are TaskD's, for a Worker with other times.

    Raises:
        ConfigError, Refused: as that call says in the log.
    """
    rank = arguments.whole(rank_id, "rank_id")
    limit_mb = arguments.whole(upper_limit_of_disk_in_mb, "upper_limit_of_disk_in_mb")
    chosen = of_worker(framework)
    config = _settings(rank, chosen)
    slot.fill(lambda: Worker(config, rank, chosen, limit_mb, times), f"taskd-worker-{rank}.log")
    return True


@documented
def init_taskd_worker(rank_id: int, upper_limit_of_disk_in_mb: int = 5000, framework: str = "pt") -> bool:
    """Make this training process a Worker of the mesh. It joins in the background, whenever its Proxy is there.

    Args:
        rank_id: the global rank of this process.
        upper_limit_of_disk_in_mb: MB that the profiling files of all ranks of the node may take, more or less; at least
            0. See `taskd_net.job.api.disk`.
        framework: `pt` (PyTorch) or `ms` (MindSpore).

    Returns:
        True, or False with one line in the log: an argument or a variable is missing or not usable, there is a Worker,
            or this process is a forked child.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    return initialise(rank_id, upper_limit_of_disk_in_mb, framework)


@documented
def start_taskd_worker() -> bool:
    """Register the Worker with the Mgr, in the background, and begin to serve commands with the registered handlers.

    Returns:
        True, or False with one line in the log: no Worker was initialised, or it has been started.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    slot.member.start()
    return True


@documented
def destroy_taskd_worker() -> bool:
    """Leave the mesh. Afterwards `init_taskd_worker` can be called again; registered handlers stay.

    Returns:
        True, or False with one line in the log: no Worker was initialised, or one of its handlers does not return (the
        Worker is gone all the same).

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    slot.clear()
    return True


@documented
def register_handler(command: int | str, handler: Handler | None) -> bool:
    """Register a function for messages to this Worker, from the Mgr or any other node.

    It runs in a thread of its own, one command after another, for as long as it needs; its errors are logged. A resend
    with the same uuid is suppressed.

    Args:
        command: the `code` (such as 700) or the `msg_type` (such as `"ACTION"`) of a command; a code goes before a
            msg_type.
        handler: called with a `Command`; replaces the one before. None: no handler any more.

    Returns:
        True, or False with one line in the log: `command` or `handler` is not usable, or this is a forked child.
    """
    if isinstance(command, bool) or not isinstance(command, int | str):
        raise ConfigError(f"command is {shown(command)}; expected a code (int) or a msg_type (str)")
    if handler is not None and not callable(handler):
        raise ConfigError(f"handler is {shown(handler)}; expected a function, or None")
    _handlers.register(command, handler)
    return True


@documented
def send_to_manager(
    code: int,
    msg_type: str,
    message: str = "",
    extension: Mapping[str, str] | None = None,
    *,
    timeout: float = limits.ACK_TIMEOUT_S,
    wait: bool = True,
) -> bool:
    """Report to the Mgr from this process's Worker, and wait for the Ack.

    It is resent with one uuid until the Ack or the end of `timeout`, so it arrives once. After a call without an Ack,
    calls fail at once until the Mgr can be reached, which is tried in the background. So a training step waits for
    `timeout` once per outage of the Mgr.

    Args:
        code: the number of the report, such as 1410.
        msg_type: its type, such as `STATUS`.
        message: details.
        extension: more of it, by key.
        timeout: seconds for all of it, above 0.
        wait: False: hand the report over and return at once. It is sent in the background, in the order of these calls,
            and given up after `timeout` seconds. `destroy_taskd_worker` gives what still waits a second.

    Returns:
        True when the Mgr has acknowledged it; without `wait`, when it was handed over. Else False with one line in the
        log that says why not.
    """
    seconds = arguments.seconds(timeout, "timeout")
    reports, body = slot.member.reports, Body(msg_type, code, message, extension or {})
    if wait:
        reports.send(body, seconds)
    else:
        reports.post(body, seconds)
    return True
