"""The measure `rounds`: what counts as a wait of ours, and one flow in short."""

from __future__ import annotations

import asyncio

from benchmarks.rounds import CALL, SIGNAL, STREAM_BEGAN, STREAM_ENDED, Moment, _play, waits
from taskd_net_lab.demos.job.terms import ASKS, BEGAN, COMMAND, ENDED
from taskd_net_lab.demos.recovery.scenarios import FLOWS
from taskd_net_lab.demos.recovery.stage import CLUSTERD, FRAMEWORK


def test_each_act_is_measured_from_the_last_event_that_it_can_follow_from() -> None:
    moments = [
        Moment(0.0, CLUSTERD, STREAM_BEGAN),
        Moment(1.0, CLUSTERD, SIGNAL, text="stopTrain"),
        Moment(1.25, FRAMEWORK, COMMAND, text="stop"),
        Moment(1.5, FRAMEWORK, ASKS, text="stop"),
        Moment(2.0, CLUSTERD, CALL, text="ReportStopComplete"),
        Moment(3.0, CLUSTERD, SIGNAL, text="changeStrategy"),
        Moment(3.5, "Agent/1", COMMAND, 203),
        Moment(4.0, "Agent/1", ENDED),
        Moment(4.125, FRAMEWORK, COMMAND, text="recover"),
        Moment(5.0, CLUSTERD, STREAM_ENDED),
        Moment(5.0625, CLUSTERD, STREAM_BEGAN),
    ]
    assert [seconds for seconds, _, _ in waits(moments)] == [0.25, 0.5, 0.5, 0.125, 0.0625]


def test_the_start_of_a_process_is_no_wait_of_ours_and_a_go_that_was_held_back_is() -> None:
    moments = [
        Moment(1.0, "Agent/1", BEGAN),
        Moment(2.0, "Agent/1", COMMAND, 210),
        Moment(3.0, CLUSTERD, SIGNAL, text="continueStartAgent"),
        Moment(3.5, "Agent/1", COMMAND, 210),
    ]
    assert [seconds for seconds, _, _ in waits(moments)] == [0.5]


def test_a_flow_has_waits_of_each_kind() -> None:
    flow = next(each for each in FLOWS if each.name == "recover")
    result, moments = asyncio.run(_play(flow))
    assert result.ok, result.problems
    assert {(effect.who, effect.what) for _, _, effect in waits(moments)} >= {
        (FRAMEWORK, COMMAND),
        ("Agent/1", COMMAND),
        (CLUSTERD, CALL),
        (CLUSTERD, STREAM_BEGAN),
    }
