"""InPlacePlugin: restart failed Workers alone, while the others keep their processes and rejoin in a new epoch.

```
  free ── every rank waits (a start of all) ─▶ EPOCH_BEGIN to all ─▶ free

  free ── an Agent reports ranks, or a Worker has left its epoch
            │ 209 to the Agent, EPOCH_END to the Workers that run
            ▼
        GATHERING ── every rank waits ─▶ EPOCH_BEGIN to all ─▶ JOINING ── every rank runs ─▶ free
            │  ▲                                                  │
            │  └ further ranks that had not left; after 60 s,     │ a second failure, or 60 s
            │    once, those that did not come: 209               │
            │ a second failure, a lost node, 60 s more            │
            └───────────────────────┬─────────────────────────────┘
                                    ▼
            pods: PodReschedulingPlugin takes reported faults; without one, a round from here ─▶ free
```

A *second failure* is one of a rank that this recovery has restarted, of one that waited for the next epoch, after the
first second, and any while the epoch begins. A rank that dies before it has left belongs to the first failure, however
slowly it dies: its exception may be older than that of its peers.
A *lost node* is one whose Agent is silent while its ranks are missing, or has come back as another process: its ranks
have ended with the Agent before, and the start of new ones waits for all nodes. So is one whose Agent asks a Manager
for its start that does not know it, as it has lost its state.

After a second failure or a lost node, and when a node is to be replaced because of a device, the pods are left to
others until an epoch has begun again.

Each recovery takes one of the job's restarts, so a Worker that fails again and again comes to an end. Without a restart
left, with a finished rank, before the first epoch, or where Workers do not rejoin, the pods are rescheduled at once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import ClassVar, Final

from taskd_net.base import vocabulary
from taskd_net.job.decide import epochs, traffic
from taskd_net.job.decide.plugins.actions import (
    RECOVERY,
    begin_epoch,
    begin_round,
    end_epoch,
    is_last_begin,
    offered,
    restart,
    restarts_left,
    verdict,
)
from taskd_net.job.decide.plugins.plugin import INFINITY, Progress, Recovery
from taskd_net.job.decide.records import Fault
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.times import Timer
from taskd_net.job.decide.traffic import Command, Restarts

TOGETHER_S: Final = 1.0
"""Seconds after a first failure in which further ones belong to it: Agents of ours report one within 0.1 s, others look
at their workers once a second."""

_PODS_NUMBER = 4
"""PodReschedulingPlugin's number. Of two plugins with one number the name decides, so this one comes first."""


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


class InPlace(Recovery[Gathering]):
    """Recover from failures of single Workers, and begin every epoch."""

    name = "InPlacePlugin"
    streams: ClassVar = {RECOVERY: _PODS_NUMBER}

    def __init__(self) -> None:
        super().__init__(Gathering())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a failure, and for an epoch that can begin."""
        if not snapshot.config.in_place or snapshot.config.recovers:
            return ()
        if snapshot.records.to_replace or _asks(snapshot) or _signalled(snapshot):
            return ()
        known = snapshot.records.epochs
        broken = _faults(snapshot) or epochs.LEFT in known.phases or snapshot.returned
        failed = self.state.pods != known.number and broken
        return (RECOVERY,) if failed or _can_start(snapshot) else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Begin a recovery or an epoch, or go on with it."""
        state, known = self.state, snapshot.records.epochs
        if not state.since:
            if _can_start(snapshot):
                begin_epoch(self, snapshot, "start")
                return Progress.FINAL
            if not _is_possible(snapshot):
                return self._leave_to_pods(snapshot)
            self._end_epoch(snapshot)
        elif any(task.resets for task in snapshot.devices.tasks.values()):
            return Progress.FINAL  # the ranks start in place when the device is back
        elif state.retry_time != snapshot.retry_time or snapshot.records.to_replace or _signalled(snapshot):
            state.pods = known.number
            return Progress.FINAL
        if not self._restart_faulty(snapshot) or epochs.FINISHED in known.phases or _came(snapshot):
            return self._leave_to_pods(snapshot)
        return self._join(snapshot) if state.joining else self._gather(snapshot)

    def release(self, stream: str) -> None:
        """The recovery is over."""
        self.state = Gathering(pods=self.state.pods)

    def deadline(self, snapshot: Snapshot) -> float:
        """The end of the patience, or the next look for lost nodes."""
        return min(self.state.until, self.state.look) if self.state.since else INFINITY

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """A Worker needs the beginning of the last epoch, however long it takes."""
        return is_last_begin(command, snapshot) or super().lost(command, snapshot)

    def _end_epoch(self, snapshot: Snapshot) -> None:
        """Open the recovery: those that run are to leave."""
        state = self.state
        state.since, state.retry_time = snapshot.now, snapshot.retry_time
        state.until = snapshot.now + snapshot.config.in_place_s
        state.look = snapshot.now + snapshot.config.times.silent
        failed = {rank for fault in _faults(snapshot).values() for rank in fault.ranks}
        end_epoch(self, snapshot, failed, _cause(snapshot))

    def _restart_faulty(self, snapshot: Snapshot) -> bool:
        """209 for the reported ranks; False for a second failure."""
        state = self.state
        for node, fault in _faults(snapshot).items():
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

    def _gather(self, snapshot: Snapshot) -> Progress:
        """Wait for every rank."""
        state, known, now = self.state, snapshot.records.epochs, snapshot.now
        if known.all_in(epochs.NEW, epochs.LEFT):
            if snapshot.config.supervises and verdict(snapshot, settled=True):
                return self._leave_to_pods(snapshot)  # RestartPlugin ends the job
            left = (snapshot.records.restarts or 0) if snapshot.config.supervises else restarts_left(snapshot)
            self.decide(Restarts(left, everybody=False))
            begin_epoch(self, snapshot, _ranks_in_words(state.restarted))
            state.joining, state.until = True, now + snapshot.config.in_place_s
            return Progress.HOLD
        if now >= state.look:
            silent = self._silent_at(snapshot, _missing(snapshot).values())
            if lost := {node for node, at in silent.items() if at <= now}:
                return self._leave_to_pods(snapshot, lost)
            state.look = min(silent.values())
        if now >= state.until:
            missing = _missing(snapshot)
            if again := missing.keys() & state.restarted.keys():
                return self._leave_to_pods(snapshot, {missing[rank] for rank in again})
            state.until = now + snapshot.config.in_place_s
            state.restarted |= missing
            for node in sorted(set(missing.values())):
                restart(self, node, {rank for rank, its in missing.items() if its == node})
        return Progress.HOLD

    def _join(self, snapshot: Snapshot) -> Progress:
        """Wait until every rank has joined."""
        state, known = self.state, snapshot.records.epochs
        state.look = state.until
        if known.all_in(epochs.RUNNING):
            return Progress.FINAL
        if known.all_in(epochs.LEFT):
            return self._leave_to_pods(snapshot)
        if snapshot.now >= state.until:
            silent = self._silent_at(snapshot, _missing(snapshot, epochs.RUNNING).values())
            return self._leave_to_pods(snapshot, {node for node, at in silent.items() if at <= snapshot.now})
        return Progress.HOLD

    def _silent_at(self, snapshot: Snapshot, nodes: Iterable[int]) -> dict[int, float]:
        """For each node the time at which it is lost, unless its Agent gives a sign of life until then."""
        agents, since = snapshot.records.agents, max(self.state.since, snapshot.records.since)
        return {
            node: max(agents[node].heartbeat, since) + snapshot.config.times.silent
            if node in agents and not agents[node].exited
            else snapshot.now
            for node in nodes
        }

    def _leave_to_pods(self, snapshot: Snapshot, lost: Collection[int] = ()) -> Progress:
        """Give up. Others answer reported faults; where nobody has reported one, no other plugin knows of it."""
        self.state.pods = snapshot.records.epochs.number
        if not _faults(snapshot):
            if snapshot.config.supervises:
                begin_round(self, snapshot, ())
            elif 0 in lost or 0 in snapshot.returned:
                self.send(traffic.agent(0), vocabulary.EXIT)
                self.call("destroy")
            else:
                begin_round(self, snapshot, sorted(lost))
        return Progress.FINAL


def _faults(snapshot: Snapshot) -> dict[int, Fault]:
    """Faults that no restart of a whole node will settle, by node."""
    agents = snapshot.records.agents
    found = ((node, agents[node].fault) for node in sorted(snapshot.records.faulty) if snapshot.needs_answer(node))
    return {node: fault for node, fault in found if fault is not None}


def _asks(snapshot: Snapshot) -> bool:
    """True where a node asks for the start of its processes, which RestartPlugin gives to all nodes together."""
    return snapshot.config.supervises and bool(snapshot.records.asking)


def _signalled(snapshot: Snapshot) -> bool:
    """True where a signal ends a node or the job, which RestartPlugin answers."""
    records = snapshot.records
    return snapshot.config.supervises and any(records.left(rank) is not None for rank in records.agents)


def _came(snapshot: Snapshot) -> bool:
    """True where a node has come, or come back: its ranks start with those of all nodes."""
    return bool(snapshot.returned) or _asks(snapshot)


def _can_start(snapshot: Snapshot) -> bool:
    """True where all processes are new, and wait."""
    return snapshot.records.epochs.all_in(epochs.NEW) and not _faults(snapshot)


def _is_possible(snapshot: Snapshot) -> bool:
    """True where some Workers go on, and nothing speaks against a restart of the others alone."""
    records, known = snapshot.records, snapshot.records.epochs
    faults = _faults(snapshot)
    failed = {rank for fault in faults.values() for rank in fault.ranks}
    readable = all(fault.ranks and records.agents[node].registered for node, fault in faults.items())
    if snapshot.config.supervises and not all(offered(snapshot, node) for node in faults):
        return False  # the budget of a node is none
    under_way = records.exited or epochs.FINISHED in known.phases or snapshot.outbox.codes.get(vocabulary.RESTART_ALL)
    some_left = snapshot.config.supervises or restarts_left(snapshot) >= 0
    goes_on = known.number > known.over and failed < set(range(known.world)) and some_left
    return readable and goes_on and not under_way and not snapshot.returned


def _missing(snapshot: Snapshot, *there: str) -> dict[int, int]:
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
    return _ranks_in_words([rank for fault in _faults(snapshot).values() for rank in fault.ranks])


def _ranks_in_words(ranks: Collection[int]) -> str:
    if not ranks:
        return "a collective failed"
    return f"rank{'s' if len(ranks) > 1 else ''} {','.join(map(str, sorted(ranks)))} failed"
