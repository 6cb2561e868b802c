"""Reporters of faults of devices, and the nodes that they may report about."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from taskd_net.base.position import Position, tool_ranks
from taskd_net.job.decide.device_reports import DEVICES_PER_NODE, RegisteredDevices, Reporters
from taskd_net.job.decide.device_state import DeviceState, FaultConfig
from taskd_net.job.decide.events import DeviceEvent, DeviceRanks, DeviceReleased, Reported
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.faults.events import read_event

NOW = 1_700_000_000.0
DEVICE = "host-b/npu-0"
LISTED = Position.agent(7)
TOOL, EVERY = (Position.agent(tool_ranks(node)[5]) for node in (1, None))
FREE = Position.agent(1_500_000_000)
CERTIFIED = Reporters(certified=True, listed=frozenset((LISTED,)))
CONFIG = JobConfig(nodes=3, processes_per_node=2, faults=FaultConfig(answers=True), reporters=CERTIFIED)


def job(config: JobConfig = CONFIG) -> Job:
    """A job whose Agent 1 has registered the device."""
    made = Job(config, "seed")
    for node, devices in ((0, ["host-a/npu-0"]), (1, [DEVICE, "npu-1"])):
        register(made, node, devices)
    return made


def register(made: Job, node: int, devices: list[str]) -> None:
    """An Agent registers as a new process."""
    extension = {"Devices": json.dumps(devices)}
    made.step(NOW, Reported(Position.agent(node), "REGISTER", 0, "", extension, uuid=f"{node} {devices}"))


def event(reporter: Position | None, node: int | None, device: str = DEVICE, kind: str = "occurred") -> DeviceEvent:
    """A report."""
    return DeviceEvent(read_event({"code": "8C000006", "device": device, "kind": kind}, NOW), node, reporter)


@pytest.mark.parametrize(
    ("reporter", "taken"),
    [
        (Position.agent(1), True),
        (Position.proxy(1), True),
        (Position.worker(1, 3), True),
        (TOOL, True),
        (EVERY, True),
        (LISTED, True),
        (Position("Agent", "7", "start-time"), True),
        (Position.mgr(), True),
        (None, True),
        (Position.agent(0), False),
        (Position.proxy(0), False),
        (Position.worker(0, 0), False),
        (Position.agent(5000), False),
        (Position.agent(tool_ranks(0)[5]), False),
        (FREE, False),
        (Position.agent(2**31), False),
    ],
)
def test_a_report_comes_from_who_speaks_for_the_node(reporter: Position | None, taken: bool) -> None:
    made = job()
    for each in (event(reporter, 1), DeviceReleased(DEVICE, reporter)):
        refusal = made.step(0.0, each).refusal
        assert (refusal == "") == taken
        assert taken or f"the device's node is 1, the reporter {reporter}; expected its Agent or Proxy" in refusal
    assert job(replace(CONFIG, reporters=Reporters())).step(0.0, event(reporter, 1)).refusal == ""


def test_a_said_node_moves_no_device_of_another() -> None:
    made, liar = job(), Position.agent(0)
    assert "node is 1" in made.step(0.0, event(liar, 0)).refusal
    assert "node is 0" in made.step(0.0, event(Position.agent(1), 0)).refusal
    made.step(NOW, DeviceRanks({"host-c/npu": 5}))
    assert "node is 2" in made.step(0.0, event(liar, 0, "host-c/npu")).refusal
    assert made.step(0.0, event(Position.agent(2), 2, "host-c/npu")).refusal == ""


def test_reports_before_say_where_a_device_is() -> None:
    made = job()
    for node, device in ((2, "host-x/npu"), (None, "host-y/npu")):
        assert made.step(NOW, event(EVERY, node, device)).taken
    for reporter, device, words in (
        (Position.agent(0), "host-x/npu", "node is 2"),
        (Position.agent(2), "host-x/npu", ""),
        (Position.agent(2), "host-y/npu", "node is unknown"),
        (EVERY, "host-y/npu", ""),
        (FREE, "host-z/npu", ""),
    ):
        assert words in made.step(0.0, DeviceReleased(device, reporter)).refusal and (
            bool(words) == bool(made.step(0.0, DeviceReleased(device, reporter)).refusal)
        ), device


def test_a_device_that_was_reported_stays_on_its_node() -> None:
    made = job()
    assert made.step(0.0, event(Position.agent(0), 0, "host-c/npu")).refusal == ""
    made.step(NOW, event(Position.agent(0), 0, "host-c/npu"))
    made.step(NOW, DeviceRanks({"host-c/npu": 5}))
    assert made.place("host-c/npu").node == 0, "a report about node 0 ends no process of node 2"
    open_ = replace(CONFIG, reporters=Reporters())
    stored = Job.from_json(made.to_json(), open_)
    assert stored.place("host-c/npu").node == 2


def test_registered_devices_follow_the_agents() -> None:
    made = job()
    index, records = RegisteredDevices(), made.state.records
    assert index.of(DEVICE, records) == index.of("1/npu-1", records) == frozenset((1,))
    register(made, 2, [DEVICE])
    assert index.of(DEVICE, records) == frozenset((1, 2))
    register(made, 1, [])
    assert index.of(DEVICE, records) == frozenset((2,)) and not index.of("1/npu-1", records)
    register(made, 2, [f"host/{number}" for number in range(DEVICES_PER_NODE + 1)])
    assert not index.of(DEVICE, records)
    assert len(index.nodes) == DEVICES_PER_NODE + 1, "those of node 0 as well"


def test_a_manager_that_goes_on_knows_the_registered_devices() -> None:
    made = Job.from_json(job().to_json(), CONFIG)
    assert "node is 1" in made.step(0.0, event(Position.agent(0), 0)).refusal
    assert DeviceState().mapped_node(DEVICE, made.state.records, 2) is None
