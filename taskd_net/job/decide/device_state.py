"""Devices of a job as plain data: their places, and the answers to their faults."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from taskd_net.base import vocabulary
from taskd_net.base.untrusted import json_value
from taskd_net.job.decide.plain import UNSTORED
from taskd_net.job.decide.records import REGISTERED, Records
from taskd_net.job.decide.times import Moment
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.levels import Action, JobKind, Mode, SubHealth


@dataclass(frozen=True, slots=True)
class FaultConfig:
    """The settings of the answers to faults of devices.

    Args:
        edition: by which the files are read.
        mode: the answer to levels 2 to 6.
        job_kind: the kind of job.
        sub_health: the answer to a device that is only slow.
        linkdown_timeout: seconds that a port may be down, where no file says it.
        resets: there is a hook that resets devices.
        answers: faults are answered though there are no files, by their severity alone.
    """

    edition: Edition = Edition.DOCUMENTED
    mode: Mode = Mode.RESCHEDULING
    job_kind: JobKind = JobKind.TRAINING
    sub_health: SubHealth = SubHealth.IGNORE
    linkdown_timeout: int = 30
    resets: bool = False
    answers: bool = False


@dataclass(slots=True)
class Task:
    """The answer to a fault that a device gets now.

    Args:
        fault_type: name of the type of fault: `RestartNPU`.
        code: of the fault.
        reason: the rule that applies, in words.
        at: time of the decision, in seconds since the epoch.
        actions: of all steps, by the names of `Action`.
        limits: seconds of each step; 0 for no limit.
        index: of the present step.
        begun: the present step was commanded.
        reset: uuid of the reset under way.
    """

    fault_type: str = ""
    code: str = ""
    reason: str = ""
    at: Moment = 0.0
    actions: list[str] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    index: int = 0
    begun: bool = False
    reset: str = ""

    @property
    def action(self) -> Action:
        """The action of the present step."""
        return Action(self.actions[self.index])

    @property
    def resets(self) -> bool:
        """The present step resets the device, or stops processes before that."""
        return self.action in (Action.STOP_PROCESSES, Action.RESET_DEVICE)

    @property
    def limit(self) -> float:
        """Seconds of the present step; 0 for no limit."""
        return self.limits[self.index]


class DevicePlace(NamedTuple):
    """The place of a device in the job.

    Args:
        node: rank of its node; None for unknown.
        rank: global rank of its process; None where nobody has said it.
        ranks: global ranks that are stopped for it: its own, or all of its node.
    """

    node: int | None
    rank: int | None
    ranks: tuple[int, ...]


@dataclass(slots=True)
class DeviceState:
    """All that is remembered of devices, as plain data.

    Args:
        tasks: by device.
        nodes: ranks of nodes by device, as reports of watchers say.
        reporters: senders of the last occurrence of a fault, by device.
        ranks: global ranks by device, of the mapping file.
        listed: devices that the list of separated ones is known to have had.
        files: the files of the rules in force, by name; bytes that are no UTF-8 as lone surrogates.
        policy: what the policy has saved, by device.
        files_changed: `files` have changed since they were last taken out for storing.
        unsaved: names of devices whose part of `policy` has changed since it was last taken out for storing.
    """

    tasks: dict[str, Task] = field(default_factory=dict)
    nodes: dict[str, int] = field(default_factory=dict)
    reporters: dict[str, str] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    files: dict[str, str] = field(default_factory=dict)
    policy: dict[str, str] = field(default_factory=dict)
    files_changed: bool = field(default=False, compare=False, metadata=UNSTORED)
    unsaved: set[str] = field(default_factory=set, compare=False, metadata=UNSTORED)

    def mapped_node(self, device: str, records: Records, local: int) -> int | None:
        """Rank of a device's node by the mapping file; None for unknown. The arguments are those of `place`."""
        rank = self.ranks.get(device)
        if rank is None:
            return None
        worker = records.workers.get(rank)
        if worker is not None:
            return worker.node
        return rank // local if local else None

    def place(self, device: str, records: Records, local: int, *, certified: bool = False) -> DevicePlace:
        """The node and the ranks of a device: by its Agent's report, else by the mapping file, else by the watcher's.

        Args:
            device: its name.
            records: of Agents and Workers.
            local: processes of a node; 0 for unknown.
            certified: reports count about their node alone, so the mapping file moves no device to another one.
        """
        said = self.nodes.get(device)
        for node in records.agents if said is None else (said,):
            names = devices_of(node, records)
            if device in names:
                ranks = ranks_of_node(node, records, local or len(names))
                at = names.index(device)
                if at < len(ranks):
                    return DevicePlace(node, ranks[at], (ranks[at],))
        rank = self.ranks.get(device)
        known = self.mapped_node(device, records, local)
        if rank is not None and (said in (None, known) or not certified):
            return DevicePlace(said if known is None else known, rank, (rank,))
        return DevicePlace(said, None, () if said is None else tuple(ranks_of_node(said, records, local)))


def devices_of(node: int, records: Records) -> list[str]:
    """Names of a node's devices by local rank, as its Agent has registered them; none where it has not."""
    agent = records.agents.get(node)
    report = None if agent is None else agent.reports.get(REGISTERED)
    names = _read_devices("" if report is None else report.extension.get(vocabulary.DEVICES, ""))
    return [name if "/" in name else f"{node}/{name}" for name in names]


@lru_cache(maxsize=1024)
def _read_devices(text: str) -> tuple[str, ...]:
    try:
        names = json_value(text) if text else ()
    except ValueError:
        return ()
    return tuple(map(str, names)) if isinstance(names, list) else ()


def ranks_of_node(node: int, records: Records, local: int) -> list[int]:
    """Global ranks of a node: of its registered Workers, else by the number of processes of each node."""
    known = sorted(rank for rank, worker in records.workers.items() if worker.node == node)
    return known if len(known) >= local else list(range(node * local, (node + 1) * local))
