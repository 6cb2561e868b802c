from __future__ import annotations

import itertools

import pytest

from taskd_net.sim.clusterd.machine import INNER_ERROR, KEEP_ALIVE_S, Machine
from taskd_net.sim.clusterd.messages import Answered, Moved, Queue, Report, Sent, Signal, Stream, Told
from taskd_net.sim.clusterd.round import Job
from taskd_net.sim.clusterd.table import Event, State

JOB = Job("demo", ("recover", "dump", "exit"), nodes=2, processes=2)
STOPPED = Report(Queue.STOPPED)


@pytest.fixture
def machine() -> Machine:
    numbers = map(str, itertools.count())
    machine = Machine(JOB, lambda: next(numbers))
    machine.begin(Stream.SIGNALS, 0.0)
    machine.decisions.clear()
    return machine


def signals(machine: Machine) -> list[Signal]:
    return [each.order for each in machine.decisions if isinstance(each, Sent) and isinstance(each.order, Signal)]


def answers(machine: Machine) -> dict[int, int]:
    return {each.call: each.code for each in machine.decisions if isinstance(each, Answered)}


def test_a_fault_names_the_ranks_of_its_node_once_the_training_has_stopped(machine: Machine) -> None:
    machine.fault({3: 1}, 0.0)
    machine.report(1, STOPPED, 0.0)
    machine.tick(1.0)
    stop, fault = signals(machine)
    assert (stop.signal_type, stop.actions, stop.fault_ranks) == ("stopTrain", ("stop_train",), {3: 1})
    assert (fault.signal_type, fault.actions) == ("globalFault", ("on_global_rank", "fault_nodes_exit"))
    assert (fault.fault_ranks, fault.node_rank_ids) == ({2: 1, 3: 1}, (1,))
    assert stop.uuid == fault.uuid


def test_keep_alives_have_uuids_of_their_own(machine: Machine) -> None:
    for beat in range(1, 4):
        assert machine.wake == beat * KEEP_ALIVE_S
        machine.tick(beat * KEEP_ALIVE_S)
    assert [each.signal_type for each in signals(machine)] == ["keep-alive"] * 3
    assert len({each.uuid for each in signals(machine)}) == 3


def test_an_early_report_waits_and_a_second_one_blocks_until_the_first_is_read(machine: Machine) -> None:
    machine.report(1, STOPPED, 0.0)
    machine.report(2, STOPPED, 0.0)
    assert answers(machine) == {1: 0}
    machine.fault({3: 1}, 0.0)
    assert machine.state is State.WAIT_FAULT_FLUSH_FINISHED
    assert answers(machine) == {1: 0, 2: 0}


@pytest.mark.parametrize("begins", [True, False])
def test_begin_and_end_of_the_signals_reset_it_and_answer_blocked_calls(machine: Machine, begins: bool) -> None:
    machine.fault({3: 1}, 0.0)
    for call in (1, 2, 3):
        machine.report(call, Report(Queue.STATUS), 0.0)
    machine.cancelled(3)
    if begins:
        machine.begin(Stream.SIGNALS, 1.0)
    else:
        machine.end(Stream.SIGNALS)
    assert answers(machine) == {1: 0, 2: INNER_ERROR}
    assert machine.state is State.INIT
    assert machine.wake == (1.0 + KEEP_ALIVE_S if begins else None)


def test_begin_of_another_stream_resets_nothing(machine: Machine) -> None:
    machine.fault({3: 1}, 0.0)
    machine.begin(Stream.STRESS, 1.0)
    machine.end(Stream.STRESS)
    assert machine.state is State.WAIT_REPORT_STOP_COMPLETE


def test_a_report_that_does_not_come_is_given_up_after_fifteen_minutes(machine: Machine) -> None:
    machine.fault({3: 1}, 0.0)
    machine.tick(899.9)
    assert machine.state is State.WAIT_REPORT_STOP_COMPLETE
    machine.tick(900.0)
    assert Moved(State.WAIT_REPORT_STOP_COMPLETE, Event.REPORT_TIMEOUT, State.FAULT_CLEAR) in machine.decisions


def test_a_forced_outcome_comes_whatever_is_reported() -> None:
    outcomes = {State.WAIT_REPORT_STOP_COMPLETE: (Event.REPORT_TIMEOUT,)}
    machine = Machine(JOB, lambda: "uuid", outcomes=outcomes)
    machine.begin(Stream.SIGNALS, 0.0)
    machine.fault({3: 1}, 0.0)
    machine.report(1, STOPPED, 0.0)
    assert machine.state == "wait report stop complete"
    machine.tick(900.0)
    assert machine.state == "init"


def test_a_fault_during_a_recovery_joins_it(machine: Machine) -> None:
    machine.fault({3: 1}, 0.0)
    machine.fault({0: 1}, 0.0)
    machine.report(1, STOPPED, 0.0)
    machine.tick(1.0)
    assert signals(machine)[-1].node_rank_ids == (0, 1)


def test_an_operation_is_refused_while_the_job_is_busy(machine: Machine) -> None:
    machine.fault({3: 1}, 0.0)
    assert not machine.switch_cards((0,), (True,), 0.0)
    assert not machine.stress_test({0: (0,)}, 0.0)
    assert not machine.hot_switch({0: 1}, 0.0)


def test_an_operator_learns_the_end_of_an_operation(machine: Machine) -> None:
    machine.begin(Stream.SWITCH, 0.0)
    assert machine.switch_cards((0,), (True,), 0.0)
    for call, report in enumerate((STOPPED, Report(Queue.SWITCHED), Report(Queue.STATUS))):
        machine.report(call, report, 0.0)
    (told,) = (each for each in machine.decisions if isinstance(each, Told))
    assert told.text == "switch nic finished"


def test_without_a_subscriber_writing_fails() -> None:
    machine = Machine(JOB, lambda: "uuid")
    machine.fault({3: 1}, 0.0)
    assert Moved(State.NOTIFY_STOP_TRAIN, Event.NOTIFY_FAIL, State.FAULT_CLEAR) in machine.decisions
    assert machine.state is State.INIT
