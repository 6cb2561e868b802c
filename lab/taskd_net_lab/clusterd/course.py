"""The work of each state: an order to write, a report to wait for, a time to pass, or a decision at once."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from taskd_net_lab.clusterd import round as strategies
from taskd_net_lab.clusterd.cluster import Cluster
from taskd_net_lab.clusterd.messages import Operation, Order, Queue, Report, Signal, StressOrder, SwitchOrder
from taskd_net_lab.clusterd.round import Round
from taskd_net_lab.clusterd.table import Event, State

KILL_MASTER: Final = "killMaster"
KEEP_ALIVE: Final = "keep-alive"
PAUSE_TIMEOUT_S: Final = 900
"""Seconds that a stress test may take, as the client gets them."""

NETWORK_TIMEOUT_S: Final = 33
"""Seconds that a client has to stop all ranks after a fault of the network."""

SCALE_IN: Final = '{"scale-in-strategy": "DP"}'
SCALE_OUT: Final = '{"scale-out-strategy": "DP"}'
DUMP_EXIT: Final = "dump_exit"


class Wait(StrEnum):
    """Times that a scenario can set."""

    NOTICE = "notice"
    CENTRE = "centre"
    FILTER = "filter"
    PRE_EXIT = "pre_exit"
    MEMORY = "memory"
    NODE = "node"
    SUB_HEALTH = "sub_health"
    FLUSH = "flush"
    RELEASE = "release"
    IN_PLACE = "in_place"
    NETWORK = "network"
    READ = "read"
    TESTED = "tested"
    POLL = "poll"
    SETTLE = "settle"
    RETRY = "retry"
    SCHEDULE = "schedule"
    RESET = "reset"
    MOVED = "moved"
    BEGIN = "begin"
    REFUSED = "refused"
    REPORT = "report"
    NEW_POD = "new_pod"
    RESTART = "restart"
    KEEP_ALIVE = "keep_alive"
    CRASH = "crash"
    POD = "pod"
    OLD_POD = "old_pod"
    PODS = "pods"


SECONDS: Final[Mapping[Wait, float]] = {
    Wait.NOTICE: 0.25,
    Wait.CENTRE: 0.5,
    Wait.FILTER: 4.7,
    Wait.PRE_EXIT: 15.5,
    Wait.MEMORY: 21.0,
    Wait.NODE: 10.6,
    Wait.SUB_HEALTH: 5.8,
    Wait.FLUSH: 1.0,
    Wait.RELEASE: 10.0,
    Wait.IN_PLACE: 13.0,
    Wait.NETWORK: 3.0,
    Wait.READ: 5.0,
    Wait.TESTED: 1.5,
    Wait.POLL: 5.0,
    Wait.SETTLE: 20.0,
    Wait.RETRY: 135.0,
    Wait.SCHEDULE: 270.0,
    Wait.RESET: 0.75,
    Wait.MOVED: 2.0,
    Wait.BEGIN: 0.1,
    Wait.REFUSED: 6.0,
    Wait.REPORT: 900.0,
    Wait.NEW_POD: 60.0,
    Wait.RESTART: 60.0,
    Wait.KEEP_ALIVE: 5.0,
    Wait.CRASH: 5.0,
    Wait.POD: 5.0,
    Wait.OLD_POD: 5.0,
    Wait.PODS: 20.0,
}
"""Seconds by default, as measured of ClusterD 26.1.0. docs/clusterd-sim.md says what each is for."""


DUE: Final[Mapping[Event, Wait]] = {
    Event.REPORT_TIMEOUT: Wait.REPORT,
    Event.FAULT_FLUSH_FINISHED: Wait.FLUSH,
    Event.NEW_POD_TIMEOUT: Wait.NEW_POD,
    Event.OLD_POD_DELETED: Wait.OLD_POD,
    Event.RESTART_PROCESS_FINISH: Wait.RESTART,
    Event.SCHEDULE_TIMEOUT: Wait.SCHEDULE,
}
"""Events that come with the time."""

Times = tuple[Wait, ...]


def _at_once(_: Round) -> Times:
    return ()


@dataclass(frozen=True, slots=True)
class Write:
    """An order to the client.

    Args:
        order: makes it. An event instead of it is the state's outcome, and nothing is written; with None the machine
            stands for ever.
        success: the event once it is written.
        after: times before it, one after the other.
        fails: the state fails where nobody takes the order.
    """

    order: Callable[[Round], Order | Event | None]
    success: Callable[[Round], Event] = lambda _: Event.NOTIFY_SUCCESS
    after: Callable[[Round], Times] = _at_once
    fails: bool = True


@dataclass(frozen=True, slots=True)
class Read:
    """A report of the client, or `report timeout`.

    Args:
        readers: for each queue that is read, the event that follows from a report; None to read on.
        after: times before anything is read.
    """

    readers: Mapping[Queue, Callable[[Round, Report], Event | None]]
    after: Callable[[Round], Times] = _at_once


@dataclass(frozen=True, slots=True)
class Pass:
    """An event of the platform.

    Args:
        event: makes it.
        after: times before it.
    """

    event: Callable[[Round], Event]
    after: Callable[[Round], Times] = _at_once


@dataclass(frozen=True, slots=True)
class Watch:
    """A look at the pods every `Wait.POLL` seconds, until it has a result.

    Args:
        look: from the cluster, the seconds since the state began, and the times; None to look again.
        order: written first.
    """

    look: Callable[[Cluster, float, Mapping[Wait, float]], Event | None]
    order: Callable[[Round], Order] | None = None


Step = Write | Read | Pass | Watch


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


def _before_global_fault(round_: Round) -> Times:
    """The release of the faulty devices. ClusterD sleeps through it, also where the round is given up meanwhile."""
    if round_.retryable:
        return ()
    return (Wait.IN_PLACE,) if round_.restarts else (Wait.RELEASE,)


def _global_fault(round_: Round) -> Order:
    if round_.retryable:
        timeout = NETWORK_TIMEOUT_S if round_.of_network else 0
        return Signal(round_.uuid, "globalFault", ("on_global_rank",), round_.ranks_lost, timeout=timeout)
    nodes = () if round_.restarts else round_.present
    actions = ("on_global_rank", "fault_nodes_exit")
    return Signal(round_.uuid, "globalFault", actions, round_.ranks_lost, node_rank_ids=nodes)


def _before_decision(round_: Round) -> Times:
    return (Wait.NETWORK,) if round_.of_network and strategies.RETRY in round_.offered else ()


def _decide(round_: Round) -> Order:
    retryable, before = round_.retryable, round_.strategy
    strategy, faults = round_.choose(), dict(round_.faults)
    round_.decided.append(strategy)
    actions: tuple[str, ...] = ("change_strategy",)
    ranks, nodes = faults, round_.nodes
    if strategy == strategies.IN_PLACE:
        actions += ("fault_nodes_restart",)
    elif strategy != strategies.RETRY:
        round_.in_place = False
        ranks = round_.ranks_lost
        if before == strategies.IN_PLACE:
            actions += ("fault_nodes_exit",)
        if strategy == strategies.RECOVER:
            nodes = round_.present
        if strategy == strategies.EXIT and retryable:
            round_.bare, ranks, nodes = True, {}, ()
    return Signal(
        round_.uuid,
        "changeStrategy",
        actions,
        ranks,
        change_strategy=strategies.RECOVER if strategy == strategies.IN_PLACE else strategy,
        node_rank_ids=nodes,
        extra_params={strategies.IN_PLACE: strategies.IN_PLACE, strategies.DOWNGRADE: SCALE_IN}.get(strategy, ""),
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
    return Signal(round_.uuid, "saveAndExit", ("save_and_exit",), node_rank_ids=round_.nodes)


def _scale_in(round_: Round) -> Order:
    round_.decided.append(strategies.DOWNGRADE)
    return _change(round_, strategies.DOWNGRADE, SCALE_IN)


def _scale_out(round_: Round) -> Order:
    round_.decided.append(strategies.UPGRADE)
    return _change(round_, strategies.UPGRADE, SCALE_OUT)


def _exit_again(round_: Round) -> Order:
    """The `exit` after a dump, and at the end of each round that cleared its faults."""
    nodes = () if round_.bare else round_.nodes
    return Signal(
        round_.uuid,
        "changeStrategy",
        ("change_strategy",),
        change_strategy=strategies.EXIT,
        node_rank_ids=nodes,
        extra_params=DUMP_EXIT,
    )


def _isolate(round_: Round) -> Order | Event | None:
    if round_.code == 0:
        return None
    if round_.status is None or round_.code != strategies.ISOLATE:
        _strike_recoveries(round_)
        return Event.RECOVER_FAIL
    left_out = {round_.job.node_of(rank) for rank in round_.status.isolate}
    nodes = tuple(sorted(left_out.difference(round_.nodes)))
    return Signal(round_.uuid, "faultNodesExit", ("fault_nodes_exit",), node_rank_ids=nodes)


def _stress_order(round_: Round) -> Order:
    return StressOrder(round_.tests)


def _switch_order(round_: Round) -> Order:
    return SwitchOrder(round_.ranks, round_.ops)


def _paused(round_: Round, report: Report) -> Event:
    if report.code == strategies.CLIENT_ERROR:
        return Event.PROCESS_PAUSE_FAIL
    return Event.STRESS_TEST_RECV_PAUSE if round_.operation is Operation.STRESS else Event.SWITCH_NIC_RECV_PAUSE


def _continued(round_: Round, report: Report) -> Event:
    if report.code == strategies.CLIENT_ERROR:
        return Event.CONTINUE_TRAIN_FAIL
    return Event.STRESS_TEST_RECV_CONTINUE if round_.operation is Operation.STRESS else Event.SWITCH_NIC_RECV_CONTINUE


def _tested(round_: Round, report: Report) -> Event:
    """The result of a stress test: 2 is a fault of the node, 3 and 4 of the rank. With 1 the training goes on."""
    broken = [rank for rank, codes in report.tested.items() if "2" in codes]
    slow = [rank for rank, codes in report.tested.items() if {"3", "4"}.intersection(codes)]
    round_.faults = dict.fromkeys(itertools.chain(round_.job.neighbours(broken), slow), strategies.OTHER)
    round_.lost = round_.job.loses and bool(slow)
    return Event.STRESS_TEST_FAIL if round_.faults else Event.RECEIVE_REPORT


def _switched(_: Round, report: Report) -> Event:
    return Event.RECEIVE_REPORT if report.done else Event.SWITCH_NIC_FAIL


def _fault_while_switching(_: Round, report: Report) -> Event | None:
    return Event.WAIT_SWITCH_NIC_RECV_FAULT if report.code == strategies.UNRECOVERABLE else None


def _ignored(_: Round, __: Report) -> None:
    """Take a report without a consequence."""


def _stopped(_: Round, report: Report) -> Event:
    return Event.PROCESS_NOT_READY if report.code == strategies.NOT_READY else Event.RECEIVE_REPORT


def _offered(round_: Round, report: Report) -> Event:
    round_.offered = report.strategies
    return Event.RECEIVE_REPORT


def _moved_out(_: Round, report: Report) -> Event:
    return Event.EXIT if report.strategies in ((), (strategies.EXIT,)) else Event.MIGRATION


def _restarted(round_: Round, report: Report) -> Event | None:
    """The result of a migration. Another code than 0 and 406 is taken, and nothing is read after it."""
    if round_.status is not None:
        return None
    round_.status = report
    return {0: Event.RESTART_SUCCESS, strategies.UNRECOVERABLE: Event.RESTART_FAILED}.get(report.code)


def _status(round_: Round, report: Report) -> Event:
    round_.status = report
    return Event.RECEIVE_REPORT


def _strike_recoveries(round_: Round) -> None:
    round_.strike(strategies.RETRY, strategies.IN_PLACE, strategies.RECOVER, strategies.DOWNGRADE)


def _check(round_: Round) -> Order | Event:
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
        return _exit_again(round_)
    if not ok:
        _strike_recoveries(round_)
        return Event.RECOVER_FAIL
    return {
        strategies.DOWNGRADE: Event.SCALE_IN_SUCCESS,
        strategies.UPGRADE: Event.SCALE_OUT_SUCCESS,
    }.get(strategy, Event.RECOVER_SUCCESS)


def _flush(round_: Round) -> Event:
    return Event.DUMP_FOR_FAULT if round_.saves_only else Event.NOTIFY_FINISH


def _scheduled(cluster: Cluster, since: float, seconds: Mapping[Wait, float]) -> Event | None:
    """All pods run again. Where none has been replaced, ClusterD believes it after a while."""
    if cluster.absent:
        return Event.SCHEDULE_TIMEOUT if since >= seconds[Wait.SCHEDULE] else None
    return Event.SCHEDULE_SUCCESS if since >= seconds[Wait.POLL if cluster.replaced else Wait.SETTLE] else None


def _retried(cluster: Cluster, since: float, seconds: Mapping[Wait, float]) -> Event | None:
    if cluster.absent:
        return Event.SCHEDULE_TIMEOUT if since >= seconds[Wait.RETRY] else None
    return Event.FINISH if since >= seconds[Wait.POLL] else None


def _always(event: Event) -> Pass:
    times = (DUE[event],) if event in DUE else ()
    return Pass(lambda _: event, lambda _: times)


STEPS: Final[Mapping[State, Step]] = {
    State.NOTIFY_WAIT_FAULT_FLUSHING: Pass(_flush),
    State.NOTIFY_STOP_TRAIN: Write(_stop_train),
    State.WAIT_REPORT_STOP_COMPLETE: Read({Queue.STOPPED: _stopped}),
    State.WAIT_FAULT_FLUSH_FINISHED: Pass(
        lambda _: Event.FAULT_FLUSH_FINISHED, lambda round_: () if round_.retryable else (Wait.FLUSH,)
    ),
    State.NOTIFY_GLOBAL_FAULT: Write(_global_fault, after=_before_global_fault),
    State.WAIT_REPORT_RECOVER_STRATEGY: Read({Queue.STRATEGIES: _offered}),
    State.NOTIFY_DECIDED_STRATEGY: Write(_decide, lambda round_: _DECIDED[round_.strategy], _before_decision),
    State.WAIT_REPORT_STEP_RETRY_STATUS: Read({Queue.STATUS: _status}),
    State.WAIT_REPORT_PROCESS_RECOVER_STATUS: Read(
        {Queue.STATUS: _status}, lambda round_: (Wait.READ,) if round_.strategy == strategies.IN_PLACE else ()
    ),
    State.NOTIFY_DUMP: Write(_dump),
    State.WAIT_REPORT_DUMP_STATUS: Read({Queue.STATUS: _status}),
    State.CHECK_RECOVER_RESULT: Write(_check, lambda _: Event.CHECK_RESULT_FINISH, fails=False),
    State.KILL_POD_FOR_UNRECOVERABLE_RETRY: _always(Event.FINISH_KILL_POD),
    State.LISTEN_SCHEDULE_RESULT: Watch(_scheduled),
    State.NOTIFY_RESTART_ALL_PROCESS: _always(Event.NOTIFY_SUCCESS),
    State.WAIT_RESTART_ALL_PROCESS: _always(Event.RESTART_PROCESS_FINISH),
    State.FAULT_CLEAR: _always(Event.CLEAR_CONFIG_MAP_FAULT_SUCCESS),
    State.FAULT_RETRY: Watch(_retried, _exit_again),
    State.NOTIFY_KILL_JOB: Write(lambda round_: _signal(round_, KILL_MASTER), lambda _: Event.FINISH, fails=False),
    State.NOTIFY_SCALE_IN_STRATEGY: Write(_scale_in, lambda _: Event.NOTIFY_SCALE_IN_STRATEGY_SUCCESS),
    State.WAIT_REPORT_SCALE_IN_ISOLATE_RANKS: Read({Queue.STATUS: _status}),
    State.CHECK_REPORT_SCALE_IN_ISOLATE_RANKS: Write(_isolate, lambda _: Event.NOTIFY_FAULT_NODES_EXIT_SUCCESS),
    State.WAIT_REPORT_SCALE_IN_STATUS: Read({Queue.STATUS: _status}),
    State.SCALE_IN_RUNNING: Write(
        _scale_out, lambda _: Event.NOTIFY_SCALE_OUT_STRATEGY_SUCCESS, lambda _: (Wait.PODS,)
    ),
    State.WAIT_REPORT_SCALE_OUT_STATUS: Read({Queue.STATUS: _status}),
    State.NOTIFY_PAUSE_TRAIN: Write(_pause_train),
    State.WAIT_REPORT_PAUSE_COMPLETE: Read({Queue.STOPPED: _paused}),
    State.NOTIFY_STRESS_TEST: Write(_stress_order),
    State.WAIT_STRESS_TEST_FINISHED: Read({Queue.STRESSED: _tested, Queue.STATUS: _ignored}),
    State.NOTIFY_SWITCH_NIC: Write(_switch_order),
    State.WAIT_SWITCH_NIC_FINISHED: Read({Queue.SWITCHED: _switched, Queue.STATUS: _fault_while_switching}),
    State.NOTIFY_CONTINUE_TRAIN: Write(
        lambda round_: _change(round_, "continue"),
        lambda _: Event.NOTIFY_CONTINUE_SUCCESS,
        lambda round_: (Wait.TESTED,) if round_.operation is Operation.STRESS else (),
    ),
    State.WAIT_CONTINUE_TRAIN: Read({Queue.STATUS: _continued}),
    State.NOTIFY_PREPARE_HOT_SWITCH: Write(lambda round_: _signal(round_, "hot-switch", "hot switch", faults=True)),
    State.WAIT_NEW_POD: _always(Event.NEW_POD_TIMEOUT),
    State.WAIT_NOTIFY_POD_RUNNING_RESULT: Write(lambda round_: _signal(round_, "hot-switch", "new pod running")),
    State.WAIT_NOTIFY_POD_FAILED_RESULT: Write(lambda round_: _signal(round_, "hot-switch", "stop switch")),
    State.WAIT_REPORT_PAUSE_RESULT: Read({Queue.STRATEGIES: _moved_out}),
    State.WAIT_OLD_POD_DELETED: _always(Event.OLD_POD_DELETED),
    State.WAIT_NOTIFY_RESTART_TRAIN_RESULT: Write(lambda round_: _change(round_, "migration")),
    State.WAIT_REPORT_RESTART_TRAIN_RESULT: Read({Queue.STATUS: _restarted}),
    State.NOTIFY_STOP_JOB: _always(Event.NOTIFY_SUCCESS),
}
