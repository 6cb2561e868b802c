"""The decisions of a Worker's own answers."""

from __future__ import annotations

import json

import pytest

from taskd_net.base.body import Body
from taskd_net.job.decide.plugins.stress_test import read_result
from taskd_net.job.worker.duties import (
    CALLS_WAITING,
    Detect,
    DeviceOutcome,
    Duties,
    DutyIgnored,
    MakeCall,
    SendAnswer,
    SwitchCards,
    keep_alive,
    stressed,
    switched,
)

pytestmark = pytest.mark.oldest

AIC, HCCS = MakeCall(Detect("aic"), 300.0), MakeCall(Detect("hccs"), 600.0)


def switch(uuid: str = "s1", ranks: str = '["3", "4"]', ops: str = "[true, false]") -> Body:
    """A 204."""
    return Body("ACTION", 204, "", {"switchNicUUID": uuid, "globalRankIDs": ranks, "globalOps": ops})


def stress(uuid: str = "t1", *, text: str = '{"3": {"ops": [0, 1]}, "4": {"ops": [0]}}') -> Body:
    """A 205."""
    return Body("ACTION", 205, "", {"stressTestUUID": uuid, "StressTestRankOPStr": text})


@pytest.mark.parametrize(
    ("outcome", "message"),
    [(DeviceOutcome.OK, "switchOK"), (DeviceOutcome.FAILED, "switchFail"), (DeviceOutcome.TIMEOUT, "switchFail")],
)
def test_switch_of_cards(outcome: DeviceOutcome, message: str) -> None:
    duties = Duties(3)
    assert duties.take(switch()) == [MakeCall(SwitchCards((3, 4), (True, False)), 7200.0)]
    assert not duties.testing
    answer = SendAnswer(Body("ACTION", 204, message, {"switchNicUUID": "s1"}))
    assert duties.ended(outcome) == [answer]
    assert duties.take(switch()) == [answer]
    assert duties.take(switch("s2")) == [MakeCall(SwitchCards((3, 4), (True, False)), 7200.0)]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (switch(ranks="3"), "globalRankIDs is 3; expected a JSON list"),
        (switch(ranks="["), "globalRankIDs is '['; expected JSON"),
        (switch(ranks='["x", "4"]'), "rank is 'x'; expected a whole number"),
        (switch(ranks="[-1, 4]"), "rank is -1;"),
        (switch(ranks="[true, 4]"), "rank is True;"),
        (switch(ops="[true]"), "globalOps has 1 items; expected 2"),
        (switch(ops='[true, "no"]'), "op is 'no'; expected true or false"),
        (Body("ACTION", 204, "", {"switchNicUUID": "s1"}), "globalRankIDs is ''; expected JSON"),
    ],
)
def test_switch_that_cannot_be_read_has_failed(body: Body, reason: str) -> None:
    duties = Duties(3)
    ignored, answer = duties.take(body)
    assert isinstance(ignored, DutyIgnored) and reason in ignored.reason
    assert answer == SendAnswer(switched("s1", False))
    assert duties.take(body) == [answer]


def test_stress_test_runs_one_operation_after_another() -> None:
    duties = Duties(3)
    assert duties.take(stress()) == [AIC]
    assert duties.take(stress()) == [DutyIgnored("the operation is under way")]
    assert duties.testing and duties.ended(DeviceOutcome.FAULT) == [HCCS]
    answers = duties.ended(DeviceOutcome.TIMEOUT)
    assert not duties._jobs
    body = stressed("t1", {0: DeviceOutcome.FAULT, 1: DeviceOutcome.TIMEOUT})
    assert answers == [SendAnswer(body)] and body.extension == {"stressTestUUID": "t1"}
    result = {"0": {"code": "2", "result": "find fault rank"}, "1": {"code": "3", "result": "exec timeout"}}
    assert json.loads(body.message) == {"rankResult": result}
    assert read_result(body.message) == result
    assert duties.take(stress()) == answers


def test_operations_wait_for_each_other() -> None:
    duties = Duties(3)
    run = duties.take(switch())[0]
    assert duties.take(stress()) == [] and duties.testing
    assert duties.take(switch("s2")) == []
    assert duties.ended(DeviceOutcome.OK) == [SendAnswer(switched("s1", True)), AIC]
    assert duties.ended(DeviceOutcome.OK) == [HCCS]
    assert duties.ended(DeviceOutcome.OK) == [
        SendAnswer(stressed("t1", {0: DeviceOutcome.OK, 1: DeviceOutcome.OK})),
        run,
    ]


def test_unknown_operations_have_failed() -> None:
    duties = Duties(3)
    assert duties.take(stress(text='{"3": {"ops": [7, 0, 0]}}')) == [AIC]
    assert duties.ended(DeviceOutcome.OK) == [
        SendAnswer(stressed("t1", {0: DeviceOutcome.OK, 7: DeviceOutcome.FAILED}))
    ]
    assert duties.take(stress("t2", text='{"3": {"ops": [7]}}')) == [
        SendAnswer(stressed("t2", {7: DeviceOutcome.FAILED}))
    ]
    assert not duties.testing


@pytest.mark.parametrize("ops", ["[]", "{}", '{"ops": []}', '{"ops": [""]}', '{"ops": [true]}'])
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"3": %s}'])
def test_stress_test_that_cannot_be_read_is_left_out(text: str, ops: str) -> None:
    (ignored,) = Duties(3).take(stress(text=text.replace("%s", ops)))
    assert isinstance(ignored, DutyIgnored) and ignored.reason.startswith("StressTestRankOPStr is ")


def test_operations_without_a_uuid_and_those_too_many() -> None:
    duties = Duties(3)
    assert duties.take(Body("ACTION", 204)) == [DutyIgnored("204 has no switchNicUUID")]
    assert duties.take(Body("ACTION", 205)) == [DutyIgnored("205 has no stressTestUUID")]
    for number in range(CALLS_WAITING):
        duties.take(switch(str(number)))
    too_many = DutyIgnored("8 operations wait already")
    assert duties.take(switch("more")) == [too_many, SendAnswer(switched("more", False))]
    failed = stressed("more", {0: DeviceOutcome.FAILED, 1: DeviceOutcome.FAILED})
    assert duties.take(stress("more")) == [too_many, SendAnswer(failed)]


@pytest.mark.parametrize(("command", "state"), [(700, 1400), (701, 1402), (710, 1420), (711, 1422)])
def test_wanted_profiling_domains_have_failed(command: int, state: int) -> None:
    assert Duties(3).take(Body("ACTION", command)) == [SendAnswer(Body("STATUS", state))]


def test_profiling_command_that_is_none() -> None:
    assert Duties(3).take(Body("ACTION", 705)) == [DutyIgnored("no profiling command has code 705")]


def test_keep_alive() -> None:
    assert keep_alive() == Body("KEEP_ALIVE", 0)
