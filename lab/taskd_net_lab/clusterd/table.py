"""The recovery of one job in ClusterD: its states, its events, and a row for each transition. Data only.

A state that notifies goes on by the result of writing to the subscriber. A state that waits for a report goes on by the
report, or by `report timeout`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """States of the recovery of one job, in ClusterD's words."""

    INIT = "init"
    NOTIFY_DECIDED_STRATEGY = "notify decided strategy"
    WAIT_REPORT_PAUSE_COMPLETE = "wait report pause complete"
    NOTIFY_STRESS_TEST = "notify stress test"
    WAIT_STRESS_TEST_FINISHED = "wait stress test finished"
    WAIT_CONTINUE_TRAIN = "wait continue train"
    NOTIFY_SWITCH_NIC = "notify switch nic"
    WAIT_SWITCH_NIC_FINISHED = "wait switch nic finished"
    NOTIFY_PAUSE_TRAIN = "notify pause train"
    NOTIFY_CONTINUE_TRAIN = "notify continue train"
    NOTIFY_PREPARE_HOT_SWITCH = "notify prepare hot switch"
    WAIT_NEW_POD = "wait new pod"
    WAIT_NOTIFY_POD_FAILED_RESULT = "wait notify pod failed result"
    WAIT_NOTIFY_POD_RUNNING_RESULT = "wait notify pod running result"
    WAIT_REPORT_PAUSE_RESULT = "wait report pause result"
    NOTIFY_STOP_JOB = "notify stop job"
    WAIT_OLD_POD_DELETED = "wait old pod deleted"
    WAIT_NOTIFY_RESTART_TRAIN_RESULT = "wait notify restart train result"
    WAIT_REPORT_RESTART_TRAIN_RESULT = "wait report restart train result"
    NOTIFY_WAIT_FAULT_FLUSHING = "notify wait fault flushing"
    NOTIFY_STOP_TRAIN = "notify stop train"
    NOTIFY_DUMP = "notify dump"
    WAIT_REPORT_STOP_COMPLETE = "wait report stop complete"
    WAIT_FAULT_FLUSH_FINISHED = "wait fault flush finished"
    NOTIFY_GLOBAL_FAULT = "notify global fault"
    WAIT_REPORT_RECOVER_STRATEGY = "wait report recover strategy"
    WAIT_REPORT_STEP_RETRY_STATUS = "wait report step retry status"
    WAIT_REPORT_PROCESS_RECOVER_STATUS = "wait report process recover status"
    WAIT_REPORT_DUMP_STATUS = "wait report dump status"
    CHECK_RECOVER_RESULT = "check recover result"
    KILL_POD_FOR_UNRECOVERABLE_RETRY = "kill pod for unrecoverable retry"
    LISTEN_SCHEDULE_RESULT = "listen schedule result"
    NOTIFY_RESTART_ALL_PROCESS = "notify restart all process"
    WAIT_RESTART_ALL_PROCESS = "wait restart all process"
    FAULT_CLEAR = "fault clear"
    FAULT_RETRY = "fault retry"
    NOTIFY_KILL_JOB = "notify kill job"
    NOTIFY_SCALE_IN_STRATEGY = "notify scale in strategy"
    WAIT_REPORT_SCALE_IN_ISOLATE_RANKS = "wait report scale in isolate ranks"
    CHECK_REPORT_SCALE_IN_ISOLATE_RANKS = "check report scale in isolate ranks"
    WAIT_REPORT_SCALE_IN_STATUS = "wait report scale in status"
    SCALE_IN_RUNNING = "scale in running"
    WAIT_REPORT_SCALE_OUT_STATUS = "wait report scale out status"


class Event(StrEnum):
    """Events that move the recovery of a job."""

    BEGIN_HOT_SWITCH = "begin hot switch"
    CHANGE_PROCESS_SCHEDULING_MODE_ENABLE_ERROR = "change process scheduling mode enable error"
    CHANGE_PROCESS_SCHEDULING_MODE_PAUSE_ERROR = "change process scheduling mode pause error"
    CHECK_RESULT_FINISH = "check result finish"
    CLEAR_CONFIG_MAP_FAULT_FAIL = "clear config map fault fail"
    CLEAR_CONFIG_MAP_FAULT_SUCCESS = "clear config map fault success"
    CONTINUE_TRAIN_FAIL = "continue train fail"
    DUMP_FOR_FAULT = "dump for fault"
    EXIT = "exit"
    FAULT_FLUSH_FINISHED = "fault flush finished"
    FAULT_OCCUR = "fault occur"
    FINISH = "finish"
    FINISH_KILL_POD = "finish kill pod"
    MIGRATION = "migration"
    NEED_TRY_SCALE_IN_STRATEGY = "need try scale in strategy"
    NEW_POD_RUNNING = "new pod running"
    NEW_POD_TIMEOUT = "new pod timeout"
    NOTIFY_CONTINUE_SUCCESS = "notify continue success"
    NOTIFY_DUMP_SUCCESS = "notify dump success"
    NOTIFY_EXIT_SUCCESS = "notify exit success"
    NOTIFY_FAIL = "notify fail"
    NOTIFY_FAULT_NODES_EXIT_SUCCESS = "notify fault nodes exit success"
    NOTIFY_FINISH = "notify finish"
    NOTIFY_RECOVER_SUCCESS = "notify recover success"
    NOTIFY_RETRY_SUCCESS = "notify retry success"
    NOTIFY_SCALE_IN_STRATEGY_SUCCESS = "notify scale in strategy success"
    NOTIFY_SCALE_OUT_STRATEGY_SUCCESS = "notify scale out strategy success"
    NOTIFY_SUCCESS = "notify success"
    OLD_POD_DELETED = "old pod deleted"
    PROCESS_NOT_READY = "process not ready"
    PROCESS_PAUSE_FAIL = "process pause fail"
    RECEIVE_REPORT = "receive report"
    RECOVER_FAIL = "recover fail"
    RECOVER_SUCCESS = "recover success"
    RECOVERABLE_RETRY_ERROR = "recoverable retry error"
    REPORT_TIMEOUT = "report timeout"
    RESTART_FAILED = "restart failed"
    RESTART_PROCESS_FINISH = "restart process finish"
    RESTART_SUCCESS = "restart success"
    SCALE_IN_SUCCESS = "scale in success"
    SCALE_OUT_SUCCESS = "scale out success"
    SCHEDULE_SUCCESS = "schedule success"
    SCHEDULE_TIMEOUT = "schedule timeout"
    START_STRESS_TEST = "start stress test"
    START_SWITCH_NIC = "start switch nic"
    STRESS_TEST_FAIL = "stress test fail"
    STRESS_TEST_RECV_CONTINUE = "stress test recv continue"
    STRESS_TEST_RECV_PAUSE = "stress test recv pause"
    SWITCH_NIC_FAIL = "switch nic fail"
    SWITCH_NIC_RECV_CONTINUE = "switch nic recv continue"
    SWITCH_NIC_RECV_PAUSE = "switch nic recv pause"
    UN_RECOVERABLE_RETRY_ERROR = "un recoverable retry error"
    WAIT_HCCL_ROUTING_CONVERGENCE_FAIL = "wait hccl routing convergence fail"
    WAIT_PLAT_STRATEGY_TIMEOUT = "wait plat strategy timeout"
    WAIT_RANK_TABLE_READY_TIMEOUT = "wait rank table ready timeout"
    WAIT_SWITCH_NIC_RECV_FAULT = "wait switch nic recv fault"
    WRITE_CONFIRM_FAULT_OR_WAIT_RESULT_FAULT_TIMEOUT = "write confirm fault or wait result fault timeout"


TABLE: Final[Mapping[State, Mapping[Event, State]]] = {
    State.INIT: {
        Event.START_STRESS_TEST: State.NOTIFY_PAUSE_TRAIN,
        Event.START_SWITCH_NIC: State.NOTIFY_PAUSE_TRAIN,
        Event.BEGIN_HOT_SWITCH: State.NOTIFY_PREPARE_HOT_SWITCH,
        Event.FAULT_OCCUR: State.NOTIFY_WAIT_FAULT_FLUSHING,
    },
    State.NOTIFY_DECIDED_STRATEGY: {
        Event.WAIT_HCCL_ROUTING_CONVERGENCE_FAIL: State.NOTIFY_KILL_JOB,
        Event.WAIT_RANK_TABLE_READY_TIMEOUT: State.FAULT_CLEAR,
        Event.NOTIFY_FAIL: State.FAULT_CLEAR,
        Event.NOTIFY_RETRY_SUCCESS: State.WAIT_REPORT_STEP_RETRY_STATUS,
        Event.NOTIFY_RECOVER_SUCCESS: State.WAIT_REPORT_PROCESS_RECOVER_STATUS,
        Event.NOTIFY_DUMP_SUCCESS: State.WAIT_REPORT_DUMP_STATUS,
        Event.NOTIFY_EXIT_SUCCESS: State.CHECK_RECOVER_RESULT,
        Event.NOTIFY_SCALE_IN_STRATEGY_SUCCESS: State.WAIT_REPORT_SCALE_IN_ISOLATE_RANKS,
    },
    State.WAIT_REPORT_PAUSE_COMPLETE: {
        Event.STRESS_TEST_RECV_PAUSE: State.NOTIFY_STRESS_TEST,
        Event.SWITCH_NIC_RECV_PAUSE: State.NOTIFY_SWITCH_NIC,
        Event.REPORT_TIMEOUT: State.NOTIFY_KILL_JOB,
        Event.PROCESS_PAUSE_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.NOTIFY_STRESS_TEST: {
        Event.NOTIFY_SUCCESS: State.WAIT_STRESS_TEST_FINISHED,
        Event.NOTIFY_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.WAIT_STRESS_TEST_FINISHED: {
        Event.RECEIVE_REPORT: State.NOTIFY_CONTINUE_TRAIN,
        Event.REPORT_TIMEOUT: State.NOTIFY_STOP_TRAIN,
        Event.STRESS_TEST_FAIL: State.NOTIFY_STOP_TRAIN,
    },
    State.WAIT_CONTINUE_TRAIN: {
        Event.STRESS_TEST_RECV_CONTINUE: State.INIT,
        Event.SWITCH_NIC_RECV_CONTINUE: State.INIT,
        Event.REPORT_TIMEOUT: State.NOTIFY_KILL_JOB,
        Event.CONTINUE_TRAIN_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.NOTIFY_SWITCH_NIC: {
        Event.NOTIFY_SUCCESS: State.WAIT_SWITCH_NIC_FINISHED,
        Event.NOTIFY_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.WAIT_SWITCH_NIC_FINISHED: {
        Event.RECEIVE_REPORT: State.NOTIFY_CONTINUE_TRAIN,
        Event.WAIT_SWITCH_NIC_RECV_FAULT: State.NOTIFY_STOP_TRAIN,
        Event.REPORT_TIMEOUT: State.NOTIFY_STOP_TRAIN,
        Event.SWITCH_NIC_FAIL: State.NOTIFY_STOP_TRAIN,
    },
    State.NOTIFY_PAUSE_TRAIN: {
        Event.NOTIFY_SUCCESS: State.WAIT_REPORT_PAUSE_COMPLETE,
        Event.NOTIFY_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.NOTIFY_CONTINUE_TRAIN: {
        Event.NOTIFY_CONTINUE_SUCCESS: State.WAIT_CONTINUE_TRAIN,
        Event.NOTIFY_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.NOTIFY_PREPARE_HOT_SWITCH: {
        Event.NOTIFY_SUCCESS: State.WAIT_NEW_POD,
        Event.NOTIFY_FAIL: State.INIT,
    },
    State.WAIT_NEW_POD: {
        Event.NEW_POD_RUNNING: State.WAIT_NOTIFY_POD_RUNNING_RESULT,
        Event.NEW_POD_TIMEOUT: State.WAIT_NOTIFY_POD_FAILED_RESULT,
    },
    State.WAIT_NOTIFY_POD_FAILED_RESULT: {
        Event.NOTIFY_SUCCESS: State.INIT,
        Event.NOTIFY_FAIL: State.INIT,
    },
    State.WAIT_NOTIFY_POD_RUNNING_RESULT: {
        Event.NOTIFY_SUCCESS: State.WAIT_REPORT_PAUSE_RESULT,
        Event.NOTIFY_FAIL: State.WAIT_REPORT_PAUSE_RESULT,
    },
    State.WAIT_REPORT_PAUSE_RESULT: {
        Event.REPORT_TIMEOUT: State.NOTIFY_STOP_JOB,
        Event.EXIT: State.NOTIFY_STOP_JOB,
        Event.MIGRATION: State.WAIT_OLD_POD_DELETED,
    },
    State.NOTIFY_STOP_JOB: {
        Event.NOTIFY_SUCCESS: State.INIT,
        Event.NOTIFY_FAIL: State.INIT,
    },
    State.WAIT_OLD_POD_DELETED: {
        Event.OLD_POD_DELETED: State.WAIT_NOTIFY_RESTART_TRAIN_RESULT,
    },
    State.WAIT_NOTIFY_RESTART_TRAIN_RESULT: {
        Event.NOTIFY_SUCCESS: State.WAIT_REPORT_RESTART_TRAIN_RESULT,
        Event.NOTIFY_FAIL: State.NOTIFY_STOP_JOB,
    },
    State.WAIT_REPORT_RESTART_TRAIN_RESULT: {
        Event.RESTART_SUCCESS: State.INIT,
        Event.RESTART_FAILED: State.NOTIFY_STOP_JOB,
        Event.REPORT_TIMEOUT: State.NOTIFY_STOP_JOB,
    },
    State.NOTIFY_WAIT_FAULT_FLUSHING: {
        Event.NOTIFY_FINISH: State.NOTIFY_STOP_TRAIN,
        Event.WAIT_PLAT_STRATEGY_TIMEOUT: State.FAULT_RETRY,
        Event.DUMP_FOR_FAULT: State.NOTIFY_DUMP,
        Event.NOTIFY_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.NOTIFY_STOP_TRAIN: {
        Event.NOTIFY_SUCCESS: State.WAIT_REPORT_STOP_COMPLETE,
        Event.NOTIFY_FAIL: State.FAULT_CLEAR,
    },
    State.NOTIFY_DUMP: {
        Event.NOTIFY_SUCCESS: State.WAIT_REPORT_DUMP_STATUS,
        Event.NOTIFY_FAIL: State.FAULT_CLEAR,
    },
    State.WAIT_REPORT_STOP_COMPLETE: {
        Event.RECEIVE_REPORT: State.WAIT_FAULT_FLUSH_FINISHED,
        Event.REPORT_TIMEOUT: State.FAULT_CLEAR,
        Event.PROCESS_NOT_READY: State.NOTIFY_KILL_JOB,
    },
    State.WAIT_FAULT_FLUSH_FINISHED: {
        Event.FAULT_FLUSH_FINISHED: State.NOTIFY_GLOBAL_FAULT,
    },
    State.NOTIFY_GLOBAL_FAULT: {
        Event.NOTIFY_SUCCESS: State.WAIT_REPORT_RECOVER_STRATEGY,
        Event.NOTIFY_FAIL: State.NOTIFY_KILL_JOB,
        Event.WRITE_CONFIRM_FAULT_OR_WAIT_RESULT_FAULT_TIMEOUT: State.FAULT_RETRY,
    },
    State.WAIT_REPORT_RECOVER_STRATEGY: {
        Event.RECEIVE_REPORT: State.NOTIFY_DECIDED_STRATEGY,
        Event.REPORT_TIMEOUT: State.FAULT_CLEAR,
    },
    State.WAIT_REPORT_STEP_RETRY_STATUS: {
        Event.RECEIVE_REPORT: State.CHECK_RECOVER_RESULT,
        Event.REPORT_TIMEOUT: State.FAULT_RETRY,
    },
    State.WAIT_REPORT_PROCESS_RECOVER_STATUS: {
        Event.RECEIVE_REPORT: State.CHECK_RECOVER_RESULT,
        Event.SCHEDULE_TIMEOUT: State.FAULT_CLEAR,
        Event.REPORT_TIMEOUT: State.FAULT_CLEAR,
        Event.CLEAR_CONFIG_MAP_FAULT_FAIL: State.FAULT_RETRY,
        Event.NEED_TRY_SCALE_IN_STRATEGY: State.NOTIFY_SCALE_IN_STRATEGY,
    },
    State.WAIT_REPORT_DUMP_STATUS: {
        Event.RECEIVE_REPORT: State.CHECK_RECOVER_RESULT,
        Event.REPORT_TIMEOUT: State.FAULT_CLEAR,
    },
    State.CHECK_RECOVER_RESULT: {
        Event.RECOVER_SUCCESS: State.INIT,
        Event.SCALE_OUT_SUCCESS: State.INIT,
        Event.RECOVER_FAIL: State.NOTIFY_DECIDED_STRATEGY,
        Event.RECOVERABLE_RETRY_ERROR: State.WAIT_FAULT_FLUSH_FINISHED,
        Event.UN_RECOVERABLE_RETRY_ERROR: State.KILL_POD_FOR_UNRECOVERABLE_RETRY,
        Event.CHECK_RESULT_FINISH: State.LISTEN_SCHEDULE_RESULT,
        Event.SCALE_IN_SUCCESS: State.SCALE_IN_RUNNING,
    },
    State.KILL_POD_FOR_UNRECOVERABLE_RETRY: {
        Event.FINISH_KILL_POD: State.NOTIFY_DECIDED_STRATEGY,
    },
    State.LISTEN_SCHEDULE_RESULT: {
        Event.SCHEDULE_TIMEOUT: State.FAULT_CLEAR,
        Event.SCHEDULE_SUCCESS: State.NOTIFY_RESTART_ALL_PROCESS,
    },
    State.NOTIFY_RESTART_ALL_PROCESS: {
        Event.NOTIFY_SUCCESS: State.WAIT_RESTART_ALL_PROCESS,
        Event.NOTIFY_FAIL: State.FAULT_CLEAR,
    },
    State.WAIT_RESTART_ALL_PROCESS: {
        Event.RESTART_PROCESS_FINISH: State.FAULT_CLEAR,
    },
    State.FAULT_CLEAR: {
        Event.CLEAR_CONFIG_MAP_FAULT_SUCCESS: State.FAULT_RETRY,
        Event.CLEAR_CONFIG_MAP_FAULT_FAIL: State.NOTIFY_KILL_JOB,
    },
    State.FAULT_RETRY: {
        Event.FINISH: State.INIT,
        Event.CHANGE_PROCESS_SCHEDULING_MODE_PAUSE_ERROR: State.NOTIFY_KILL_JOB,
        Event.CHANGE_PROCESS_SCHEDULING_MODE_ENABLE_ERROR: State.NOTIFY_KILL_JOB,
        Event.SCHEDULE_TIMEOUT: State.NOTIFY_KILL_JOB,
    },
    State.NOTIFY_KILL_JOB: {
        Event.FINISH: State.INIT,
    },
    State.NOTIFY_SCALE_IN_STRATEGY: {
        Event.NOTIFY_SCALE_IN_STRATEGY_SUCCESS: State.WAIT_REPORT_SCALE_IN_ISOLATE_RANKS,
        Event.NOTIFY_FAIL: State.FAULT_CLEAR,
    },
    State.WAIT_REPORT_SCALE_IN_ISOLATE_RANKS: {
        Event.RECEIVE_REPORT: State.CHECK_REPORT_SCALE_IN_ISOLATE_RANKS,
        Event.REPORT_TIMEOUT: State.NOTIFY_DECIDED_STRATEGY,
    },
    State.CHECK_REPORT_SCALE_IN_ISOLATE_RANKS: {
        Event.NOTIFY_FAIL: State.NOTIFY_DECIDED_STRATEGY,
        Event.RECOVER_FAIL: State.NOTIFY_DECIDED_STRATEGY,
        Event.NOTIFY_FAULT_NODES_EXIT_SUCCESS: State.WAIT_REPORT_SCALE_IN_STATUS,
    },
    State.WAIT_REPORT_SCALE_IN_STATUS: {
        Event.RECEIVE_REPORT: State.CHECK_RECOVER_RESULT,
        Event.REPORT_TIMEOUT: State.FAULT_CLEAR,
    },
    State.SCALE_IN_RUNNING: {
        Event.NOTIFY_SCALE_OUT_STRATEGY_SUCCESS: State.WAIT_REPORT_SCALE_OUT_STATUS,
        Event.FAULT_OCCUR: State.NOTIFY_STOP_TRAIN,
        Event.FINISH: State.INIT,
        Event.NOTIFY_FAIL: State.SCALE_IN_RUNNING,
    },
    State.WAIT_REPORT_SCALE_OUT_STATUS: {
        Event.RECEIVE_REPORT: State.CHECK_RECOVER_RESULT,
        Event.REPORT_TIMEOUT: State.FAULT_CLEAR,
    },
}


def rows() -> Iterator[tuple[State, Event, State]]:
    """Each transition: the state, the event, the next state."""
    for state, nexts in TABLE.items():
        for event, to in nexts.items():
            yield state, event, to
