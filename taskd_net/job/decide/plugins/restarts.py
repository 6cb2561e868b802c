"""RestartPlugin: the supervisor of a job whose nodes stay, where no platform starts lost ones again.

```
  an Agent asks ─▶ GATHERING ── all nodes ask ─▶ RunBegins: 210 to all ─▶ MEETING ── all are ready ─▶ 305 to all ─▶ free
                                                                            ▲ ▲ │ a failure meanwhile
  free ── a failure, within the budget; a lost node; a round of others ─────┘ └─┘
             │ 208 to all: they end their processes, and are ready then
       ── ranks of some nodes have failed, or lost their peers ─▶ in place (`gathering`) ─▶ free
       ── a node is lost whose peers rejoin ─▶ KEPT: it alone meets, and the others keep their processes ─▶ in place
       ── all nodes have finished ─▶ 307 to all, RunEnds ─▶ free
       ── no restart is left; SIGINT at a node; one has not come within --node-timeout ─▶ 203 to all, RunEnds ─▶ free
```

A *round* is a start of all nodes together, and has a number. An Agent is *ready* for it (304) when its processes have
ended; that of node 0 then has a fresh store for the next ones. Where an Agent cannot meet the others so, the
framework's own meeting takes the place of that.

Where ranks rejoin, as few processes as possible are restarted: failed ranks alone; else those of a node that was lost
and has come back, which meets in the round of the others; else all. An epoch begins when every rank waits, with the
store of the present node 0.

`decide.failures` has the budget, and knows a failure that comes again. A round because a node was lost or has come back
costs nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Final

from taskd_net.base import vocabulary
from taskd_net.base.cause import AS_TERMINATED, NEVER_AGAIN
from taskd_net.base.untrusted import natural, shown
from taskd_net.job.decide import epochs, traffic
from taskd_net.job.decide.plugins.actions import RECOVERY, begin_round, limit, offered, verdict
from taskd_net.job.decide.plugins.gathering import Gathering, GathersRanks, GaveUp, can_start, is_broken
from taskd_net.job.decide.plugins.plugin import INFINITY, Progress
from taskd_net.job.decide.records import JOB_NODES
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Moment, Timer
from taskd_net.job.decide.traffic import AttemptBegins, MeetsNoMore, NodesLost, NodesMissing, RunBegins, RunEnds

LOST_S: Final = 30.0
"""Seconds without a report of an Agent after which its node is lost. The processes of a launcher that was stopped for
less go on; where they do not, the others fail at once."""

TELL_S: Final = 10.0
"""Seconds between two messages to Agents about whom they wait for."""

_POSITION: Final = 4
"""PodReschedulingPlugin's number, which decides where a platform restarts processes."""


@dataclass
class Course:
    """State.

    Args:
        number: of the round that was begun or seen last.
        until: the end of the wait for nodes that is under way; 0 without one.
        not_before: the time before which the round does not start, after several failures.
        tell: the time at which Agents that wait hear next whom they wait for.
        began: the time at which the round began.
        called: nodes that were called to it when they had come to the one before.
        keeps: the wait is for lost nodes alone, and the others keep their processes.
        in_place: the recovery in place that is under way.
    """

    number: int = 0
    until: Timer = 0.0
    not_before: Timer = 0.0
    tell: Timer = 0.0
    began: Moment = 0.0
    called: set[int] = field(default_factory=set)
    keeps: bool = False
    in_place: Gathering = field(default_factory=Gathering)


class JobRestarts(GathersRanks[Course]):
    """Bring all ranks of a job together, as often as its budget allows."""

    name = "RestartPlugin"
    streams: ClassVar = {RECOVERY: _POSITION}

    def __init__(self) -> None:
        super().__init__(Course())

    @property
    def gathering(self) -> Gathering:
        """See `GathersRanks`."""
        return self.state.in_place

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for whatever the nodes wait for."""
        if not snapshot.config.supervises:
            return ()
        rounds = snapshot.records.rounds
        if _ended_by(snapshot):
            return (RECOVERY,)
        if not rounds.open:
            return (RECOVERY,) if snapshot.records.asking else ()
        other = rounds.number != self.state.number
        due = other or _failed(snapshot) or _away(snapshot) or _finished(snapshot) or _recovers_in_place(snapshot)
        return (RECOVERY,) if due else ()

    def seizes(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, where a failure ends the job."""
        config, rounds = snapshot.config, snapshot.records.rounds
        ends = config.supervises and rounds.open and _failed(snapshot) and verdict(snapshot)
        return (RECOVERY,) if ends else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Go on with a wait for nodes or ranks, or begin one."""
        state, rounds = self.state, snapshot.records.rounds
        if reason := _ended_by(snapshot):
            return self._end(snapshot, reason)
        if not rounds.open:
            return self._await_first(snapshot)
        if _finished(snapshot):
            for rank in sorted(rank for rank in snapshot.records.agents if snapshot.records.left(rank) is None):
                self.send(traffic.agent(rank), vocabulary.RELEASED, str(rounds.number))
            self.decide(RunEnds())
            return Progress.FINAL
        if rounds.meets and not _all_meet(snapshot):
            self.decide(MeetsNoMore())
            return self._restart(snapshot)
        failed = _failed(snapshot)
        if failed and (reason := verdict(snapshot)) and snapshot.records.faulty.intersection(failed):
            return self._end(snapshot, reason, _status(snapshot))
        meeting = state.until or rounds.number != state.number
        if failed and (meeting or _away(snapshot) or not _recovers_in_place(snapshot)):
            return self._answer(snapshot, failed)
        if rounds.number != state.number:
            self._await(snapshot, rounds.number)  # another plugin has begun it
            if _is_met(snapshot):  # a Manager without its state finds nodes at work
                return self._restart(snapshot) if _away(snapshot) else Progress.FINAL
        elif state.until:
            if state.keeps and not _keeps(snapshot):
                return self._restart(snapshot)
        elif _away(snapshot):
            self._lose(snapshot, _silent(snapshot) | snapshot.records.asking)
            if not _keeps(snapshot):
                return self._restart(snapshot)
            self._await(snapshot, rounds.number, keeps=True)
            heard = (snapshot.records.heard(rank) for rank in _silent(snapshot))
            state = self.state
            state.until = min(heard, default=snapshot.now) + snapshot.config.node_s  # from the last word on
        else:
            return self._recover_in_place(snapshot)
        return self._meet(snapshot)

    def release(self, stream: str) -> None:
        """The wait is over."""
        state = self.state
        state.until = state.not_before = state.tell = 0.0
        state.keeps, state.in_place = False, Gathering()

    def deadline(self, snapshot: Snapshot) -> float:
        """The next event of a wait; without one the time at which a silent node is lost."""
        state = self.state
        if not snapshot.config.supervises:
            return INFINITY
        if state.until:
            later = (at for at in (state.not_before, state.tell) if at > snapshot.now)
            return min((state.until, *later))
        if not snapshot.records.rounds.open:
            return INFINITY
        heard = [snapshot.records.heard(rank) for rank in snapshot.records.agents if not _is_done(snapshot, rank)]
        waits = state.not_before if state.not_before > snapshot.now else INFINITY
        return min(min(heard, default=INFINITY) + _lost_s(snapshot), self.gather_again_at(), waits)

    def _await_first(self, snapshot: Snapshot) -> Progress:
        """Wait for the first go of all nodes."""
        asking = snapshot.records.asking
        if not asking:
            return Progress.FINAL  # signals have ended those who asked
        if not self.state.until:
            self.state = Course(snapshot.records.rounds.number)
            self._await(snapshot, snapshot.records.rounds.number)
        if missing := set(range(snapshot.config.nodes)) - asking:
            return self._wait(snapshot, missing, asking)
        self.decide(RunBegins(all(map(snapshot.records.meets, asking))))
        self._await(snapshot, snapshot.records.rounds.number + 1)
        return Progress.HOLD

    def _answer(self, snapshot: Snapshot, failed: Collection[int]) -> Progress:
        """Restart all after a failure. A node that loses its place because of a device has not failed."""
        counts = snapshot.records.faulty.intersection(failed)
        return self._restart(snapshot, pause=_pause(snapshot) if counts else 0.0)

    def _recover_in_place(self, snapshot: Snapshot) -> Progress:
        """Restart failed ranks alone, or begin an epoch."""
        state = self.state
        gathering = state.in_place
        if gathering.since and any(task.resets for task in snapshot.devices.tasks.values()):
            return Progress.FINAL  # the ranks start in place when the device is back
        if gathering.since and gathering.retry_time != snapshot.retry_time:
            return self._restart(snapshot)
        if not gathering.since and snapshot.records.faulty and (pause := _pause(snapshot)):
            state.not_before = snapshot.now + pause
        result = self.gather(snapshot)
        if not isinstance(result, GaveUp):
            return result
        return self._restart(snapshot, pause=max(0.0, state.not_before - snapshot.now))

    def _allows(self, snapshot: Snapshot, nodes: Collection[int]) -> bool:
        return all(offered(snapshot, node) for node in nodes)  # the budget of a node may be none

    def _restarts_left(self, snapshot: Snapshot) -> int:
        return snapshot.records.restarts or 0

    def _begin_next(self, snapshot: Snapshot) -> Progress:
        """Every rank waits, so all nodes have said what has failed."""
        if reason := verdict(snapshot, settled=True):
            return self._end(snapshot, reason, _status(snapshot))
        return Progress.HOLD if snapshot.now < self.state.not_before else super()._begin_next(snapshot)

    def _restart(self, snapshot: Snapshot, pause: float = 0.0) -> Progress:
        """End all processes, and have the nodes meet. A node that loses its place because of a device leaves."""
        begin_round(self, snapshot, sorted(snapshot.records.to_replace))
        if not snapshot.records.rounds.meets:
            self.decide(AttemptBegins())  # nobody tells when all are there
        self._await(snapshot, snapshot.records.rounds.number + 1)
        self.state.not_before = snapshot.now + pause if pause else 0.0
        return Progress.HOLD

    def _await(self, snapshot: Snapshot, number: int, *, keeps: bool = False) -> None:
        """A wait for all nodes begins."""
        now = snapshot.now
        self.state = Course(number, until=now + snapshot.config.node_s, tell=now + 1.0, began=now, keeps=keeps)

    def _meet(self, snapshot: Snapshot) -> Progress:
        """Wait until all nodes are ready. Without a meeting of the Manager's the framework waits itself."""
        state, records = self.state, snapshot.records
        if not records.rounds.meets:
            silent = _silent(snapshot)
            return self._wait(snapshot, silent, records.agents.keys() - silent) if silent else Progress.FINAL
        there = {rank for rank in records.agents if records.left(rank) is None}
        ready = {rank for rank in there if records.said_round(rank, vocabulary.READY)[0] == state.number}
        if state.keeps:
            ready -= _silent(snapshot)
        for rank in there - ready - records.asking - records.exited:
            said, at = records.said_round(rank, vocabulary.READY)
            if said and at > state.began and rank not in state.called:
                # Its 210 for the round before was on its way when this one began.
                state.called.add(rank)
                self.send(traffic.agent(rank), vocabulary.RESTART_ALL, str(records.restarts or 0))
        if missing := set(range(snapshot.config.nodes)) - ready:
            return self._wait(snapshot, missing, ready)
        if reason := verdict(snapshot, settled=True):
            return self._end(snapshot, reason, _status(snapshot))
        if snapshot.now < state.not_before:
            return Progress.HOLD
        worlds = [records.said_ready(rank, vocabulary.LOCAL_WORLD) for rank in sorted(ready)]
        if state.keeps and not _fit(snapshot, worlds):
            return self._restart(snapshot)
        extension = {
            vocabulary.STORE: records.said_ready(0, vocabulary.STORE),
            vocabulary.LOCAL_WORLDS: ",".join(worlds),
        }
        for rank in sorted(ready):
            self.send(traffic.agent(rank), vocabulary.MEETING, str(state.number), extension)
        self.decide(AttemptBegins())
        return Progress.FINAL

    def _wait(self, snapshot: Snapshot, missing: Collection[int], there: Collection[int]) -> Progress:
        """Tell those who are there whom they wait for. They all end where that takes too long."""
        state, now = self.state, snapshot.now
        named = ",".join(map(str, sorted(missing)))
        if now >= state.until:
            reason = f"node {named} has not come within {snapshot.config.node_s:g} s"
            return self._end(snapshot, reason, AS_TERMINATED)
        if now >= state.tell or snapshot.records.rounds.missing:
            self._note(snapshot, missing)
        if snapshot.records.rounds.open:
            self._lose(snapshot, _silent(snapshot).intersection(missing))
        if now >= state.tell:
            state.tell = now + TELL_S
            extension = {vocabulary.MISSING: named, vocabulary.SECONDS: f"{state.until - now:.0f}"}
            for rank in sorted(there):
                if snapshot.records.meets(rank):
                    self.send(traffic.agent(rank), vocabulary.MEETING, str(state.number), extension)
        return Progress.HOLD

    def _lose(self, snapshot: Snapshot, nodes: Collection[int]) -> None:
        """Note the nodes that are lost, once."""
        lost, failures = frozenset(nodes), snapshot.failures
        if lost and (failures.open is None or not lost <= failures.lost):
            self.decide(NodesLost(lost))

    def _note(self, snapshot: Snapshot, missing: Collection[int]) -> None:
        """Note the nodes that the others wait for, for people who look."""
        rounds, until = snapshot.records.rounds, self.state.until
        if (set(missing), until) != (rounds.missing, rounds.until):
            self.decide(NodesMissing(frozenset(missing), until))

    def _end(self, snapshot: Snapshot, reason: str, status: int = 1) -> Progress:
        """End all nodes, with the reason. Their launchers leave with one exit status, as schedulers look at any."""
        extension = {vocabulary.REASON: reason} | ({vocabulary.EXIT_STATUS: str(status)} if status != 1 else {})
        for rank in sorted(snapshot.records.agents.keys() - snapshot.records.exited):
            self.send(traffic.agent(rank), vocabulary.EXIT, extension=extension)
        self.decide(RunEnds(reason))
        return Progress.FINAL


def _failed(snapshot: Snapshot) -> list[int]:
    """Nodes with a failure that no restart on its way will settle."""
    found = snapshot.records.faulty | snapshot.records.to_replace
    return sorted(rank for rank in found if snapshot.needs_answer(rank))


def _is_met(snapshot: Snapshot) -> bool:
    """True where nobody waits for a meeting in this round."""
    records = snapshot.records
    said = (records.said_round(rank, vocabulary.READY)[0] for rank in records.agents)
    return not snapshot.outbox.codes.get(vocabulary.RESTART_ALL) and records.rounds.number not in said


def _away(snapshot: Snapshot) -> bool:
    """True where an Agent is another process than at the start, or says nothing any more."""
    return bool(snapshot.records.asking or _silent(snapshot))


def _status(snapshot: Snapshot) -> int:
    """The exit status of launchers whose job ends because of a failure: one that no scheduler starts again, or 1."""
    return NEVER_AGAIN if snapshot.failures.comes_again else 1


def _pause(snapshot: Snapshot) -> float:
    """Seconds before the next start, where no number bounds the restarts."""
    return 0.0 if limit(snapshot) is not None else snapshot.failures.pause(snapshot.now)


def _recovers_in_place(snapshot: Snapshot) -> bool:
    """True where ranks rejoin, and have failed, have lost a peer, or are new beside others that train."""
    config, records, known = snapshot.config, snapshot.records, snapshot.records.epochs
    if not config.in_place or config.recovers or records.to_replace:
        return False
    joins = epochs.NEW in known.phases and known.number > known.over
    return joins or is_broken(snapshot) or can_start(snapshot)


def _keeps(snapshot: Snapshot) -> bool:
    """True where the ranks of some nodes keep their processes while others come back.

    They are in the training together, in the present round, and nobody has finished.
    """
    config, records, known = snapshot.config, snapshot.records, snapshot.records.epochs
    if not (config.in_place and records.rounds.meets) or config.recovers or records.exited:
        return False
    if known.number <= known.over or epochs.FINISHED in known.phases:
        return False
    kept = records.agents.keys() - records.asking - records.renewed - _silent(snapshot)
    return bool(kept) and all(records.said_round(rank, vocabulary.READY)[0] == records.rounds.number for rank in kept)


def _fit(snapshot: Snapshot, worlds: Collection[str]) -> bool:
    """True where every rank is on the same node as before.

    Args:
        snapshot: the state.
        worlds: number of ranks of each node, as the Agents say it.
    """
    numbers = [natural(text, JOB_NODES) or 0 for text in worlds]
    nodes = [node for node, number in enumerate(numbers) for _ in range(number)]
    workers = snapshot.records.workers
    known = (workers[rank].node == node for rank, node in enumerate(nodes) if rank in workers)
    return len(nodes) == snapshot.records.epochs.world and all(known)


def _lost_s(snapshot: Snapshot) -> float:
    """Seconds of silence of a lost node: few where ranks have left their epoch, so that not all are at work."""
    return snapshot.config.times.silent if epochs.LEFT in snapshot.records.epochs.phases else LOST_S


def _silent(snapshot: Snapshot) -> set[int]:
    """Agents that say nothing any more, or have said that a signal ends them."""
    records, now = snapshot.records, snapshot.now
    wait = _lost_s(snapshot)
    left = {rank for rank in records.agents if records.left(rank) is not None}
    silent = {rank for rank in records.agents if records.silent_since(rank, now, wait) is not None}
    return {rank for rank in left | silent if not _is_done(snapshot, rank)}


def _is_done(snapshot: Snapshot, rank: int) -> bool:
    """True for an Agent that has left after its workers had succeeded."""
    records = snapshot.records
    finished = records.said_round(rank, vocabulary.FINISHED)[0] == records.rounds.number
    return finished and records.left(rank) is not None


def _ended_by(snapshot: Snapshot) -> str:
    """The signal that ends the job, for people; empty without one."""
    for rank in sorted(snapshot.records.agents):
        said = snapshot.records.left(rank)
        if said is not None and said.message == vocabulary.JOB:
            return f"node {rank} has got {shown(said.extension.get(vocabulary.REASON, ''))}"
    return ""


def _finished(snapshot: Snapshot) -> bool:
    """True where the workers of every node have succeeded in this round."""
    records = snapshot.records
    said = (records.said_round(rank, vocabulary.FINISHED)[0] for rank in records.agents)
    done = sum(number == records.rounds.number for number in said)
    return 0 < snapshot.config.nodes == done


def _all_meet(snapshot: Snapshot) -> bool:
    """True where each Agent that is there can meet the others by way of the Manager."""
    return all(map(snapshot.records.meets, snapshot.records.agents))
