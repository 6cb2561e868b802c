"""The state of a job as its plugins see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from taskd_net.base import vocabulary
from taskd_net.base.limits import IN_PLACE_S, NODE_S
from taskd_net.job.decide import epochs, traffic
from taskd_net.job.decide.device_reports import Reporters
from taskd_net.job.decide.device_state import DevicePlace, DeviceState, FaultConfig, ranks_of_node
from taskd_net.job.decide.events import Signal
from taskd_net.job.decide.failures import JobFailures
from taskd_net.job.decide.orders import ClusterdRound
from taskd_net.job.decide.outbox import COMMAND_RETRY_S, Outbox
from taskd_net.job.decide.records import AGENT_SILENT_S, Fault, Records

SILENT_SNAPSHOTS: Final = 30
"""Intervals of the Manager without KEEP_ALIVE after which a Worker under stress test has failed, as with TaskD's."""

SILENT_LEAST_S: Final = 3.0
"""Seconds that this takes at least: three missed heartbeats, whatever the interval."""

MASTER_FAULT_S: Final = 1500.0
"""Seconds that ClusterD has to answer a fault of Agent 0 before the job is rescheduled: 25 minutes, as with TaskD's."""

EXITS_FIRST_S: Final = 15.0
"""Seconds that the controller's recovery waits for the faulty nodes to have their 203: five attempts, 3 s each."""


FAULT_UNREPORTED_S: Final = 3.0
"""Seconds from an Agent's report of failed ranks to the Manager's own report to ClusterD: time for the framework to
report them."""


@dataclass(frozen=True, slots=True)
class JobTimes:
    """Times of a job's decisions that no user sets, in seconds.

    Args:
        silent: without a report, after which an Agent is silent.
        unreported: from a report of failed ranks to the Manager's own one to ClusterD.
        retry: between two attempts of a command.
    """

    silent: float = AGENT_SILENT_S
    unreported: float = FAULT_UNREPORTED_S
    retry: float = COMMAND_RETRY_S


@dataclass(frozen=True, slots=True)
class JobConfig:
    """The settings of a Manager that its decisions depend on.

    Args:
        nodes, processes_per_node: size of the job; 0 for unknown.
        fault_recover: recovery by process; any value but an empty text.
        taskd_enable: recovery by process is on at all.
        clusterd: there is an address of ClusterD.
        in_place: failed Workers are restarted alone, and the others rejoin.
        in_place_s: seconds that a Worker has to come back.
        supervises: the Manager restarts processes, and their nodes stay. Else a platform starts lost nodes again.
        node_s: seconds that the others wait for a node then.
        faults: answers to faults of devices.
        reporters: the senders whose reports of devices count.
        interval: pause between two snapshots of TaskD's Manager, in seconds; some times are multiples of it.
        decision_wait: seconds that the training framework waits for ClusterD's decision; 0 for unknown.
        hang_timeout: seconds without a mark that are a hang; 0: no hang is looked for; None: the limit is learnt.
        on_hang: the answer to a hang, one of `vocabulary.ON_HANG`.
        times: that no user sets.
    """

    nodes: int = 0
    processes_per_node: int = 0
    fault_recover: str = ""
    taskd_enable: bool = True
    clusterd: bool = False
    in_place: bool = False
    in_place_s: float = IN_PLACE_S
    supervises: bool = False
    node_s: float = NODE_S
    faults: FaultConfig = field(default_factory=FaultConfig)
    reporters: Reporters = field(default_factory=Reporters)
    interval: float = 0.1
    decision_wait: float = 0.0
    hang_timeout: float | None = None
    on_hang: str = vocabulary.ON_HANG_REPORT
    times: JobTimes = JobTimes()

    @property
    def exits_first_s(self) -> float:
        """Seconds that the controller's recovery waits for the faulty nodes to have their 203.

        ClusterD's own time comes before it, so it is at most half of the framework's wait.
        """
        most = EXITS_FIRST_S
        return min(most, self.decision_wait / 2) if self.decision_wait else most

    @property
    def recovers(self) -> bool:
        """True where ClusterD decides on faults. Agents' reports alone move nothing then."""
        return bool(self.fault_recover) and self.taskd_enable and self.clusterd

    @property
    def answers_hangs(self) -> bool:
        """True where the Manager restarts the ranks of a hang."""
        return self.supervises and self.on_hang != vocabulary.ON_HANG_REPORT

    @property
    def silence_s(self) -> float:
        """Seconds without KEEP_ALIVE after which a Worker under stress test has failed."""
        return max(SILENT_SNAPSHOTS * self.interval, SILENT_LEAST_S)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a job in one step. Plugins read it, and change nothing in it.

    Args:
        now: in seconds since the epoch.
        config: the settings.
        records: of Agents and Workers, with the sets of those that changed since the last tick.
        outbox: commands that nobody has acknowledged.
        clusterd_round: commands of ClusterD's last round.
        devices: answers to faults of devices.
        signal: ClusterD's last signal; signals that arrive together are shown one after another.
        retry_time: of reset.json; None without that file.
        first_retry_time: the one that this job's first Manager began with.
        requests: the last request to each plugin that takes some, by the name of its class.
        failures: of the run.
    """

    now: float
    config: JobConfig
    records: Records
    outbox: Outbox
    clusterd_round: ClusterdRound
    devices: DeviceState
    signal: Signal
    retry_time: int | None
    first_retry_time: int | None
    requests: Mapping[str, Any]
    failures: JobFailures = field(default_factory=JobFailures)

    @property
    def profiling(self) -> Any:
        """The wanted `ProfilingSwitch`, for users' plugins; None before anybody has said."""
        return self.requests["ProfilingSwitch"]

    @property
    def switch_nic(self) -> Any:
        """ClusterD's last `SwitchNic`, for users' plugins."""
        return self.requests["SwitchNic"]

    @property
    def stress_test(self) -> Any:
        """ClusterD's last `StressTest`, for users' plugins."""
        return self.requests["StressTest"]

    def restarting(self, rank: int) -> bool:
        """True while a 208 is on its way to an Agent: its reports are older than that restart."""
        return self.outbox.has(traffic.agent(rank), vocabulary.RESTART_ALL)

    def exiting(self, rank: int) -> bool:
        """True while a 203 is on its way to an Agent that may still take it."""
        return self.outbox.is_awaited(traffic.agent(rank), vocabulary.EXIT)

    def starting(self, rank: int) -> bool:
        """True while the first try of a 210 is on its way to an Agent.

        After that the Agent may have started long ago, and only its acknowledgements are lost.
        """
        return self.outbox.is_fresh(traffic.agent(rank), vocabulary.START)

    def was_replaced(self, rank: int) -> bool:
        """True for a node that this round has ended: its next Agent has registered, and has no fault."""
        return self.clusterd_round.has_exited(self.signal.uuid, rank) and not self.counts_as_faulty(rank)

    def to_restart(self, rank: int) -> dict[int, int]:
        """Faulty ranks for a 209 to an Agent: without those of this round's 209s before, unless it has failed since."""
        before = set(self.clusterd_round.has_restarted(self.signal.uuid, rank))
        if rank in self.records.faulty and not self.outbox.has(traffic.agent(rank), vocabulary.RESTART_RANKS):
            before = set()
        return {each: kind for each, kind in self.signal.fault_ranks.items() if each not in before}

    def needs_answer(self, rank: int) -> bool:
        """True for an Agent whose device is isolated, or with a fault that no restart on its way will settle."""
        if rank in self.records.to_replace:
            return True
        return rank in self.records.faulty and not self.restarting(rank)

    def counts_as_faulty(self, rank: int) -> bool:
        """True for an Agent with a fault, and for one that is to be replaced, or was sent 203 and is not back."""
        records = self.records
        return rank in records.faulty or rank in records.to_replace or rank in records.exited

    def place(self, device: str) -> DevicePlace:
        """The node and the ranks of a device."""
        config = self.config
        certified = config.reporters.certified
        return self.devices.place(device, self.records, config.processes_per_node, certified=certified)

    def global_ranks(self, node: int, fault: Fault) -> set[int]:
        """The failed ranks of a node: MindSpore's Agents of the original give local ones. All, where none is named."""
        known, named = ranks_of_node(node, self.records, self.config.processes_per_node), set(fault.ranks)
        if not named:
            return set(known)
        ours = self.records.agents[node].incarnation or not known or named <= set(known)
        return named if ours else {known[rank] for rank in named if rank < len(known)}

    @property
    def failed_ranks(self) -> set[int]:
        """Ranks whose Agents have reported them as failed, and have not restarted them."""
        faults = {node: self.records.agents[node].fault for node in self.records.faulty}
        found = (self.global_ranks(node, fault) for node, fault in faults.items() if fault is not None)
        return set().union(*found)

    def has_ended(self, place: DevicePlace) -> bool:
        """True where no process of the job runs on a device, as its Agent has reported last, or as it is gone."""
        records, node = self.records, place.node
        agent = None if node is None else records.agents.get(node)
        if node is None or agent is None or agent.exited:
            return True
        if agent.fault is None or not place.ranks:
            return False
        failed = set(agent.fault.ranks)
        # MindSpore's Agents of the original give local ranks.
        first = min(ranks_of_node(node, records, self.config.processes_per_node))
        local = {rank - first for rank in place.ranks}
        return failed >= set(place.ranks) or (not agent.incarnation and failed >= local)

    def is_starting(self, rank: int) -> bool:
        """True for a node whose processes are about to begin: nobody can tell that they have ended."""
        codes = self.outbox.codes_to(traffic.agent(rank))
        restarts = vocabulary.RESTART_ALL in codes or vocabulary.RESTART_RANKS in codes
        return restarts or rank in self.records.asking or self.starting(rank)

    @property
    def returned(self) -> set[int]:
        """Nodes that were lost in the epoch under way, and whose next Agent has not started its ranks.

        With PyTorch it never does alone: the start waits for all nodes.
        """
        records, known = self.records, self.records.epochs
        if not records.renewed or known.number <= known.over:
            return set()
        return records.renewed - {each.node for each in records.workers.values() if each.phase == epochs.NEW}

    @property
    def retries(self) -> bool:
        """True where RetryTime has changed since the last restart of everybody."""
        retried = self.records.retried
        return self.retry_time != (self.first_retry_time if retried is None else retried)

    @property
    def any_faulty(self) -> bool:
        """True while an Agent counts as faulty, or has not taken its restart."""
        records = self.records
        counted = records.faulty or records.to_replace or records.exited
        return bool(counted or self.outbox.codes.get(vocabulary.RESTART_ALL))

    @property
    def master_overdue_at(self) -> float:
        """Time at which the fault of Agent 0 has waited too long for ClusterD; infinity without one.

        A report without a usable time is overdue at once, as with TaskD's Manager.
        """
        fault = self.records.agents[0].fault if self.needs_answer(0) else None
        if fault is None:
            return float("inf")
        return 0.0 if fault.reported is None else fault.reported + MASTER_FAULT_S

    @property
    def master_overdue(self) -> bool:
        """True where ClusterD has not answered the fault of Agent 0 in time."""
        return self.config.recovers and self.master_overdue_at <= self.now
