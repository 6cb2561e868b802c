from __future__ import annotations

from collections.abc import Iterable

import pytest

from taskd_net.job.clusterd.controller import (
    ACTIONS,
    FOR_AGENTS,
    HandlerController,
    NoHandler,
    Ranks,
    Reports,
    call_of,
    carry_out,
    give_up,
    unknown_actions,
)
from taskd_net.job.decide.events import Signal
from taskd_net.job.decide.traffic import Call

pytestmark = pytest.mark.oldest


class Recorded(Reports):
    """Reports that are written down."""

    def __init__(self) -> None:
        self.given: list[tuple[object, ...]] = []

    def stop_complete(self, code: int, msg: str, ranks: Ranks) -> int:
        self.given.append(("stop_complete", code, msg, dict(ranks)))
        return 0

    def strategies(self, ranks: Ranks, strategies: Iterable[str]) -> int:
        self.given.append(("strategies", dict(ranks), list(strategies)))
        return 0

    def result(self, code: int, msg: str, ranks: Ranks, strategy: str) -> int:
        self.given.append(("result", code, msg, dict(ranks), strategy))
        return 0

    def fault_ranks(self, ranks: Ranks, codes: object = None) -> int:
        self.given.append(("fault_ranks", dict(ranks)))
        return 0


SIGNAL = Signal("u", "t", (), {3: 1}, "dump", 90, (0,), "{}")
CALLS = {
    "stop_train": Call("stop_train", {3: 1}, "stop", timeout=90),
    "pause_train": Call("stop_train", {3: 1}, "pause", timeout=90),
    "on_global_rank": Call("on_global_rank", {3: 1}, timeout=90),
    "change_strategy": Call("change_strategy", text="dump", params="{}"),
    "save_and_exit": Call("dump"),
    "hot switch": Call("prepare_action", {3: 1}, "hot switch"),
    "stop switch": Call("prepare_action", {3: 1}, "stop switch"),
}


def test_every_action_of_a_signal_is_a_call_or_a_command_to_agents() -> None:
    assert {action: call_of(action, SIGNAL) for action in ACTIONS} == CALLS
    assert all(call_of(action, SIGNAL) is None for action in (*FOR_AGENTS, "unheard of"))


def test_unknown_actions_are_those_that_nobody_carries_out() -> None:
    known = (*ACTIONS, *FOR_AGENTS, "new pod running")
    assert unknown_actions(Signal("u", "t", (*known, "jump", ""))) == ["jump", ""]
    assert unknown_actions(Signal("u", "pauseStartAgent", ("pause",))) == []


@pytest.mark.parametrize("action", ACTIONS)
def test_handler_gets_its_action_and_the_reports(action: str) -> None:
    taken: list[tuple[Call, Reports]] = []
    controller, reports = HandlerController(), Recorded()
    controller.register(action, lambda call, given: taken.append((call, given)))
    with pytest.raises(NoHandler):
        carry_out(controller, CALLS[action], reports)
    controller.start(reports)
    carry_out(controller, CALLS[action], reports)
    assert taken == [(CALLS[action], reports)]
    for other in set(ACTIONS) - {action}:
        with pytest.raises(NoHandler, match=f"no handler of {other}"):
            carry_out(controller, CALLS[other], reports)


def test_handlers_are_checked() -> None:
    with pytest.raises(ValueError, match="action is 'jump'; expected one of stop_train"):
        HandlerController({"jump": lambda _, __: None})
    with pytest.raises(TypeError, match="the handler of stop_train is 3"):
        HandlerController().register("stop_train", 3)  # type: ignore[arg-type]


def test_without_a_controller_nobody_carries_it_out() -> None:
    for call in CALLS.values():
        with pytest.raises(NoHandler, match="no controller"):
            carry_out(None, call, Recorded())
    for name in ("destroy", "restart", "start"):
        carry_out(None, Call(name), Recorded())  # nothing is to be ended
    with pytest.raises(NoHandler, match="jump"):
        carry_out(HandlerController(), Call("jump"), Recorded())


@pytest.mark.parametrize(
    ("call", "report"),
    [
        (CALLS["stop_train"], ("stop_complete", 499, "why", {3: 1})),
        (CALLS["pause_train"], ("stop_complete", 499, "why", {3: 1})),
        (CALLS["on_global_rank"], ("strategies", {3: 1}, ["exit"])),
        (CALLS["hot switch"], ("strategies", {3: 1}, ["exit"])),
        (CALLS["change_strategy"], ("result", 499, "why", {}, "dump")),
        (Call("change_strategy", text="migration"), ("result", 406, "why", {}, "migration")),
        (CALLS["save_and_exit"], ("result", 499, "why", {}, "dump")),
        (CALLS["stop switch"], None),
        (Call("change_strategy", text="exit"), None),
        (Call("destroy"), None),
    ],
)
def test_report_that_ends_the_wait(call: Call, report: tuple[object, ...] | None) -> None:
    reports = Recorded()
    give_up(call, "why", reports)
    assert reports.given == ([] if report is None else [report])


@pytest.mark.parametrize(("action", "code"), [("stop_train", 404), ("pause_train", 499)])
def test_stop_or_pause_that_nobody_carries_out_ends_the_job(action: str, code: int) -> None:
    reports = Recorded()
    give_up(CALLS[action], "why", reports, nobody=True)
    assert reports.given == [("stop_complete", code, "why", {3: 1})]


def test_a_controller_restarts_by_its_end_and_its_start() -> None:
    seen: list[str] = []

    class Seen(HandlerController):
        def start(self, reports: Reports) -> None:
            seen.append("start")

        def close(self) -> None:
            seen.append("close")

    controller = Seen()
    for name in ("start", "restart", "destroy"):
        carry_out(controller, Call(name), Recorded())
    controller.kill()
    assert seen == ["start", "close", "start", "close"]
