"""Devices of a job: answers that wait beside those of other devices, and what a Manager goes on with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from taskd_net.base import vocabulary
from taskd_net.base.position import Position
from taskd_net.job.decide.device_state import DeviceState, FaultConfig, Task, devices_of
from taskd_net.job.decide.devices import Devices, as_bytes, as_texts
from taskd_net.job.decide.events import DeviceEvent, DeviceRanks, FaultFiles, Resumed
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.outbox import COMMAND_ATTEMPTS
from taskd_net.job.decide.traffic import StepBegun, StepEnded
from taskd_net.job.faults.editions import Edition
from taskd_net.job.faults.events import read_event
from taskd_net.job.faults.levels import Action, JobKind
from tests.jobs.plugins import test_fault_level as levels
from tests.jobs.plugins.test_fault_level import DEVICE, FILES, GRACE, L1, L2, L3, L4, L5, L6, REPLACED, resets, said
from tests.jobs.scene import commands, owner

OTHER = "0/Ascend910-0"
"""The device of rank 0."""


def actions(scene: levels.Devices) -> dict[str, Action]:
    """The present action of each device with a task."""
    return {device: task.action for device, task in scene.job.state.devices.tasks.items()}


def test_rules_are_known_from_their_files_on() -> None:
    devices = Devices(FaultConfig(), DeviceState())
    assert not devices.known
    assert devices.take(FaultFiles(FILES), 5.0)
    assert devices.known


def test_until_there_are_files_the_severity_decides_and_is_remembered() -> None:
    config, state = replace(GRACE, answers=True), DeviceState()
    devices = Devices(config, state)
    assert devices.known
    for code, severity in ((L1, "minor"), (L5, "major")):
        event = read_event({"code": code, "device": DEVICE, "severity": severity}, 5.0)
        assert devices.take(DeviceEvent(event, 1), 5.0)
    assert devices.counts == {"L1 NotHandleFault": 1, "L6 SeparateNPU": 1}
    devices.sync()
    again = Devices(config, state)
    (isolated,) = again.isolated()
    assert (isolated.device, isolated.code) == (DEVICE, L5)
    again.take(FaultFiles(FILES), 6.0)
    assert list(again.isolated()) == [], "by the files it asks for a reset"


def test_stored_files_that_are_refused_leave_the_severity() -> None:
    state = DeviceState(files={"faultCode.json": "{"}, tasks={DEVICE: Task(actions=["run_again"], limits=[0.0])})
    devices = Devices(replace(GRACE, answers=True), state)
    assert devices.known and not state.tasks


def test_files_come_back_byte_by_byte() -> None:
    files = {"faultCode.json": b'{"a": "\xff\xfe"}', "faultCustomization.json": "{é}".encode()}
    texts = as_texts(files)
    assert json.loads(json.dumps(texts)) == texts and as_bytes(texts) == files


@pytest.mark.parametrize("step", [StepBegun(DEVICE), StepEnded(DEVICE), StepEnded(DEVICE, "no such chip")])
def test_a_step_of_a_device_without_a_task_changes_nothing(step: StepBegun | StepEnded) -> None:
    devices = Devices(GRACE, DeviceState())
    devices.take(FaultFiles(FILES), 5.0)
    devices.mark(step, 6.0)
    assert not devices.state.tasks and not devices.notes and not devices.stepped


@pytest.mark.parametrize("text", ["nonsense", '{"npu": 1}', "3"])
def test_names_of_devices_that_are_no_list_count_for_nothing(text: str) -> None:
    scene = levels.Devices()
    scene.report("Agent/1", vocabulary.REGISTER, 0, **{vocabulary.INCARNATION: "q", vocabulary.DEVICES: text})
    assert devices_of(1, scene.job.state.records) == []
    assert devices_of(0, scene.job.state.records) == ["0/Ascend910-0", "0/Ascend910-1"]


def test_a_device_beyond_the_ranks_of_its_node_is_placed_by_the_mapping_file() -> None:
    scene = levels.Devices()
    names = json.dumps(["npu-0", "npu-1", "npu-2"])
    scene.report("Agent/1", vocabulary.REGISTER, 0, **{vocabulary.INCARNATION: "q", vocabulary.DEVICES: names})
    devices, records = scene.job.state.devices, scene.job.state.records
    assert devices.place("1/npu-1", records, 2) == (1, 3, (3,))
    assert devices.place("1/npu-2", records, 2) == (None, None, ())
    scene.take(DeviceRanks({"1/npu-2": 2}))
    assert devices.place("1/npu-2", records, 2) == (1, 2, (2,))


def test_a_device_that_waits_is_left_alone_while_another_is_isolated() -> None:
    scene = levels.Devices(GRACE)
    scene.device(L4, OTHER, node=0)
    assert scene.answer(L6) == REPLACED
    assert actions(scene) == {OTHER: Action.WAIT_UNTIL_IDLE}
    assert scene.isolated() == [DEVICE]


def test_the_restart_of_a_replaced_node_is_run_again_for_other_devices() -> None:
    scene = levels.Devices(GRACE)
    scene.device(L3, OTHER, node=0)
    scene.device(L6)
    assert commands(scene.tick()) == REPLACED
    assert actions(scene) == {} and scene.job.state.records.restarts == 2


def test_a_stop_gives_way_to_the_replacement_of_another_node() -> None:
    scene = levels.Devices(GRACE)
    scene.device(L5, OTHER, node=0)
    assert commands(scene.tick()) == [("Agent/0", 213)]
    scene.device(L6)
    assert commands(scene.tick(1.0)) == REPLACED
    assert owner(scene) == "PodReschedulingPlugin"


def test_processes_that_are_about_to_begin_are_stopped_after_that() -> None:
    scene = levels.Devices(GRACE)
    scene.away.add("Agent/1")
    assert scene.answer(L3) == [("Agent/0", 208), ("Agent/1", 208)]
    scene.device(L5)
    assert ("Agent/1", 213) not in said(scene.settle()), "the 208 is on its way"
    assert actions(scene) == {DEVICE: Action.STOP_PROCESSES}
    scene.away.clear()
    scene.tick(3.0)
    assert said(scene.settle()) == [("Agent/1", 213)]


def test_a_fault_of_level_3_gets_time_to_recover() -> None:
    scene = levels.Devices(replace(GRACE, edition=Edition.CURRENT))
    assert scene.answer(L3) == []
    assert actions(scene) == {DEVICE: Action.WAIT_FOR_RECOVERY}
    scene.device(L3, kind="recovered")
    assert said(scene.settle()) == [("Agent/0", 208), ("Agent/1", 208)]
    assert actions(scene) == {}


INFERENCE = replace(GRACE, job_kind=JobKind.INFERENCE)


def test_a_request_of_a_rank_without_a_worker_is_not_repeated() -> None:
    scene = levels.Devices(INFERENCE)
    scene.take(DeviceRanks({"host-b/npu": 9}))
    assert scene.answer(L2, "host-b/npu", node=None) == []
    assert actions(scene) == {}


@pytest.mark.parametrize(
    ("faults", "code", "away", "tries"),
    [(INFERENCE, L2, "Worker/1/3", COMMAND_ATTEMPTS), (GRACE, L5, "Agent/1", 8)],
)
def test_a_request_is_given_up_and_a_stop_is_not(faults: FaultConfig, code: str, away: str, tries: int) -> None:
    scene = levels.Devices(faults)
    scene.away.add(away)
    scene.device(code)
    sent = [command for outcome in [scene.tick(), *(scene.tick(3.0) for _ in range(7))] for command in outcome.commands]
    assert [command.to for command in sent] == [away] * tries and len({command.uuid for command in sent}) == 1


def test_a_device_that_waits_goes_on_waiting_under_the_next_manager() -> None:
    scene = levels.Devices(GRACE)
    scene.answer(L4)
    scene.job.step(scene.now, Resumed("v"))
    assert said(scene.settle()) == []
    assert actions(scene) == {DEVICE: Action.WAIT_UNTIL_IDLE}
    scene.fault(1, 3)
    assert [reset.device for reset in resets(scene.settle())] == [DEVICE]


def test_answers_by_stored_rules_that_are_refused_are_over() -> None:
    scene = levels.Devices(GRACE)
    scene.answer(L5)
    scene.fault(1, 3)
    assert resets(scene.settle()) and owner(scene) == "FaultLevelPlugin"
    stored = json.loads(scene.job.to_json())
    files = stored["state"]["devices"]["files"] = {"faultCode.json": "{"}
    scene.parts["fault_files"] = json.dumps(files)
    scene.job = Job.from_json(json.dumps(stored), scene.config)
    scene.job.step(scene.now, Resumed("v"))
    assert not scene.job.devices.known
    scene.settle()
    assert owner(scene) == "PodReschedulingPlugin", "nobody waits for a reset whose end is never told"
    assert scene.job.state.records.exited == {1}


def test_the_reporter_of_the_last_occurrence_is_kept_until_the_device_is_forgotten() -> None:
    state = DeviceState()
    devices = Devices(replace(GRACE, answers=True), state)
    for at, kind, sender in ((5.0, "occurred", 1), (6.0, "recovered", 2), (7.0, "occurred", 3), (8.0, "recovered", 4)):
        event = read_event({"code": "8C000006", "device": DEVICE, "kind": kind, "at": at}, at)
        devices.take(DeviceEvent(event, 1, Position.agent(sender)), at)
        devices.sync()
        assert state.reporters == ({DEVICE: f"Agent/{sender}"} if kind == "occurred" else {})
    devices.take(DeviceEvent(read_event({"code": "8C000006", "device": DEVICE}, 9.0), 1), 9.0)
    assert state.reporters == {}, "nobody has reported it"
