"""The facts of the real ClusterD that its double has, one by one, with a clock of the test."""

from __future__ import annotations

import itertools

import pytest

from taskd_net_lab.clusterd.cluster import Cluster
from taskd_net_lab.clusterd.course import SECONDS, Wait
from taskd_net_lab.clusterd.machine import INNER_ERROR, Device, Machine
from taskd_net_lab.clusterd.messages import (
    Answered,
    Crashed,
    Ended,
    Moved,
    Queue,
    Report,
    Sent,
    Signal,
    Stream,
    Told,
)
from taskd_net_lab.clusterd.round import Job
from taskd_net_lab.clusterd.run import RESETS, resets
from taskd_net_lab.clusterd.table import Event, State

JOB = Job("demo", ("recover", "dump", "exit"), nodes=2, processes=2)
IN_PLACE = Job("demo", ("recover-in-place", "recover", "dump"), nodes=2, processes=2)
RETRY = Job("demo", ("retry", "recover", "dump"), nodes=2, processes=2)
STOPPED = Report(Queue.STOPPED)
OFFER = Report(Queue.STRATEGIES, strategies=("retry", "recover", "dump", "exit"))
WELL = Report(Queue.STATUS)
BEGUN_S = SECONDS[Wait.BEGIN]


class Play:
    """A machine with a client on all streams.

    Attributes:
        now: the time; a step goes on to the next time at which something is due.
    """

    def __init__(self, job: Job = JOB, **arguments: object) -> None:
        numbers = map(str, itertools.count())
        self.machine = Machine(job, lambda: next(numbers), **arguments)  # type: ignore[arg-type]
        self.now = 0.0
        self._calls = itertools.count()
        self.subscribe()
        self.after(BEGUN_S)
        self.machine.decisions.clear()

    def subscribe(self) -> None:
        for stream in Stream:
            self.machine.begin(stream, self.now)

    def after(self, seconds: float) -> None:
        """Let time pass, tick by tick."""
        until = self.now + seconds
        while (wake := self.machine.wake) is not None and wake <= until:
            self.now = wake
            self.machine.tick(wake)
        self.now = until
        self.machine.tick(until)

    def until(self, signal_type: str, most: float = 200.0) -> Signal:
        """The next signal of this type; its time is in `now`."""
        before = len(self.signals(signal_type))
        end = self.now + most
        while len(self.signals(signal_type)) == before:
            wake = self.machine.wake
            assert wake is not None, f"{signal_type} never comes"
            assert wake <= end, f"{signal_type} does not come in {most} s"
            self.now = wake
            self.machine.tick(wake)
        return self.signals(signal_type)[-1]

    def say(self, report: Report) -> int:
        call = next(self._calls)
        self.machine.report(call, report, self.now)
        return call

    def fault(self, *ranks: int, kind: int = 1) -> None:
        self.machine.fault(dict.fromkeys(ranks, kind), self.now)

    def signals(self, signal_type: str = "") -> list[Signal]:
        sent = [each.order for each in self.machine.decisions if isinstance(each, Sent)]
        found = [order for order in sent if isinstance(order, Signal) and order.signal_type != "keep-alive"]
        return [order for order in found if signal_type in ("", order.signal_type)]

    def ended(self) -> list[Stream]:
        return [each.stream for each in self.machine.decisions if isinstance(each, Ended)]

    def answers(self) -> dict[int, int]:
        return {each.call: each.code for each in self.machine.decisions if isinstance(each, Answered)}

    def to_global_fault(self, *ranks: int, kind: int = 1) -> Signal:
        self.fault(*ranks, kind=kind)
        self.until("stopTrain")
        self.say(STOPPED)
        return next(iter(self.signals("globalFault")), None) or self.until("globalFault")


def test_the_end_of_a_round_ends_all_streams() -> None:
    play = Play()
    play.to_global_fault(3)
    play.say(OFFER)
    play.say(WELL)
    assert play.machine.state is State.INIT
    assert play.ended() == []
    play.after(SECONDS[Wait.RESET])
    assert set(play.ended()) == set(Stream)
    assert not any(play.machine.has(stream) for stream in Stream)


def test_resets_are_drawn_from_all_that_the_real_one_takes() -> None:
    drawn = list(itertools.islice(resets(7), 300))
    assert drawn == list(itertools.islice(resets(7), 300)) != list(itertools.islice(resets(8), 300))
    assert 0.04 <= min(drawn) < 0.1 and 5.0 < max(drawn) <= 6.0
    assert all(any(low <= each <= high for low, high in RESETS) for each in drawn)
    assert next(resets(7, 20.0)) == pytest.approx(drawn[0] / 20.0)


def test_drawn_resets_last_as_long_at_the_begin_and_at_the_end() -> None:
    times = [BEGUN_S, 4.0, 2.5]
    play = Play(resets=iter(times))
    play.to_global_fault(3)
    play.say(OFFER)
    play.say(WELL)
    play.after(3.9)
    assert play.ended() == []
    play.after(0.1)
    assert set(play.ended()) == set(Stream)
    play.subscribe()
    play.after(2.4)
    play.fault(3)  # its ranks are lost
    play.machine.decisions.clear()
    assert play.until("stopTrain").fault_ranks == {}


def test_a_second_client_takes_the_streams_from_the_first() -> None:
    play = Play()
    play.after(5)
    play.machine.begin(Stream.SIGNALS, play.now)
    assert set(play.ended()) == set(Stream)
    play.machine.decisions.clear()
    play.machine.begin(Stream.STRESS, play.now)
    play.machine.begin(Stream.STRESS, play.now)
    assert play.ended() == [Stream.STRESS]


@pytest.mark.parametrize("begins", [True, False])
def test_begin_and_end_of_the_signals_reset_it_and_answer_blocked_calls(begins: bool) -> None:
    play = Play()
    play.fault(3)
    play.until("stopTrain")
    calls = [play.say(Report(Queue.STATUS)) for _ in range(2)]
    if begins:
        play.machine.begin(Stream.SIGNALS, play.now)
    else:
        play.machine.end(Stream.SIGNALS, play.now)
    assert play.answers() == dict(zip(calls, (0, INNER_ERROR), strict=True))
    assert play.machine.state is State.INIT
    assert play.machine.has(Stream.SIGNALS) is begins


def test_begin_of_another_stream_resets_nothing() -> None:
    play = Play()
    play.fault(3)
    play.until("stopTrain")
    play.machine.end(Stream.STRESS, play.now)
    play.machine.begin(Stream.STRESS, play.now)
    assert play.machine.state is State.WAIT_REPORT_STOP_COMPLETE


def test_keep_alives_carry_the_uuid_of_the_round_or_none() -> None:
    play = Play()

    def beats() -> list[str]:
        sent = [each.order for each in play.machine.decisions if isinstance(each, Sent)]
        return [each.uuid for each in sent if isinstance(each, Signal) and each.signal_type == "keep-alive"]

    play.after(5)
    assert beats() == [""]
    play.fault(3)
    uuid = play.until("stopTrain").uuid
    play.after(5)
    assert beats() == ["", uuid]


def test_a_report_that_nobody_awaits_any_more_still_counts() -> None:
    play = Play()
    play.say(STOPPED)
    second = play.say(STOPPED)  # the client gives this call up
    play.fault(3)
    play.until("stopTrain")
    assert play.machine.state is State.WAIT_FAULT_FLUSH_FINISHED
    assert play.answers()[second] == 0


@pytest.mark.parametrize("reported", ["before", "within", "after"])
def test_a_report_counts_from_the_end_of_the_reset_on(reported: str) -> None:
    play = Play()
    play.machine.end(Stream.SIGNALS, play.now)
    if reported == "before":
        play.fault(3)
    play.subscribe()
    if reported == "within":
        play.fault(3)
    play.after(BEGUN_S)
    if reported == "after":
        play.fault(3)
    if reported == "before":
        play.after(300)
        assert play.signals() == []
    else:
        play.after(SECONDS[Wait.NOTICE])
        (stop,) = play.signals()
        assert stop.fault_ranks == ({} if reported == "within" else {3: 1})


def test_a_report_in_the_reset_at_the_end_of_a_round_is_wiped() -> None:
    play = Play()
    play.to_global_fault(3)
    play.say(OFFER)
    play.say(WELL)
    play.fault(0)
    play.after(SECONDS[Wait.RESET])
    play.subscribe()
    play.machine.decisions.clear()
    play.after(300)
    assert play.signals() == []


def test_further_reports_join_until_global_fault() -> None:
    play = Play()
    play.fault(3)
    play.until("stopTrain")
    play.fault(0)
    play.say(STOPPED)
    assert play.until("globalFault").node_rank_ids == (0, 1)
    play.fault(1)
    play.say(OFFER)
    assert play.signals()[-1].node_rank_ids == (0, 1)


def test_a_report_that_names_no_rank_begins_a_round_without_any() -> None:
    play = Play()
    play.fault()
    assert play.until("stopTrain").fault_ranks == {}


def test_a_fault_of_a_device_waits_for_the_report_of_its_processes() -> None:
    play = Play()
    play.machine.devices(1, {3: Device.OTHER}, play.now)
    signal = play.until("preExitProcess")
    assert play.now == pytest.approx(BEGUN_S + SECONDS[Wait.PRE_EXIT])
    assert (signal.fault_ranks, signal.node_rank_ids) == ({3: 1}, (1,))
    play.after(3600)
    assert [each.signal_type for each in play.signals()] == ["preExitProcess"]


def test_a_fault_is_given_once_unless_clusterd_is_killed() -> None:
    play = Play()
    play.machine.devices(1, {3: Device.OTHER}, play.now)
    play.until("preExitProcess")
    play.machine.end(Stream.SIGNALS, play.now)
    play.subscribe()
    play.machine.decisions.clear()
    play.after(3600)
    assert play.signals() == []
    new = Play(cluster=play.machine.cluster)
    new.machine.stand(new.now)
    assert new.until("preExitProcess").fault_ranks == {3: 1}


def test_a_memory_fault_that_nobody_reports_counts_as_another_one() -> None:
    play = Play(RETRY)
    play.machine.devices(1, {3: Device.MEMORY}, play.now)
    assert play.until("preExitProcess").fault_ranks == {3: 1}
    assert play.now == pytest.approx(BEGUN_S + SECONDS[Wait.MEMORY])


def test_a_fault_that_the_kube_api_does_not_take_ends_the_round() -> None:
    play = Play()
    play.machine.refuse(play.now)
    assert [(each.signal_type, each.uuid) for each in play.signals()] == [("killMaster", "")]
    play.after(SECONDS[Wait.RESET])
    assert set(play.ended()) == set(Stream)


def test_in_place_names_nodes_in_the_decision_only_and_is_read_five_seconds_later() -> None:
    play = Play(IN_PLACE)
    began = play.now
    fault = play.to_global_fault(3)
    assert (fault.actions, fault.fault_ranks, fault.node_rank_ids) == (
        ("on_global_rank", "fault_nodes_exit"),
        {3: 1},
        (),
    )
    assert play.now - began == pytest.approx(SECONDS[Wait.NOTICE] + 14)
    play.say(OFFER)
    change = play.signals()[-1]
    assert change.actions == ("change_strategy", "fault_nodes_restart")
    assert (change.change_strategy, change.extra_params, change.node_rank_ids) == ("recover", "recover-in-place", (1,))
    play.say(WELL)
    assert play.machine.state == "wait report process recover status"
    play.after(5)
    assert play.machine.state == "init"


@pytest.mark.parametrize("ranks", [(1, 3), (3,)])
def test_faults_of_several_pods_or_of_a_device_are_never_in_place(ranks: tuple[int, ...]) -> None:
    play = Play(IN_PLACE)
    if len(ranks) == 1:
        play.machine.devices(1, {3: Device.OTHER}, play.now)
    play.to_global_fault(*ranks)
    play.say(OFFER)
    assert (play.signals()[-1].change_strategy, play.signals()[-1].extra_params) == ("recover", "")


@pytest.mark.parametrize("seconds", [4.0, 6.0])
def test_an_end_of_the_stream_soon_after_in_place_crashes_it(seconds: float) -> None:
    play = Play(IN_PLACE)
    play.to_global_fault(3)
    play.say(OFFER)
    play.after(seconds)
    play.machine.end(Stream.SIGNALS, play.now)
    assert any(isinstance(each, Crashed) for each in play.machine.decisions) is (seconds < 5)


def test_each_exit_comes_again_with_the_uuid_of_the_round() -> None:
    play = Play(Job("demo", ("exit",), 2, 2))
    uuid = play.to_global_fault(3).uuid
    play.say(OFFER)
    assert play.until("changeStrategy").extra_params == "dump_exit"
    first, again = play.signals("changeStrategy")
    assert (first.change_strategy, first.extra_params) == ("exit", "")
    assert (again.change_strategy, again.uuid, again.node_rank_ids) == ("exit", uuid, (1,))
    assert play.now == pytest.approx(11.35 + 80, abs=0.1)


def test_a_pod_that_does_not_come_ends_in_exit_and_kill_master_of_the_same_uuid() -> None:
    play = Play(JOB, seconds={Wait.SCHEDULE: 30.0})
    play.machine.pod_deleted(1, float("inf"))
    uuid = play.to_global_fault(3).uuid
    play.say(OFFER)
    exit_ = play.until("changeStrategy")
    assert (exit_.change_strategy, exit_.extra_params, exit_.uuid) == ("exit", "dump_exit", uuid)
    began = play.now
    assert play.until("killMaster").uuid == uuid
    assert play.now - began == pytest.approx(135)


def test_a_retry_that_the_client_does_not_offer_is_an_exit_without_ranks() -> None:
    play = Play(RETRY)
    play.to_global_fault(3, kind=0)
    play.say(Report(Queue.STRATEGIES, strategies=("recover", "exit")))
    last = play.signals()[-1]
    assert (last.change_strategy, last.fault_ranks, last.node_rank_ids) == ("exit", {}, ())


def test_a_fault_of_the_network_has_a_time_for_the_stop_and_three_seconds_before_the_retry() -> None:
    play = Play(RETRY)
    assert play.to_global_fault(3, kind=2).timeout == 33
    play.say(OFFER)
    began = play.now
    change = play.until("changeStrategy")
    assert (change.change_strategy, change.node_rank_ids) == ("retry", (1,))
    assert play.now - began == pytest.approx(3)


def test_a_global_fault_comes_after_a_reset_as_a_ghost() -> None:
    play = Play()
    play.fault(3)
    play.until("stopTrain")
    play.say(STOPPED)
    play.after(3)
    play.machine.end(Stream.SIGNALS, play.now)
    play.subscribe()
    play.machine.decisions.clear()
    ghost = play.until("globalFault")
    assert (ghost.uuid, ghost.actions) == ("", ("on_global_rank", "fault_nodes_exit"))
    assert play.machine.state is State.INIT


def test_a_report_that_does_not_come_is_given_up_after_fifteen_minutes() -> None:
    play = Play()
    play.fault(3)
    play.until("stopTrain")
    play.after(899)
    assert play.machine.state is State.WAIT_REPORT_STOP_COMPLETE
    play.after(2)
    assert Moved(State.WAIT_REPORT_STOP_COMPLETE, Event.REPORT_TIMEOUT, State.FAULT_CLEAR) in play.machine.decisions


def test_a_forced_outcome_comes_whatever_is_reported() -> None:
    play = Play(outcomes={State.WAIT_REPORT_STOP_COMPLETE: (Event.PROCESS_NOT_READY,)})
    play.fault(3)
    uuid = play.until("killMaster").uuid
    assert uuid == play.signals("stopTrain")[0].uuid


def test_a_migration_ends_with_0_or_406_alone() -> None:
    play = Play()
    assert play.machine.hot_switch({3: 1}, play.now)
    play.say(Report(Queue.STRATEGIES, strategies=("dump", "migration")))
    play.until("changeStrategy")
    assert {each.uuid for each in play.signals()} == {""}
    play.say(Report(Queue.STATUS, 499))
    play.say(WELL)
    play.after(SECONDS[Wait.REPORT] - 1)
    assert play.machine.state is State.WAIT_REPORT_RESTART_TRAIN_RESULT


@pytest.mark.parametrize("strategies", [(), ("exit",)])
def test_a_hot_switch_without_a_strategy_stops(strategies: tuple[str, ...]) -> None:
    play = Play()
    play.machine.hot_switch({3: 1}, play.now)
    play.say(Report(Queue.STRATEGIES, strategies=strategies))
    play.after(60)
    assert play.machine.state is State.INIT


@pytest.mark.parametrize(("code", "faulty"), [("0", {}), ("1", {}), ("2", {2: 1, 3: 1}), ("3", {3: 1}), ("4", {3: 1})])
def test_results_of_a_stress_test(code: str, faulty: dict[int, int]) -> None:
    play = Play()
    play.machine.stress_test(dict.fromkeys(range(4), (0,)), play.now)
    play.say(STOPPED)
    play.say(Report(Queue.STRESSED, tested={3: (code,)}))
    play.after(SECONDS[Wait.TESTED])
    pause, held, released, last = play.signals()
    assert (pause.actions, held.actions, released.actions) == (
        ("pause_train",),
        ("pause_start_agent",),
        ("continue_start_agent",),
    )
    assert len({pause.uuid, held.uuid, released.uuid}) == 3
    if not faulty:
        assert (last.change_strategy, last.uuid) == ("continue", released.uuid)
        return
    assert (last.actions, last.fault_ranks) == (("stop_train",), faulty)
    play.say(STOPPED)
    play.after(SECONDS[Wait.RESET])
    assert bool(play.ended()) is (code in "34"), "3 and 4 lose the round"


def test_an_operation_that_cannot_pause_releases_nobody() -> None:
    play = Play()
    play.machine.stress_test({0: (0,)}, play.now)
    play.say(Report(Queue.STOPPED, 499))
    assert [each.signal_type for each in play.signals()] == ["stopTrain", "killMaster"]
    (told,) = (each for each in play.machine.decisions if isinstance(each, Told))
    assert told.text == "om failed, pause train failed"


def test_an_operator_gets_one_result_also_where_the_training_does_not_continue() -> None:
    play = Play()
    play.machine.stress_test({0: (0,)}, play.now)
    play.say(STOPPED)
    play.say(Report(Queue.STRESSED, tested={0: ("0",)}))
    play.after(SECONDS[Wait.TESTED])
    play.say(Report(Queue.STATUS, 499))
    assert play.signals()[-1].signal_type == "killMaster"
    assert [each.text for each in play.machine.decisions if isinstance(each, Told)] == ["stress test finish"]


def test_a_switch_of_cards_that_fails_names_no_rank() -> None:
    play = Play()
    assert play.machine.switch_cards((0,), (True,), play.now)
    play.say(STOPPED)
    play.say(Report(Queue.SWITCHED, done=False))
    stop = play.signals()[-1]
    assert (stop.actions, stop.fault_ranks) == (("stop_train",), {})


def test_an_operator_learns_the_end_of_an_operation() -> None:
    play = Play()
    assert play.machine.switch_cards((0,), (True,), play.now)
    for report in (STOPPED, Report(Queue.SWITCHED), WELL):
        play.say(report)
    (told,) = (each for each in play.machine.decisions if isinstance(each, Told))
    assert told.text == "switch nic finish"


def test_an_operation_is_refused_while_the_job_is_busy_and_taken_in_vain_in_a_reset() -> None:
    play = Play()
    play.to_global_fault(3)
    assert not play.machine.switch_cards((0,), (True,), play.now)
    assert not play.machine.stress_test({0: (0,)}, play.now)
    assert not play.machine.hot_switch({0: 1}, play.now)
    play.say(OFFER)
    play.say(WELL)
    assert play.machine.switch_cards((0,), (True,), play.now)
    assert play.machine.state is State.INIT


def test_without_a_subscriber_nothing_begins() -> None:
    machine = Machine(JOB, lambda: "uuid", cluster=Cluster())
    machine.fault({3: 1}, 0.0)
    assert machine.wake is None
