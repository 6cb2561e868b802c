"""RestartPlugin: restart the processes of a job whose nodes stay, where no platform starts lost ones again.

```
  an Agent asks ─▶ GATHERING ── all nodes ask ─▶ RunBegins: 210 to all ─▶ MEETING ── all are ready ─▶ 305 to all ─▶ free
                                                                            ▲ ▲ │ a failure meanwhile
  free ── a failure, within the budget; a lost node; a round of others ─────┘ └─┘
             │ 208 to all: they end their processes, and are ready then
       ── all nodes have finished ─▶ 307 to all, RunEnds ─▶ free
       ── no restart is left; SIGINT at a node; one has not come within --node-timeout ─▶ 203 to all, RunEnds ─▶ free
```

A *round* is a start of all nodes together, and has a number. An Agent is *ready* for it (304) when its processes have
ended; that of node 0 then has a fresh store for the next ones. Where an Agent cannot meet the others so, the
framework's own meeting takes the place of that.

A failure that InPlacePlugin can recover from in place comes to that plugin first.

`decide.failures` has the budget, and knows a failure that comes again. A round because a node was lost or has come back
costs nothing. A failure that ends the job takes the stream from InPlacePlugin.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import ClassVar, Final

from taskd_net.base import vocabulary
from taskd_net.base.untrusted import shown
from taskd_net.job.decide import traffic
from taskd_net.job.decide.plugins.actions import RECOVERY, begin_round, limit, verdict
from taskd_net.job.decide.plugins.plugin import INFINITY, Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Moment, Timer
from taskd_net.job.decide.traffic import AttemptBegins, MeetsNoMore, NodesMissing, RunBegins, RunEnds

LOST_S: Final = 30.0
"""Seconds without a report of an Agent after which its node is lost. The processes of a launcher that was stopped for
less go on; where they do not, the others fail at once."""

TELL_S: Final = 10.0
"""Seconds between two messages to Agents about whom they wait for."""

_POSITION = 4
"""Of two plugins with one number the name decides: InPlacePlugin comes before this one."""


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
    """

    number: int = 0
    until: Timer = 0.0
    not_before: Timer = 0.0
    tell: Timer = 0.0
    began: Moment = 0.0
    called: set[int] = field(default_factory=set)


class JobRestarts(Recovery[Course]):
    """Bring all nodes of a job together, as often as its budget allows."""

    name = "RestartPlugin"
    streams: ClassVar = {RECOVERY: _POSITION}

    def __init__(self) -> None:
        super().__init__(Course())

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
        due = other or _failed(snapshot) or _lost(snapshot) or _finished(snapshot)
        return (RECOVERY,) if due else ()

    def seizes(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, where a failure ends the job."""
        config, rounds = snapshot.config, snapshot.records.rounds
        ends = config.supervises and rounds.open and _failed(snapshot) and verdict(snapshot)
        return (RECOVERY,) if ends else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Go on with the wait for nodes, or begin one."""
        rounds = snapshot.records.rounds
        if reason := _ended_by(snapshot):
            return self._end(snapshot, reason)
        if not rounds.open:
            return self._gather(snapshot)
        if _finished(snapshot):
            for rank in sorted(rank for rank in snapshot.records.agents if snapshot.records.left(rank) is None):
                self.send(traffic.agent(rank), vocabulary.RELEASED, str(rounds.number))
            self.decide(RunEnds())
            return Progress.FINAL
        if rounds.meets and not _all_meet(snapshot):
            self.decide(MeetsNoMore())
            return self._restart(snapshot)
        if failed := _failed(snapshot):
            return self._answer(snapshot, failed)
        if rounds.number != self.state.number:
            self._await(snapshot, rounds.number)  # another plugin has begun it
            if _is_met(snapshot):  # a Manager without its state finds nodes at work
                return self._restart(snapshot) if _lost(snapshot) else Progress.FINAL
        elif not self.state.until:
            return self._restart(snapshot)
        return self._meet(snapshot)

    def release(self, stream: str) -> None:
        """The wait is over."""
        state = self.state
        state.until = state.not_before = state.tell = 0.0

    def deadline(self, snapshot: Snapshot) -> float:
        """The next event of a wait; without one the time at which a silent node is lost."""
        state = self.state
        if not snapshot.config.supervises:
            return INFINITY
        if state.until:
            later = (at for at in (state.not_before, state.tell) if at > snapshot.now)
            return min(later, default=state.until)
        if not snapshot.records.rounds.open:
            return INFINITY
        heard = [snapshot.records.heard(rank) for rank in snapshot.records.agents if not _is_done(snapshot, rank)]
        return min(heard, default=INFINITY) + LOST_S

    def _gather(self, snapshot: Snapshot) -> Progress:
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
        """Restart after a failure, or end the job where the budget is used up.

        A node that loses its place because of a device has not failed.
        """
        if not snapshot.records.faulty.intersection(failed):
            return self._restart(snapshot)
        if reason := verdict(snapshot):
            return self._end(snapshot, reason)
        limited = limit(snapshot) is not None
        return self._restart(snapshot, pause=0.0 if limited else snapshot.failures.pause(snapshot.now))

    def _restart(self, snapshot: Snapshot, pause: float = 0.0) -> Progress:
        """End all processes, and have the nodes meet. A node that loses its place because of a device leaves."""
        begin_round(self, snapshot, sorted(snapshot.records.to_replace))
        if not snapshot.records.rounds.meets:
            self.decide(AttemptBegins())  # nobody tells when all are there
        self._await(snapshot, snapshot.records.rounds.number + 1)
        self.state.not_before = snapshot.now + pause if pause else 0.0
        return Progress.HOLD

    def _await(self, snapshot: Snapshot, number: int) -> None:
        """A wait for all nodes begins."""
        state, now = self.state, snapshot.now
        state.number, state.began, state.called = number, now, set()
        state.until, state.tell, state.not_before = now + snapshot.config.node_s, now + 1.0, 0.0

    def _meet(self, snapshot: Snapshot) -> Progress:
        """Wait until all nodes are ready. Without a meeting of the Manager's the framework waits itself."""
        state, records = self.state, snapshot.records
        if not records.rounds.meets:
            silent = _silent(snapshot)
            return self._wait(snapshot, silent, records.agents.keys() - silent) if silent else Progress.FINAL
        there = {rank for rank in records.agents if records.left(rank) is None}
        ready = {rank for rank in there if records.said_round(rank, vocabulary.READY)[0] == state.number}
        for rank in there - ready - records.asking - records.exited:
            said, at = records.said_round(rank, vocabulary.READY)
            if said and at > state.began and rank not in state.called:
                # Its 210 for the round before was on its way when this one began.
                state.called.add(rank)
                self.send(traffic.agent(rank), vocabulary.RESTART_ALL, str(records.restarts or 0))
        if missing := set(range(snapshot.config.nodes)) - ready:
            return self._wait(snapshot, missing, ready)
        if reason := verdict(snapshot, settled=True):
            return self._end(snapshot, reason)
        if snapshot.now < state.not_before:
            return Progress.HOLD
        reports = [records.agents[rank].reports[f"{vocabulary.STATUS}/{vocabulary.READY}"] for rank in sorted(ready)]
        extension = {
            vocabulary.STORE: reports[0].extension.get(vocabulary.STORE, ""),
            vocabulary.LOCAL_WORLDS: ",".join(each.extension.get(vocabulary.LOCAL_WORLD, "") for each in reports),
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
            return self._end(snapshot, f"node {named} has not come within {snapshot.config.node_s:g} s")
        if now >= state.tell or snapshot.records.rounds.missing:
            self._note(snapshot, missing)
        if now >= state.tell:
            state.tell = now + TELL_S
            extension = {vocabulary.MISSING: named, vocabulary.SECONDS: f"{state.until - now:.0f}"}
            for rank in sorted(there):
                if snapshot.records.meets(rank):
                    self.send(traffic.agent(rank), vocabulary.MEETING, str(state.number), extension)
        return Progress.HOLD

    def _note(self, snapshot: Snapshot, missing: Collection[int]) -> None:
        """Note the nodes that the others wait for, for people who look."""
        rounds, until = snapshot.records.rounds, self.state.until
        if (set(missing), until) != (rounds.missing, rounds.until):
            self.decide(NodesMissing(frozenset(missing), until))

    def _end(self, snapshot: Snapshot, reason: str) -> Progress:
        """End all nodes, with the reason."""
        for rank in sorted(snapshot.records.agents.keys() - snapshot.records.exited):
            self.send(traffic.agent(rank), vocabulary.EXIT, extension={vocabulary.REASON: reason})
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


def _lost(snapshot: Snapshot) -> bool:
    """True where an Agent is another process than at the start, or says nothing any more."""
    return bool(snapshot.records.asking or _silent(snapshot))


def _silent(snapshot: Snapshot) -> set[int]:
    """Agents that say nothing any more, or have said that a signal ends them.

    Ranks that rejoin get the time of a silence for the return of such a node, and keep their processes then.
    """
    records, now = snapshot.records, snapshot.now
    left = {rank for rank in records.agents if records.left(rank) is not None and not records.epochs.world}
    silent = {rank for rank in records.agents if records.silent_since(rank, now, LOST_S) is not None}
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
