"""The policy: events of devices in, decisions out.

    policy = FaultPolicy(rules, Mode.RESCHEDULING, JobKind.TRAINING)
    decisions = policy.event(event, now)      as events come
    decisions = policy.look(now)              at `policy.next_look`, for what happens by the passing of time
    decisions = policy.change(rules, now)     when the files have changed

The rules of a decision, for a fault that occurs on a device:

1. Its type is that of its code, or of its severity where no file has the code.
2. Occurrences that reach a rule of frequency, and a duration beyond a rule of duration, give it their type if that is
   more serious. A code with both rules counts one occurrence for each duration that was exceeded.
3. Of several faults on the device the most serious type wins, and its steps are carried out.
4. A device that is out already, and one whose steps under way are as serious, gets no further steps.

All times are in seconds since the epoch. The state is bounded by `editions`, and is saved device by device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from taskd_net.job.faults import editions
from taskd_net.job.faults.answers import Answers
from taskd_net.job.faults.decisions import Decision, FaultCounts, Isolated, UnderWay
from taskd_net.job.faults.device import NEVER, TO_BE_DONE, Device, DeviceFault, Raised
from taskd_net.job.faults.events import FaultEvent, FaultKind
from taskd_net.job.faults.levels import Action, DeviceStep, FaultType, JobKind, Mode, SubHealth
from taskd_net.job.faults.looks import Looks
from taskd_net.job.faults.occurrences import Occurrences
from taskd_net.job.faults.recent import RecentEvents
from taskd_net.job.faults.rules import FaultRules, FrequencyRule
from taskd_net.job.faults.saving import from_plain, to_plain

_MANUAL = FaultType.MANUALLY_SEPARATE_NPU


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds on what a policy remembers; no user sets them.

    Args:
        devices: with a state.
        faults: that stand, on all devices.
        codes: that stand, on one device.
    """

    devices: int = editions.DEVICES
    faults: int = editions.FAULTS
    codes: int = editions.CODES_PER_DEVICE


class FaultPolicy:
    """The decisions for the devices of one job.

    Args:
        rules: in force at first.
        mode: of the cluster.
        job_kind: what runs on the devices.
        sub_health: the answer to `SubHealthFault`.
        bounds: on what it remembers.

    Attributes:
        rules: in force; `change` replaces them.
        counts: numbers of events.
        changed: names of devices whose state has changed since the caller emptied the set; see `saved`.
    """

    def __init__(
        self,
        rules: FaultRules,
        mode: Mode = Mode.RESCHEDULING,
        job_kind: JobKind = JobKind.TRAINING,
        sub_health: SubHealth = SubHealth.IGNORE,
        bounds: Bounds = Bounds(),
    ) -> None:
        self._bounds = bounds
        self.rules = rules
        self.counts = FaultCounts()
        self.changed: set[str] = set()
        self._answers = Answers(mode, job_kind, sub_health, rules.grace)
        self._devices: dict[str, Device] = {}
        self._faults = 0
        self._looks = Looks(self._devices)
        self._recent = RecentEvents()
        self._occurrences = Occurrences(self._devices)
        self._occurrences.use(rules.frequency)

    def event(self, event: FaultEvent, now: float) -> list[Decision]:
        """Take an event.

        Args:
            event: any event; one that has come before changes nothing.
            now: the time.

        Returns:
            One decision for an occurrence, and for a recovery where it changes something; between those of `look`.
        """
        found = self.look(now)
        self.counts.events += 1
        at = event.at
        if at > now:
            self.counts.future += 1
            at = now
        device = self._devices.get(event.device)
        fault = None if device is None else device.faults.get(event.code)
        if self._recent.is_doubled(event, at, fault.since if fault is not None and fault.stands else None):
            self.counts.doubled += 1
        elif event.kind is FaultKind.RECOVERED:
            self._recover(event, at, now, found)
        else:
            self._occur(event, at, now, found)
        return found + self.look(now)  # an event that comes late may be due

    def look(self, now: float) -> list[Decision]:
        """Decide on what the passing of time has done. It is needed at `next_look`, and harmless at any time."""
        found: list[Decision] = []
        for name, device in self._looks.due(now):
            self._look_at(name, device, now, found)
            self._settled(name, device)
        return found

    @property
    def next_look(self) -> float:
        """Time by which to call `look`; infinity for none."""
        return self._looks.next

    def change(self, rules: FaultRules, now: float) -> list[Decision]:
        """Use other rules. Faults that stand are decided on again where their type changes, and so are devices that a
        frequency has raised. A device that is separated manually stays so.

        Counters of codes whose rule of frequency is the same go on; those of other codes begin again.
        """
        found = self.look(now)
        before, self.rules = self.rules, rules
        self._answers.use(rules.grace)
        self.changed |= self._occurrences.use(rules.frequency)
        for name, device in list(self._devices.items()):
            for code, fault in list(device.faults.items()):
                self._change(name, device, code, fault, now, found)
            for code, raised in list(device.raised.items()):
                self._change_raised(name, device, code, raised, before.frequency.get(code), now, found)
            self._begin_windows(device, now)
            self._settled(name, device)
        return found

    def move(self, then: float, now: float) -> None:
        """Take note that the clock has moved from `then` to `now`, by a step or while nobody looked.

        Waits move with it: no limit or window ends that was not waited for. Times of events stay, but none is in the
        future.
        """
        for device in self._devices.values():
            device.move(then, now)
        self._recent.move(now)
        self._looks.plan_all(self.rules.duration)
        self.changed.update(self._devices)

    def release(self, name: str, now: float) -> list[Decision]:
        """Take a device back that waits for a person: it was separated manually, or a step has failed on it."""
        device = self._devices.get(name)
        if device is None:
            return []
        found: list[Decision] = []
        reason = "a person has released the device"
        for code in [code for code, raised in device.raised.items() if raised.type is _MANUAL]:
            del device.raised[code]
            found.append(self._answers.over(name, device, code, _MANUAL, reason, now, well=False))
        if code := device.forgive():
            found.append(self._answers.over(name, device, code, FaultType.SEPARATE_NPU, reason, now))
        self._settled(name, device)
        return found

    def job_failed(self, name: str, now: float) -> list[Decision]:
        """Take note that the job on a device has failed. A device that only takes no new job is isolated then."""
        device = self._devices.get(name)
        decision = None if device is None else self._answers.job_failed(name, device, now)
        if decision is None:
            return []
        self.changed.add(name)
        return [decision]

    def step_done(self, name: str, action: Action, now: float) -> list[Decision]:
        """Take note that a step of `TO_BE_DONE` has ended, if it is the present one of the device."""
        device = self._devices.get(name)
        if device is None or device.plan is None or device.plan.step.action is not action or action not in TO_BE_DONE:
            return []
        found = self._answers.step_done(name, device, now)
        self._begin_windows(device, now)  # a reset ends faults
        self._settled(name, device)
        return found

    def step_failed(self, name: str, action: Action, now: float, reason: str = "") -> list[Decision]:
        """Take note that a step has failed: the device is isolated. Any other step than the present one is ignored."""
        device = self._devices.get(name)
        if device is None or device.plan is None or device.plan.step.action is not action:
            return []
        text = f"{action.value} has failed" + (f": {reason}" if reason else "")
        found = [self._answers.give_up(name, device, text, now)]
        self._settled(name, device)
        return found

    def isolated(self) -> Iterator[Isolated]:
        """The devices that take no new job, with the reasons."""
        for name, device in self._devices.items():
            if (held := device.held) is not None:
                yield Isolated(name, held.action, device.standing, held.code, held.reason, held.since)

    def knows(self, name: str) -> bool:
        """True for a device that there is something to remember of."""
        return name in self._devices

    def step(self, name: str) -> DeviceStep | None:
        """The present step of a device; None without one."""
        device = self._devices.get(name)
        return None if device is None or device.plan is None else device.plan.step

    def under_way(self) -> Iterator[UnderWay]:
        """The present step of each device that has one."""
        for name, device in self._devices.items():
            if (plan := device.plan) is not None:
                yield UnderWay(name, plan.step, plan.type, plan.code, plan.deadline)

    def manually_separated(self) -> list[str]:
        """The devices that wait for a person, in order: the list in which people remove names."""
        waiting = [
            name
            for name, device in self._devices.items()
            if any(raised.type is _MANUAL for raised in device.raised.values())
        ]
        return sorted(waiting)

    def standing(self, name: str) -> FaultType:
        """The most serious type on a device."""
        device = self._devices.get(name)
        return FaultType.NOT_HANDLE if device is None else device.standing

    def saved(self, names: Iterable[str] | None = None) -> dict[str, dict[str, object] | None]:
        """The state of devices as plain values for JSON.

        Args:
            names: the devices; None for all.

        Returns:
            A value for each name; None where there is nothing to remember.
        """
        found = {name: self._devices.get(name) for name in (self._devices if names is None else names)}
        return {name: None if device is None else to_plain(device) for name, device in found.items()}

    def load(self, saved: Mapping[str, object]) -> None:
        """Take over what `saved` has given, in a policy that has had no events.

        Raises:
            ConfigError: a value has another form; nothing is taken over.
        """
        found = {name: from_plain(name, value, self.rules) for name, value in saved.items() if value is not None}
        for name, device in sorted(found.items(), key=lambda item: item[1].counted)[-self._bounds.devices :]:
            self._devices[name] = device
            self._begin_windows(device, device.counted)
            self._answers.loaded(device)
            self._occurrences.loaded(name, device)
            self._settled(name, device)
        self.changed.clear()

    def _occur(self, event: FaultEvent, at: float, now: float, found: list[Decision]) -> None:
        name, code, rules = event.device, event.code, self.rules
        device = self._remembered(name)
        base = rules.type_of(code, event.severity, network=event.network)
        stands = event.kind is FaultKind.OCCURRED and at >= self._recent.recovered(name, code)
        fault = self._stand(device, event, base, at) if stands else None
        fault_type, reason = base, rules.reason(event, base)
        raised = None if code in rules.duration else self._count(name, device, code, fault, at, now)
        if code in device.raised:
            device.raised[code].comes_again(at, stands=code in device.faults)
        if raised is not None and raised[0] > base:
            fault_type, reason = raised
        decision = self._answers.occurred(name, device, code, fault_type, reason, now)
        found.append(decision)
        self.changed.add(name)
        self._number(name, device)
        if raised is not None or decision.steps or code in rules.duration or code in device.raised or device.empty:
            self._settled(name, device)

    def _remembered(self, name: str) -> Device:
        """The device of a name; beyond the bound, one that is forgotten after its event."""
        device = self._devices.get(name)
        if device is None:
            device = Device()
            if len(self._devices) < self._bounds.devices:
                self._devices[name] = device
            else:
                self.counts.not_remembered += 1
        return device

    def _stand(self, device: Device, event: FaultEvent, base: FaultType, at: float) -> DeviceFault | None:
        """Remember a fault that stands from now on; None where there is no room for it."""
        code = event.code
        fault = device.faults.get(code)
        if fault is not None and fault.stands:  # its recovery was lost, or it stands for longer than was known
            if fault.seen_again(at, base, event.severity, event.network):
                device.settle()
            return fault
        if fault is None and (len(device.faults) >= self._bounds.codes or self._faults >= self._bounds.faults):
            self.counts.not_remembered += 1
            other = device.least_serious()
            if not other or device.faults[other].type >= base:
                return None
            del device.faults[other]
        lasting = None if fault is None else fault.lasting
        device.faults[code] = fault = DeviceFault(at, base, event.severity, event.network, lasting=lasting)
        return fault

    def _count(
        self, name: str, device: Device, code: str, fault: DeviceFault | None, at: float, now: float
    ) -> tuple[FaultType, str] | None:
        """Count an occurrence. Returns the type that it is raised to, and the reason."""
        if name not in self._devices:
            return None
        rule = self._occurrences.add(name, device, code, at, now)
        self.counts.counters_forgotten = self._occurrences.forgotten
        stale = self._occurrences.stale(now)
        if stale is not None and stale in self._devices:
            self._settled(stale, self._devices[stale])
        if rule is None:
            return None
        times = "once" if rule.times == 1 else f"{rule.times} times"
        reason = f"it has occurred {times} within {rule.window} s"
        if rule.handling is _MANUAL or rule.release is not None:
            held = device.raised.get(code)
            if held is not None and (held.type > rule.handling or (held.type is _MANUAL and held.release is None)):
                return rule.handling, reason  # a person is needed, by the rules before
            if len(device.raised) >= editions.RAISED_PER_DEVICE and held is None:
                other = device.least_raised()
                if device.raised[other].type >= rule.handling:
                    return rule.handling, reason
                del device.raised[other]
            device.raised[code] = Raised(rule.handling, now, NEVER, reason, rule.release)
        elif fault is not None:
            fault.frequent = rule.handling
        return rule.handling, reason

    def _recover(self, event: FaultEvent, at: float, now: float, found: list[Decision]) -> None:
        name, code = event.device, event.code
        self._recent.recovers(name, code, at)
        device = self._devices.get(name)
        fault = None if device is None else device.faults.get(code)
        if device is None or fault is None or not fault.stands or at < fault.since:
            self.counts.late += 1
            if device is None or fault is not None or device.failed is None or device.failed.code != code:
                return
            ended = FaultType.SEPARATE_NPU  # the fault itself came without an end, and a step for it has failed
        else:
            ended = fault.type
            if not fault.recover(at):
                del device.faults[code]
        if fault is None or fault.type is not ended or code not in device.faults:
            found.append(self._answers.over(name, device, code, ended, "it has recovered", now))
        self._begin_windows(device, at)
        self._settled(name, device)

    def _begin_windows(self, device: Device, at: float) -> None:
        """Give each raised type an end, whose fault is over since a time; a fault that stands takes it back."""
        for code, raised in device.raised.items():
            raised.ends(at, stands=code in device.faults)

    def _look_at(self, name: str, device: Device, now: float, found: list[Decision]) -> None:
        for code, rule in self.rules.duration.items():
            fault = device.faults.get(code)
            if fault is None:
                continue
            if fault.stands and fault.lasting is None and now - fault.counted_from > rule.timeout:
                fault.lasting = rule.handling
                reason = f"it has stood for more than {rule.timeout} s"
                raised = self._count(name, device, code, fault, fault.counted_from + rule.timeout, now)
                if raised is not None and raised[0] > fault.lasting:
                    reason = f"{reason}, and {raised[1]}"
                most = fault.type if raised is None else max(fault.type, raised[0])
                self._begin_windows(device, now)
                found.append(self._answers.occurred(name, device, code, most, reason, now))
            elif not fault.stands and now - fault.gone > rule.recovery:
                del device.faults[code]
                reason = f"it has been gone for more than {rule.recovery} s"
                self._begin_windows(device, now)
                found.append(self._answers.over(name, device, code, fault.type, reason, now))
        for code, raised_type in list(device.raised.items()):
            if now >= raised_type.until:
                del device.raised[code]
                reason = "it has not occurred for the time of its release"
                found.append(self._answers.over(name, device, code, raised_type.type, reason, now, well=False))
        plan = device.plan
        if plan is not None and now >= plan.deadline:
            if plan.step.action is Action.WAIT_FOR_RECOVERY:
                found.append(self._answers.not_recovered(name, device, plan, now))
            else:
                text = f"{plan.step.action.value} has not ended within {plan.step.limit:g} s"
                found.append(self._answers.give_up(name, device, text, now))

    def _change(
        self, name: str, device: Device, code: str, fault: DeviceFault, now: float, found: list[Decision]
    ) -> None:
        """Bring a fault under the rules in force."""
        before = fault.type
        rule = self.rules.duration.get(code)
        base = self.rules.type_of(code, fault.severity, network=fault.network)
        if not fault.bring_under(base, None if rule is None else rule.handling):
            del device.faults[code]
        kind = fault.type
        if kind > before:
            reason = f"by the changed rules it is {kind.word}"
            found.append(self._answers.occurred(name, device, code, kind, reason, now))
        elif kind < before or code not in device.faults:
            reason = f"by the changed rules it is {kind.word}"
            found.append(self._answers.over(name, device, code, before, reason, now))

    def _change_raised(
        self,
        name: str,
        device: Device,
        code: str,
        raised: Raised,
        before: FrequencyRule | None,
        now: float,
        found: list[Decision],
    ) -> None:
        """Bring a type that a frequency has raised under the rules in force. A manual separation stays as it is."""
        rule = self.rules.frequency.get(code)
        if raised.type is _MANUAL or rule == before:
            return
        ended = raised.type
        if rule is None or (rule.release is None and rule.handling is not _MANUAL):
            del device.raised[code]
            reason = "the changed rules do not raise it"
            found.append(self._answers.over(name, device, code, ended, reason, now, well=False))
            return
        raised.bring_under(rule.handling, rule.release)
        reason = f"by the changed rules it is {rule.handling.word}"
        if rule.handling > ended:
            found.append(self._answers.occurred(name, device, code, rule.handling, reason, now))
        elif rule.handling < ended:
            found.append(self._answers.over(name, device, code, ended, reason, now, well=False))

    def _settled(self, name: str, device: Device) -> None:
        """Find out when to look at a device again, and forget it if there is nothing to remember."""
        self.changed.add(name)
        self._number(name, device)
        if name not in self._devices:
            return
        if device.empty:
            del self._devices[name]
        else:
            self._looks.plan(name, device, self.rules.duration)

    def _number(self, name: str, device: Device) -> None:
        """Count the faults of a device against the bound on all of them."""
        if name in self._devices:
            self._faults += len(device.faults) - device.numbered
            device.numbered = len(device.faults)
