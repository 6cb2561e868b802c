"""The answers to the faults of one device: which steps, and whether it is out."""

from __future__ import annotations

from typing import Final

from taskd_net.job.faults.decisions import Decision
from taskd_net.job.faults.device import Device, StepPlan
from taskd_net.job.faults.levels import Action, DeviceStep, FaultType, GraceTimes, JobKind, Mode, SubHealth, steps

OUT: Final = (DeviceStep(Action.ISOLATE_AND_RESCHEDULE),)
_RUN_AGAIN: Final = (DeviceStep(Action.RUN_AGAIN),)
_OUT_IN_ANY_MODE: Final = (FaultType.SEPARATE_NPU, FaultType.MANUALLY_SEPARATE_NPU)


class Answers:
    """The steps for each type of fault, and whether the device is out: what a `Device` is to do, which keeps it.

    Args:
        mode: of the cluster.
        job_kind: what runs on the devices.
        sub_health: the answer to `SubHealthFault`.
        times: limits of the grace mode.
    """

    def __init__(self, mode: Mode, job_kind: JobKind, sub_health: SubHealth, times: GraceTimes) -> None:
        self.mode, self.job_kind, self.sub_health = mode, job_kind, sub_health
        self.use(times)

    def use(self, times: GraceTimes) -> None:
        """Change the time limits, for steps that begin from now on."""
        self.steps = {each: steps(each, self.mode, self.job_kind, times, self.sub_health) for each in FaultType}

    def occurred(
        self, name: str, device: Device, code: str, fault_type: FaultType, reason: str, now: float
    ) -> Decision:
        """Answer a fault that has occurred, or that has become more serious.

        Args:
            name, device: the device, with the fault in it if it stands.
            code, fault_type: the fault; its type after all rules.
            reason: of that type, in words.
            now: the time.
        """
        before = device.standing
        device.rise(code)
        todo, covered = self._todo(device, code, fault_type, before)
        if todo:
            device.follow(fault_type, code, todo, now)
        device.hold(self._wanted(device), code, reason, now)
        text = f"{reason}; {covered}" if covered else reason
        return Decision(name, code, fault_type, device.standing, todo, text, now)

    def over(
        self, name: str, device: Device, code: str, ended: FaultType, reason: str, now: float, *, well: bool = True
    ) -> Decision:
        """Take note that a fault is over, or is less serious than it was.

        Args:
            ended: the type that has ended.
            reason: in words.
            well: the device has recovered from it, so that the end of a failed step is over too.
        """
        if ended >= device.standing:
            device.settle()
        if well and device.failed is not None and device.failed.code == code:
            device.forgive()
        todo: tuple[DeviceStep, ...] = ()
        plan = device.plan
        if plan is not None and plan.code == code and not device.stands(code):
            if plan.step.action is Action.WAIT_FOR_RECOVERY:
                todo = _RUN_AGAIN
                device.stop()
            elif plan.step.action is Action.WAIT_UNTIL_IDLE and device.standing < FaultType.FREE_RESTART_NPU:
                device.stop()
        device.held_for(code)
        device.hold(self._wanted(device), code, reason, now)
        return Decision(name, code, ended, device.standing, todo, reason, now, cleared=True)

    def not_recovered(self, name: str, device: Device, plan: StepPlan, now: float) -> Decision:
        """Answer a fault that the device did not get rid of by itself: the device is reset."""
        device.stop()
        reason = f"it has not recovered within {plan.step.limit:g} s"
        return self.occurred(name, device, plan.code, FaultType.RESTART_NPU, reason, now)

    def give_up(self, name: str, device: Device, reason: str, now: float) -> Decision:
        """Isolate a device whose step has failed, until that fault recovers or a person releases it."""
        plan = device.give_up(reason, now)
        device.hold(self._wanted(device), plan.code, reason, now)
        return Decision(name, plan.code, plan.type, device.standing, OUT, reason, now)

    def step_done(self, name: str, device: Device, now: float) -> list[Decision]:
        """Go on to the next step. A reset ends the faults that it is made for."""
        plan, found = device.plan, list[Decision]()
        assert plan is not None
        done = plan.step.action
        device.step_done(now)
        if done is Action.RESET_DEVICE:
            for code, fault in list(device.faults.items()):
                if FaultType.RESTART_REQUEST <= fault.type <= FaultType.RESTART_NPU:
                    del device.faults[code]
                    found.append(self.over(name, device, code, fault.type, "the device was reset", now))
        return found

    def job_failed(self, name: str, device: Device, now: float) -> Decision | None:
        """Isolate a device that only takes no new job, as its job has failed; None for any other device."""
        held = device.held
        if held is None or held.action is not Action.NO_NEW_JOB:
            return None
        reason = "the job has failed on a device that takes no new one"
        device.hold(Action.ISOLATE_AND_RESCHEDULE, held.code, reason, now)
        return Decision(name, held.code, device.standing, device.standing, OUT, reason, now)

    def loaded(self, device: Device) -> None:
        """Bring a device whose state was saved under this mode, which may be another one."""
        if self.mode is Mode.RESCHEDULING:
            device.stop()
        code, text = device.top()
        fault = device.faults.get(code)
        device.hold(self._wanted(device), code, text, device.counted if fault is None else fault.since)

    def _todo(
        self, device: Device, code: str, fault_type: FaultType, before: FaultType
    ) -> tuple[tuple[DeviceStep, ...], str]:
        """The steps for a fault, or none and why."""
        if fault_type is FaultType.NOT_HANDLE:
            return (), ""
        winner = max(fault_type, device.standing)
        plan, held = device.plan, device.held
        if held is not None and held.action is Action.ISOLATE_AND_RESCHEDULE:
            return (), "the device is out already"
        if winner is FaultType.PRE_SEPARATE_NPU and held is not None:
            return (), "the device takes no new job already"
        if plan is not None and winner <= plan.type:
            return (), f"steps for {plan.type.word} are under way"
        if fault_type is FaultType.SUB_HEALTH and before >= FaultType.SUB_HEALTH:
            return (), f"{before.word} stands already"
        todo = self.steps[winner]
        if todo and todo[0].action is Action.WAIT_FOR_RECOVERY and not device.stands(code):
            todo = _RUN_AGAIN
        return todo, "" if winner is fault_type else f"{winner.word} stands already"

    def _wanted(self, device: Device) -> Action | None:
        most = device.standing
        if device.failed is not None or most in _OUT_IN_ANY_MODE:
            return Action.ISOLATE_AND_RESCHEDULE
        if most is FaultType.PRE_SEPARATE_NPU:
            return Action.NO_NEW_JOB
        if self.mode is Mode.RESCHEDULING and most >= FaultType.RESTART_REQUEST:
            return Action.ISOLATE_AND_RESCHEDULE
        return None
