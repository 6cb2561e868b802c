"""Bodies between an Agent and the Mgr."""

from __future__ import annotations

import pytest

from taskd_net import ArgumentError
from taskd_net.base.body import Body
from taskd_net.base.cause import Cause, Place, Reason, write_cause
from taskd_net.base.progress import NodeProgress
from taskd_net.job.agent import messages
from taskd_net.job.agent.messages import (
    Exit,
    ExitGracefully,
    Go,
    Meeting,
    Released,
    RestartAll,
    RestartRanks,
    StopRanks,
    Waiting,
    WantStacks,
    read_command,
)
from taskd_net.job.decide.traffic import fault_ranks, rank_texts

pytestmark = pytest.mark.oldest

CAUSE = Cause(
    3, 1, "h", 7, 1, "", 5, reason=Reason("ValueError", "ValueError: boom", "Traceback", Place("a.py", 3, ""))
)


@pytest.mark.parametrize(
    ("body", "command"),
    [
        (Body("ACTION", 210, "3"), Go(3)),
        (Body("ACTION", 210, " -1 "), Go(-1)),
        (Body("ACTION", 210), Go(None)),
        (Body("ACTION", 210, "2", {"Incarnation": "some"}), Go(2, ours=True)),
        (Body("ACTION", 210, "2", {"Incarnation": "some", "InPlace": "on"}), Go(2, ours=True, in_place=True)),
        (Body("ACTION", 210, "2", {"Incarnation": "some", "Restarts": "job"}), Go(2, ours=True, restarts=True)),
        (Body("ACTION", 203, "", {"SignalType": "killMaster", "Actions": "[]"}), Exit()),
        (Body("ACTION", 208, "0"), RestartAll(0)),
        (Body("ACTION", 208), RestartAll(None)),
        (Body("ACTION", 209, '["3", "4"]'), RestartRanks(frozenset({3, 4}))),
        (Body("ACTION", 310, "[3, 4]", {"Collection": "x"}), WantStacks("x", frozenset({3, 4}))),
        (Body("ACTION", 310, "[]"), WantStacks("")),
        (Body("ACTION", 209, "[3, 4]"), RestartRanks(frozenset({3, 4}))),
        (Body("ACTION", 209, "", {"FaultRanks": '{"3": 1, "4": 1}'}), RestartRanks(frozenset({3, 4}))),
        (Body("ACTION", 209, "[5]", {"FaultRanks": '{"3": 1}'}), RestartRanks(frozenset({5}))),
        # As the Manager's decisions write it, in both forms.
        (Body("ACTION", 209, rank_texts({10, 9}), fault_ranks({9: 1, 10: 1})), RestartRanks(frozenset({9, 10}))),
        (Body("ACTION", 209, "", fault_ranks({9: 1, 10: 0})), RestartRanks(frozenset({9, 10}))),
        (Body("ACTION", 213, "[]"), StopRanks(frozenset())),
        (Body("ACTION", 213, '["7"]'), StopRanks(frozenset({7}))),
        (Body("GRACE_EXIT", 0), ExitGracefully()),
        (Body("ACTION", 203, "", {"Reason": "no more"}), Exit("no more")),
        (Body("ACTION", 203, "", {"Reason": "again", "ExitStatus": "65"}), Exit("again", status=65)),
        *((Body("ACTION", 203, "", {"ExitStatus": text}), Exit()) for text in ("0", "256", "-1", "x")),
        (
            Body("ACTION", 203, "", {"Reason": "no more", "Cause": write_cause(CAUSE), "Others": "0,x,2"}),
            Exit("no more", CAUSE, (0, 2)),
        ),
        (Body("ACTION", 203, "", {"Cause": "none", "Others": ""}), Exit()),
        (
            Body("ACTION", 305, "4", {"Store": "h:1", "LocalWorlds": "2,1", "Cause": write_cause(CAUSE)}),
            Meeting(4, "h:1", (2, 1), CAUSE),
        ),
        (Body("ACTION", 210, "3", {"Round": "4", "Seconds": "900"}), Go(3, round=4, patience=900.0)),
        (Body("ACTION", 208, "3", {"Round": "4"}), RestartAll(3, 4)),
        (Body("ACTION", 305, "4", {"Missing": "1,2", "Seconds": "8"}), Waiting("1,2", 8.0)),
        (Body("ACTION", 305, "4", {"Store": "h:1", "LocalWorlds": "2,1"}), Meeting(4, "h:1", (2, 1))),
        (
            Body("ACTION", 305, "4", {"Store": "h:1", "LocalWorlds": "2,1", "Starts": "2"}),
            Meeting(4, "h:1", (2, 1), starts=2),
        ),
        (Body("ACTION", 307, "4"), Released(4)),
    ],
)
def test_commands(body: Body, command: messages.Command | WantStacks) -> None:
    assert read_command(Body.parse(body.to_json())) == command


@pytest.mark.parametrize(
    ("code", "message", "extension", "reason"),
    [
        (204, "", {}, "an Agent does nothing for code 204, msg_type 'ACTION'"),
        (0, "", {}, "an Agent does nothing for code 0"),
        (208, "many", {}, "message is 'many'; expected a number of restarts"),
        (210, "--1", {}, "message is '--1'; expected a number"),
        (208, "9" * 5000, {}, "expected a number"),
        (209, "8", {}, "message is '8'; expected a JSON list of ranks"),
        (209, "", {}, "message is ''; expected JSON"),
        (209, "", {"FaultRanks": "[3]"}, "FaultRanks is '\\[3\\]'; expected a JSON object with ranks as its keys"),
        (209, "", {"FaultRanks": "{"}, "FaultRanks is '{'; expected JSON"),
        (209, "", {"FaultRanks": '{"x": 1}'}, "rank is 'x'; expected a whole number, at least 0"),
        (213, "[" * 100_000, {}, "nested too deeply"),
        (213, "[true]", {}, "rank is True"),
        (213, "[-1]", {}, "rank is -1"),
        (210, "3", {"Round": "x"}, "Round is 'x'; expected a whole number"),
        (305, "1", {"LocalWorlds": "2,"}, "LocalWorlds is ''; expected a whole number"),
        (305, "1", {"LocalWorlds": "2", "Starts": "x"}, "Starts is 'x'; expected a whole number"),
        (307, "", {}, "message is ''; expected a whole number"),
        (213, "[1.5]", {}, "rank is 1.5"),
        (213, "[null]", {}, "rank is None"),
    ],
)
def test_commands_that_are_none(code: int, message: str, extension: dict[str, str], reason: str) -> None:
    with pytest.raises(ArgumentError, match=reason):
        read_command(Body("ACTION", code, message, extension))


def test_reports() -> None:
    assert messages.stacks("x", "[]") == Body("STATUS", 311, "x", {"Stacks": "[]"})
    assert messages.registration("me") == Body("REGISTER", 0, "", {"Incarnation": "me"})
    devices = {"Incarnation": "me", "Devices": '["a/0", "a/1"]'}
    assert messages.registration("me", ("a/0", "a/1")) == Body("REGISTER", 0, "", devices)
    able = {"Incarnation": "me", "Features": "meets,more", "Round": "3"}
    assert messages.registration("me", features=("more", "meets"), round_=3) == Body("REGISTER", 0, "", able)
    assert messages.question("2") == Body("STATUS", 201, "2")
    assert messages.question("32767", 0) == Body("STATUS", 201, "32767", {"MaxRestarts": "0"})
    message = '{"fault_ranks": [3, 11], "restart_times": -1}'
    assert messages.fault({11, 3}, 1_700_000_000) == Body("STATUS", 202, message, {"REPORT_FAULT_TIME": "1700000000"})
    assert messages.fault((), 7, "u").extension == {"REPORT_FAULT_TIME": "7", "AfterRestart": "u"}
    assert messages.fault((), 7, "", "FAILED").extension == {"REPORT_FAULT_TIME": "7", "WorkerState": "FAILED"}
    empty = '{"fault_ranks": [], "restart_times": -1}'
    assert messages.keep_alive() == Body("KEEP_ALIVE", 0, empty)
    told = {"REPORT_FAULT_TIME": "7", "Cause": write_cause(CAUSE)}
    assert messages.fault((), 7, cause=CAUSE).extension == told
    ready = {"LocalWorld": "2", "Store": "h:1", "Cause": write_cause(CAUSE)}
    assert messages.ready(3, "h:1", 2, CAUSE) == Body("STATUS", 304, "3", ready)
    assert messages.keep_alive("HEALTHY") == Body("KEEP_ALIVE", 0, empty, {"WorkerState": "HEALTHY"})
    told = {"WorkerState": "HEALTHY", "Progress": '{"ranks":2}'}
    assert messages.keep_alive("HEALTHY", NodeProgress(2)) == Body("KEEP_ALIVE", 0, empty, told)


@pytest.mark.parametrize(("text", "step"), [("0", 0), ("41", 41), ("", None), ("-1", None), (str(10**15 + 1), None)])
def test_highest_step_of_the_job(text: str, step: int | None) -> None:
    for code in (208, 209, 210, 305):
        assert messages.read_highest(Body("ACTION", code, "[]", {"HighestStep": text})) == step
    assert messages.read_highest(Body("ACTION", 210)) is None


def test_starts_before_a_meeting_are_rounds_where_the_mgr_says_no_more() -> None:
    assert (Meeting(4, "h:1", (2,)).restarts, Meeting(4, "h:1", (2,), starts=1).restarts) == (3, 1)
