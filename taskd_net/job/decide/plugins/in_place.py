"""InPlacePlugin: the recovery in place (`gathering`), where a platform starts lost nodes again.

Where it comes to nothing, the pods are left to others: PodReschedulingPlugin takes reported faults. Without one no
other plugin knows of it, so a round begins here.

A *lost node* is one whose Agent is silent while its ranks are missing, or has come back as another process: its ranks
have ended with the Agent before, and the start of new ones waits for all nodes.

After a recovery that came to nothing, and when a node is to be replaced because of a device, the pods are left to
others until an epoch has begun again. Each recovery takes one of the job's restarts, so a Worker that fails again and
again comes to an end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar, Final

from taskd_net.base import vocabulary
from taskd_net.job.decide import epochs, traffic
from taskd_net.job.decide.plugins.actions import RECOVERY, begin_round, restarts_left
from taskd_net.job.decide.plugins.gathering import (
    Gathering,
    GathersRanks,
    GaveUp,
    can_start,
    faults_of,
    is_broken,
    missing_ranks,
)
from taskd_net.job.decide.plugins.plugin import Progress
from taskd_net.job.decide.snapshot import Snapshot

_PODS_NUMBER: Final = 4
"""PodReschedulingPlugin's number. Of two plugins with one number the name decides, so this one comes first."""


class InPlace(GathersRanks[Gathering]):
    """Recover from failures of single Workers, and begin every epoch."""

    name = "InPlacePlugin"
    streams: ClassVar = {RECOVERY: _PODS_NUMBER}

    def __init__(self) -> None:
        super().__init__(Gathering())

    @property
    def gathering(self) -> Gathering:
        """See `GathersRanks`."""
        return self.state

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a failure, and for an epoch that can begin."""
        config = snapshot.config
        if not config.in_place or config.recovers or config.supervises or snapshot.records.to_replace:
            return ()
        failed = self.state.pods != snapshot.records.epochs.number and is_broken(snapshot)
        return (RECOVERY,) if failed or can_start(snapshot) else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Begin a recovery or an epoch, or go on with it."""
        state = self.state
        if snapshot.config.supervises:
            return Progress.FINAL  # an earlier release gave it the stream
        if state.since and any(task.resets for task in snapshot.devices.tasks.values()):
            return Progress.FINAL  # the ranks start in place when the device is back
        if state.since and (state.retry_time != snapshot.retry_time or snapshot.records.to_replace):
            state.pods = snapshot.records.epochs.number
            return Progress.FINAL
        result = self.gather(snapshot)
        return self._leave_to_pods(snapshot, result.lost) if isinstance(result, GaveUp) else result

    def release(self, stream: str) -> None:
        """The recovery is over."""
        self.state = Gathering(pods=self.state.pods)

    def deadline(self, snapshot: Snapshot) -> float:
        """The end of the patience, or the next look for lost nodes."""
        return self.gather_again_at()

    def _allows(self, snapshot: Snapshot, nodes: Collection[int]) -> bool:
        return restarts_left(snapshot) >= 0 and not snapshot.returned

    def _restarts_left(self, snapshot: Snapshot) -> int:
        return restarts_left(snapshot)

    def _came(self, snapshot: Snapshot) -> bool:
        return bool(snapshot.returned)

    def _lost(self, snapshot: Snapshot) -> set[int]:
        """Nodes of missing ranks whose Agents are silent, or are to leave."""
        state, records = self.state, snapshot.records
        agents, since = records.agents, max(state.since, records.since)
        there = (epochs.RUNNING,) if state.joining else (epochs.NEW, epochs.LEFT)
        silent = {
            node: max(agents[node].heartbeat, since) + snapshot.config.times.silent
            if node in agents and not agents[node].exited
            else snapshot.now
            for node in missing_ranks(snapshot, *there).values()
        }
        state.look = min(silent.values(), default=state.until)
        return {node for node, at in silent.items() if at <= snapshot.now}

    def _leave_to_pods(self, snapshot: Snapshot, lost: Collection[int]) -> Progress:
        """Give up. Others answer reported faults; where nobody has reported one, no other plugin knows of it."""
        self.state.pods = snapshot.records.epochs.number
        if not faults_of(snapshot):
            if 0 in lost or 0 in snapshot.returned:
                self.send(traffic.agent(0), vocabulary.EXIT)
                self.call("destroy")
            else:
                begin_round(self, snapshot, sorted(lost))
        return Progress.FINAL
