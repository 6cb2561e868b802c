"""FaultLevelPlugin: the answers to faults of devices, as commands.

```
  isolate and reschedule ─▶ the node loses its place: 203 to it, 208 to the others by PodReschedulingPlugin, or
                            203 to Agent 0 by JobReschedulingPlugin
  no new job ─────────────▶ nothing now; when the rank fails: isolate and reschedule
  run again ──────────────▶ 208 to all, with one restart less
  run the request again ──▶ FAULT to the Worker

  wait until idle ──▶ STOP ── the rank has ended ─▶ RESET ── the device is back ─▶ run again:
                       213                          hook                           in place 209, else 208 to all
                       └──── time, or a failure ────┴───────────────────────────▶ isolate and reschedule
```

A fault of a device and the death of its process are one round. The node of an isolated device counts among the faulty,
for whoever has the recovery or gets it. A process that has ended counts as stopped, and a node that restarts anyway
runs again. While a device is stopped and reset this plugin holds the recovery: reports of other ranks wait, and the
restart at the end answers them. An Agent that begins meanwhile runs nothing: it gets its 210 after the reset. Nobody is
restarted during a reset, also not for one that has failed.

In place, run again is InPlacePlugin's: the rank that was stopped is a failed one, which gets 209, and the others
rejoin. Without that a rank cannot join the others alone, so all get 208; so they do where RetryTime has changed
meanwhile, as everybody would restart for that right after.

With ClusterD the policy reports, and there is nothing to carry out.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Final

from taskd_net.base import vocabulary
from taskd_net.job.decide import traffic
from taskd_net.job.decide.device_state import Task
from taskd_net.job.decide.plugins.actions import RECOVERY, begin_round
from taskd_net.job.decide.plugins.plugin import Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.traffic import Command, Replace, Reset, StepBegun, StepEnded
from taskd_net.job.faults.levels import Action

STREAM: Final = "FaultLevelStream"

_NUMBER: Final = 4
"""The number of the plugins that answer reports of Agents. Of plugins with one number the first name decides."""


@dataclass
class Nothing:
    """State: none. The tasks of the devices have all of it."""


class FaultLevel(Recovery[Nothing]):
    """Carry out the steps that the policy of faults asks for."""

    name = "FaultLevelPlugin"
    streams: ClassVar = {STREAM: 1, RECOVERY: _NUMBER}

    def __init__(self) -> None:
        super().__init__(Nothing())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """Its own stream for what needs no recovery, and the recovery for stops, resets and restarts.

        The round that replaces a node goes first, as nobody gets a stream that a plugin before it wants again. It waits
        for resets under way: its 208 would start processes on their devices.
        """
        if not snapshot.devices.tasks:
            return ()
        wanted = []
        if any(_is_due(snapshot, device, task) for device, task in snapshot.devices.tasks.items()):
            wanted.append(STREAM)
        tasks = snapshot.devices.tasks.values()
        waits = any(task.resets or task.action is Action.RUN_AGAIN for task in tasks)
        if (waits and not snapshot.records.to_replace) or _is_resetting(snapshot):
            wanted.append(RECOVERY)
        return wanted

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Carry out the present step of each device."""
        if stream == STREAM:
            for device, task in snapshot.devices.tasks.items():
                if _is_due(snapshot, device, task):
                    self._answer(snapshot, device, task)
            return Progress.FINAL
        if snapshot.records.to_replace:  # the round that replaces a node restarts everybody
            return Progress.HOLD if _is_resetting(snapshot) else Progress.FINAL
        resetting = [(device, task) for device, task in snapshot.devices.tasks.items() if task.resets]
        for device, task in resetting:
            self._reset(snapshot, device, task)
        return Progress.HOLD if resetting else self._run_again(snapshot)

    def lost(self, command: Command, snapshot: Snapshot) -> bool:
        """A Worker that cannot be reached has no request to repeat."""
        return command.msg_type != vocabulary.DEVICE_FAULT and super().lost(command, snapshot)

    def _answer(self, snapshot: Snapshot, device: str, task: Task) -> None:
        """Carry out a step that needs no recovery."""
        place = snapshot.place(device)
        match task.action:
            case Action.ISOLATE_AND_RESCHEDULE | Action.NO_NEW_JOB | Action.EXIT_GRACEFULLY:
                if place.node is not None:
                    self.decide(Replace(place.node, device))
            case Action.RUN_REQUEST_AGAIN:
                extension = {vocabulary.DEVICE: device, vocabulary.ACTION_WANTED: task.action.value}
                for rank in place.ranks:
                    if (worker := snapshot.records.workers.get(rank)) is not None:
                        to, kind = traffic.worker(worker.node, rank), vocabulary.DEVICE_FAULT
                        self.decide(Command(to, vocabulary.OCCURRED, task.code, extension, kind))
            case Action.STOP_PROCESSES | Action.RESET_DEVICE:
                self.decide(StepEnded(device, "no Agent of the job has this device"))
                return
            case _:
                pass
        self.decide(StepEnded(device))

    def _reset(self, snapshot: Snapshot, device: str, task: Task) -> None:
        """Stop the processes of a device, or reset it."""
        place = snapshot.place(device)
        if task.action is Action.RESET_DEVICE:
            if not snapshot.config.faults.resets:
                self.decide(StepEnded(device, "there is no hook that resets devices"))
            elif not task.begun:
                self.decide(Reset(device, place.ranks, task.limit))
        elif place.node in snapshot.records.asking:
            self.decide(StepEnded(device))  # its go waits for the reset: nothing runs
        elif place.node is not None and snapshot.is_starting(place.node):
            pass  # the ranks that have failed are about to begin again
        elif snapshot.has_ended(place):
            self.decide(StepEnded(device))
        elif not task.begun and place.ranks:
            self.send(traffic.agent(place.node or 0), vocabulary.STOP_RANKS, traffic.rank_texts(place.ranks))
            self.decide(StepBegun(device))

    def _run_again(self, snapshot: Snapshot) -> Progress:
        """Start the training again, unless it starts anyway, or its failed ranks start in place."""
        tasks = snapshot.devices.tasks.items()
        waiting = [(device, task) for device, task in tasks if task.action is Action.RUN_AGAIN]
        for device, _ in waiting:
            self.decide(StepEnded(device))
        if any(_needs_restart(snapshot, device, task) for device, task in waiting):
            begin_round(self, snapshot, ())
        return Progress.FINAL


def _needs_restart(snapshot: Snapshot, device: str, task: Task) -> bool:
    """True for a task that everybody is restarted for."""
    node, epochs = snapshot.place(device).node, snapshot.records.epochs
    if node is None or node not in snapshot.records.agents:
        return False  # no process of the job runs there
    rejoins = snapshot.config.in_place and epochs.number > epochs.over and not snapshot.retries
    was_stopped = Action.STOP_PROCESSES.value in task.actions
    return not (node in snapshot.records.exited or snapshot.is_starting(node) or (rejoins and was_stopped))


def _is_due(snapshot: Snapshot, device: str, task: Task) -> bool:
    """True for a step that is to be carried out now, on the plugin's own stream."""
    match task.action:
        case Action.NO_NEW_JOB:
            place = snapshot.place(device)
            return place.node in snapshot.records.agents and snapshot.has_ended(place)
        case Action.WAIT_UNTIL_IDLE:
            return snapshot.has_ended(snapshot.place(device))
        case Action.STOP_PROCESSES | Action.RESET_DEVICE:
            return snapshot.place(device).node not in snapshot.records.agents
        case Action.RUN_AGAIN:
            return not _needs_restart(snapshot, device, task)
        case Action.WAIT_FOR_RECOVERY:
            return False
        case _:
            return True


def _is_resetting(snapshot: Snapshot) -> bool:
    """True while a reset is under way."""
    return any(task.reset for task in snapshot.devices.tasks.values())
