from __future__ import annotations

from pathlib import Path

import pytest

from taskd_net_lab.clusterd.course import Wait
from taskd_net_lab.clusterd.messages import Signal
from taskd_net_lab.clusterd.reader import ScenarioError, load, parse
from taskd_net_lab.clusterd.scenario import (
    Away,
    Change,
    End,
    Fault,
    HotSwitch,
    Orders,
    Profiling,
    Scripted,
    Step,
    StressTest,
    SwitchCards,
)
from taskd_net_lab.clusterd.table import Event, State


def test_every_key_is_read() -> None:
    scenario = parse("""\
jobs:
  - {id: a, nodes: 2, processes: 2, known: off, enabled: off, strategies: [retry, exit]}
  - {id: b}
waits: {report: 3}
outcomes:
  - {state: fault retry, event: schedule timeout}
  - {state: fault retry, event: finish}
answers:
  - {call: Init, code: 502, info: text, times: 2, from: 1, until: 4}
  - {call: Register, grpc: UNAVAILABLE}
  - {call: HealthCheck, silent: on}
steps:
  - {when: subscribed, wait: 1.5, fault: {ranks: [3], type: 0, in_place: off, pre_exit: on}}
  - {job: b, hot_switch: {ranks: [0]}}
  - switch_cards: {ranks: [0, 1], backup: off}
  - stress_test: {ranks: [0, 1], ops: [0, 1]}
  - profiling: {Step: on}
  - signal:
      {type: stopTrain, uuid: u, actions: [x], ranks: [1], fault: 2, strategy: s, timeout: 9, nodes: [1], extra: e,
      count: 7}
  - change: {enabled: on, strategies: [dump], waits: {flush: 2}}
  - away: 2
  - end: on
""")
    first, second = scenario.jobs
    assert (first.job_id, first.nodes, first.processes, first.known, first.enabled) == ("a", 2, 2, False, False)
    assert first.strategies == ("retry", "exit")
    assert (second.job_id, second.strategies) == ("b", ("exit",))
    assert (scenario.waits[Wait.REPORT], scenario.waits[Wait.FLUSH]) == (3.0, 1.0)
    assert scenario.outcomes == {State.FAULT_RETRY: (Event.SCHEDULE_TIMEOUT, Event.FINISH)}
    assert scenario.answers == (
        Scripted("Init", 502, "text", times=2, since=1, until=4),
        Scripted("Register", grpc="UNAVAILABLE"),
        Scripted("HealthCheck", silent=True),
    )
    signal = Signal("u", "stopTrain", ("x",), {1: 2}, "s", 9, (1,), "e")
    assert scenario.steps == (
        Step(Fault({3: 0}, in_place=False, pre_exit=True), "a", "subscribed", 1.5),
        Step(HotSwitch({0: 1}), "b"),
        Step(SwitchCards((0, 1), (False, False)), "a"),
        Step(StressTest({0: (0, 1), 1: (0, 1)}), "a"),
        Step(Profiling({"Step": True}), "a"),
        Step(Orders(signal, 7), "a"),
        Step(Change({"enabled": True, "strategies": ("dump",)}, {Wait.FLUSH: 2.0}), "a"),
        Step(Away(2.0), "a"),
        Step(End(), "a"),
    )


def test_a_wrong_file_is_named_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("jobs:\n- id: 3\n  nodes: x\n")
    with pytest.raises(ScenarioError) as caught:
        load(path)
    assert str(caught.value).splitlines() == [
        f"{path}:2: jobs[0].id is 3; expected a text",
        f"{path}:3: jobs[0].nodes is 'x'; expected a whole number from 1 to 1000000",
    ]


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_bytes(b"\xff\xff")
    with pytest.raises(ScenarioError, match=r"wrong\.yaml:1: not readable as a text"):
        load(path)
