"""Records of Agents and Workers: the last report of each kind, and the conclusions from them.

A record is that of one process. A REGISTER starts an empty one, unless it names the incarnation that the record has: a
process of this package registers again and again, an original's only when it starts. That one may come after its 201,
which it therefore leaves alone. A `Fault` is an Agent's report of failed ranks (202), with its order among the
restarts of that Agent.

The indexes beside the records let a decision look at what matters (the faulty, the asking) and not at every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeVar

from taskd_net.base import vocabulary
from taskd_net.base.position import Destination, Position, Role, is_rank
from taskd_net.base.untrusted import json_value, natural
from taskd_net.job.decide.epochs import ENDED, LEFT, Epochs, read_part
from taskd_net.job.decide.events import Reported
from taskd_net.job.decide.plain import UNSTORED
from taskd_net.job.decide.times import Moment, Timer
from taskd_net.job.decide.traffic import read_count

REPORTS_PER_NODE: Final = 16
"""Kinds of report (by msg_type and code) that the Mgr keeps of one node; TaskD's Workers have 13."""

JOB_NODES: Final = 65_536
"""Agents and Workers of which a Manager keeps a record: some 100 MB. Further ones are refused."""

AGENT_SILENT_S: Final = 10.0
"""Seconds without a report after which an Agent is silent, and the node of a missing Worker lost: ten heartbeats."""

UNKNOWN: Final = -1
"""Profiling state of a Worker that has reported none."""
REGISTERED: Final = f"{vocabulary.REGISTER}/{vocabulary.AGENT_REGISTERS}"
"""The kind of an Agent's REGISTER among its reports."""
PART: Final = f"{vocabulary.STATUS}/{vocabulary.EPOCH_STATE}"
"""The kind of a Worker's report of its part in the training among its reports."""
_UNIX_MOST: Final = 2**40
_NUMBER_MOST: Final = 2**63
_ASKS: Final = f"{vocabulary.STATUS}/{vocabulary.MAY_I_START}"
_LEAVES: Final = f"{vocabulary.STATUS}/{vocabulary.LEAVES}"


@dataclass(slots=True)
class KeptReport:
    """The last report of a kind.

    Args:
        message, extension: its content.
        at: time of arrival, in seconds since the epoch.
        uuid: of the message.
    """

    message: str = ""
    extension: dict[str, str] = field(default_factory=dict)
    at: Moment = 0.0
    uuid: str = ""


@dataclass(slots=True)
class ProcessRecord:
    """One process.

    Args:
        incarnation: of the process; empty for an original's.
        birth: number of this record among all; another one means another process.
        registered: a REGISTER has come.
        heartbeat: time of the last KEEP_ALIVE; 0 before.
        reports: by `msg_type/code`.
    """

    incarnation: str = ""
    birth: int = 0
    registered: bool = False
    heartbeat: Moment = 0.0
    reports: dict[str, KeptReport] = field(default_factory=dict)


@dataclass(slots=True)
class Fault:
    """A fault that no command has answered.

    Args:
        ranks: global ranks (MindSpore's Agents of the original give local ones); empty if the report cannot be read.
        at: time of arrival, in seconds since the epoch.
        reported: the Agent's own time of it; None if it is missing or no number.
        after: uuid of the last restart that the Agent had taken before; empty for none, and for an original's Agent.
    """

    ranks: list[int] = field(default_factory=list)
    at: Moment = 0.0
    reported: float | None = None
    after: str = ""

    def is_newer(self, restart: str, sent: float | None) -> bool:
        """True for a fault that is newer than a restart whose acknowledgement has come after the report.

        Messages of one Agent keep their order: what arrives before the acknowledgement is older than the restart. A
        late acknowledgement says less, because an earlier one may be lost. An Agent of this package names the restart
        that its fault has followed. The fault of an original's Agent counts as newer if it is of a later second than
        the restart: a node that is replaced for nothing costs less than a job that waits for ever.

        Args:
            restart: uuid of the 208 or 209.
            sent: time of its first try, if its acknowledgement is late and the Agent is an original's; else None.
        """
        if self.after == restart:
            return True
        return sent is not None and (self.reported is None or self.reported > sent)

    def is_answered_by(self, restart: str) -> bool:
        """True for a fault of an Agent of this package that comes after the restart that has answered it was taken.

        A report may wait for its turn, or take another way than the acknowledgement. The restart that it names, or its
        naming none, tells that it is the older one.

        Args:
            restart: uuid of the last 208 or 209 that the Agent has acknowledged; empty for none.
        """
        if not restart:
            return False
        before = number_of(self.after) if self.after else 0
        return before is not None and before < (number_of(restart) or 0)


@dataclass(slots=True)
class AgentRecord(ProcessRecord):
    """An Agent.

    Args:
        asked: its 201's message, until the 210 is decided on. While the 203 of an original's Agent is on its way, the
            question is that of its next process, whose REGISTER follows.
        mtype: of that 201.
        fault: its unanswered fault; one that a 203 answers is kept, since that may be taken back.
        restarted: uuid of the last 208 or 209 that it has taken; empty for none.
        exited: a 203 was sent. It counts as faulty until its next process registers, whatever it reports.
        worker_state: of its training processes, in its last report; empty for none. Not stored.
    """

    asked: str | None = None
    mtype: str = "default"
    fault: Fault | None = None
    restarted: str = ""
    exited: bool = False
    worker_state: str = field(default="", compare=False, metadata=UNSTORED)


@dataclass(slots=True)
class WorkerRecord(ProcessRecord):
    """A Worker.

    Args:
        node: rank of its node.
        profiling: n of its last report 1400 + n, or `UNKNOWN`.
        phase, epoch: its part in the training, and the last epoch it was called to; see `epochs`.
    """

    node: int = 0
    profiling: int = UNKNOWN
    phase: str = ""
    epoch: int = 0


R = TypeVar("R", bound=ProcessRecord)


@dataclass(slots=True)
class Rounds:
    """The starts of all nodes together.

    Args:
        number: of the last one; 0 before the first.
        open: the run is under way. Where the Manager restarts processes, no Agent gets its go otherwise.
        meets: the Agents meet by way of the Manager before each start.
        begun: a run has been opened. Where a platform restarts processes, none ever is.
        missing: nodes that the others wait for.
        until: the end of that wait; 0 without one.
        met: the nodes have come together in the last one. Some are called to that end before.
        starts: those of this run in which they have, before the last one.
    """

    number: int = 0
    open: bool = False
    meets: bool = False
    begun: bool = False
    missing: set[int] = field(default_factory=set)
    until: Timer = 0.0
    met: bool = False
    starts: int = 0


class Taken(Enum):
    """The effect of a report on the records."""

    NOTHING = 0
    CHANGED = 1
    NEW_PROCESS = 2
    REFUSED = 3


@dataclass(slots=True)
class Records:
    """Every Agent and Worker.

    Args:
        agents: by node rank.
        workers: by global rank.
        restarts: restarts that the job has left: of the first 201 that came, one less after each round.
        retried: the RetryTime at the last restart of everybody; None before it.
        faulty: Agents with an unanswered fault that were not sent 203.
        exited: Agents that were sent 203, and have not registered since.
        to_replace: nodes that lose their place because of a device, and were not sent their 203 yet.
        asking: Agents that wait for the decision on their 210.
        renewed: Agents that are other processes than when the last epoch began.
        profiling: number of registered Workers by profiling state.
        epochs: of the training, where its Workers rejoin.
        rounds: starts of all nodes together.
        births: records so far.
        since: time from which on this Manager hears heartbeats; those before are not stored.
        changed_agents, changed_workers: since the last tick.
        unsaved_agents, unsaved_workers: since they were last taken out for storing.
        fresh_faults: those that were reported, and no repeats, since they were taken out.
        registered_again: Agents whose devices may be others than when `RegisteredDevices` has read them.
    """

    agents: dict[int, AgentRecord] = field(default_factory=dict)
    workers: dict[int, WorkerRecord] = field(default_factory=dict)
    restarts: int | None = None
    retried: int | None = None
    faulty: set[int] = field(default_factory=set)
    exited: set[int] = field(default_factory=set)
    to_replace: set[int] = field(default_factory=set)
    asking: set[int] = field(default_factory=set)
    renewed: set[int] = field(default_factory=set)
    profiling: dict[int, int] = field(default_factory=dict)
    epochs: Epochs = field(default_factory=Epochs)
    rounds: Rounds = field(default_factory=Rounds)
    births: int = 0
    since: Moment = 0.0
    changed_agents: set[int] = field(default_factory=set)
    changed_workers: set[int] = field(default_factory=set)
    unsaved_agents: set[int] = field(default_factory=set, compare=False, metadata=UNSTORED)
    unsaved_workers: set[int] = field(default_factory=set, compare=False, metadata=UNSTORED)
    fresh_faults: dict[int, Fault] = field(default_factory=dict, compare=False, metadata=UNSTORED)
    registered_again: set[int] = field(default_factory=set, compare=False, metadata=UNSTORED)

    @property
    def is_under_platform(self) -> bool:
        """True where Agents have been started, and no run was opened for them."""
        started = (_ASKS in each.reports and each.asked is None and not each.exited for each in self.agents.values())
        return not self.rounds.begun and any(started)

    @property
    def registered_workers(self) -> int:
        """Workers that have registered."""
        return sum(self.profiling.values())

    def registered(self, destination: Destination) -> int:
        """The number of registered Agents or Workers that a destination matches."""
        if destination.position.role == Role.AGENT:
            known = (Position.agent(rank) for rank, agent in self.agents.items() if agent.registered)
        else:
            known = (Position.worker(each.node, rank) for rank, each in self.workers.items() if each.registered)
        return sum(map(destination.matches, known))

    def silent_since(self, rank: int, now: float, wait: float = AGENT_SILENT_S) -> float | None:
        """The time since which this Manager has heard nothing of an Agent, if that is long; else None.

        A started Agent sends KEEP_ALIVE each second, so `wait` seconds without a report are silence. An Agent
        that waits for its start, or was sent 203, need not report.
        """
        agent = self.agents[rank]
        if not agent.registered or agent.exited or rank in self.asking:
            return None
        heard = self.heard(rank)
        return heard if heard + wait <= now else None

    def left(self, rank: int) -> KeptReport | None:
        """The word of an Agent that a signal has ended; None of one that runs, or was sent 203."""
        agent = self.agents[rank]
        return None if agent.exited else agent.reports.get(_LEAVES)

    def has_finished(self, rank: int) -> bool:
        """True for an Agent whose workers have all succeeded."""
        number = self.said_round(rank, vocabulary.FINISHED)[0]
        return 0 < number == self.rounds.number or self.agents[rank].worker_state == vocabulary.SUCCEEDED

    def heard(self, rank: int) -> float:
        """The time at which this Manager has heard of an Agent last, or has begun to listen."""
        agent = self.agents[rank]
        return max(self.since, agent.heartbeat, *(report.at for report in agent.reports.values()))

    def take(self, now: float, report: Reported, *, leaving: bool = False) -> Taken:
        """Take a report in.

        Args:
            now: the time.
            report: the report.
            leaving: the sender's 203 is on its way.

        Returns:
            NEW_PROCESS: commands to the process before are void. REFUSED: the sender is no Agent or Worker, or there
            are `JOB_NODES` records. NOTHING: a heartbeat, a resend, or a repeated registration.
        """
        src = report.src
        if not is_rank(src.server_rank):
            return Taken.REFUSED
        node = int(src.server_rank)
        if src.role == Role.AGENT:
            taken = self._of_agent(now, node, report, leaving)
            if taken in (Taken.CHANGED, Taken.NEW_PROCESS):
                self._agent_changed(node)
            return taken
        if src.role == Role.WORKER and is_rank(src.process_rank):
            rank = int(src.process_rank)
            taken = self._of_worker(now, node, rank, report)
            if taken in (Taken.CHANGED, Taken.NEW_PROCESS):
                self.changed_workers.add(rank)
                self.unsaved_workers.add(rank)
            return taken
        return Taken.REFUSED

    def started(self, rank: int) -> None:
        """The 210 to an Agent is decided on."""
        self.agents[rank].asked = None
        self.asking.discard(rank)
        self.unsaved_agents.add(rank)

    def ask_again(self, rank: int) -> None:
        """The 210 to an Agent was taken back: it waits for another."""
        agent = self.agents[rank]
        asked = agent.reports.get(_ASKS, KeptReport())
        agent.asked = asked.message
        self.asking.add(rank)
        self.unsaved_agents.add(rank)

    def replace(self, rank: int) -> None:
        """A device of a node is isolated, so the node loses its place, unless it loses it already."""
        if rank in self.agents and rank not in self.exited:
            self.to_replace.add(rank)
            self._agent_changed(rank)

    def exit(self, rank: int) -> None:
        """An Agent is sent 203; it may be one that never reported."""
        agent = self.agents.get(rank)
        if agent is None:
            agent = self.agents[rank] = AgentRecord(birth=self._birth())
        agent.asked, agent.exited = None, True
        self.faulty.discard(rank)
        self.to_replace.discard(rank)
        self.asking.discard(rank)
        self.exited.add(rank)
        self._agent_changed(rank)

    def stay(self, rank: int, now: float) -> None:
        """The 203 to an Agent was taken back, so it goes on as it was: its fault waits for an answer from now on.

        The 203 has superseded a 210 that the Agent may not have had. An Agent sends KEEP_ALIVE when it has started.
        """
        agent = self.agents[rank]
        agent.exited = False
        self.exited.discard(rank)
        if agent.fault is not None:
            agent.fault = replace(agent.fault, at=now, reported=now)
            self.faulty.add(rank)
            self._drop(agent.fault.ranks, rank)
        if _ASKS in agent.reports and agent.heartbeat < agent.reports[_ASKS].at:
            self.ask_again(rank)
        self._agent_changed(rank)

    def settle(self, rank: int, restart: str, sent: float | None = None) -> None:
        """An Agent has taken a restart, which answers its fault unless the fault is newer; see `Fault.is_newer`."""
        agent = self.agents.get(rank)
        if agent is None:
            return
        # Acknowledgements of two restarts may come in either order.
        if (number_of(restart) or 0) >= (number_of(agent.restarted) or 0):
            agent.restarted = restart
            self.unsaved_agents.add(rank)
        fault = agent.fault
        if fault is not None and not fault.is_newer(restart, None if agent.incarnation else sent):
            agent.fault = None
            self.faulty.discard(rank)
            self._agent_changed(rank)

    def hangs(self, rank: int, fault: Fault) -> None:
        """Processes of a node have to be restarted, though their Agent has reported no failure."""
        self.agents[rank].fault = fault
        self.faulty.add(rank)
        self._drop(fault.ranks, rank)
        self._agent_changed(rank)

    def has_lost_peer(self, rank: int) -> bool:
        """True for a Worker whose last words were that a peer is gone from the present epoch."""
        report = self._departure(rank)
        return report is not None and report.extension.get(vocabulary.REASON) != ENDED

    def has_left(self, rank: int) -> bool:
        """True for a Worker whose last words were that it has left the present epoch."""
        return self._departure(rank) is not None

    def _departure(self, rank: int) -> KeptReport | None:
        """The last words of a Worker, if they were that it has left the present epoch."""
        worker = self.workers.get(rank)
        report = None if worker is None else worker.reports.get(PART)
        part = None if report is None else read_part(report.message, report.extension)
        left = part is not None and part.phase == LEFT and part.epoch == self.epochs.number
        return report if left else None

    def begin_epoch(self, number: int) -> None:
        """Every Worker is called to an epoch."""
        self.epochs.begin(number, self.workers.values())
        self.renewed.clear()
        self.unsaved_workers.update(self.workers)

    def _end_epochs(self) -> None:
        """Every process is restarted."""
        if not self.epochs.world:
            return
        self.epochs.end_all(self.workers.values())
        self.unsaved_workers.update(self.workers)

    def restarted(self, left: int, retry_time: int | None, *, everybody: bool) -> None:
        """The job restarts processes; see `traffic.Restarts`.

        Args:
            left: the count of restarts that are left.
            retry_time: the present RetryTime, which a restart of everybody answers.
            everybody: every process is restarted.
        """
        self.restarts = left
        if everybody:
            self._end_epochs()
            self.retried = retry_time
            self.rounds.number += 1
            self.rounds.starts += self.rounds.met
            self.rounds.met = False

    def run_begins(self, *, meets: bool) -> None:
        """All nodes are there, and start together."""
        self.rounds = Rounds(self.rounds.number + 1, True, meets, begun=True)

    def meets_no_more(self) -> None:
        """An Agent has come that cannot meet by way of the Manager."""
        self.rounds.meets = False

    def nodes_missing(self, nodes: Iterable[int], until: float) -> None:
        """All others wait for these nodes until a time; for none any more."""
        self.rounds.missing, self.rounds.until = set(nodes), until

    def all_met(self) -> None:
        """All nodes have come together in this round."""
        self.rounds.met = True
        self.nodes_missing((), 0.0)

    def run_ends(self) -> None:
        """No Agent gets its go before all of the next run are there."""
        self.rounds.open = False
        self.nodes_missing((), 0.0)

    def meets(self, rank: int) -> bool:
        """True for an Agent that can meet the others by way of the Manager."""
        return self.has_feature(rank, vocabulary.MEETS)

    def has_feature(self, rank: int, feature: str) -> bool:
        """True for an Agent that has named a feature."""
        agent = self.agents.get(rank)
        registered = None if agent is None else agent.reports.get(REGISTERED)
        features = "" if registered is None else registered.extension.get(vocabulary.FEATURES, "")
        return feature in features.split(",")

    def said_round(self, rank: int, code: int) -> tuple[int, float]:
        """The round that an Agent has named in its last report of this kind, and the time of it; zeros without one."""
        report = self.agents[rank].reports.get(f"{vocabulary.STATUS}/{code}")
        number = None if report is None else natural(report.message, _NUMBER_MOST)
        return (0, 0.0) if report is None or number is None else (number, report.at)

    def said_ready(self, rank: int, key: str) -> str:
        """A detail of an Agent's last word that it is ready; empty without one."""
        agent = self.agents.get(rank)
        report = None if agent is None else agent.reports.get(f"{vocabulary.STATUS}/{vocabulary.READY}")
        return "" if report is None else report.extension.get(key, "")

    def retry_answered(self, retry_time: int | None) -> None:
        """The present RetryTime asks for no restart any more."""
        self.retried = retry_time

    def deaf_until(self, now: float) -> None:
        """Nothing was heard before `now`: the clock has moved, or the Manager begins."""
        self.since = now

    def forget_changes(self) -> None:
        """A tick has looked at all changes."""
        self.changed_agents, self.changed_workers = set(), set()

    def _agent_changed(self, rank: int) -> None:
        self.changed_agents.add(rank)
        self.unsaved_agents.add(rank)

    def _birth(self) -> int:
        self.births += 1
        return self.births

    def _of_agent(self, now: float, rank: int, report: Reported, leaving: bool) -> Taken:
        agent = self.agents.get(rank)
        if report.msg_type == vocabulary.REGISTER:
            if _is_again(agent, report):
                return Taken.NOTHING
            if agent is None and self._full():
                return Taken.REFUSED
            if agent is not None and agent.registered and self.epochs.world:
                self.renewed.add(rank)
                self._drop(self.workers, rank)
            self._replaced(rank)
            self.agents[rank] = new = self._begin(AgentRecord(), now, report)
            if agent is not None and not agent.incarnation and not new.incarnation and _ASKS in agent.reports:
                # The original repeats a REGISTER that has failed, and its 201 may come first.
                new.reports[_ASKS] = agent.reports[_ASKS]
                self._ask(rank, new, agent.asked, agent.mtype)
            self.registered_again.add(rank)
            self._learn_round(report)
            return Taken.NEW_PROCESS
        next_process = agent is not None and agent.exited and not leaving and _asks_anew(agent, report)
        if next_process:
            self._replaced(rank)
            agent = self.agents[rank] = AgentRecord(birth=self._birth())
        if agent is None:
            if self._full():
                return Taken.REFUSED
            agent = self.agents[rank] = AgentRecord(birth=self._birth())
        if (state := report.extension.get(vocabulary.WORKER_STATE)) in vocabulary.WORKER_STATES:
            agent.worker_state = state
        if not _keep(now, agent, report):
            return Taken.NOTHING
        if report.msg_type == vocabulary.STATUS:
            self._conclude(now, rank, agent, report)
        return Taken.NEW_PROCESS if next_process else Taken.CHANGED

    def _learn_round(self, report: Reported) -> None:
        """A Manager without its state learns from Agents at work that a run is under way, and its number."""
        number = natural(report.extension.get(vocabulary.ROUND, ""), _NUMBER_MOST)
        if number is not None and number > self.rounds.number:
            self.rounds = Rounds(number, True, True, begun=True, met=True, starts=number - 1)

    def _replaced(self, rank: int) -> None:
        """The Agent is another process than before."""
        for index in (self.faulty, self.exited, self.to_replace, self.asking):
            index.discard(rank)

    def _ask(self, rank: int, agent: AgentRecord, message: str | None, mtype: str) -> None:
        """Have an Agent wait for its 210; with `message` None it has it, or its 210 is on its way."""
        agent.asked, agent.mtype = message, mtype
        if message is not None and not agent.exited:
            self.asking.add(rank)

    def _conclude(self, now: float, rank: int, agent: AgentRecord, report: Reported) -> None:
        """Draw the conclusions from a 201 or 202."""
        if report.code == vocabulary.MAY_I_START:
            if self.restarts is None:
                self.restarts = read_count(report.message)
            if not agent.exited or not agent.incarnation:
                self._ask(rank, agent, report.message, report.mtype)
        elif report.code == vocabulary.LEAVES:
            agent.asked, agent.fault = None, None
            agent.reports.pop(_ASKS, None)
            self.asking.discard(rank)
            self.faulty.discard(rank)
        elif report.code == vocabulary.FAULT:
            fault = read_fault(now, report.message, report.extension)
            if fault is not None and agent.incarnation and fault.is_answered_by(agent.restarted):
                return
            if fault is not None and (agent.fault is None or agent.fault.ranks != fault.ranks):
                self.fresh_faults[rank] = fault
            agent.fault = fault
            if agent.exited:
                return
            if agent.fault is None:
                self.faulty.discard(rank)
            else:
                self.faulty.add(rank)
                self._drop(agent.fault.ranks, rank)

    def _drop(self, ranks: Iterable[int], node: int) -> None:
        """Failed Workers of a node have no part in the training. An Agent says nothing of other nodes."""
        for rank in ranks if self.epochs.phases else ():
            worker = self.workers.get(rank)
            if worker is not None and worker.phase and worker.node == node:
                self.epochs.drop(worker)
                self.unsaved_workers.add(rank)

    def _of_worker(self, now: float, node: int, rank: int, report: Reported) -> Taken:
        # Filed by the global rank alone: a job has one process of each. Where nodes have changed their ranks or sizes,
        # the rank is at another node now, and the process there takes the place of the record.
        worker = self.workers.get(rank)
        if report.msg_type == vocabulary.REGISTER:
            if _is_again(worker, report):
                return Taken.NOTHING
            if worker is None and self._full():
                return Taken.REFUSED
            if worker is not None and worker.registered:
                self._count(worker.profiling, -1)
            self._drop((rank,), self.workers[rank].node if rank in self.workers else node)
            self.workers[rank] = self._begin(WorkerRecord(node=node), now, report)
            self._count(UNKNOWN, 1)
            return Taken.NEW_PROCESS
        if worker is None:
            if self._full():
                return Taken.REFUSED
            worker = self.workers[rank] = WorkerRecord(birth=self._birth(), node=node)
        if not _keep(now, worker, report):
            return Taken.NOTHING
        if report.msg_type == vocabulary.STATUS and report.code in vocabulary.PROFILING_STATES:
            if worker.registered:
                self._count(worker.profiling, -1)
                self._count(report.code - vocabulary.PROFILING_STATES.start, 1)
            worker.profiling = report.code - vocabulary.PROFILING_STATES.start
        if report.msg_type == vocabulary.STATUS and report.code == vocabulary.EPOCH_STATE:
            part = read_part(report.message, report.extension)
            if part is not None:
                self.epochs.take(worker, part)
        return Taken.CHANGED

    def _count(self, profiling: int, by: int) -> None:
        number = self.profiling.get(profiling, 0) + by
        if number:
            self.profiling[profiling] = number
        else:
            del self.profiling[profiling]

    def _full(self) -> bool:
        return len(self.agents) + len(self.workers) >= JOB_NODES

    def _begin(self, record: R, now: float, report: Reported) -> R:
        """Fill the record of a process that registers."""
        record.incarnation = report.extension.get(vocabulary.INCARNATION, "")
        record.birth = self._birth()
        record.registered = True
        record.reports[_kind(report)] = KeptReport(report.message, report.extension, now, report.uuid)
        return record


def _kind(report: Reported) -> str:
    return f"{report.msg_type}/{report.code}"


def _asks_anew(agent: AgentRecord, report: Reported) -> bool:
    """True for a 201 of an original's Agent that is no resend."""
    known = agent.reports.get(_ASKS)
    resent = known is not None and bool(report.uuid) and known.uuid == report.uuid
    return _kind(report) == _ASKS and not agent.incarnation and not resent


def _is_again(record: ProcessRecord | None, report: Reported) -> bool:
    """True for a registration of the process that the record has, or a resend of it."""
    if record is None or not record.registered:
        return False
    known = record.reports.get(_kind(report))
    if known is not None and report.uuid and known.uuid == report.uuid:
        return True
    return bool(record.incarnation) and report.extension.get(vocabulary.INCARNATION) == record.incarnation


def _keep(now: float, record: ProcessRecord, report: Reported) -> bool:
    """Keep a report; False for a heartbeat or a resend."""
    if report.msg_type == vocabulary.KEEP_ALIVE:
        record.heartbeat = now
        return False
    kind = _kind(report)
    known = record.reports.pop(kind, None)
    if known is not None and report.uuid and known.uuid == report.uuid:
        record.reports[kind] = known
        return False
    if len(record.reports) >= REPORTS_PER_NODE:
        del record.reports[next(iter(record.reports))]  # the oldest
    record.reports[kind] = KeptReport(report.message, report.extension, now, report.uuid)
    return True


def number_of(uuid: str) -> int | None:
    """The number of a Manager's command, which grows with each decision; None for another text."""
    return natural(uuid.rpartition("-")[2], _NUMBER_MOST)


def read_fault(now: float, message: str, extension: Mapping[str, str]) -> Fault | None:
    """Read a 202.

    Returns:
        None for no fault: an empty message or an empty list. A message that cannot be read is a fault of unknown ranks,
        as the original takes it.
    """
    ranks = _failed_ranks(message)
    if ranks is None:
        return None
    reported = natural(extension.get(vocabulary.FAULT_TIME, ""), _UNIX_MOST)
    after = extension.get(vocabulary.AFTER, "")
    return Fault(ranks, now, None if reported is None else float(reported), after)


def _failed_ranks(message: str) -> list[int] | None:
    if not message:
        return None
    try:
        value = json_value(message)
    except ValueError:
        return []
    ranks = value.get("fault_ranks", ()) if isinstance(value, dict) else ()
    if not isinstance(ranks, list):
        return []
    return [rank for rank in ranks if type(rank) is int] if ranks else None
