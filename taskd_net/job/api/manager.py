"""The Manager: the root of a job's mesh (docs/contract.md, section 7; TaskD API reference, "TaskD Manager").

`taskd_net.job.manager` decides, in the node's thread; docs/manager.md says what.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final

from taskd_net.base import logs
from taskd_net.base.body import Body
from taskd_net.base.codes import ConfigError, NodeClosed, NodeError
from taskd_net.base.position import Position
from taskd_net.base.schema import Group, Kind, settings_of
from taskd_net.base.untrusted import shown
from taskd_net.base.vocabulary import KEEP_ALIVE
from taskd_net.base.waiting import taken
from taskd_net.job import arguments, manager
from taskd_net.job.clusterd.place import PORT
from taskd_net.job.decide.records import ProcessRecord
from taskd_net.job.manager.config import STATE_FILE, size
from taskd_net.job.member import Refused, Singleton, StartGuard, documented
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig
from taskd_net.node.node import Node

_TEXTS: Final = ("job_id", "plugin_dir", "fault_recover", "taskd_enable")
_NUMBERS: Final = ("node_nums", "proc_per_node")
_FAULTS: Final = [name for name, each in settings_of(manager.ManagerConfig).items() if each.group is Group.FAULTS]
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


class HostedManager:
    """The Mgr of this process, from init to destroy.

    Args:
        node: the mesh's side of it.
        config: the checked `config` of the call.
        more: further arguments of the `Succession`.
    """

    def __init__(self, node: NodeConfig, config: Mapping[str, object], **more: Any) -> None:
        self._more = more
        self.config = config
        self._settings = _settings(config)
        self.node = BlockingNode(replace(node, standby=self._settings.in_etcd)).start()
        self._deciding: manager.Succession | None = None
        self._start = StartGuard()
        self._closing = False
        self._ending: SimpleQueue[None] = SimpleQueue()  # not an Event, whose lock a handler could wait for

    def begin(self) -> None:
        """Take reports, and decide, from now on.

        Raises:
            ConfigError: the state cannot be used.
            NodeError: a thread cannot be started.
        """
        self._start.take()

        async def start(node: Node) -> None:
            # Known before the look at `_closing`, which `close` in another thread sets before it looks for this.
            self._deciding = deciding = manager.Succession(node, self._settings, **self._more)
            if not self._closing:
                await deciding.start()

        self.node.run(start)

    def wait(self) -> None:
        """Wait for `end` or `close`."""
        taken(self._ending)

    def end(self) -> None:
        """Let `wait` return; safe in a signal handler."""
        self._ending.put(None)

    def close(self) -> None:
        """Leave the mesh, and end every thread."""
        self.end()
        self._closing = True
        deciding, self._deciding = self._deciding, None
        if deciding is not None:
            self.node.run(lambda _: deciding.close())
        self.node.close()

    @property
    def reports(self) -> Mapping[Position, Reports]:
        """The last reports of every node; a copy, empty until the Manager has started."""
        deciding = self._deciding
        return {} if deciding is None else self.node.run(lambda _: _reports(deciding))


async def _reports(deciding: manager.Succession) -> Mapping[Position, Reports]:
    if not deciding.leads or deciding.manager is None:
        return {}
    records = deciding.manager.job.state.records
    positions: dict[Position, ProcessRecord] = {Position.agent(rank): record for rank, record in records.agents.items()}
    positions |= {Position.worker(each.node, rank): each for rank, each in records.workers.items()}
    return {position: dict(_kinds(record)) for position, record in positions.items()}


def _kinds(record: ProcessRecord) -> Iterator[tuple[tuple[str, int], Report]]:
    """The reports of a record by kind; of the heartbeats the time of the last one."""
    for name, report in record.reports.items():
        kind, _, code = name.rpartition("/")
        body = Body(kind, int(code), report.message, report.extension)
        yield (kind, int(code)), Report(body, report.at, report.uuid)
    if record.heartbeat:
        yield (KEEP_ALIVE, 0), Report(Body(KEEP_ALIVE, 0), record.heartbeat, "")


slot: Final[Singleton[HostedManager]] = Singleton("manager")


@documented
def init_taskd_manager(config: Mapping[str, object]) -> bool:
    """Make this process the Mgr of the job. It listens when this returns, on `POD_IP` (127.0.0.1), port 9601.

    Args:
        config: all of it optional. `job_id`, `plugin_dir`, `fault_recover`, `taskd_enable`: texts. `node_nums`,
            `proc_per_node`: whole numbers; with both it can be asked which ranks are missing. `cluster_infos`: a dict,
            or a list of dicts, with the texts `ip`, `port`, `name`, `role`. `fault_config`, `fault_edition`,
            `fault_mode`, `fault_job`, `sub_health`, `linkdown_timeout`, `fault_watch`, `fault_devices`,
            `fault_separated`, `fault_on_reset`, `fault_reporters`: as in docs/configuration.md, else
            `TASKD_NET_<NAME>`. `enable_tls`,
            `tls_conf`, `PlainListenAddr`, `PlainListenPort`: as in `init_taskd_proxy`.

    Returns:
        True, or False with one line in the log: a value is of another type, the address cannot be listened on, there is
        a Manager already, or this process is a forked child.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    wanted = _checked(arguments.checked(config))
    local = os.environ.get("LOCAL_PROXY_ENABLE") == "on"
    host = arguments.LOOPBACK if local else os.environ.get("POD_IP") or arguments.LOOPBACK
    listen = arguments.joined(host, "POD_IP", arguments.MGR_PORT, "port")
    node = NodeConfig.mgr(
        job_id=_job_id(wanted),
        listen=listen,
        confirms=True,
        expect=_expected(wanted),
        plain_listen=arguments.plain_address(wanted, arguments.MGR_PORT),
        tls=arguments.secured(wanted, listens=True, connects=False),
    )
    slot.fill(lambda: HostedManager(node, wanted), "manager.log")
    return True


@documented
def start_taskd_manager() -> bool:
    """Serve the job, until `destroy_taskd_manager` is called in another thread or the process gets SIGTERM.

    With the state in etcd (`TASKD_NET_STATE`) it stands by while another process leads (docs/high-availability.md).

    SIGTERM ends it so where this is called in the main thread and the application has no handler for it. SIGINT raises
    KeyboardInterrupt, as ever. The Manager is gone when this returns; `init_taskd_manager` may be called again.

    Returns:
        True when it was ended, or False with one line in the log: no Manager was initialised, or it has been started.

    Source: TaskD API reference; docs/contract.md, section 7.
    """
    member = slot.member
    try:
        member.begin()
    except (ConfigError, NodeError):
        slot.clear(member)
        raise
    try:
        with _ended_by_sigterm(member):
            member.wait()
    finally:
        slot.clear(member)
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

    A REGISTER of another process at a position removes the reports of the one before. A KEEP_ALIVE has its time alone.
    """
    try:
        return slot.member.reports
    except (Refused, NodeClosed):
        return {}


@contextmanager
def _ended_by_sigterm(member: HostedManager) -> Iterator[None]:
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return

    def handle(_: int, __: FrameType | None) -> None:
        member.end()

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _settings(config: Mapping[str, object]) -> manager.ManagerConfig:
    """The Manager's settings in a checked `config` and in the environment.

    As with TaskD, `PROCESS_RECOVER=on` switches recovery on; `TASKD_PROCESS_ENABLE` alone decides on `taskd_enable`.
    """
    given = _of_environment() | {name: config[name] for name in _FAULTS if name in config}
    job_id = _job_id(config)
    folder = Path(os.environ.get(logs.PATH) or logs.DEFAULT_PATH)
    expected = size(_expected(config))
    given |= {
        "job_id": job_id,
        "fault_recover": "on" if os.environ.get("PROCESS_RECOVER") == "on" else str(config.get("fault_recover") or ""),
        "clusterd_addr": given.get("clusterd_addr") or _clusterd(config),
        "plugins": str(config.get("plugin_dir") or "") or None,
        # Without a job there is nothing to tell the states of two by.
        "state": given.get("state") or str(folder / STATE_FILE) if job_id else None,
        "nodes": expected.nodes,
        "processes_per_node": expected.processes,
    }
    return manager.ManagerConfig(**given)


def _job_id(config: Mapping[str, object]) -> str:
    """The id of the job, as the configuration, or the environment, says it; empty for none."""
    return str(config.get("job_id") or arguments.job_id() or os.environ.get("MINDX_TASK_ID") or "")


def _of_environment() -> dict[str, Any]:
    """The values of those settings that have a variable in the environment."""
    return {
        name: arguments.read(said[1], each.kind)
        for name, each in settings_of(manager.ManagerConfig).items()
        if (said := each.variable(name, os.environ)) is not None
    }


def _clusterd(config: Mapping[str, object]) -> str | None:
    """The address of ClusterD in `cluster_infos`; None where they have none."""
    infos = config.get("cluster_infos", {})
    for info in infos if isinstance(infos, list) else [infos]:
        if isinstance(info, Mapping) and str(info.get("role")).lower() == "clusterd" and info.get("ip"):
            port = info.get("port") or str(PORT)
            return arguments.joined(str(info["ip"]), "ip", port, "port")
    return None


def _expected(config: Mapping[str, object]) -> str | None:
    """The size of the job, if the configuration says it."""
    nodes, processes = (config.get(key) for key in _NUMBERS)
    return f"{nodes}x{processes}" if nodes and processes is not None else None


def _checked(config: Mapping[str, object]) -> Mapping[str, object]:
    declared = settings_of(manager.ManagerConfig)
    for key in _TEXTS:
        if not isinstance(config.get(key, ""), str):
            raise ConfigError(f"{key} is {shown(config[key])}; expected a text")
    for key in _FAULTS:
        if declared[key].kind in (Kind.FILE, Kind.FOLDER) and not isinstance(config.get(key, ""), str):
            raise ConfigError(f"{key} is {shown(config[key])}; expected a {declared[key].range}")
    for key in _NUMBERS:
        if key in config:
            arguments.whole(config[key], key)
    infos = config.get("cluster_infos", {})
    for info in infos if isinstance(infos, list) else [infos]:
        if not isinstance(info, Mapping):
            raise ConfigError(f"cluster_infos is {shown(infos)}; expected a dict with ip, port, name and role")
        for key in _CLUSTER_TEXTS:
            if not isinstance(info.get(key), str | None):
                raise ConfigError(f"{key} of cluster_infos is {shown(info[key])}; expected a text")
    return config
