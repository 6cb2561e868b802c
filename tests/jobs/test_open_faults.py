"""Faulty ranks that ClusterD has to hear of: those that it has lost, and those that nobody else reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.job.decide import epochs
from taskd_net.job.decide.events import (
    CallEnded,
    Continued,
    Event,
    FaultsReported,
    MachineReset,
    Recovered,
    Resumed,
    Signal,
    Subscribed,
)
from taskd_net.job.decide.job import CONTROLLER_S
from taskd_net.job.decide.orders import OpenFaults
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.snapshot import FAULT_UNREPORTED_S
from taskd_net.job.decide.traffic import Outcome
from tests.jobs.scene import CLUSTERD, Scene, started

STOP = Signal("u", "stopTrain", ("stop_train",), {3: 1})


def scene(process: str = "p", *, in_place: bool = False) -> Scene:
    """A job of two nodes, whose Manager has subscribed."""
    made = started(0, 1, config=replace(CLUSTERD, in_place=in_place), process=process)
    made.workers(0, 1, 2, 3)
    made.settle()
    assert reported(made, Subscribed()) == []
    return made


def reported(of: Scene, *events: Signal | MachineReset | Subscribed | FaultsReported | Recovered) -> list[list[int]]:
    """The ranks of each report to ClusterD after some events."""
    for event in events:
        of.take(event)
    return settled(of)


def settled(of: Scene) -> list[list[int]]:
    return [sorted(each.ranks) for outcome in of.settle() for each in outcome.reports]


def after(of: Scene, seconds: float) -> list[list[int]]:
    return [sorted(each.ranks) for each in of.tick(seconds).reports]


INTERRUPTED = {
    "stopped": [STOP],
    "pods-end": [STOP, Signal("u", "globalFault", ("on_global_rank", "fault_nodes_exit"), {2: 1, 3: 1}, "", 0, (1,))],
    "decided": [STOP, Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "recover", 0, (1,))],
    "dumped": [STOP, Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "dump")],
    "announced": [Signal("p", "preExitProcess", ("pre exit process",), {3: 1}, "", 0, (1,))],
}


@pytest.mark.parametrize("signals", INTERRUPTED.values(), ids=INTERRUPTED)
@pytest.mark.parametrize("killed", [False, True], ids=["stream-broken", "manager-killed"])
@pytest.mark.parametrize("in_place", [False, True], ids=["by-pods", "in-place"])
def test_a_round_that_is_interrupted_is_reported_over_the_next_stream(
    signals: list[Signal], killed: bool, in_place: bool
) -> None:
    """ClusterD forgets the round, its fault is no news any more, and the training stands."""
    job = scene(in_place=in_place)
    for signal in signals:
        assert reported(job, signal) == []
    if killed:
        job.job.step(job.now, Resumed("v"))
    assert reported(job, MachineReset()) == []
    assert reported(job, Subscribed()) == [[3]]
    assert reported(job, MachineReset(), Subscribed()) == [[3]], "and again, until a round answers it"


@pytest.mark.parametrize(
    "end",
    [
        Recovered(),
        Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "exit", 0, (1,)),
        Signal("u", "killMaster", ("killMaster",)),
    ],
    ids=["recovered", "exit", "killed"],
)
def test_a_round_that_is_over_is_not_reported(end: Signal | Recovered) -> None:
    job = scene()
    assert reported(job, FaultsReported({3: 1}), STOP, end) == []
    assert reported(job, MachineReset(), Subscribed()) == []


@pytest.mark.parametrize("signals", [[STOP], INTERRUPTED["pods-end"], INTERRUPTED["decided"]])
def test_an_exit_whose_stream_ends_before_it_is_carried_out_is_no_answer(signals: list[Signal]) -> None:
    """The order is void then, and ClusterD has forgotten the fault: nothing would bring the training on."""
    job = scene()
    for signal in signals:
        reported(job, signal)
    ended = Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "exit", 0, (1,))
    job.lines.clear()
    assert reported(job, ended, MachineReset()) == []
    assert not any(" 208 " in line for line in job.lines), "the order is void"
    assert reported(job, Subscribed()) == [[3]]


def test_a_new_process_answers_a_fault_that_stopped_nobody() -> None:
    for signals, again in (([], []), ([STOP], [[3]])):
        job = scene()
        reported(job, FaultsReported({3: 1}), *signals, MachineReset())
        job.register(1, process="next")
        assert reported(job, Subscribed()) == again


def test_a_pause_opens_no_round() -> None:
    faults = OpenFaults()
    assert faults.take(Signal("u", "stopTrain", ("pause_train",), {1: 1})) == {}
    assert faults.begin() == {}


PAUSE = Signal("p", "stopTrain", ("pause_train",), timeout=900)
BARE_STOP = Signal("b", "stopTrain", ("stop_train",))
GOES_ON = Signal("p", "changeStrategy", ("change_strategy",), change_strategy="continue")


def calls(of: Scene, *events: Event) -> list[str]:
    """The calls of the controller, and the commands to Agents, after some events."""
    for event in events:
        of.take(event)
    return [each for outcome in of.settle() for each in said(outcome)]


def said(outcome: Outcome) -> list[str]:
    commands = [f"{command.code} {command.to}" for command in outcome.commands if command.destination.unicast]
    return [" ".join(filter(None, (call.name, call.text))) for call in outcome.calls] + commands


def notes(of: Scene, event: str) -> int:
    return sum(line.strip().startswith(event) for line in of.lines)


PAUSED: dict[str, list[Event]] = {
    "pausing": [PAUSE],
    "switching": [PAUSE, CallEnded(("stop_train",)), SwitchNic((3,), (True,))],
    "going-on": [PAUSE, CallEnded(("stop_train",)), GOES_ON],
    "unfit": [PAUSE, GOES_ON, Continued(False)],
}


@pytest.mark.parametrize("events", PAUSED.values(), ids=PAUSED)
@pytest.mark.parametrize("killed", [False, True], ids=["stream-broken", "manager-killed"])
def test_a_pause_that_clusterd_forgets_is_ended_by_the_manager(events: list[Event], killed: bool) -> None:
    """No rank is faulty, so ClusterD sends nothing more, and the training stands for good."""
    job = scene()
    calls(job, *events)
    if killed:
        job.job.step(job.now, Resumed("v"))
    for rank in range(4):
        uuid = job.job.requests["SwitchNic"].uuid
        job.report(f"Worker/{rank // 2}/{rank}", "ACTION", 204, "switchOK", switchNicUUID=uuid)
    assert calls(job, MachineReset()) == ["change_strategy continue"]
    assert notes(job, "stop_forgotten") == 1
    assert calls(job, MachineReset(), Subscribed()) == [], "it is under way"
    assert calls(job, Continued(True), CallEnded(("change_strategy",)), MachineReset()) == []
    assert reported(job, Subscribed()) == []
    assert job.job.wake == float("inf")


def test_the_next_manager_continues_again() -> None:
    job = scene()
    calls(job, PAUSE)
    assert calls(job, MachineReset()) == ["change_strategy continue"]
    job.job.step(job.now, Resumed("v"))
    assert calls(job, MachineReset()) == ["change_strategy continue"]


@pytest.mark.parametrize("answer", [Continued(False), None], ids=["failed", "silent"])
def test_a_training_that_does_not_continue_is_restarted(answer: Continued | None) -> None:
    job = scene()
    calls(job, PAUSE)
    assert calls(job, MachineReset()) == ["change_strategy continue"]
    restarted = ["restart", "208 Agent/0", "208 Agent/1"]
    if answer is None:
        assert said(job.tick(CONTROLLER_S - 1.0)) == []
        assert said(job.tick(1.0)) == restarted
    else:
        assert calls(job, answer) == restarted
    assert notes(job, "stop_forgotten") == 2
    assert calls(job, MachineReset(), Subscribed()) == []


@pytest.mark.parametrize("killed", [False, True], ids=["stream-broken", "manager-killed"])
def test_a_stop_without_ranks_that_clusterd_forgets_restarts_everybody(killed: bool) -> None:
    """A switch of cards that has failed leads to a stop, a globalFault and a recovery of nobody."""
    job = scene()
    calls(job, PAUSE, BARE_STOP)
    if killed:
        job.job.step(job.now, Resumed("v"))
    assert calls(job, MachineReset()) == ["restart", "208 Agent/0", "208 Agent/1"]
    assert calls(job, MachineReset(), Subscribed()) == []
    assert notes(job, "stop_forgotten") == 1


@pytest.mark.parametrize(
    "events",
    [
        [PAUSE, GOES_ON, Continued(True)],
        [PAUSE, BARE_STOP, Recovered()],
        [PAUSE, Signal("p", "killMaster", ("killMaster",))],
        [BARE_STOP, Signal("b", "changeStrategy", ("change_strategy",), change_strategy="exit")],
    ],
    ids=["continued", "recovered", "killed", "exit"],
)
def test_a_pause_that_is_over_is_not_ended_again(events: list[Event]) -> None:
    job = scene()
    calls(job, *events)
    assert calls(job, MachineReset(), Subscribed()) == []
    assert notes(job, "stop_forgotten") == 0


def test_a_pause_beside_a_fault_is_ended_by_the_round_of_the_fault() -> None:
    job = scene()
    calls(job, PAUSE, FaultsReported({3: 1}))
    assert calls(job, MachineReset()) == []
    assert reported(job, Subscribed()) == [[3]]
    calls(job, STOP)
    assert calls(job, MachineReset()) == []
    assert reported(job, Subscribed()) == [[3]]


def test_a_new_process_of_the_faulty_rank_leaves_the_pause_to_the_manager() -> None:
    job = scene()
    calls(job, PAUSE, FaultsReported({3: 1}), MachineReset())
    job.register(1, process="next")
    assert calls(job) == ["change_strategy continue", "210 Agent/1"]


def test_a_next_order_ends_what_the_manager_does_itself() -> None:
    job = scene()
    calls(job, PAUSE)
    assert calls(job, MachineReset()) == ["change_strategy continue"]
    assert calls(job, Subscribed(), replace(PAUSE, uuid="q")) == ["stop_train pause"]
    assert calls(job, Continued(False)) == [], "that of the pause before"
    assert said(job.tick(CONTROLLER_S)) == []


def test_a_test_under_way_ends_before_the_training_goes_on() -> None:
    """It runs on the devices of the Workers, for up to ten minutes."""
    job = scene()
    calls(job, PAUSE, CallEnded(("stop_train",)), StressTest({3: (0,)}))
    uuid = job.job.requests["StressTest"].uuid
    assert calls(job, MachineReset()) == []
    job.report("Worker/1/3", "ACTION", 205, '{"rankResult": {}}', stressTestUUID=uuid)
    assert calls(job) == ["change_strategy continue"]


def test_ranks_that_the_stop_does_not_name_are_reported_again_once() -> None:
    job = scene()
    bare = Signal("u", "stopTrain", ("stop_train",))
    assert reported(job, FaultsReported({2: 0, 3: 1}), bare) == [[2, 3]]
    assert reported(job, bare) == []
    assert reported(job, MachineReset(), Subscribed()) == [[2, 3]]
    assert reported(job, Signal("v", "stopTrain", ("stop_train",), {2: 0})) == [[3]], "of another round"
    assert reported(job, Signal("w", "stopTrain", ("stop_train",), {2: 0, 3: 1})) == []


def test_a_report_without_a_stop_is_made_again_over_the_next_stream() -> None:
    job = scene()
    assert reported(job, FaultsReported({3: 2})) == []
    job.take(MachineReset())
    job.take(Subscribed())
    assert [each.ranks for outcome in job.settle() for each in outcome.reports] == [{3: 2}]


def test_ranks_of_an_agents_fault_are_reported_in_3_seconds() -> None:
    job = scene()
    job.fault(1, 3)
    assert settled(job) == []
    assert job.job.wake == pytest.approx(job.now + FAULT_UNREPORTED_S)
    assert after(job, FAULT_UNREPORTED_S) == [[3]]
    assert after(job, 60.0) == []
    assert reported(job, STOP) == []


ANNOUNCED = Signal("p", "preExitProcess", ("pre exit process",), {3: 1}, "", 0, (1,))


@pytest.mark.parametrize("agent", ["dead", "silent"])
def test_ranks_of_a_device_are_reported_3_seconds_after_their_213(agent: str) -> None:
    """ClusterD waits for a report without a limit, and without MindIO nobody has made one."""
    job = scene()
    assert reported(job, ANNOUNCED) == []
    if agent == "dead":
        job.fault(1, 3)
    assert after(job, FAULT_UNREPORTED_S - 0.5) == []
    assert after(job, 0.5) == [[3]]
    assert after(job, 60.0) == []
    assert reported(job, MachineReset(), Subscribed()) == [[3]]


@pytest.mark.parametrize("known", [STOP, FaultsReported({3: 1})], ids=["stopped", "reported"])
def test_ranks_after_their_213_that_clusterd_hears_of_are_not_reported(known: Signal | FaultsReported) -> None:
    job = scene()
    assert reported(job, ANNOUNCED, known) == []
    job.fault(1, 3)
    assert after(job, 60.0) == []


def test_a_next_process_after_the_213_is_not_reported() -> None:
    job = scene()
    assert reported(job, ANNOUNCED) == []
    job.register(1, process="next")
    assert after(job, 60.0) == []


@pytest.mark.parametrize("known", [STOP, FaultsReported({3: 1})], ids=["stopped", "reported"])
def test_a_fault_that_clusterd_knows_is_not_reported(known: Signal | FaultsReported) -> None:
    job = scene()
    job.fault(1, 3)
    reported(job, known)
    assert after(job, 60.0) == []


def test_a_fault_without_a_stream_waits_for_one() -> None:
    job = scene()
    reported(job, MachineReset())
    job.fault(1, 3)
    assert after(job, 60.0) == []
    assert reported(job, Subscribed()) == [[3]]


def test_a_fault_that_a_command_answers_is_not_reported() -> None:
    job = scene()
    job.away.add("Agent/1")
    job.fault(1, 3)
    reported(job, STOP, Signal("u", "globalFault", ("fault_nodes_restart",), {3: 1}, "", 0, (1,)), Recovered())
    assert after(job, 60.0) == []


def test_an_unanswered_fault_beside_a_round_is_reported_after_it() -> None:
    job = scene()
    job.fault(1, 3)
    reported(job, STOP, Recovered())
    job.fault(0, 1, at="1000")
    assert after(job, 10.0) == [[1, 3]]


def test_local_ranks_of_an_original_and_ranks_that_it_does_not_name() -> None:
    for failed, ranks in (((0,), [2]), ((2,), [2]), ((9,), [])):
        job = scene(process="")
        job.fault(1, *failed)
        assert after(job, 60.0) == ([ranks] if ranks else [])
    job = scene()
    job.report("Agent/1", "STATUS", 202, "nonsense")
    assert after(job, 60.0) == [[2, 3]]


def training() -> Scene:
    """Four ranks on two nodes train in epoch 1, and recover in place."""
    made = Scene(replace(CLUSTERD, in_place=True))
    made.register(0, 1, process="p")
    made.settle()
    made.part(epochs.NEW, 0, 1, 2, 3)
    made.settle()
    made.part(epochs.RUNNING, 0, 1, 2, 3, epoch=1)
    assert reported(made, Subscribed()) == []
    return made


def lose_peer(job: Scene, *ranks: int, reason: str = "Connection closed by peer") -> None:
    """Workers leave their epoch."""
    for rank in ranks:
        body = epochs.Part(epochs.LEFT, 1, 4, 2).report(reason)
        job.report(f"Worker/{rank // 2}/{rank}", body.msg_type, body.code, body.message, **body.extension)


@pytest.mark.parametrize("first", ["cause", "consequence"])
def test_ranks_that_have_lost_a_peer_are_held_back_beside_the_cause(first: str) -> None:
    """ClusterD restarts no processes of two pods in place: it replaced every pod."""
    job = training()
    lose_peer(job, 0, 2)
    found = []
    for rank, node in ((3, 1), (0, 0)) if first == "cause" else ((0, 0), (3, 1)):
        job.fault(node, rank, at="1000")
        found += settled(job)
    job.fault(1, 2, 3, at="1001")
    assert found + settled(job) + after(job, 60.0) == [[3]]


def test_the_first_of_ranks_that_have_all_lost_a_peer_is_reported_in_3_seconds() -> None:
    job = training()
    lose_peer(job, 0, 1, 2, 3)
    job.fault(0, 0, at="1001")
    job.fault(1, 3, at="1000")
    assert settled(job) == []
    assert after(job, FAULT_UNREPORTED_S) == [[3]]
    assert after(job, 60.0) == []


@pytest.mark.parametrize(
    ("at", "reason"), [("1006", "Connection closed by peer"), ("1000", epochs.ENDED)], ids=["later", "ordered"]
)
def test_any_other_failure_is_reported(at: str, reason: str) -> None:
    job = training()
    job.fault(1, 3, at="1000")
    assert settled(job) == [[3]]
    lose_peer(job, 0, reason=reason)
    job.fault(0, 0, at=at)
    assert settled(job) == [[0]]


def test_a_stop_that_comes_again_is_compared_once() -> None:
    faults = OpenFaults(ranks={2: 1})
    assert faults.take(STOP) == {2: 1}
    assert faults.take(STOP) == {}
    assert faults.ranks == {2: 1, 3: 1}


@pytest.mark.parametrize("stop", [STOP, PAUSE], ids=["stopped", "paused"])
def test_a_kill_master_leaves_nothing_to_report_also_for_a_launcher(stop: Signal) -> None:
    """A Manager ends its controller besides, which is an answer of its own."""
    faults = OpenFaults()
    faults.take(stop)
    faults.take(Signal("u", "killMaster", ("killMaster",)))
    faults.end()
    assert (faults.strategy, faults.begin()) == ("", {})
