"""Settings of a job's Manager."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from taskd_net.base.codes import ConfigError
from taskd_net.base.expect import Expected
from taskd_net.base.limits import IN_PLACE_S, NODE_S, TIMEOUT_MAX_S
from taskd_net.base.position import read_nodes
from taskd_net.base.schema import Group, Kind, setting, settings_of
from taskd_net.base.untrusted import natural
from taskd_net.base.vocabulary import JOB, ON_HANG, ON_HANG_REPORT, PLATFORM
from taskd_net.job.clusterd.place import CLUSTERD_VARIABLES
from taskd_net.job.faults.config import FaultSettings
from taskd_net.job.keep.place import is_etcd
from taskd_net.net.tls.files import Tls

if TYPE_CHECKING:
    from taskd_net.job.decide.snapshot import JobConfig

PROCESS_INTERVAL_MS: Final = (100, 1000)
"""Least and greatest milliseconds of `TASKD_PROCESS_INTERVAL`; outside it is the least, as with TaskD's Manager."""

PLUGIN_S: Final = 1.0
"""Seconds for one call of a user's plugin."""

NODE_LEAST_S: Final = 1.0
"""The shortest `node_timeout`, in seconds: nodes need as long to start."""

NODE_LONGEST_S: Final = 86_400.0
"""The longest `node_timeout`, in seconds: a day, after which nobody waits any more."""

IN_PLACE_LONGEST_S: Final = 3600.0
"""The longest of that setting."""

INTERVAL: Final = "TASKD_PROCESS_INTERVAL"
OFF: Final = "off"

DECISION_WAIT: Final = "MINDIO_WAIT_MINDX_TIME"
"""MindIO's variable with the seconds that it waits for ClusterD's decision."""

DECISION_WAIT_MOST_S: Final = 3600
"""Seconds of it that MindIO takes at most."""

RESET_FILE: Final = "/user/restore/reset/config/reset.json"
"""The platform's file with RetryTime."""

STATE_FILE: Final = "manager-state.sqlite3"
"""Name of the state file beside the log file."""


_manager: Final = partial(setting, group=Group.MANAGER, of=("mgr",))
_fault: Final = partial(setting, group=Group.FAULTS, of=("mgr",))


def _interval(text: str) -> str | None:
    """The milliseconds of `TASKD_PROCESS_INTERVAL`; None outside its bounds."""
    least, most = PROCESS_INTERVAL_MS
    number = natural(text.strip(), most)
    return None if number is None or number < least else str(number)


def ignored_interval() -> str | None:
    """The text of `TASKD_PROCESS_INTERVAL` where it is set and out of bounds."""
    text = os.environ.get(INTERVAL)
    return text if text and _interval(text) is None else None


def _enabled(text: str) -> str:
    return "false" if text == "off" else "true"


def _recover(text: str) -> str | None:
    return "on" if text == "on" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfig(FaultSettings):
    """The settings of the Manager of one job; those of the fault levels stand with them.

    Args:
        fault_recover: Recovery by process; any text but `off` switches it on. ClusterD decides on faults then, where
            the Manager is connected to it; without ClusterD it changes nothing.
        plugins: Folder with users' plugins (`*.py`, one class each). Everything in it runs in the Manager's process.
        plugin_timeout: Seconds for one call of a user's plugin. Longer lets a slow plugin work, and one that hangs
            keep its stream for longer.
        state: File for the state, so that a Manager that was killed goes on and repeats nothing. Or a prefix in etcd,
            `etcd://HOST:PORT[,HOST:PORT…]/PREFIX`, so that it may go on elsewhere ([high
            availability](high-availability.md)).
        state_ca: PEM file with the certificates of etcd's signers. With it etcd is spoken to by TLS.
        state_key: PEM file with the key for etcd.
        state_crt: PEM file with the certificate for etcd; its CN is the user of etcd.
        reset_file: File with the platform's `RetryTime`; a change restarts the job's processes.
        process_interval: Milliseconds between two looks of a plugin that waits. Reports and signals are looked at at
            once. TaskD's variable with a value out of range is 100, with a warning.
        clusterd_addr: Address of ClusterD. With a job id the Manager is its client: it takes orders, and reports how
            they went ([recovery](recovery.md)).
        taskd_enable: Recovery by process is on at all. TaskD's variable switches it off with `off`, and on with any
            other text.
        in_place: Restart failed Workers alone, and have the others rejoin in their processes. It needs training
            scripts that rejoin, and changes nothing for others ([manager](manager.md)). Where ClusterD decides, it
            carries out its orders so ([recovery](recovery.md#scripts-that-rejoin)).
        in_place_timeout: Seconds that a Worker has to come back in place. A longer time lets slow starts work, and
            delays the recovery from a Worker that hangs.
        restarts: Who starts again what has failed. `platform`: Agents of failed nodes leave, and a platform starts
            pods again. `job`: the Manager restarts processes and the nodes stay, in place where ranks rejoin, else all
            of them together. It needs `expect` ([training](training.md)). `in_place` without ClusterD means `job`.
        node_timeout: Seconds that the other nodes wait for one that has not come, or is lost, where the Manager
            restarts. Then all end.
        hang_timeout: Seconds without a mark of the training after which a job counts as hung; 0: never. Without it the
            limit is learnt, and at least 300. A shorter one finds a hang sooner; give more than the longest evaluation
            or checkpoint takes ([watching](watching.md#is-it-stuck)).
        on_hang: Answer to a hang. `report`: only tell it. `guilty`: restart the ranks that hold up the others, in place
            where ranks rejoin. `all`: restart all. The last two need `restarts` `job`, cost a restart of the budget,
            and restart all where nobody is named.
        fault_devices: File with the global rank of each device, for devices whose Agents do not say it.
        fault_separated: File with the devices that a person has to give free. The Manager adds names, and people
            remove them.
        fault_on_reset: Program that resets a device: `PROGRAM HOST NAME`, with exit status 0 when it is back. Without
            one a fault that asks for a reset isolates the device ([manager](manager.md)).
        fault_reporters: Positions whose reports count about every node. It matters where nodes take positions by
            certificates: any other report counts about its sender's own node ([fault levels](faults.md#reporters)).
        clusterd: Signals of ClusterD come in by a queue of the process.
        resets: A hook of the process resets devices.
        job_id: Id of the job, a setting of the node; None for a Manager that decides nothing.
        nodes, processes_per_node: Size of the job; 0 for unknown.

    Raises:
        ConfigError: names the field, its value and the range.
    """

    fault_recover: str = _manager(Kind.TEXT, "", variables={"PROCESS_RECOVER": _recover}, unset="off")
    plugins: str | None = _manager(Kind.FOLDER, None, unset="none")
    plugin_timeout: float = _manager(Kind.SECONDS, PLUGIN_S, most=60.0)
    state: str | None = _manager(Kind.FILE, None, unset="beside the log file")
    state_ca: str | None = _manager(Kind.FILE, None, unset="none")
    state_key: str | None = _manager(Kind.FILE, None, unset="none")
    state_crt: str | None = _manager(Kind.FILE, None, unset="none")
    reset_file: str = _manager(Kind.FILE, RESET_FILE)
    process_interval: int = _manager(
        Kind.WHOLE,
        PROCESS_INTERVAL_MS[0],
        least=PROCESS_INTERVAL_MS[0],
        most=PROCESS_INTERVAL_MS[1],
        variables={INTERVAL: _interval},
    )
    clusterd_addr: str | None = _manager(Kind.ADDRESS, None, variables=CLUSTERD_VARIABLES, unset="none")
    taskd_enable: bool = _manager(Kind.SWITCH, True, variables={"TASKD_PROCESS_ENABLE": _enabled})
    in_place: bool = _manager(Kind.SWITCH, False)
    in_place_timeout: float = _manager(Kind.SECONDS, IN_PLACE_S, most=IN_PLACE_LONGEST_S)
    restarts: str | None = _manager(
        Kind.CHOICE, None, choices=(JOB, PLATFORM), unset="`job` with `in_place` and `expect`, without ClusterD"
    )
    node_timeout: float = _manager(Kind.SECONDS, NODE_S, least=NODE_LEAST_S, most=NODE_LONGEST_S)
    hang_timeout: float | None = _manager(Kind.PERIOD, None, most=TIMEOUT_MAX_S, unset="learnt")
    on_hang: str = _manager(Kind.CHOICE, ON_HANG_REPORT, choices=ON_HANG)
    fault_devices: str | None = _fault(Kind.FILE, None, unset="none")
    fault_separated: str | None = _fault(Kind.FILE, None, unset="beside the state file")
    fault_on_reset: str | None = _fault(Kind.FILE, None, unset="none")
    fault_reporters: str | None = _fault(Kind.POSITIONS, None, unset="none")
    clusterd: bool = False
    resets: bool = False
    job_id: str | None = None
    nodes: int = 0
    processes_per_node: int = 0

    @property
    def state_tls(self) -> Tls | None:
        """The files of etcd's client; None for plain text.

        Raises:
            ConfigError: one of the three is missing.
        """
        given = {"state_ca": self.state_ca, "state_key": self.state_key, "state_crt": self.state_crt}
        if not any(given.values()):
            return None
        if missing := [name for name, path in given.items() if not path]:
            raise ConfigError(f"{missing[0]} is missing; expected state_ca, state_key and state_crt together")
        return Tls(ca=str(self.state_ca), client_key=self.state_key, client_crt=self.state_crt)

    @property
    def supervises(self) -> bool:
        """True where the Manager restarts processes, and no platform does.

        Without a size nobody knows when all nodes are there, so recovery in place is as with a platform then.
        """
        if self.restarts is not None:
            return self.restarts == JOB
        return self.in_place and self.nodes > 0 and not self.clusterd and self.clusterd_addr is None

    @property
    def in_etcd(self) -> bool:
        """True where the state is in etcd, so that another Manager may lead."""
        return is_etcd(self.state)

    @property
    def subscribes(self) -> bool:
        """True where the Manager itself is a client of ClusterD."""
        return bool(self.job_id and self.clusterd_addr and self.taskd_enable and not self.clusterd)

    @property
    def has_framework(self) -> bool:
        """True where the Manager has the training framework's controller without a ClusterD."""
        return bool(self.job_id and self.taskd_enable and not self.clusterd_addr and not self.clusterd)

    def rooted(self) -> Self:
        """The same settings with absolute paths, as the application may change its folder.

        The name of a program without a folder stays: it is looked for in PATH.
        """
        kinds = {name: each.kind for name, each in settings_of(self).items()}
        given = {name: getattr(self, name) for name, kind in kinds.items() if kind in {Kind.FILE, Kind.FOLDER}}
        if is_etcd(self.state):
            del given["state"]
        if os.sep not in (self.fault_on_reset or ""):
            del given["fault_on_reset"]
        paths: dict[str, Any] = {name: str(Path(value).absolute()) for name, value in given.items() if value}
        return replace(self, **paths)

    def decisions(self, *, certified: bool = False) -> JobConfig:
        """The part of it that the decisions depend on.

        Args:
            certified: nodes of the mesh take their positions by certificates.

        Raises:
            ConfigError: the Manager is to restart processes, and cannot.
        """
        if self.supervises and not self.nodes:
            raise ConfigError("restarts is 'job' without expect; expected the size of the job, such as 2x8")
        if self.supervises and (self.clusterd or self.subscribes):
            raise ConfigError("restarts is 'job' beside ClusterD, which decides on restarts; expected 'platform'")
        # Every command of the command line reads the settings, and few decide.
        from taskd_net.job.decide.device_reports import Reporters
        from taskd_net.job.decide.device_state import FaultConfig
        from taskd_net.job.decide.snapshot import JobConfig

        return JobConfig(
            nodes=self.nodes,
            processes_per_node=self.processes_per_node,
            fault_recover="" if self.fault_recover == OFF else self.fault_recover,
            taskd_enable=self.taskd_enable,
            clusterd=self.clusterd or self.subscribes,
            in_place=self.in_place or self.supervises,
            supervises=self.supervises,
            node_s=self.node_timeout,
            in_place_s=self.in_place_timeout,
            faults=FaultConfig(
                edition=self.edition,
                mode=self.mode,
                job_kind=self.job_kind,
                sub_health=self.answer_to_sub_health,
                linkdown_timeout=self.linkdown_timeout,
                resets=self.resets or self.fault_on_reset is not None,
                answers=self.fault_config is not None,
            ),
            reporters=Reporters(certified, read_nodes(self.fault_reporters) if self.fault_reporters else frozenset()),
            interval=self.process_interval / 1000,
            hang_timeout=self.hang_timeout,
            on_hang=self.on_hang,
            decision_wait=natural(os.environ.get(DECISION_WAIT, ""), DECISION_WAIT_MOST_S) or 0,
        )


def size(expect: str | None) -> Expected:
    """The size of a job, such as `2x8`; zeros for unknown."""
    return Expected.parse(expect) if expect else Expected(0, 0)
