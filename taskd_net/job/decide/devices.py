"""Faults of devices: the policy that gives them their answers, and the answers under way.

```
  FAULT, rules, time ─▶ FaultPolicy ─▶ decisions with steps ─▶ tasks, one a device
                            ▲                                       │ FaultLevelPlugin carries the present step out
                            └────── the step has ended, or failed ◀─┘
```

The policy has the time limits of the steps. A task is the answer that a device gets now. FaultLevelPlugin sees it in
the snapshot, and says with `StepEnded` how its step went. With ClusterD there are no tasks: it answers the faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import assert_never

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import json_value
from taskd_net.job.decide.device_state import DeviceState, FaultConfig, Task
from taskd_net.job.decide.events import (
    DeviceEvent,
    DeviceRanks,
    DeviceReleased,
    FaultFiles,
    OfDevices,
    ResetEnded,
    SeparatedNames,
)
from taskd_net.job.decide.plain import to_text
from taskd_net.job.decide.traffic import StepBegun, StepEnded
from taskd_net.job.faults import editions
from taskd_net.job.faults.decisions import Decision, Isolated
from taskd_net.job.faults.events import FaultKind
from taskd_net.job.faults.levels import Action, FaultType
from taskd_net.job.faults.policy import FaultPolicy
from taskd_net.job.faults.reading import read_rules
from taskd_net.job.faults.rules import FaultRules


class Devices:
    """The faults of a job's devices.

    Args:
        config: the settings.
        reports_only: ClusterD answers the faults.
        state: what is remembered.

    Attributes:
        notes: decisions since they were last taken out, but for those that ask for nothing.
        counts: number of decisions since then, by level and type.
        stepped: a task has moved on since the last tick.
    """

    def __init__(self, config: FaultConfig, state: DeviceState, *, reports_only: bool = False) -> None:
        self.config = config
        self.state = state
        self.notes: list[Decision] = []
        self.counts: Counter[str] = Counter()
        self.stepped = False
        self._reports_only = reports_only
        self._policy: FaultPolicy | None = None
        if state.files or config.answers:
            try:
                self._policy = self._made(state.files)
                self._policy.load({device: json_value(text) for device, text in state.policy.items()})
            except ConfigError:  # refused by another edition, or a newer release: the folder gives others
                state.tasks.clear()  # no policy would end their steps
                if self._policy is None and config.answers:
                    self._policy = self._made({})

    @property
    def known(self) -> bool:
        """True where faults are answered: there are rules, those of no file included."""
        return self._policy is not None

    @property
    def next_look(self) -> float:
        """The time of the next look, in seconds since the epoch; infinity for never."""
        return float("inf") if self._policy is None else self._policy.next_look

    def take(self, event: OfDevices, now: float) -> bool:
        """Take an event.

        Returns:
            False for an event of a device without rules, as nobody has said what it asks for; for a release of a device
            that is not separated; and for the end of a reset that nobody waits for.

        Raises:
            ConfigError: files with rules are refused; the rules in force stay.
        """
        match event:
            case DeviceEvent():
                if self._policy is None:
                    return False
                self._take(self._policy.event(event.event, now), now)
                self._remember(event)
            case DeviceReleased():
                return self._release(event.device, now)
            case FaultFiles():
                self._change(event.files, now)
            case DeviceRanks():
                self.state.ranks = dict(event.ranks)
            case SeparatedNames():
                self._list_seen(event.names, now)
            case ResetEnded():
                return self._reset_ended(event, now)
            case _:
                assert_never(event)
        return True

    def look(self, now: float) -> None:
        """Decide on what is due by time."""
        if self._policy is not None and self._policy.next_look <= now:
            self._take(self._policy.look(now), now)

    def _change(self, files: Mapping[str, str], now: float) -> None:
        """Use other rules."""
        rules = self._rules(files)
        self.state.files, self.state.files_changed = dict(files), True
        if self._policy is None:
            self._policy = self._made(files)
        else:
            self._take(self._policy.change(rules, now), now)

    def _release(self, device: str, now: float) -> bool:
        """A person gives a separated device free."""
        self.state.listed.discard(device)
        found = [] if self._policy is None else self._policy.release(device, now)
        self._take(found, now)
        return bool(found)

    def _list_seen(self, names: frozenset[str], now: float) -> None:
        """The list of separated devices has these names: those that it has no longer were removed by a person."""
        for device in sorted(self.state.listed - names):
            self._release(device, now)
        self.state.listed |= self.separated & names

    def step_ended(self, device: str, failed: str, now: float) -> None:
        """The present step of a device's task has ended, or failed for this reason."""
        task = self.state.tasks.get(device)
        if task is None or self._policy is None:
            return
        self.stepped, action = True, task.action
        if failed or task.index + 1 == len(task.actions):
            del self.state.tasks[device]
        else:
            self.state.tasks[device] = replace(task, index=task.index + 1, begun=False, reset="")
        if failed:
            self._take(self._policy.step_failed(device, action, now, failed), now)
        elif action is Action.NO_NEW_JOB:
            self._take(self._policy.job_failed(device, now), now)
        else:
            self._take(self._policy.step_done(device, action, now), now)

    def mark(self, step: StepBegun | StepEnded, now: float) -> None:
        """Take in what FaultLevelPlugin says of a step."""
        if isinstance(step, StepBegun):
            self.begun(step.device)
        else:
            self.step_ended(step.device, step.failed, now)

    def begun(self, device: str, reset: str = "") -> None:
        """The present step of a device's task is commanded."""
        if (task := self.state.tasks.get(device)) is not None:
            task.begun, task.reset = True, reset

    def _reset_ended(self, event: ResetEnded, now: float) -> bool:
        """A reset has ended."""
        found = next((name for name, task in self.state.tasks.items() if task.reset == event.uuid), None)
        if found is None:
            return False
        self.step_ended(found, "" if event.done else event.reason or "the device is not back", now)
        return True

    def move(self, then: float, now: float) -> None:
        """Take note that the clock has moved."""
        if self._policy is not None:
            self._policy.move(then, now)

    def restarted(self, now: float) -> None:
        """Every process of the job is restarted: whoever waits for that has it."""
        waiting = [name for name, task in self.state.tasks.items() if task.action is Action.RUN_AGAIN]
        for device in waiting:
            self.step_ended(device, "", now)

    def resume(self, now: float) -> None:
        """A Manager begins with this state. The end of a reset under way is not known, so it has failed."""
        for device, task in list(self.state.tasks.items()):
            if task.reset:
                self.step_ended(device, "the Manager has ended during the reset", now)

    def remembers(self, device: str) -> bool:
        """True for a device that a report or a release may change something of."""
        return device in self.state.listed or (self._policy is not None and self._policy.knows(device))

    @property
    def separated(self) -> frozenset[str]:
        """Devices that a person has to give free."""
        return frozenset(() if self._policy is None else self._policy.manually_separated())

    def isolated(self) -> Iterable[Isolated]:
        """Devices that take no new job."""
        return () if self._policy is None else self._policy.isolated()

    def taken_out(self) -> tuple[list[Decision], Counter[str]]:
        """Take out the decisions since the last time: those that ask for something, and the number of all by level."""
        found = self.notes, self.counts
        self.notes, self.counts = [], Counter()
        return found

    def sync(self) -> None:
        """Bring the state up to date with the policy."""
        if self._policy is None or not self._policy.changed:
            return
        for device, value in self._policy.saved(self._policy.changed).items():
            self.state.unsaved.add(device)
            if value is None:
                self.state.policy.pop(device, None)
                self.state.nodes.pop(device, None)
                self.state.reporters.pop(device, None)
            else:
                self.state.policy[device] = to_text(value)
        self._policy.changed.clear()

    def _made(self, files: Mapping[str, str]) -> FaultPolicy:
        config = self.config
        return FaultPolicy(self._rules(files), config.mode, config.job_kind, config.sub_health)

    def _rules(self, files: Mapping[str, str]) -> FaultRules:
        config = self.config
        if not files:
            return FaultRules.of_no_file(config.edition, config.linkdown_timeout)
        return read_rules(as_bytes(files), config.edition, config.linkdown_timeout)[0]

    def _take(self, decisions: Iterable[Decision], now: float) -> None:
        for decision in decisions:
            fault_type = decision.fault_type
            name = fault_type.word if fault_type.level == "-" else f"{fault_type.level} {fault_type.word}"
            self.counts[name] += 1
            if decision.steps or decision.cleared:
                self.notes.append(decision)
            if decision.steps:
                self._begin(decision, now)
            elif decision.cleared:
                self._drop(decision)

    def _begin(self, decision: Decision, now: float) -> None:
        steps = decision.steps
        task = Task(
            decision.fault_type.word,
            decision.code,
            decision.reason,
            decision.at,
            [step.action.value for step in steps],
            [step.limit or 0.0 for step in steps],
        )
        self.stepped = True
        self.state.tasks[decision.device] = task
        if self._reports_only:
            told = len(self.notes)
            while decision.device in self.state.tasks:
                self.step_ended(decision.device, "", now)
            del self.notes[told:]  # others carry the steps out, and nothing is known of that

    def _remember(self, event: DeviceEvent) -> None:
        """Keep the node of a device, and who has reported its fault, until the policy forgets the device."""
        nodes, reporters, device = self.state.nodes, self.state.reporters, event.event.device
        if event.node is not None and (device in nodes or len(nodes) < editions.DEVICES):
            nodes[device] = event.node
        occurs = event.reporter is not None and event.event.kind is not FaultKind.RECOVERED
        if occurs and (device in reporters or len(reporters) < editions.DEVICES):
            reporters[device] = str(event.reporter)

    def _drop(self, decision: Decision) -> None:
        """A fault is over: its device waits for nothing any more, unless other faults ask for it."""
        task, policy = self.state.tasks.get(decision.device), self._policy
        if task is None or policy is None:
            return
        waits = any(each.device == decision.device for each in policy.under_way())
        marked = task.action is Action.NO_NEW_JOB and decision.standing >= FaultType.PRE_SEPARATE_NPU
        if task.action in (Action.NO_NEW_JOB, Action.WAIT_UNTIL_IDLE) and not waits and not marked:
            del self.state.tasks[decision.device]


def as_bytes(files: Mapping[str, str]) -> dict[str, bytes]:
    """The bytes of files whose texts `as_texts` has made."""
    return {name: text.encode("utf-8", "surrogateescape") for name, text in files.items()}


def as_texts(files: Mapping[str, bytes]) -> dict[str, str]:
    """The bytes of files as texts, that a stored state can have."""
    return {name: data.decode("utf-8", "surrogateescape") for name, data in files.items()}
