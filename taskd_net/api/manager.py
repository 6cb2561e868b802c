"""The Manager: the root of a job's mesh (contract, section 7; TaskD API reference, "TaskD Manager").

It keeps the last reports of every node, and gives Agents the go to start. Faults are judged elsewhere, from these
reports.
"""

from __future__ import annotations

import itertools
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Final
from uuid import uuid4

from taskd_net import job_limits, vocabulary
from taskd_net.api import arguments
from taskd_net.api.agent_messages import go
from taskd_net.api.body import Body
from taskd_net.api.member import Once, Refused, Slot, documented, log
from taskd_net.api.receiver import Receiver
from taskd_net.blocking import BlockingNode
from taskd_net.codes import ConfigError, describe
from taskd_net.config import NodeConfig
from taskd_net.node import Node
from taskd_net.position import Position, Role
from taskd_net.retry import repeat
from taskd_net.untrusted import shown
from taskd_net.wire.codec import Message

_TEXTS: Final = ("job_id", "plugin_dir", "fault_recover", "taskd_enable")
_NUMBERS: Final = ("node_nums", "proc_per_node")
_CLUSTER_TEXTS: Final = ("ip", "port", "name", "role")


@dataclass(frozen=True, slots=True)
class Report:
    """A node's report.

    Args:
        body: its content.
        at: time of arrival, in seconds since the epoch.
        uuid: the message's uuid.
    """

    body: Body
    at: float
    uuid: str


Reports = Mapping[tuple[str, int], Report]
"""A node's last reports, by msg_type and code."""


class Manager:
    """The Mgr of this process, from init to destroy.

    Args:
        node: the mesh's side of it.
        config: the checked `config` of the call.
    """

    def __init__(self, node: NodeConfig, config: Mapping[str, object]) -> None:
        self.config = config
        self.node = BlockingNode(node).start()
        self._receiver = Receiver(self.node, self._take)
        self._start = Once()
        # A SimpleQueue, as a signal handler may put into it while its own thread is about to wait; an Event may
        # deadlock.
        self._ending: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._incarnation = str(uuid4())
        self._reports: dict[Position, Reports] = {}
        self._answering: set[Position] = set()

    def begin(self) -> None:
        """Take reports from now on."""
        self._start.take()
        self._receiver.start()
        log.info("manager_started", **{key: self.config[key] for key in _TEXTS + _NUMBERS if key in self.config})

    def wait(self) -> None:
        """Wait for `end` or `close`."""
        self._ending.get()

    def end(self) -> None:
        """Let `wait` return; safe in a signal handler."""
        self._ending.put(None)

    def close(self) -> None:
        """Leave the mesh, and end every thread."""
        self.end()
        self.node.close()
        self._receiver.join()

    @property
    def reports(self) -> Mapping[Position, Reports]:
        """The last reports of every node; a copy."""
        return dict(self._reports)

    def _take(self, message: Message, body: Body) -> None:
        src = message.src.identity
        before = self._reports.get(src, {})
        kind = (body.msg_type, body.code)
        if body.msg_type == vocabulary.REGISTER:
            process, known = _incarnation(body), before.get(kind)
            if known is not None and process is not None and process == _incarnation(known.body):
                return
            if known is not None or process is None:
                before = {}  # of another process
        kept = {other: report for other, report in before.items() if other != kind}
        if len(kept) >= job_limits.REPORTS_PER_NODE:
            del kept[next(iter(kept))]  # the oldest
        # A new dict each time, so that readers have one that does not change.
        self._reports[src] = {**kept, kind: Report(body, time.time(), message.uuid)}
        if body.code == vocabulary.MAY_I_START and src.role == Role.AGENT and src not in self._answering:
            self._answering.add(src)
            self.node.beside(lambda node: self._give_the_go(node, src, body.message, message.mtype))

    async def _give_the_go(self, node: Node, agent: Position, remaining: str, mtype: str) -> None:
        """Answer a 201 with a 210 of the same mtype, as TaskD's Mgr does."""
        body, uuid = go(remaining, self._incarnation), str(uuid4())
        try:
            ack = await repeat(
                lambda: node.send(body.to_json(), to=agent, mtype=mtype, uuid=uuid),
                itertools.repeat(job_limits.COMMAND_RETRY_S, job_limits.COMMAND_ATTEMPTS - 1),
            )
            if ack.ok:
                log.info("agent_may_start", agent=str(agent))
            else:
                log.warning("command_not_taken", dst=str(agent), code=body.code, reason=describe(ack.code))
        finally:
            self._answering.discard(agent)


slot: Final[Slot[Manager]] = Slot("manager")


@documented
def init_taskd_manager(config: Mapping[str, object]) -> bool:
    """Make this process the Mgr of the job. It listens when this returns, on `POD_IP` (127.0.0.1), port 9601.

    Args:
        config: all of it optional. `job_id`, `plugin_dir`, `fault_recover`, `taskd_enable`: texts. `node_nums`,
            `proc_per_node`: whole numbers; with both it can be asked which ranks are missing. `cluster_infos`: a dict,
            or a list of dicts, with the texts `ip`, `port`, `name`, `role`. `enable_tls`, `tls_conf`,
            `PlainListenAddr`, `PlainListenPort`: as in `init_taskd_proxy`.

    Returns:
        True, or False with one line in the log: a value is of another type, the address cannot be listened on, there is
        a Manager already, or this process is a forked child.

    Source: TaskD API reference; contract, section 7.
    """
    wanted = _checked(arguments.checked(config))
    listen = arguments.joined(os.environ.get("POD_IP") or arguments.LOOPBACK, "POD_IP", arguments.MGR_PORT, "port")
    node = NodeConfig.mgr(
        listen=listen,
        expect=_expected(wanted),
        plain_listen=arguments.plain_address(wanted, arguments.MGR_PORT),
        tls=arguments.secured(wanted, listens=True, connects=False),
    )
    slot.fill(lambda: Manager(node, wanted), "manager.log")
    return True


@documented
def start_taskd_manager() -> bool:
    """Serve the job, until `destroy_taskd_manager` is called in another thread or the process gets SIGTERM.

    SIGTERM ends it so where this is called in the main thread and the application has no handler for it. SIGINT raises
    KeyboardInterrupt, as ever. The Manager is gone when this returns; `init_taskd_manager` may be called again.

    Returns:
        True when it was ended, or False with one line in the log: no Manager was initialised, or it has been started.

    Source: TaskD API reference; contract, section 7.
    """
    manager = slot.member
    manager.begin()
    try:
        with _ended_by_sigterm(manager):
            manager.wait()
    finally:
        slot.clear(manager)
    return True


@documented
def destroy_taskd_manager() -> bool:
    """End the job's mesh, and so `start_taskd_manager`, from any thread.

    Returns:
        True, or False with one line in the log: no Manager was initialised.
    """
    slot.clear()
    return True


def last_reports() -> Mapping[Position, Reports]:
    """The last reports to this process's Manager, by position, then by msg_type and code; empty without a Manager.

    A REGISTER of another process at a position removes the reports of the one before.
    """
    try:
        return slot.member.reports
    except Refused:
        return {}


@contextmanager
def _ended_by_sigterm(manager: Manager) -> Iterator[None]:
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return

    def handle(_: int, __: FrameType | None) -> None:
        manager.end()

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _incarnation(registration: Body) -> str | None:
    """The process that registers; None for one of the original's, which registers once."""
    return registration.extension.get(vocabulary.INCARNATION)


def _expected(config: Mapping[str, object]) -> str | None:
    """The size of the job, if the configuration says it."""
    nodes, processes = (config.get(key) for key in _NUMBERS)
    return f"{nodes}x{processes}" if nodes and processes is not None else None


def _checked(config: Mapping[str, object]) -> Mapping[str, object]:
    for key in _TEXTS:
        if not isinstance(config.get(key, ""), str):
            raise ConfigError(f"{key} is {shown(config[key])}; expected a text")
    for key in _NUMBERS:
        if key in config:
            arguments.whole(config[key], key)
    infos = config.get("cluster_infos", {})
    for info in infos if isinstance(infos, list) else [infos]:
        if not isinstance(info, Mapping):
            raise ConfigError(f"cluster_infos is {shown(infos)}; expected a dict with ip, port, name and role")
        for key in _CLUSTER_TEXTS:
            if not isinstance(info.get(key, ""), str):
                raise ConfigError(f"{key} of cluster_infos is {shown(info[key])}; expected a text")
    return config
