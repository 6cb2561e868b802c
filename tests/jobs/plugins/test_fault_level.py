"""FaultLevelPlugin: faults of devices as commands, beside the plugins that answer reports of Agents."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from taskd_net.base import vocabulary
from taskd_net.base.codes import ConfigError
from taskd_net.job.decide import epochs
from taskd_net.job.decide.device_state import FaultConfig, Task
from taskd_net.job.decide.events import (
    DeviceEvent,
    DeviceRanks,
    DeviceReleased,
    FaultFiles,
    ResetEnded,
    Resumed,
    RetryTime,
    SeparatedNames,
)
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Outcome, Reset
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.events import read_event
from taskd_net.job.faults.levels import JobKind, Mode, SubHealth
from tests.jobs.scene import Scene, commands, owner

L1, L2, L3, L4, L5, L6 = (f"8C00000{level}" for level in range(1, 7))
LEVELS = {
    "NotHandleFaultCodes": [L1],
    "RestartRequestCodes": [L2],
    "RestartBusinessCodes": [L3],
    "FreeRestartNPUCodes": [L4],
    "RestartNPUCodes": [L5],
    "SeparateNPUCodes": [L6],
}
OFTEN = "8C0000AA"
CUSTOM = {
    "FaultFrequency": [
        {"EventId": [OFTEN], "TimeWindow": 60, "Times": 2, "FaultHandling": "ManuallySeparateNPU"},
    ]
}
FILES = {
    "faultCode.json": json.dumps(LEVELS | {"NotHandleFaultCodes": [L1, OFTEN]}),
    "faultCustomization.json": json.dumps(CUSTOM),
}
DEVICES = '["Ascend910-0", "Ascend910-1"]'
DEVICE = "1/Ascend910-1"
"""The device of rank 3."""

GRACE = FaultConfig(mode=Mode.GRACE, resets=True)


class Devices(Scene):
    """Two nodes with two Workers and two devices each, and the files of the rules."""

    def __init__(
        self,
        faults: FaultConfig = FaultConfig(),  # noqa: B008
        config: JobConfig = JobConfig(),  # noqa: B008
        features: str = "",
    ) -> None:
        super().__init__(replace(config, faults=faults))
        for rank in (0, 1):
            registration = {vocabulary.INCARNATION: f"p{rank}", vocabulary.DEVICES: DEVICES}
            registration |= {vocabulary.FEATURES: features} if features else {}
            self.report(f"Agent/{rank}", vocabulary.REGISTER, 0, **registration)
            self.report(f"Agent/{rank}", vocabulary.STATUS, vocabulary.MAY_I_START, "3")
        self.workers(0, 1, 2, 3)
        self.take(FaultFiles(FILES))
        self.settle()

    def device(self, code: str, device: str = DEVICE, kind: str = "occurred", node: int | None = 1) -> bool:
        """A watcher reports a fault of a device."""
        event = read_event({"code": code, "device": device, "kind": kind}, self.now)
        return self.take(DeviceEvent(event, node))

    def answer(self, code: str, device: str = DEVICE, node: int | None = 1) -> list[tuple[str, int]]:
        """The commands that a fault leads to."""
        self.device(code, device, node=node)
        return said(self.settle())

    @property
    def task(self) -> Task | None:
        """The answer that the device of rank 3 gets now."""
        return self.job.state.devices.tasks.get(DEVICE)

    def isolated(self) -> list[str]:
        """Devices that take no job."""
        return [each.device for each in self.job.devices.isolated()]


def said(outcomes: Sequence[Outcome]) -> list[tuple[str, int]]:
    """The commands of some ticks, without resends."""
    return list(dict.fromkeys(command for outcome in outcomes for command in commands(outcome)))


def resets(outcomes: Sequence[Outcome]) -> list[Reset]:
    """The resets of some ticks."""
    return [reset for outcome in outcomes for reset in outcome.resets]


REPLACED = [("Agent/1", 203), ("Agent/0", 208)]


@pytest.mark.parametrize("code", [L2, L3, L4, L5, L6])
def test_rescheduling_replaces_the_node_from_level_2_on(code: str) -> None:
    scene = Devices()
    assert scene.answer(code) == REPLACED
    assert scene.isolated() == [DEVICE]
    assert scene.job.state.records.restarts == 2


@pytest.mark.parametrize("faults", [FaultConfig(), GRACE])
def test_level_1_asks_for_nothing(faults: FaultConfig) -> None:
    scene = Devices(faults)
    assert scene.answer(L1) == []
    assert scene.isolated() == []


def test_a_device_of_node_0_ends_the_job() -> None:
    scene = Devices()
    scene.device(L6, "0/Ascend910-0", node=0)
    outcomes = scene.settle()
    assert said(outcomes) == [("Agent/0", 203)]
    assert [call.name for outcome in outcomes for call in outcome.calls] == ["destroy"]


def test_the_round_is_over_when_the_node_is_back() -> None:
    scene = Devices()
    scene.answer(L6)
    assert owner(scene) == "PodReschedulingPlugin"
    scene.register(1, process="q")
    scene.settle()
    assert owner(scene) == ""
    assert scene.isolated() == [DEVICE], "its place in the job is another matter"


def test_a_fault_after_the_death_of_its_process_is_the_same_round() -> None:
    scene = Devices()
    scene.fault(1, 3)
    assert said(scene.settle()) == REPLACED
    assert scene.answer(L6) == []
    assert scene.isolated() == [DEVICE]
    scene.register(1, process="q")
    assert said(scene.settle()) == [("Agent/1", 210)]
    assert scene.job.state.records.restarts == 2


def test_the_death_of_a_process_after_its_fault_is_the_same_round() -> None:
    scene = Devices()
    assert scene.answer(L6) == REPLACED
    scene.fault(1, 3)
    assert said(scene.settle()) == []
    assert scene.job.state.records.restarts == 2


def test_a_fault_of_another_node_joins_the_round() -> None:
    scene = Devices()
    scene.report("Agent/2", vocabulary.REGISTER, 0)
    scene.report("Agent/2", vocabulary.STATUS, vocabulary.MAY_I_START, "3")
    scene.settle()
    scene.fault(1, 3)
    assert said(scene.settle()) == [("Agent/1", 203), ("Agent/0", 208), ("Agent/2", 208)]
    assert scene.answer(L6, "2/Ascend910-0", node=2) == [("Agent/2", 203)]
    assert scene.job.state.records.restarts == 2


def test_run_again_of_a_node_that_restarts_anyway_is_that_restart() -> None:
    scene = Devices(GRACE)
    scene.fault(1, 3)
    scene.settle()
    assert scene.answer(L3) == []
    assert scene.task is None
    assert scene.job.state.records.restarts == 2


@pytest.mark.parametrize("code", [L2, L3])
def test_grace_runs_the_training_again(code: str) -> None:
    scene = Devices(GRACE)
    assert scene.answer(code) == [("Agent/0", 208), ("Agent/1", 208)]
    assert scene.job.state.records.restarts == 2
    assert scene.isolated() == []
    assert owner(scene) == "" and scene.task is None


def test_grace_repeats_the_request_of_an_inference() -> None:
    scene = Devices(replace(GRACE, job_kind=JobKind.INFERENCE))
    scene.device(L2)
    (command,) = [command for outcome in scene.settle() for command in outcome.commands]
    assert (command.to, command.msg_type, command.message) == ("Worker/1/3", "FAULT", L2)
    assert command.extension == {"Device": DEVICE, "Action": "run_request_again"}
    assert scene.task is None


def test_grace_stops_resets_and_runs_again() -> None:
    scene = Devices(GRACE)
    scene.device(L5)
    outcomes = scene.settle()
    assert said(outcomes) == [("Agent/1", 213)]
    assert [command.message for command in outcomes[0].commands] == ['["3"]']
    assert resets(outcomes) == [], "the process may still run"
    assert owner(scene) == "FaultLevelPlugin"
    scene.fault(1, 3)
    outcomes = scene.settle()
    (reset,) = resets(outcomes)
    assert (reset.device, reset.ranks, reset.limit) == (DEVICE, (3,), 60.0)
    scene.fault(0, 0, 1)  # they have lost their peer
    assert said(scene.settle()) == [], "the restart will answer it"
    scene.take(ResetEnded(reset.uuid, True))
    assert said(scene.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
    assert owner(scene) == "" and scene.task is None
    assert not scene.job.state.records.faulty
    assert scene.job.state.records.restarts == 2


@pytest.mark.parametrize("done", [True, False])
@pytest.mark.parametrize("under_way", [True, False])
def test_the_go_of_a_node_waits_for_the_end_of_a_reset(under_way: bool, done: bool) -> None:
    scene = Devices(GRACE)
    scene.device(L5)
    scene.settle()
    scene.fault(1, 3)
    scene.tick()
    begun = resets(scene.settle()) if under_way else []
    scene.register(1, process="q")  # the Agent of the node begins again
    outcomes = scene.settle()
    (reset,) = [*begun, *resets(outcomes)]
    assert said(outcomes) == [], "its processes would use the device"
    scene.take(ResetEnded(reset.uuid, done))
    assert said(scene.settle()) == ([("Agent/1", 210)] if done else REPLACED)


def test_an_agent_that_begins_during_the_stop_has_nothing_to_stop() -> None:
    scene = Devices(GRACE)
    scene.away.add("Agent/1")
    scene.device(L5)
    scene.settle()
    scene.away.clear()
    scene.register(1, process="q")  # the Agent before has not taken its 213
    outcomes = scene.settle()
    (reset,) = resets(outcomes)
    assert said(outcomes) == []
    scene.take(ResetEnded(reset.uuid, True))
    assert said(scene.settle()) == [("Agent/1", 210)]


def test_a_round_for_a_reset_that_failed_waits_for_the_other_one() -> None:
    scene = Devices(GRACE)
    scene.device(L5)
    scene.device(L5, "1/Ascend910-0")
    scene.settle()
    scene.fault(1, 2, 3)
    first, second = resets(scene.settle())
    scene.take(ResetEnded(first.uuid, False, "no such chip"))
    assert said(scene.settle()) == [], "a restart would start processes on the device of the other one"
    scene.take(ResetEnded(second.uuid, True))
    assert said(scene.settle()) == REPLACED


def test_a_process_that_has_ended_is_not_stopped_again() -> None:
    scene = Devices(GRACE)
    scene.away.add("Agent/0")
    scene.device(L5)
    scene.fault(1, 3)  # both in one look
    outcomes = scene.settle()
    assert said(outcomes) == []
    assert [reset.ranks for reset in resets(outcomes)] == [(3,)]


def test_level_4_waits_until_the_device_is_idle() -> None:
    scene = Devices(GRACE)
    assert scene.answer(L4) == []
    scene.tick(3600.0)
    assert owner(scene) == "" and scene.task is not None
    scene.fault(1, 3)
    outcomes = scene.settle()
    assert said(outcomes) == [], "no round: the device is reset first"
    (reset,) = resets(outcomes)
    scene.take(ResetEnded(reset.uuid, True))
    assert said(scene.settle()) == [("Agent/0", 208), ("Agent/1", 208)]


def test_level_4_that_recovers_before_is_forgotten() -> None:
    scene = Devices(GRACE)
    scene.answer(L4)
    scene.tick(10.0)
    scene.device(L4, kind="recovered")
    scene.settle()
    assert scene.task is None
    scene.fault(1, 3)
    assert said(scene.settle()) == REPLACED


def test_processes_that_do_not_end_isolate_the_device() -> None:
    scene = Devices(GRACE)
    scene.answer(L5)
    scene.tick(89.0)
    assert scene.isolated() == []
    scene.tick(1.5)
    assert said(scene.settle()) == REPLACED or scene.job.state.records.exited == {1}
    assert scene.isolated() == [DEVICE]
    assert owner(scene) == "PodReschedulingPlugin"


@pytest.mark.parametrize("late", [False, True])
def test_a_reset_that_fails_or_takes_too_long_isolates_the_device(late: bool) -> None:
    scene = Devices(GRACE)
    scene.answer(L5)
    scene.fault(1, 3)
    (reset,) = resets(scene.settle())
    if late:
        scene.tick(61.0)
    else:
        scene.take(ResetEnded(reset.uuid, False, "no such chip"))
    scene.settle()
    assert scene.isolated() == [DEVICE]
    assert scene.job.state.records.exited == {1}
    assert owner(scene) == "PodReschedulingPlugin"
    assert not scene.take(ResetEnded(reset.uuid, True)), "it comes too late"


def test_without_a_hook_a_reset_isolates_the_device() -> None:
    scene = Devices(replace(GRACE, resets=False))
    scene.answer(L5)
    scene.fault(1, 3)
    outcomes = scene.settle()
    assert resets(outcomes) == []
    assert scene.isolated() == [DEVICE] and scene.job.state.records.exited == {1}


def test_a_manager_that_ends_during_a_reset_isolates_the_device() -> None:
    scene = Devices(GRACE)
    scene.answer(L5)
    scene.fault(1, 3)
    (reset,) = resets(scene.settle())
    scene.job.step(scene.now, Resumed("v"))
    outcomes = scene.settle()
    assert resets(outcomes) == []
    assert scene.isolated() == [DEVICE] and scene.job.state.records.exited == {1}
    assert not scene.take(ResetEnded(reset.uuid, True))


def test_two_devices_are_reset_together_and_run_again_once() -> None:
    scene = Devices(GRACE)
    scene.device(L5)
    scene.device(L5, "0/Ascend910-0", node=0)
    assert said(scene.settle()) == [("Agent/1", 213), ("Agent/0", 213)]
    scene.fault(1, 3)
    scene.fault(0, 0)
    both = resets(scene.settle())
    assert {reset.ranks for reset in both} == {(3,), (0,)}
    scene.take(ResetEnded(both[0].uuid, True))
    assert said(scene.settle()) == []
    scene.take(ResetEnded(both[1].uuid, True))
    assert said(scene.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
    assert scene.job.state.records.restarts == 2


def in_place(*, supervises: bool = False) -> Devices:
    """A training in epoch 1, whose Workers rejoin."""
    scene = Devices(GRACE, JobConfig(nodes=2, in_place=True, supervises=supervises))
    scene.part(epochs.NEW, 0, 1, 2, 3)
    scene.settle()
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=1)
    scene.settle()
    return scene


@pytest.mark.parametrize("supervises", [False, True], ids=["platform", "job"])
def test_in_place_the_stopped_rank_alone_starts_again(supervises: bool) -> None:
    scene = in_place(supervises=supervises)
    assert scene.answer(L5) == [("Agent/1", 213)]
    scene.fault(1, 3)
    scene.part(epochs.LEFT, 0, 1, 2, epoch=1)
    outcomes = scene.settle()
    assert said(outcomes) == [], "nobody starts while the device is reset"
    (reset,) = resets(outcomes)
    scene.take(ResetEnded(reset.uuid, True))
    assert said(scene.settle()) == [("Agent/1", 209)]
    scene.part(epochs.NEW, 3)
    assert said(scene.settle()) == [("Worker/All/All", 302)]
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=2)
    scene.settle()
    assert owner(scene) == "" and scene.job.state.records.restarts == (3 if supervises else 2)


def test_in_place_a_retry_time_that_changes_during_a_reset_is_the_one_restart() -> None:
    scene = in_place()
    scene.take(RetryTime(1))
    scene.answer(L5)
    scene.fault(1, 3)
    scene.part(epochs.LEFT, 0, 1, 2, epoch=1)
    (reset,) = resets(scene.settle())
    scene.take(RetryTime(2))
    assert said(scene.settle()) == []
    scene.take(ResetEnded(reset.uuid, True))
    assert said(scene.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
    scene.part(epochs.NEW, 0, 1, 2, 3)
    assert said(scene.settle()) == [("Worker/All/All", 302)]
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=2)
    assert said(scene.settle()) == [] and scene.job.state.records.restarts == 2


def test_nodes_that_stay_meet_after_a_reset() -> None:
    """FaultLevelPlugin begins the round, and RestartPlugin lets the nodes meet."""
    scene = Devices(GRACE, JobConfig(nodes=2, supervises=True), features=vocabulary.MEETS)
    for round_ in (1, 2):
        for rank in (0, 1):
            scene.report(f"Agent/{rank}", vocabulary.STATUS, vocabulary.READY, str(round_), LocalWorld="2")
        assert said(scene.settle()) == [("Agent/0", 305), ("Agent/1", 305)]
        if round_ == 1:
            assert scene.answer(L5) == [("Agent/1", 213)]
            scene.fault(1, 3)
            (reset,) = resets(scene.settle())
            scene.take(ResetEnded(reset.uuid, True))
            assert said(scene.settle()) == [("Agent/0", 208), ("Agent/1", 208)]


@pytest.mark.parametrize("supervises", [False, True], ids=["platform", "job"])
def test_a_fault_during_a_recovery_in_place_stops_the_rank_first(supervises: bool) -> None:
    scene = in_place(supervises=supervises)
    scene.fault(1, 3)
    assert said(scene.settle()) == [("Worker/All/0,1,2", 303), ("Agent/1", 209)]
    assert scene.answer(L5) == [("Agent/1", 213)]
    assert owner(scene) == "FaultLevelPlugin"


def test_an_isolated_device_ends_a_recovery_in_place() -> None:
    scene = in_place()
    scene.fault(1, 3)
    scene.settle()
    assert scene.answer(L6) == REPLACED
    assert owner(scene) == "PodReschedulingPlugin"


def test_a_pre_separated_device_is_isolated_when_its_rank_fails() -> None:
    scene = Devices(GRACE)
    scene.device("81078603")  # a port that is down
    scene.settle()
    scene.tick(31.0)
    assert said(scene.settle()) == [] and scene.isolated() == [DEVICE]
    scene.fault(0, 0)
    scene.settle()
    assert scene.task is not None, "another rank"
    scene.register(0)
    scene.settle()
    scene.fault(1, 3)
    assert said(scene.settle()) == REPLACED
    assert scene.task is None


def test_in_place_does_not_start_a_rank_on_a_pre_separated_device() -> None:
    scene = in_place()
    scene.device("81078603")
    scene.settle()
    scene.tick(31.0)
    scene.settle()
    scene.fault(1, 3)
    assert said(scene.settle()) == REPLACED


def test_sub_health_is_answered_by_setting() -> None:
    files = FILES | {"faultCode.json": json.dumps(LEVELS | {"SubHealthFaultCodes": ["8C0000BB"]})}
    current = replace(GRACE, edition=Edition.CURRENT, sub_health=SubHealth.GRACE_EXIT)
    scene = Devices(current)
    scene.take(FaultFiles(files))
    assert scene.answer("8C0000BB") == REPLACED
    scene = Devices(replace(current, sub_health=SubHealth.HOT_SWITCH))
    scene.take(FaultFiles(files))
    assert scene.answer("8C0000BB") == [], "ClusterD alone has a hot switch"
    assert scene.task is None


def test_a_separated_device_waits_for_a_person() -> None:
    scene = Devices()
    scene.answer(OFTEN)
    scene.tick(1.0)
    scene.device(OFTEN, kind="recovered")
    scene.tick(1.0)
    assert scene.answer(OFTEN) == REPLACED
    scene.device(OFTEN, kind="recovered")
    scene.settle()
    scene.tick(10**8)
    assert scene.job.devices.separated == {DEVICE}
    scene.take(SeparatedNames(frozenset((DEVICE, "5/foreign"))))
    assert scene.job.state.devices.listed == {DEVICE}, "names of others count for nothing"
    scene.take(SeparatedNames(frozenset()))
    scene.settle()
    assert scene.isolated() == [] and not scene.job.state.devices.listed


def test_a_list_that_was_never_written_releases_nothing() -> None:
    scene = Devices()
    scene.answer(OFTEN)
    scene.tick(1.0)
    scene.device(OFTEN, kind="recovered")
    scene.tick(1.0)
    scene.answer(OFTEN)
    scene.take(SeparatedNames(frozenset()))
    assert scene.isolated() == [DEVICE]
    assert scene.take(DeviceReleased(DEVICE)) and scene.isolated() == []
    assert not scene.take(DeviceReleased(DEVICE))


@pytest.mark.parametrize("ranks", [{}, {"host-b/npu": 3}])
def test_rank_of_a_device_from_the_mapping_file_else_all_of_its_node(ranks: Mapping[str, int]) -> None:
    scene = Devices(GRACE)
    scene.take(DeviceRanks(ranks))
    scene.device(L5, "host-b/npu")
    (command,) = scene.settle()[0].commands
    assert (command.to, json.loads(command.message)) == ("Agent/1", ["3"] if ranks else ["2", "3"])


def test_mapping_file_says_the_node_too() -> None:
    scene = Devices()
    scene.take(DeviceRanks({"host-b/npu": 3}))
    assert scene.answer(L6, "host-b/npu", node=None) == REPLACED


@pytest.mark.parametrize("code", [L3, L4, L5, L6])
@pytest.mark.parametrize("node", [None, 7])
def test_a_device_that_is_nowhere_in_the_job_moves_nothing(code: str, node: int | None) -> None:
    scene = Devices(GRACE)
    assert scene.answer(code, "host-z/npu", node) == []
    assert owner(scene) == ""


def test_devices_of_a_host_that_is_gone_do_not_hide_those_of_the_next() -> None:
    scene = Devices()
    for host in ("host-b", "host-c"):
        registration = {vocabulary.INCARNATION: host, vocabulary.DEVICES: f'["{host}/0", "{host}/1"]'}
        scene.report("Agent/1", vocabulary.REGISTER, 0, **registration)
        scene.settle()
        assert scene.answer(L6, f"{host}/1") == REPLACED
    assert scene.isolated() == ["host-b/1", "host-c/1"]


def test_with_clusterd_faults_are_only_reported() -> None:
    scene = Devices(GRACE, JobConfig(clusterd=True))
    scene.device(L5)
    (fault,) = scene.job.devices.notes
    assert fault.code == L5 and fault.steps
    outcomes = scene.settle()
    assert said(outcomes) == [] and resets(outcomes) == []
    assert scene.task is None
    scene.tick(3600.0)
    assert scene.isolated() == []
    assert scene.answer(L6) == [] and scene.isolated() == [DEVICE]


def test_without_rules_nothing_is_decided() -> None:
    scene = Scene(JobConfig())
    scene.register(0, 1)
    scene.settle()
    assert not scene.take(DeviceEvent(read_event({"code": L6, "device": DEVICE}, scene.now), 1))
    assert said(scene.settle()) == []


def test_refused_files_leave_the_rules_in_force() -> None:
    scene = Devices()
    with pytest.raises(ConfigError):
        scene.take(FaultFiles({"faultCode.json": "{"}))
    assert scene.answer(L6) == REPLACED


def test_changed_files_are_decided_on_at_once_and_outlive_the_manager() -> None:
    scene = Devices()
    assert scene.answer(L1) == []
    moved = LEVELS | {"NotHandleFaultCodes": [OFTEN], "RestartNPUCodes": [L5, L1]}
    scene.take(FaultFiles({"faultCode.json": json.dumps(moved)}))
    assert said(scene.settle()) == REPLACED, "the fault stands"
    assert json.loads(scene.job.state.devices.files["faultCode.json"]) == moved


@pytest.mark.parametrize("after", [False, True])
def test_a_retry_time_that_changes_during_a_reset_is_the_same_restart(after: bool) -> None:
    scene = Devices(GRACE)
    scene.take(RetryTime(1))
    scene.answer(L5)
    scene.fault(1, 3)
    (reset,) = resets(scene.settle())
    scene.take(RetryTime(2))
    assert said(scene.settle()) == [], "the restart will answer it"
    scene.take(ResetEnded(reset.uuid, True))
    outcomes = scene.settle()
    assert said(outcomes) == [("Agent/0", 208), ("Agent/1", 208)]
    assert scene.job.state.records.restarts == 2 and owner(scene) == ""
    if after:
        scene.take(RetryTime(3))
        assert said(scene.settle()) == [("Agent/0", 208), ("Agent/1", 208)], "a later one counts"


def test_a_retry_time_that_changes_during_a_reset_that_fails_is_the_same_round() -> None:
    scene = Devices(GRACE)
    scene.take(RetryTime(1))
    scene.answer(L5)
    scene.fault(1, 3)
    (reset,) = resets(scene.settle())
    scene.take(RetryTime(2))
    scene.take(ResetEnded(reset.uuid, False, "no such chip"))
    assert said(scene.settle()) == REPLACED
    scene.register(1, process="q")
    assert said(scene.settle()) == [("Agent/1", 210)]
    assert scene.job.state.records.restarts == 2 and owner(scene) == ""
