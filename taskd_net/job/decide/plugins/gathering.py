"""The recovery in place, which two plugins share: failed ranks are restarted alone, and the others rejoin.

```
  free ── every rank waits (a start of all) ─▶ EPOCH_BEGIN to all ─▶ free

  free ── an Agent reports ranks, or a Worker has left its epoch
            │ 209 to the Agent, EPOCH_END to the Workers that run
            ▼
        GATHERING ── every rank waits ─▶ EPOCH_BEGIN to all ─▶ JOINING ── every rank runs ─▶ free
            │  ▲                                                  │
            │  └ further ranks that had not left; after 60 s,     │ a second failure, or 60 s
            │    once, those that did not come: 209               │
            │ a second failure, 60 s more                         │
            └───────────────────────┬─────────────────────────────┘
                                    ▼
                                 GaveUp
```

A *second failure* is one of a rank that this recovery has restarted, of one that waited for the next epoch, after the
first second, and any while the epoch begins. A rank that dies before it has left belongs to the first failure, however
slowly it dies: its exception may be older than that of its peers.

With a finished rank, before the first epoch, or where Workers do not rejoin, there is no recovery in place.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, TypeVar

from taskd_net.base import vocabulary
from taskd_net.job.decide import epochs, traffic
from taskd_net.job.decide.plugins.actions import begin_epoch, end_epoch, is_last_begin, restart
from taskd_net.job.decide.plugins.plugin import INFINITY, Progress, Recovery
from taskd_net.job.decide.records import Fault
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer
from taskd_net.job.decide.traffic import Command, Restarts

S = TypeVar("S")

TOGETHER_S: Final = 1.0
"""Seconds after a first failure in which further ones belong to it: Agents of ours report one within 0.1 s, others look
at their workers once a second."""


@dataclass
class Gathering:
    """State.

    Args:
        since: time of the first failure of the recovery under way; 0 without one.
        until: the end of its patience.
        look: the time at which a node may be lost.
        joining: the epoch was begun.
        restarted: node by rank, of the ranks that were sent 209.
        retry_time: the RetryTime at the first failure.
        pods: number of the epoch after which the pods are left to others; -1 for none.
    """

    since: Timer = 0.0
    until: Timer = 0.0
    look: Timer = 0.0
    joining: bool = False
    restarted: dict[int, int] = field(default_factory=dict)
    retry_time: int | None = None
    pods: int = -1


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The recovery in place has come to nothing.

    Args:
        lost: nodes that are lost; empty for another reason.
    """

    lost: Collection[int] = ()


class GathersRanks(Recovery[S]):
    """A plugin that recovers in place."""

    @property
    @abstractmethod
    def gathering(self) -> Gathering:
        """The part of its state that is about it."""

    @abstractmethod
    def _allows(self, snapshot: Snapshot, nodes: Collection[int]) -> bool:
        """True where nothing of the plugin's own speaks against a restart of failed ranks of these nodes alone."""

    @abstractmethod
    def _restarts_left(self, snapshot: Snapshot) -> int:
        """The count of the job's restarts after this recovery."""

    def _came(self, snapshot: Snapshot) -> bool:
        """True where a node has come back whose ranks start with those of all nodes."""
        return False

    def _lost(self, snapshot: Snapshot) -> set[int]:
        """Nodes without which no rank of theirs comes, and when to look again (`Gathering.look`)."""
        self.gathering.look = self.gathering.until
        return set()

    def gather(self, snapshot: Snapshot) -> Progress | GaveUp:
        """Begin a recovery or an epoch, or go on with it."""
        state, known = self.gathering, snapshot.records.epochs
        if not state.since:
            if can_start(snapshot):
                begin_epoch(self, snapshot, "start")
                return Progress.FINAL
            if not self._is_possible(snapshot):
                return GaveUp()
            self._end_epoch(snapshot)
        if not self._restart_faulty(snapshot) or epochs.FINISHED in known.phases or self._came(snapshot):
            return GaveUp()
        return self._join(snapshot) if state.joining else self._await_ranks(snapshot)

    def gather_again_at(self) -> float:
        """The end of the patience, or the next look for lost nodes."""
        state = self.gathering
        return min(state.until, state.look) if state.since else INFINITY

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """A Worker needs the beginning of the last epoch, however long it takes."""
        return is_last_begin(command, snapshot) or super().lost(command, snapshot)

    def _is_possible(self, snapshot: Snapshot) -> bool:
        """True where some Workers go on, and nothing speaks against a restart of the others alone."""
        records, known = snapshot.records, snapshot.records.epochs
        faults = faults_of(snapshot)
        failed = {rank for fault in faults.values() for rank in fault.ranks}
        readable = all(fault.ranks and records.agents[node].registered for node, fault in faults.items())
        restart_all = snapshot.outbox.codes.get(vocabulary.RESTART_ALL)
        under_way = records.exited or epochs.FINISHED in known.phases or restart_all
        goes_on = known.number > known.over and failed < set(range(known.world))
        return readable and goes_on and not under_way and self._allows(snapshot, faults.keys())

    def _end_epoch(self, snapshot: Snapshot) -> None:
        """Open the recovery: those that run are to leave."""
        state = self.gathering
        state.since, state.retry_time = snapshot.now, snapshot.retry_time
        state.until = snapshot.now + snapshot.config.in_place_s
        state.look = snapshot.now + snapshot.config.times.silent
        failed = {rank for fault in faults_of(snapshot).values() for rank in fault.ranks}
        end_epoch(self, snapshot, failed, _cause(snapshot))

    def _restart_faulty(self, snapshot: Snapshot) -> bool:
        """209 for the reported ranks; False for a second failure."""
        state = self.gathering
        for node, fault in faults_of(snapshot).items():
            fresh = set(fault.ranks) - state.restarted.keys()
            underway = snapshot.outbox.has(traffic.agent(node), vocabulary.RESTART_RANKS)
            if not fresh and underway:
                continue  # the report is older than the restart
            waited = any(snapshot.records.has_left(rank) for rank in fresh)
            if not fresh or state.joining or (waited and snapshot.now > state.since + TOGETHER_S):
                return False
            state.restarted |= dict.fromkeys(fresh, node)
            # A second 209 takes the place of one that nobody has acknowledged, so it names the ranks of both.
            both = {rank for rank, its in state.restarted.items() if its == node} if underway else fresh
            restart(self, node, both)
        return True

    def _await_ranks(self, snapshot: Snapshot) -> Progress | GaveUp:
        """Wait for every rank."""
        state, now = self.gathering, snapshot.now
        if snapshot.records.epochs.all_in(epochs.NEW, epochs.LEFT):
            return self._begin_next(snapshot)
        if now >= state.look and (lost := self._lost(snapshot)):
            return GaveUp(lost)
        if now >= state.until:
            missing = missing_ranks(snapshot)
            if again := missing.keys() & state.restarted.keys():
                return GaveUp({missing[rank] for rank in again})
            state.until = now + snapshot.config.in_place_s
            state.restarted |= missing
            for node in sorted(set(missing.values())):
                restart(self, node, {rank for rank, its in missing.items() if its == node})
        return Progress.HOLD

    def _begin_next(self, snapshot: Snapshot) -> Progress:
        """Every rank waits: the next epoch begins."""
        state = self.gathering
        self.decide(Restarts(self._restarts_left(snapshot), everybody=False))
        begin_epoch(self, snapshot, _ranks_in_words(state.restarted))
        state.joining, state.until = True, snapshot.now + snapshot.config.in_place_s
        return Progress.HOLD

    def _join(self, snapshot: Snapshot) -> Progress | GaveUp:
        """Wait until every rank has joined."""
        state, known = self.gathering, snapshot.records.epochs
        state.look = state.until
        if known.all_in(epochs.RUNNING):
            return Progress.FINAL
        if known.all_in(epochs.LEFT):
            return GaveUp()
        if snapshot.now >= state.until:
            return GaveUp(self._lost(snapshot))
        return Progress.HOLD


def is_broken(snapshot: Snapshot) -> bool:
    """True where a rank has failed, has left its epoch, or waits for others that do."""
    known = snapshot.records.epochs
    return bool(faults_of(snapshot) or epochs.LEFT in known.phases or snapshot.returned)


def can_start(snapshot: Snapshot) -> bool:
    """True where all processes are new, and wait."""
    return snapshot.records.epochs.all_in(epochs.NEW) and not faults_of(snapshot)


def faults_of(snapshot: Snapshot) -> dict[int, Fault]:
    """Faults that no restart of a whole node will settle, by node."""
    agents = snapshot.records.agents
    found = ((node, agents[node].fault) for node in sorted(snapshot.records.faulty) if snapshot.needs_answer(node))
    return {node: fault for node, fault in found if fault is not None}


def missing_ranks(snapshot: Snapshot, *there: str) -> dict[int, int]:
    """Ranks that are not there, each with its node."""
    records, phases = snapshot.records, there or (epochs.NEW, epochs.LEFT)
    found = {}
    for rank in range(records.epochs.world):
        worker = records.workers.get(rank)
        if worker is None:
            found[rank] = records.epochs.node_of(rank)
        elif worker.phase not in phases:
            found[rank] = worker.node
    return found


def _cause(snapshot: Snapshot) -> str:
    return _ranks_in_words([rank for fault in faults_of(snapshot).values() for rank in fault.ranks])


def _ranks_in_words(ranks: Collection[int]) -> str:
    if not ranks:
        return "a collective failed"
    return f"rank{'s' if len(ranks) > 1 else ''} {','.join(map(str, sorted(ranks)))} failed"
