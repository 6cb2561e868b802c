"""The last decisions: their causes, commands and answers."""

from __future__ import annotations

import pytest

from taskd_net.base.position import Position
from taskd_net.job.decide.events import Acknowledged, Event, MachineReset, ProfilingSwitch, Reported, RetryTime, Signal
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.traffic import Call, Command, Item, Reply, Restarts
from taskd_net.job.manager.history import DecisionHistory, cause
from taskd_net.observe.job_view import DECISIONS_SHOWN, MESSAGES_SHOWN, JobCounters


def sent(number: int, to: str = "Agent/0", code: int = 203) -> Command:
    return Command(to, code, uuid=f"u-{number}")


def decided(history: DecisionHistory, *items: tuple[str, Item]) -> JobCounters:
    """The counters after one tick."""
    counters = JobCounters()
    history.add(5.0, "time", items, counters)
    return counters


def test_decisions_of_one_plugin_in_a_row_are_one() -> None:
    history = DecisionHistory()
    items: list[tuple[str, Item]] = [
        *(("A", sent(1)), ("A", Restarts(2)), ("A", Call("stop_train", {3: 1, 4: 0}, "pause"))),
        *(("", sent(2, code=210)), ("A", Reply("ReplySwitchNicResult", "true"))),
    ]
    counters = decided(history, *items)
    assert [(each.number, each.plugin, each.sent, each.restarts, each.calls) for each in history.decisions] == [
        (1, "A", 1, 2, ("controller stop_train pause 3,4",)),
        (2, "", 1, None, ()),
        (3, "A", 0, None, ("reply ReplySwitchNicResult true",)),
    ]
    assert (counters.commands, counters.rounds, counters.decisions) == (2, 1, {"A": 2, "Manager": 1})
    assert history.unsaved == {1, 2, 3}


def test_answers_are_noted_until_a_command_is_taken_or_lost() -> None:
    history = DecisionHistory()
    decided(history, *(("A", sent(number)) for number in range(4)))
    for uuid, code in (("u-0", 6001), ("u-0", 0), ("u-0", 5001), ("u-1", 5002), ("unknown", 0)):
        history.answered(uuid, code)
    for uuid in ("u-1", "u-2", "u-0"):
        history.gone(uuid)
    (decision,) = history.decisions
    answers = [(each.answer, each.lost) for each in decision.messages]
    assert answers == [(0, False), (5002, True), (None, True), (None, False)]
    assert (decision.sent, decision.acknowledged, decision.lost) == (4, 1, 2)


def test_only_the_last_decisions_and_their_first_commands_are_kept() -> None:
    history = DecisionHistory()
    for number in range(DECISIONS_SHOWN + 1):
        decided(history, *(("A", sent(100 * number + each)) for each in range(MESSAGES_SHOWN + 1)))
    assert [each.number for each in history.decisions] == list(range(2, DECISIONS_SHOWN + 2))
    assert history.get(1) is None and 1 in history.unsaved, "its part of the state is removed"
    last = history.decisions[-1]
    assert (len(last.messages), last.sent) == (MESSAGES_SHOWN, MESSAGES_SHOWN + 1)
    history.answered("u-0", 0)
    history.answered(f"u-{100 * DECISIONS_SHOWN + MESSAGES_SHOWN}", 0)
    assert history.decisions[-1].acknowledged == 1, "also of one that is not shown"


def test_stored_decisions_take_answers_to_commands_that_are_on_their_way() -> None:
    before = DecisionHistory()
    decided(before, *(("A", sent(number)) for number in (3, 4, 5)))
    decided(before, ("A", Call("restart")))
    decided(before, ("B", sent(6)))
    stored = [before.get(number) for number in (3, 1, 2)]
    history = DecisionHistory([each for each in stored if each], ["u-1", "u-5", "u-6"])
    for uuid in ("u-1", "u-4", "u-5", "u-6"):
        history.answered(uuid, 0)
    assert [each.acknowledged for each in history.decisions] == [1, 0, 1]
    decided(history, ("A", sent(7)))
    assert history.decisions[-1].number == 4


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (Reported(Position.agent(1), "STATUS", 202, "x" * 500), f"Agent/1 STATUS 202 {'x' * 181}"),
        (Signal("s", "changeStrategy", ("a", "b"), {}, "exit"), "ClusterD changeStrategy exit a,b s"),
        (SwitchNic((0, 1), (True, False)), "ClusterD asks for a switch of cards of 2 ranks"),
        (StressTest({3: (0,)}), "ClusterD asks for a stress test of 1 ranks"),
        (ProfilingSwitch(), "profiling switch 00"),
        (MachineReset(), "the stream of ClusterD's signals has ended"),
        (RetryTime(3), "RetryTime 3"),
        (Acknowledged("u"), ""),
    ],
)
def test_an_event_in_words(event: Event, text: str) -> None:
    assert cause(event) == text
