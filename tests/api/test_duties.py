"""The decisions of a Worker's own answers."""

from __future__ import annotations

import json

import pytest

from taskd_net.base.body import Body
from taskd_net.job.api.duties import (
    CALLS_WAITING,
    Answer,
    Detect,
    Duties,
    Ignored,
    Outcome,
    Run,
    SwitchNic,
    keep_alive,
    stressed,
    switched,
)
from taskd_net.job.decide.plugins.stress_test import read_result

pytestmark = pytest.mark.oldest

AIC, HCCS = Run(Detect("aic"), 300.0), Run(Detect("hccs"), 600.0)


def switch(uuid: str = "s1", ranks: str = '["3", "4"]', ops: str = "[true, false]") -> Body:
    """A 204."""
    return Body("ACTION", 204, "", {"switchNicUUID": uuid, "globalRankIDs": ranks, "globalOps": ops})


def stress(uuid: str = "t1", *, text: str = '{"3": {"ops": [0, 1]}, "4": {"ops": [0]}}') -> Body:
    """A 205."""
    return Body("ACTION", 205, "", {"stressTestUUID": uuid, "StressTestRankOPStr": text})


@pytest.mark.parametrize(
    ("outcome", "message"),
    [(Outcome.OK, "switchOK"), (Outcome.FAILED, "switchFail"), (Outcome.TIMEOUT, "switchFail")],
)
def test_switch_of_cards(outcome: Outcome, message: str) -> None:
    duties = Duties(3)
    assert duties.take(switch()) == [Run(SwitchNic((3, 4), (True, False)), 7200.0)]
    assert not duties.testing
    answer = Answer(Body("ACTION", 204, message, {"switchNicUUID": "s1"}))
    assert duties.ended(outcome) == [answer]
    assert duties.take(switch()) == [answer]
    assert duties.take(switch("s2")) == [Run(SwitchNic((3, 4), (True, False)), 7200.0)]


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
    assert isinstance(ignored, Ignored) and reason in ignored.reason
    assert answer == Answer(switched("s1", False))
    assert duties.take(body) == [answer]


def test_stress_test_runs_one_operation_after_another() -> None:
    duties = Duties(3)
    assert duties.take(stress()) == [AIC]
    assert duties.take(stress()) == [Ignored("the operation is under way")]
    assert duties.testing and duties.ended(Outcome.FAULT) == [HCCS]
    answers = duties.ended(Outcome.TIMEOUT)
    assert not duties._jobs
    body = stressed("t1", {0: Outcome.FAULT, 1: Outcome.TIMEOUT})
    assert answers == [Answer(body)] and body.extension == {"stressTestUUID": "t1"}
    result = {"0": {"code": "2", "result": "find fault rank"}, "1": {"code": "3", "result": "exec timeout"}}
    assert json.loads(body.message) == {"rankResult": result}
    assert read_result(body.message) == result
    assert duties.take(stress()) == answers


def test_operations_wait_for_each_other() -> None:
    duties = Duties(3)
    run = duties.take(switch())[0]
    assert duties.take(stress()) == [] and duties.testing
    assert duties.take(switch("s2")) == []
    assert duties.ended(Outcome.OK) == [Answer(switched("s1", True)), AIC]
    assert duties.ended(Outcome.OK) == [HCCS]
    assert duties.ended(Outcome.OK) == [Answer(stressed("t1", {0: Outcome.OK, 1: Outcome.OK})), run]


def test_unknown_operations_have_failed() -> None:
    duties = Duties(3)
    assert duties.take(stress(text='{"3": {"ops": [7, 0, 0]}}')) == [AIC]
    assert duties.ended(Outcome.OK) == [Answer(stressed("t1", {0: Outcome.OK, 7: Outcome.FAILED}))]
    assert duties.take(stress("t2", text='{"3": {"ops": [7]}}')) == [Answer(stressed("t2", {7: Outcome.FAILED}))]
    assert not duties.testing


@pytest.mark.parametrize("ops", ["[]", "{}", '{"ops": []}', '{"ops": [""]}', '{"ops": [true]}'])
@pytest.mark.parametrize("text", ["", "[]", "{}", '{"3": %s}'])
def test_stress_test_that_cannot_be_read_is_left_out(text: str, ops: str) -> None:
    (ignored,) = Duties(3).take(stress(text=text.replace("%s", ops)))
    assert isinstance(ignored, Ignored) and ignored.reason.startswith("StressTestRankOPStr is ")


def test_operations_without_a_uuid_and_those_too_many() -> None:
    duties = Duties(3)
    assert duties.take(Body("ACTION", 204)) == [Ignored("204 has no switchNicUUID")]
    assert duties.take(Body("ACTION", 205)) == [Ignored("205 has no stressTestUUID")]
    for number in range(CALLS_WAITING):
        duties.take(switch(str(number)))
    too_many = Ignored("8 operations wait already")
    assert duties.take(switch("more")) == [too_many, Answer(switched("more", False))]
    failed = stressed("more", {0: Outcome.FAILED, 1: Outcome.FAILED})
    assert duties.take(stress("more")) == [too_many, Answer(failed)]


@pytest.mark.parametrize(("command", "state"), [(700, 1400), (701, 1402), (710, 1420), (711, 1422)])
def test_wanted_profiling_domains_have_failed(command: int, state: int) -> None:
    assert Duties(3).take(Body("ACTION", command)) == [Answer(Body("STATUS", state))]


def test_profiling_command_that_is_none() -> None:
    assert Duties(3).take(Body("ACTION", 705)) == [Ignored("no profiling command has code 705")]


def test_keep_alive() -> None:
    assert keep_alive() == Body("KEEP_ALIVE", 0)
