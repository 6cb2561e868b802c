from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from taskd_net.jobs.events import Signal
from taskd_net.jobs.traffic import Call
from taskd_net.recover.controller import (
    ACTIONS,
    FOR_AGENTS,
    Controller,
    HandlerController,
    NoHandler,
    Ranks,
    Reports,
    call_of,
    carry_out,
    give_up,
    unknown_actions,
)
from taskd_net.recover.mindio import MindIO

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
    for name in ("destroy", "restart"):
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


class Ttp(SimpleNamespace):
    """A stand-in for `mindio_ttp.controller_ttp` that writes its calls down."""

    def __init__(self, *missing: str) -> None:
        super().__init__()
        self.calls: list[tuple[object, ...]] = []
        self.callbacks: dict[str, object] = {}
        for name in ("stop_train", "on_global_rank", "change_strategy", "prepare_action", "dump"):
            if name not in missing:
                self._record(f"tft_notify_controller_{name}")
        for name in ("tft_init_controller", "tft_start_controller", "tft_destroy_controller"):
            self._record(name)

    def _record(self, name: str) -> None:
        def call(*arguments: object) -> int:
            self.calls.append((name.removeprefix("tft_").removeprefix("notify_controller_"), *arguments))
            return 0

        setattr(self, name, call)

    def tft_register_mindx_callback(self, name: str, function: object) -> None:
        self.callbacks[name] = function


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("MS_WORKER_NUM", "HIGH_AVAILABILITY", "HCCL_CONNECT_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "16")
    monkeypatch.setenv("POD_IP", "10.0.0.7")
    monkeypatch.setenv("TTP_PORT", "8000")
    monkeypatch.setenv("PROCESS_RECOVER", "on")
    return monkeypatch


def started(module: Ttp) -> Controller:
    controller = MindIO(module)
    controller.start(Recorded())
    module.calls.clear()
    return controller


def test_mindio_starts_as_taskd_starts_it(environment: pytest.MonkeyPatch) -> None:
    module, reports = Ttp(), Recorded()
    MindIO(module).start(reports)
    assert module.calls == [
        ("init_controller", -1, 16, False, True, False),
        ("start_controller", "10.0.0.7", 8000, False, ""),
    ]
    assert module.callbacks == {
        "report_fault_ranks": reports.fault_ranks,
        "report_stop_complete": reports.stop_complete,
        "report_strategies": reports.strategies,
        "report_result": reports.result,
    }


def test_mindio_takes_mindspores_environment(environment: pytest.MonkeyPatch) -> None:
    environment.delenv("WORLD_SIZE")
    environment.setenv("MS_WORKER_NUM", "8")
    environment.setenv("PROCESS_RECOVER", "off")
    environment.setenv("HIGH_AVAILABILITY", "dump,elastic-training")
    module = Ttp()
    MindIO(module).start(Recorded())
    assert module.calls[0] == ("init_controller", -1, 8, False, False, True)


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "TTP_PORT", "POD_IP"])
def test_mindio_without_its_environment_says_so(environment: pytest.MonkeyPatch, variable: str) -> None:
    environment.setenv(variable, "")
    module = Ttp()
    with pytest.raises(NoHandler, match="needs WORLD_SIZE or MS_WORKER_NUM, POD_IP and TTP_PORT"):
        MindIO(module).start(Recorded())
    assert module.calls == []


def test_mindio_calls(environment: pytest.MonkeyPatch) -> None:
    module = Ttp()
    controller = started(module)
    for call in CALLS.values():
        carry_out(controller, call, Recorded())
    assert module.calls == [
        ("stop_train", {3: 1}, "stop", 90),
        ("stop_train", {3: 1}, "pause", 90),
        ("on_global_rank", {3: 1}, 90),
        ("change_strategy", "dump", "{}"),
        ("dump",),
        ("prepare_action", "hot switch", {3: 1}),
        ("prepare_action", "stop switch", {3: 1}),
    ]


@pytest.mark.parametrize(("connect", "timeout"), [("", 600), ("120", 300), ("7200", 7200), ("7201", 7200), ("x", 600)])
def test_default_timeout_follows_that_of_a_connect(environment: pytest.MonkeyPatch, connect: str, timeout: int) -> None:
    environment.setenv("HCCL_CONNECT_TIMEOUT", connect)
    module = Ttp()
    started(module).stop_train({3: 1}, 0)
    assert module.calls == [("stop_train", {3: 1}, "stop", timeout)]


def test_mindio_is_destroyed_once_and_started_again(environment: pytest.MonkeyPatch) -> None:
    module = Ttp()
    controller = started(module)
    carry_out(controller, Call("restart"), Recorded())
    carry_out(controller, Call("destroy"), Recorded())
    carry_out(controller, Call("destroy"), Recorded())
    names = [name for name, *_ in module.calls]
    assert names == ["destroy_controller", "init_controller", "start_controller", "destroy_controller"]


def test_mindio_without_hot_switch_is_said_and_survived(
    environment: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    module = Ttp("prepare_action")
    controller = started(module)
    assert "mindio_without_hot_switch" in caplog.text
    with pytest.raises(NoHandler, match="prepare_action"):
        controller.prepare("hot switch", {3: 1})


def test_mindio_that_is_not_installed_is_none(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "mindio_ttp", None)
    assert MindIO.find() is None
    assert caplog.text == ""


def test_mindio_that_is_broken_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "mindio_ttp").mkdir()
    (tmp_path / "mindio_ttp" / "__init__.py").write_text("")
    (tmp_path / "mindio_ttp" / "controller_ttp.py").write_text("raise OSError('no libttp.so')")
    monkeypatch.syspath_prepend(tmp_path)
    assert MindIO.find() is None
    del sys.modules["mindio_ttp"]
    assert "no libttp.so" in caplog.text
