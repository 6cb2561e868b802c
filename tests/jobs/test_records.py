"""Records: one process each, the last report of each kind, and the indexes."""

from __future__ import annotations

import pytest

from taskd_net.base import vocabulary
from taskd_net.base.position import Position
from taskd_net.job.decide.events import Reported
from taskd_net.job.decide.records import (
    AGENT_SILENT_S,
    JOB_NODES,
    REPORTS_PER_NODE,
    UNKNOWN,
    AgentRecord,
    KeptReport,
    Records,
    Taken,
)

FAULT = '{"fault_ranks": [3], "restart_times": -1}'


def said(src: str, msg_type: str, code: int, message: str = "", uuid: str = "", **extension: str) -> Reported:
    return Reported(Position.parse(src), msg_type, code, message, extension, uuid)


def registered(records: Records, src: str = "Agent/1", uuid: str = "", **extension: str) -> Taken:
    code = 0 if src.startswith("Agent") else 101
    return records.take(1.0, said(src, "REGISTER", code, uuid=uuid, **extension))


def check(records: Records) -> None:
    """Assert that the indexes say what the records say."""
    agents = records.agents.items()
    assert records.faulty == {rank for rank, agent in agents if agent.fault is not None and not agent.exited}
    assert records.exited == {rank for rank, agent in agents if agent.exited}
    assert records.asking == {rank for rank, agent in agents if agent.asked is not None and not agent.exited}
    states = [worker.profiling for worker in records.workers.values() if worker.registered]
    assert records.profiling == {state: states.count(state) for state in states}
    phases = [worker.phase for worker in records.workers.values() if worker.phase]
    assert records.epochs.phases == {phase: phases.count(phase) for phase in phases}


def test_the_last_report_of_each_kind_is_kept() -> None:
    records = Records()
    records.take(1.0, said("Agent/1", "STATUS", 201, "3"))
    records.take(2.0, said("Agent/1", "STATUS", 202, FAULT))
    records.take(3.0, said("Agent/1", "STATUS", 201, "2"))
    records.take(3.0, said("Agent/1", "OTHER", 299, "later"))
    reports = records.agents[1].reports
    assert {kind: (report.message, report.at) for kind, report in reports.items()} == {
        "STATUS/202": (FAULT, 2.0),
        "STATUS/201": ("2", 3.0),
        "OTHER/299": ("later", 3.0),
    }
    check(records)


def test_kinds_are_bounded() -> None:
    records = Records()
    for number in range(REPORTS_PER_NODE + 1):
        records.take(1.0, said("Worker/0/0", "OTHER", number))
    kept = records.workers[0].reports
    assert len(kept) == REPORTS_PER_NODE and "OTHER/0" not in kept


def test_an_agent_without_a_report_is_silent_since_its_last_one() -> None:
    records, wait = Records(since=0.5), AGENT_SILENT_S
    registered(records, uuid="a")
    records.take(2.0, said("Agent/1", "KEEP_ALIVE", 0))
    records.take(3.0, said("Agent/1", "STATUS", 202, FAULT))
    assert [records.silent_since(1, at) for at in (3.0, 2.9 + wait, 3.0 + wait)] == [None, None, 3.0]
    records.take(20.0, said("Agent/1", "KEEP_ALIVE", 0))
    assert [records.silent_since(1, at) for at in (21.0, 20.0 + wait)] == [None, 20.0]
    records.since = 50.0
    assert [records.silent_since(1, at) for at in (51.0, 50.0 + wait)] == [None, 50.0], "nobody listened before"


def test_an_agent_that_need_not_report_is_not_silent() -> None:
    records = Records()
    records.take(1.0, said("Agent/0", "KEEP_ALIVE", 0))
    registered(records)
    records.take(2.0, said("Agent/1", "STATUS", 201, "3"))
    assert [records.silent_since(rank, 1000.0) for rank in (0, 1)] == [None, None], "not registered; not started"
    records.started(1)
    assert records.silent_since(1, 1000.0) == 2.0
    records.exit(1)
    assert records.silent_since(1, 1000.0) is None


def test_a_heartbeat_is_no_change() -> None:
    records = Records()
    assert records.take(5.0, said("Agent/1", "KEEP_ALIVE", 0)) is Taken.NOTHING
    assert records.take(6.0, said("Worker/0/1", "KEEP_ALIVE", 0)) is Taken.NOTHING
    assert (records.agents[1].heartbeat, records.workers[1].heartbeat) == (5.0, 6.0)
    assert not records.changed_agents and not records.changed_workers


def test_state_of_an_agents_processes_is_that_of_its_last_report() -> None:
    records = Records()
    assert records.take(5.0, said("Agent/1", "KEEP_ALIVE", 0, WorkerState="HEALTHY")) is Taken.NOTHING
    assert records.agents[1].worker_state == "HEALTHY"
    records.take(6.0, said("Agent/1", "STATUS", 202, FAULT, WorkerState="FAILED"))
    for unknown in ("", "GREAT", "failed"):
        records.take(7.0, said("Agent/1", "KEEP_ALIVE", 0, WorkerState=unknown))
    records.take(7.0, said("Agent/1", "KEEP_ALIVE", 0))
    assert records.agents[1].worker_state == "FAILED"
    registered(records)
    assert records.agents[1].worker_state == ""


@pytest.mark.parametrize("src", ["Agent/1", "Worker/0/1"])
def test_registrations_of_one_incarnation_are_one(src: str) -> None:
    records = Records()
    assert registered(records, src, Incarnation="a") is Taken.NEW_PROCESS
    records.take(2.0, said(src, "STATUS", 202, FAULT))
    assert registered(records, src, Incarnation="a") is Taken.NOTHING
    assert registered(records, src, Incarnation="b") is Taken.NEW_PROCESS
    record = records.agents[1] if src == "Agent/1" else records.workers[1]
    assert list(record.reports) == ["REGISTER/0" if src == "Agent/1" else "REGISTER/101"]
    check(records)


@pytest.mark.parametrize("src", ["Agent/1", "Worker/0/1"])
def test_every_registration_of_an_original_is_a_new_process_but_for_resends(src: str) -> None:
    records = Records()
    assert registered(records, src, uuid="m1") is Taken.NEW_PROCESS
    records.take(2.0, said(src, "STATUS", 1410))
    assert registered(records, src, uuid="m1") is Taken.NOTHING
    assert registered(records, src, uuid="m2") is Taken.NEW_PROCESS
    assert registered(records, src) is Taken.NEW_PROCESS
    check(records)


def test_a_registration_ends_fault_question_and_exit() -> None:
    records = Records()
    records.take(1.0, said("Agent/1", "STATUS", 202, FAULT))
    records.take(1.0, said("Agent/1", "STATUS", 201, "3"))
    check(records)
    registered(records, Incarnation="a")
    assert not records.faulty and not records.asking
    records.exit(1)
    check(records)
    assert registered(records, Incarnation="a") is Taken.NOTHING
    assert records.exited == {1}, "the same process has not gone yet"
    registered(records, Incarnation="b")
    assert not records.exited


def test_a_process_that_was_told_to_exit_gets_no_go() -> None:
    records = Records()
    registered(records, Incarnation="a")
    records.exit(1)
    assert records.take(1.0, said("Agent/1", "STATUS", 201, "3")) is Taken.CHANGED
    assert records.agents[1].asked is None and not records.asking
    check(records)


def test_a_resend_is_taken_once() -> None:
    records = Records()
    assert records.take(1.0, said("Agent/1", "STATUS", 202, FAULT, "m1")) is Taken.CHANGED
    records.settle(1, "u-1")
    assert records.take(2.0, said("Agent/1", "STATUS", 202, FAULT, "m1")) is Taken.NOTHING
    assert not records.faulty
    assert records.take(2.0, said("Worker/0/1", "STATUS", 1410, uuid="m2")) is Taken.CHANGED
    assert records.take(2.0, said("Worker/0/1", "STATUS", 1410, uuid="m2")) is Taken.NOTHING


def test_a_fault_lasts_until_the_agent_says_that_it_is_over() -> None:
    records = Records()
    records.take(1.0, said("Agent/1", "STATUS", 202, FAULT, REPORT_FAULT_TIME="77"))
    fault = records.agents[1].fault
    assert fault is not None and (fault.ranks, fault.at, fault.reported) == ([3], 1.0, 77.0)
    records.take(2.0, said("Agent/1", "STATUS", 202, FAULT, REPORT_FAULT_TIME="-3"))
    assert records.agents[1].fault is not None and records.agents[1].fault.reported is None
    records.take(3.0, said("Agent/1", "STATUS", 202, '{"fault_ranks": []}'))
    check(records)
    assert not records.faulty


def test_an_agent_that_was_sent_203_counts_as_faulty_whatever_it_says() -> None:
    records = Records()
    records.exit(1)
    records.take(1.0, said("Agent/1", "STATUS", 202, '{"fault_ranks": []}'))
    records.take(1.0, said("Agent/1", "STATUS", 202, FAULT))
    records.take(1.0, said("Agent/1", "STATUS", 201, "3"), leaving=True)
    assert (records.exited, records.faulty, records.asking) == ({1}, set(), set())
    check(records)


def test_an_agent_without_a_fault_keeps_the_restart_that_was_decided_on_last() -> None:
    records = Records()
    registered(records)
    records.forget_changes()
    records.unsaved_agents.clear()
    for restart in ("u-9", "v-10", "u-2"):  # acknowledgements may come in another order
        records.settle(1, restart)
    assert records.agents[1].restarted == "v-10"
    assert (records.changed_agents, records.unsaved_agents) == (set(), {1})


def test_settling_an_agent_that_is_not_there_changes_nothing() -> None:
    records = Records()
    records.settle(1, "u-1")
    assert records == Records()


@pytest.mark.parametrize(
    ("text", "count"), [("3", 3), (" -1 ", -1), ("0", 0), ("", None), ("x", None), ("9" * 20, None)]
)
def test_the_first_201_gives_the_count_of_restarts(text: str, count: int | None) -> None:
    records = Records()
    records.take(1.0, said("Agent/1", "STATUS", 201, text))
    assert records.restarts == count
    records.take(1.0, said("Agent/2", "STATUS", 201, "7"))
    assert records.restarts == (7 if count is None else count)


def test_profiling_states_are_counted_over_the_registered() -> None:
    records = Records()
    records.take(1.0, said("Worker/0/0", "STATUS", 1410))
    assert records.profiling == {} and records.workers[0].profiling == 10
    registered(records, "Worker/0/0")
    assert records.profiling == {UNKNOWN: 1}
    records.take(1.0, said("Worker/0/0", "STATUS", 1411))
    registered(records, "Worker/0/1")
    assert (records.profiling, records.registered_workers) == ({11: 1, UNKNOWN: 1}, 2)
    registered(records, "Worker/0/0")
    check(records)
    records.take(1.0, said("Worker/0/0", "STATUS", 999))
    check(records)


def test_strangers_are_refused() -> None:
    records = Records()
    for src in ("Proxy/1", "Mgr/0", "Agent/x", "Worker/0/x", "Worker/²/1"):
        assert records.take(1.0, said(src, "STATUS", 1)) is Taken.REFUSED
    registered(records, "Agent/1")
    registered(records, "Worker/1/1")
    records.agents |= {rank: AgentRecord() for rank in range(3, JOB_NODES + 1)}
    for src in ("Agent/2", "Worker/1/2"):
        assert registered(records, src) is Taken.REFUSED
        assert records.take(1.0, said(src, "STATUS", 1)) is Taken.REFUSED
    assert registered(records, "Agent/1") is Taken.NEW_PROCESS
    assert vocabulary.REGISTER + "/0" in records.agents[1].reports


def test_a_workers_part_ends_with_its_process() -> None:
    records = Records()
    for src in ("Worker/0/0", "Worker/0/1"):
        registered(records, src)
        records.take(1.0, said(src, "STATUS", 301, "left", Epoch="3", World="2", LocalWorld="2"))
    records.take(1.0, said("Worker/0/0", "STATUS", 301, "rubbish"))
    assert records.epochs.phases == {"left": 2}
    records.take(2.0, said("Agent/0", "STATUS", 202, '{"fault_ranks": [1, 9]}'))
    assert records.epochs.phases == {"left": 1} and records.unsaved_workers == {0, 1}
    registered(records, "Worker/0/0")
    assert records.epochs.phases == {}
    check(records)


def test_rank_that_is_at_another_node_now_has_one_record() -> None:
    """Nodes have changed their sizes between two starts."""
    records = Records()
    for number, src in enumerate(("Worker/0/3", "Worker/5/3")):
        assert registered(records, src, Incarnation=f"p{number}") is Taken.NEW_PROCESS
    assert (records.workers[3].node, records.registered_workers) == (5, 1)
    check(records)


def test_an_agent_has_finished_when_it_says_so_of_this_round_or_its_workers_have_succeeded() -> None:
    records = Records(agents={rank: AgentRecord() for rank in range(3)})
    records.rounds.number = 2
    for rank, said in ((0, "2"), (1, "1")):
        records.agents[rank].reports["STATUS/306"] = KeptReport(said)
    records.agents[2].worker_state = vocabulary.SUCCEEDED
    assert [records.has_finished(rank) for rank in range(3)] == [True, False, True]
