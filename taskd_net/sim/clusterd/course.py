"""The work of each state: an order to write, a report to wait for, a time to pass, or a decision at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from taskd_net.sim.clusterd import round as strategies
from taskd_net.sim.clusterd.messages import Operation, Order, Queue, Report, Signal, StressOrder, SwitchOrder
from taskd_net.sim.clusterd.round import Round
from taskd_net.sim.clusterd.table import Event, State

KILL_MASTER: Final = "killMaster"
KEEP_ALIVE: Final = "keep-alive"
PAUSE_TIMEOUT_S: Final = 900
"""Seconds that a stress test may take, as the client gets them."""


class Wait(StrEnum):
    """Times that a scenario can set."""

    REPORT = "report"
    FLUSH = "flush"
    POD = "pod"
    OLD_POD = "old_pod"
    NEW_POD = "new_pod"
    PODS = "pods"
    RESTART = "restart"


SECONDS: Final[Mapping[Wait, float]] = {
    Wait.REPORT: 900.0,
    Wait.FLUSH: 1.0,
    Wait.POD: 5.0,
    Wait.OLD_POD: 5.0,
    Wait.NEW_POD: 60.0,
    Wait.PODS: 20.0,
    Wait.RESTART: 60.0,
}
"""Seconds by default: a report at most; the flush of faults; one pod's start; its end; a new pod at most; all pods of a
job; a restart of all processes."""

DUE: Final[Mapping[Event, Wait]] = {
    Event.REPORT_TIMEOUT: Wait.REPORT,
    Event.FAULT_FLUSH_FINISHED: Wait.FLUSH,
    Event.NEW_POD_RUNNING: Wait.POD,
    Event.OLD_POD_DELETED: Wait.OLD_POD,
    Event.NEW_POD_TIMEOUT: Wait.NEW_POD,
    Event.SCHEDULE_SUCCESS: Wait.PODS,
    Event.SCHEDULE_TIMEOUT: Wait.PODS,
    Event.RESTART_PROCESS_FINISH: Wait.RESTART,
}
"""Events that come with the time."""


@dataclass(frozen=True, slots=True)
class Write:
    """An order to the client.

    Args:
        order: makes it; an event instead of it is the state's outcome, and nothing is written.
        success: the event once it is written.
        after: time before it.
    """

    order: Callable[[Round], Order | Event]
    success: Callable[[Round], Event] = lambda _: Event.NOTIFY_SUCCESS
    after: Wait | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """A report of the client, or `report timeout`.

    Args:
        readers: for each queue that is read, the event that follows from a report; None to read on.
    """

    readers: Mapping[Queue, Callable[[Round, Report], Event | None]]


@dataclass(frozen=True, slots=True)
class Pass:
    """An event of the platform: at once, or after the time in `DUE`."""

    event: Callable[[Round], Event]


Step = Write | Read | Pass


# ---- orders


def _signal(round_: Round, signal_type: str, *actions: str, timeout: int = 0, faults: bool = False) -> Signal:
    ranks = round_.ranks_lost if faults else {}
    return Signal(round_.uuid, signal_type, actions, ranks, timeout=timeout)


def _change(round_: Round, strategy: str, extra: str = "") -> Signal:
    return Signal(round_.uuid, "changeStrategy", ("change_strategy",), change_strategy=strategy, extra_params=extra)


def _pause_train(round_: Round) -> Order:
    return _signal(
        round_,
        "stopTrain",
        "pause_train",
        timeout=PAUSE_TIMEOUT_S if round_.operation is Operation.STRESS else 0,
    )


def _stop_train(round_: Round) -> Order:
    return Signal(round_.uuid, "stopTrain", ("stop_train",), dict(round_.faults))


def _node_actions(round_: Round) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Actions for the nodes of the faulty ranks, and these nodes."""
    return ("fault_nodes_restart" if round_.restarts else "fault_nodes_exit",), round_.nodes


def _global_fault(round_: Round) -> Order:
    actions, nodes = ((), ()) if round_.retryable else _node_actions(round_)
    ranks = round_.ranks_lost
    return Signal(round_.uuid, "globalFault", ("on_global_rank", *actions), ranks, node_rank_ids=nodes)


def _decide(round_: Round) -> Order:
    strategy = round_.choose()
    before = round_.strategy
    ranks = round_.ranks_lost
    round_.decided.append(strategy)
    if strategy != strategies.IN_PLACE and strategy != strategies.RETRY:
        round_.in_place = False
        ranks = round_.ranks_lost
    actions, nodes = ((), ()) if strategy == strategies.RETRY else _node_actions(round_)
    extra = {
        strategies.IN_PLACE: strategies.IN_PLACE,
        strategies.DOWNGRADE: '{"scale-in-strategy": "DP"}',
        strategies.EXIT: "dump_exit" if before == strategies.DUMP else "",
    }.get(strategy, "")
    return Signal(
        round_.uuid,
        "changeStrategy",
        ("change_strategy", *actions),
        ranks,
        change_strategy=strategies.RECOVER if strategy == strategies.IN_PLACE else strategy,
        node_rank_ids=nodes,
        extra_params=extra,
    )


_DECIDED: Final = {
    strategies.RETRY: Event.NOTIFY_RETRY_SUCCESS,
    strategies.IN_PLACE: Event.NOTIFY_RECOVER_SUCCESS,
    strategies.RECOVER: Event.NOTIFY_RECOVER_SUCCESS,
    strategies.DOWNGRADE: Event.NOTIFY_SCALE_IN_STRATEGY_SUCCESS,
    strategies.DUMP: Event.NOTIFY_DUMP_SUCCESS,
    strategies.EXIT: Event.NOTIFY_EXIT_SUCCESS,
}


def _dump(round_: Round) -> Order:
    round_.decided.append(strategies.DUMP)
    return _signal(round_, "saveAndExit", "save_and_exit", faults=True)


def _scale_in(round_: Round) -> Order:
    round_.decided.append(strategies.DOWNGRADE)
    return _change(round_, strategies.DOWNGRADE, '{"scale-in-strategy": "DP"}')


def _scale_out(round_: Round) -> Order:
    round_.decided.append(strategies.UPGRADE)
    return _change(round_, strategies.UPGRADE)


def _isolate(round_: Round) -> Order | Event:
    if round_.status is None or round_.code != strategies.ISOLATE:
        _strike_recoveries(round_)
        return Event.RECOVER_FAIL
    nodes = tuple(sorted({round_.job.node_of(rank) for rank in round_.status.isolate}))
    return Signal(round_.uuid, "faultNodesExit", ("fault_nodes_exit",), round_.ranks_lost, node_rank_ids=nodes)


def _stress_order(round_: Round) -> Order:
    return StressOrder(round_.tests)


def _switch_order(round_: Round) -> Order:
    return SwitchOrder(round_.ranks, round_.ops)


# ---- reports


def _paused(round_: Round, report: Report) -> Event:
    if report.code == strategies.CLIENT_ERROR:
        return Event.PROCESS_PAUSE_FAIL
    return Event.STRESS_TEST_RECV_PAUSE if round_.operation is Operation.STRESS else Event.SWITCH_NIC_RECV_PAUSE


def _continued(round_: Round, report: Report) -> Event:
    if report.code == strategies.CLIENT_ERROR:
        return Event.CONTINUE_TRAIN_FAIL
    return Event.STRESS_TEST_RECV_CONTINUE if round_.operation is Operation.STRESS else Event.SWITCH_NIC_RECV_CONTINUE


def _tested(round_: Round, report: Report) -> Event:
    round_.faults.update(dict.fromkeys(report.faulty, strategies.OTHER))
    return Event.STRESS_TEST_FAIL if report.faulty else Event.RECEIVE_REPORT


def _switched(round_: Round, report: Report) -> Event:
    if report.done:
        return Event.RECEIVE_REPORT
    round_.faults.update(dict.fromkeys(round_.ranks, strategies.OTHER))
    return Event.SWITCH_NIC_FAIL


def _fault_while_switching(round_: Round, report: Report) -> Event | None:
    if report.code != strategies.UNRECOVERABLE:
        return None
    round_.faults.update(dict.fromkeys(round_.ranks, strategies.OTHER))
    return Event.WAIT_SWITCH_NIC_RECV_FAULT


def _stopped(_: Round, report: Report) -> Event:
    return Event.PROCESS_NOT_READY if report.code == strategies.NOT_READY else Event.RECEIVE_REPORT


def _offered(round_: Round, report: Report) -> Event:
    round_.offered = report.strategies
    return Event.RECEIVE_REPORT


def _moved_out(round_: Round, report: Report) -> Event:
    return Event.MIGRATION if report.strategies[:1] == ("migration",) else Event.EXIT


def _restarted(_: Round, report: Report) -> Event | None:
    return {0: Event.RESTART_SUCCESS, strategies.UNRECOVERABLE: Event.RESTART_FAILED}.get(report.code)


def _status(round_: Round, report: Report) -> Event:
    round_.status = report
    return Event.RECEIVE_REPORT


# ---- decisions of the platform


def _strike_recoveries(round_: Round) -> None:
    round_.strike(strategies.RETRY, strategies.IN_PLACE, strategies.RECOVER, strategies.DOWNGRADE)


def _check(round_: Round) -> Event:
    ok, strategy = round_.code == 0, round_.strategy
    if strategy == strategies.EXIT:
        return Event.CHECK_RESULT_FINISH
    if strategy == strategies.RETRY and not ok:
        if round_.code == strategies.RECOVERABLE:
            return Event.RECOVERABLE_RETRY_ERROR
        round_.strike(strategies.IN_PLACE, strategies.RECOVER)
        if round_.code == strategies.CLIENT_ERROR:
            round_.strike(strategies.DUMP)
        return Event.UN_RECOVERABLE_RETRY_ERROR
    if strategy == strategies.DUMP:
        round_.strike(*strategies.STRATEGIES)
        return Event.RECOVER_FAIL
    if not ok:
        _strike_recoveries(round_)
        return Event.RECOVER_FAIL
    return {
        strategies.DOWNGRADE: Event.SCALE_IN_SUCCESS,
        strategies.UPGRADE: Event.SCALE_OUT_SUCCESS,
    }.get(strategy, Event.RECOVER_SUCCESS)


def _flush(round_: Round) -> Event:
    return Event.DUMP_FOR_FAULT if round_.saves_only else Event.NOTIFY_FINISH


def _always(event: Event) -> Pass:
    return Pass(lambda _: event)


STEPS: Final[Mapping[State, Step]] = {
    State.NOTIFY_WAIT_FAULT_FLUSHING: Pass(_flush),
    State.NOTIFY_STOP_TRAIN: Write(_stop_train),
    State.WAIT_REPORT_STOP_COMPLETE: Read({Queue.STOPPED: _stopped}),
    State.WAIT_FAULT_FLUSH_FINISHED: _always(Event.FAULT_FLUSH_FINISHED),
    State.NOTIFY_GLOBAL_FAULT: Write(_global_fault),
    State.WAIT_REPORT_RECOVER_STRATEGY: Read({Queue.STRATEGIES: _offered}),
    State.NOTIFY_DECIDED_STRATEGY: Write(_decide, lambda round_: _DECIDED[round_.strategy]),
    State.WAIT_REPORT_STEP_RETRY_STATUS: Read({Queue.STATUS: _status}),
    State.WAIT_REPORT_PROCESS_RECOVER_STATUS: Read({Queue.STATUS: _status}),
    State.NOTIFY_DUMP: Write(_dump),
    State.WAIT_REPORT_DUMP_STATUS: Read({Queue.STATUS: _status}),
    State.CHECK_RECOVER_RESULT: Pass(_check),
    State.KILL_POD_FOR_UNRECOVERABLE_RETRY: _always(Event.FINISH_KILL_POD),
    State.LISTEN_SCHEDULE_RESULT: _always(Event.SCHEDULE_SUCCESS),
    State.NOTIFY_RESTART_ALL_PROCESS: _always(Event.NOTIFY_SUCCESS),
    State.WAIT_RESTART_ALL_PROCESS: _always(Event.RESTART_PROCESS_FINISH),
    State.FAULT_CLEAR: _always(Event.CLEAR_CONFIG_MAP_FAULT_SUCCESS),
    State.FAULT_RETRY: _always(Event.FINISH),
    State.NOTIFY_KILL_JOB: Write(lambda round_: _signal(round_, KILL_MASTER), lambda _: Event.FINISH),
    # ---- with fewer nodes, and with all again
    State.NOTIFY_SCALE_IN_STRATEGY: Write(_scale_in, lambda _: Event.NOTIFY_SCALE_IN_STRATEGY_SUCCESS),
    State.WAIT_REPORT_SCALE_IN_ISOLATE_RANKS: Read({Queue.STATUS: _status}),
    State.CHECK_REPORT_SCALE_IN_ISOLATE_RANKS: Write(_isolate, lambda _: Event.NOTIFY_FAULT_NODES_EXIT_SUCCESS),
    State.WAIT_REPORT_SCALE_IN_STATUS: Read({Queue.STATUS: _status}),
    State.SCALE_IN_RUNNING: Write(_scale_out, lambda _: Event.NOTIFY_SCALE_OUT_STRATEGY_SUCCESS, after=Wait.PODS),
    State.WAIT_REPORT_SCALE_OUT_STATUS: Read({Queue.STATUS: _status}),
    # ---- operations that pause the training
    State.NOTIFY_PAUSE_TRAIN: Write(_pause_train),
    State.WAIT_REPORT_PAUSE_COMPLETE: Read({Queue.STOPPED: _paused}),
    State.NOTIFY_STRESS_TEST: Write(_stress_order),
    State.WAIT_STRESS_TEST_FINISHED: Read({Queue.STRESSED: _tested}),
    State.NOTIFY_SWITCH_NIC: Write(_switch_order),
    State.WAIT_SWITCH_NIC_FINISHED: Read({Queue.SWITCHED: _switched, Queue.STATUS: _fault_while_switching}),
    State.NOTIFY_CONTINUE_TRAIN: Write(
        lambda round_: _change(round_, "continue"), lambda _: Event.NOTIFY_CONTINUE_SUCCESS
    ),
    State.WAIT_CONTINUE_TRAIN: Read({Queue.STATUS: _continued}),
    # ---- hot switch
    State.NOTIFY_PREPARE_HOT_SWITCH: Write(lambda round_: _signal(round_, "hot-switch", "hot switch", faults=True)),
    State.WAIT_NEW_POD: _always(Event.NEW_POD_RUNNING),
    State.WAIT_NOTIFY_POD_RUNNING_RESULT: Write(lambda round_: _signal(round_, "hot-switch", "new pod running")),
    State.WAIT_NOTIFY_POD_FAILED_RESULT: Write(lambda round_: _signal(round_, "hot-switch", "stop switch")),
    State.WAIT_REPORT_PAUSE_RESULT: Read({Queue.STRATEGIES: _moved_out}),
    State.WAIT_OLD_POD_DELETED: _always(Event.OLD_POD_DELETED),
    State.WAIT_NOTIFY_RESTART_TRAIN_RESULT: Write(lambda round_: _change(round_, "migration")),
    State.WAIT_REPORT_RESTART_TRAIN_RESULT: Read({Queue.STATUS: _restarted}),
    State.NOTIFY_STOP_JOB: _always(Event.NOTIFY_SUCCESS),
}
