"""The decisions of an Agent, as transcripts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from taskd_net.base.cause import Cause
from taskd_net.base.progress import NodeProgress
from taskd_net.job.agent import messages
from taskd_net.job.agent.plans import Leave
from taskd_net.job.agent.supervision import (
    AgentJoined,
    AgentTimes,
    CallReturned,
    Commanded,
    SendReport,
    Supervisor,
    Tick,
    WorkerStatus,
)
from taskd_net.job.frameworks.mindspore.plans import MindSporePlans
from taskd_net.job.frameworks.pytorch.plans import PyTorchPlans
from tests.agent.transcripts import BEGIN, TIMES, played

pytestmark = pytest.mark.oldest


def test_life_of_a_job() -> None:
    played(
        """
        0    tick       |
        3    joined     | REGISTER, 201 2
        4    tick       |
        5    210 2      | StartAll 2
        6    tick       | KEEP_ALIVE
        6    done       |
        7    tick       | KEEP_ALIVE, Look
        7    seen       |
        33   tick       | KEEP_ALIVE, REGISTER, Look
        34   tick       | KEEP_ALIVE
        34   seen finished ended | return result
        35   tick       |
        35   203        |
        """,
        PyTorchPlans(),
    )


def test_end_of_a_job_of_mindspore() -> None:
    played(
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    seen finished ended |
        2    tick       | KEEP_ALIVE
        2    208 1      | ignored: the Agent is to leave
        10.9 tick       | KEEP_ALIVE
        11   tick       | KEEP_ALIVE, KillAll
        11   done       | leave 0: all workers have finished
        """
    )


def test_pause_ends_in_time_and_not_with_the_next_tick() -> None:
    played(
        BEGIN
        + """
        0.2  209 3      | KillRanks [3]
        0.3  done       |
        15.2 woken      |
        15.3 woken      | StartRanks [3]
        15.3 done       |
        15.3 woken      |
        """
    )
    supervisor = Supervisor(MindSporePlans(1.0, 1.0, 0.0), TIMES, "incarnation", "2", 0.0)
    assert supervisor.due is None
    for event, due in (
        (AgentJoined(), None),
        (Commanded(messages.Go(2)), None),
        (CallReturned(), None),
        (Commanded(messages.RestartAll(1)), None),
        (CallReturned(), 6.0),
    ):
        supervisor.handle(event, 5.0, 0)
        assert supervisor.due == due


def test_join_takes_180_seconds_at_most() -> None:
    played(
        """
        29   tick       |
        30   tick       | waits for the Mgr, 150 s
        31   tick       |
        179  tick       | waits for the Mgr, 1 s
        180  tick       | leave 1: not joined within 180 s
        """
    )


@pytest.mark.parametrize(("is_of_job", "status"), [(False, 1), (True, 143)])
def test_end_without_a_join_has_the_last_reason_and_the_status_of_its_job(is_of_job: bool, status: int) -> None:
    """A scheduler starts a node of a job again whose Manager has not come."""
    times = replace(TIMES, join=60.0)
    end = f"leave {status}: not joined within 60 s: nobody listens"
    played(f"59 tick refused | waits for the Mgr, 1 s\n60 tick refused | {end}", times=times, is_of_job=is_of_job)


def test_go_takes_900_seconds_at_most_and_is_asked_for_every_30() -> None:
    played(
        """
        50   joined     | REGISTER, 201 2
        79   tick       |
        80   tick       | REGISTER, 201 2
        109  tick       |
        110  tick       | REGISTER, 201 2
        120  joined     | REGISTER, 201 2
        149  tick       |
        949  tick       | REGISTER, 201 2
        950  tick       | leave 1: no go within 900 s
        """
    )


def test_second_go_is_ignored() -> None:
    played(
        BEGIN
        + """
        1    210 2      | ignored: the workers have been started
        1    210 -1     | ignored: the workers have been started
        """
    )


def test_go_without_a_count() -> None:
    played(
        """
        0    joined     | REGISTER, 201 2
        0    210        | StartAll
        """,
        PyTorchPlans(),
    )


def test_no_restart_remains_for_pytorch() -> None:
    played(
        """
        0    joined     | REGISTER, 201 2
        0    210 -1     | leave 1: no restart remains
        """,
        PyTorchPlans(),
    )
    played(
        """
        0    joined     | REGISTER, 201 2
        0    210 0      | StartAll 0
        0    done       |
        0    208 -1     | KillAll
        0    done       | leave 1: no restart remains
        """,
        PyTorchPlans(),
    )


def test_mindspore_counts_no_restarts() -> None:
    played(
        """
        0    joined     | REGISTER, 201 2
        0    210 -1     | StartAll
        0    done       |
        0    208 -1     | KillAll
        """
    )


def test_commands_before_the_start() -> None:
    played(
        """
        0    joined     | REGISTER, 201 2
        0    208 1      | ignored: the workers have not been started
        0    209 3      | ignored: the workers have not been started
        0    213 3      | ignored: the workers have not been started
        0    203        | KillAll
        0    done       | 202 at 0, leave 1: the Mgr has sent 203
        """
    )


def test_restart_of_all_workers() -> None:
    """The Mgr gets each set of failed ranks once, and no REGISTER in between."""
    played(
        """
        0    joined     | REGISTER, 201 2
        0    210 2 ours | StartAll 2
        0    done       |
        1    tick       | KEEP_ALIVE, Look
        1    seen 3     | 202 3 at 1
        2    tick       | KEEP_ALIVE, Look
        2    seen 3     |
        3    tick       | KEEP_ALIVE, Look
        3    seen 4 3   | 202 3 4 at 3
        32   tick       | KEEP_ALIVE, Look
        32   seen 4 3   |
        33   tick       | KEEP_ALIVE, 202 3 4 at 3, Look
        33   seen 4 3   |
        34   joined     | 202 3 4 at 3
        35   208 1      | KillAll
        36   tick       | KEEP_ALIVE
        36   done       | StartAll 1
        37   done       |
        38   tick       | KEEP_ALIVE, Look
        38   seen       |
        64   tick       | KEEP_ALIVE, REGISTER, Look
        64   seen 3     | 202 3 at 64
        """,
        PyTorchPlans(),
    )


def test_fault_names_the_restart_before_it() -> None:
    """The Mgr may get the acknowledgement of the restart after the report."""
    played(
        BEGIN
        + """
        1    208 1 uuid=a | KillAll
        1    done       | StartAll
        1    213 3 uuid=b |
        1    done       | KillRanks [3]
        1    done       |
        2    tick       | KEEP_ALIVE, Look
        2    seen 3     | 202 3 at 2 after a
        3    209 3 uuid=c | KillRanks [3]
        3    done       | StartRanks [3]
        3    done       |
        4    tick       | KEEP_ALIVE, Look
        4    seen 3     | 202 3 at 4 after c
        """,
        MindSporePlans(0.0, 0.0, 0.0),
    )


def test_command_to_an_earlier_process_is_refused_and_the_mgr_gets_to_know_this_one() -> None:
    played(
        """
        0    203 for=earlier | ignored: it is meant for an earlier process, REGISTER, 201 2
        1    joined     | REGISTER, 201 2
        1    210 2 ours for=earlier | ignored: it is meant for an earlier process, REGISTER, 201 2
        2    210 2 ours for=incarnation | StartAll
        2    done       |
        3    208 1 for=earlier uuid=a | ignored: it is meant for an earlier process, REGISTER
        4    tick       | KEEP_ALIVE, Look
        4    seen 3     | 202 3 at 4
        5    203 for=earlier | ignored: it is meant for an earlier process, REGISTER, 202 3 at 4
        6    208 1 for=incarnation | KillAll
        6    203 for=incarnation |
        6    203 for=earlier | ignored: it is meant for an earlier process
        6    done       | KillAll
        6    done       | 202 at 6, leave 1: the Mgr has sent 203
        """
    )


def test_fault_is_repeated_to_an_original_mgr_only_after_it_was_away() -> None:
    """It would count a repeat that crosses its 208 as another fault; one that has restarted knows no Agent."""
    played(
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    seen 3     | 202 3 at 1
        40   tick       | KEEP_ALIVE, Look
        41   joined     | REGISTER
        42.9 woken      |
        43   woken      | 202 3 at 1
        43.1 woken      |
        80   tick       | KEEP_ALIVE
        """
    )


def test_fault_is_not_repeated_once_it_is_answered_or_over() -> None:
    played(
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    seen 3     | 202 3 at 1
        41   joined     | REGISTER
        42   208 1      | KillAll
        43   woken      |
        44   tick       | KEEP_ALIVE
        """
    )
    played(
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    seen 3     | 202 3 at 1
        41   joined     | REGISTER
        42   203        | KillAll
        43   woken      |
        44   tick       | KEEP_ALIVE
        """
    )
    supervisor = Supervisor(MindSporePlans(0.0, 0.0, 0.0), TIMES, "incarnation", "2", 0.0)
    for event, now, due in (
        (AgentJoined(), 0.0, None),
        (Commanded(messages.Go(2)), 0.0, None),
        (CallReturned(), 0.0, None),
        (Tick(), 1.0, None),
        (WorkerStatus(frozenset({3})), 1.0, None),
        (AgentJoined(), 41.0, 43.0),
        (Tick(), 42.0, 43.0),
        (WorkerStatus(), 42.0, None),
    ):
        supervisor.handle(event, now, 0)
        assert supervisor.due == due, event


def test_fault_that_is_over_by_itself() -> None:
    played(
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    seen 3     | 202 3 at 1
        2    tick       | KEEP_ALIVE, Look
        2    seen       | 202 at 2
        32   tick       | KEEP_ALIVE, REGISTER, Look
        400  tick       | KEEP_ALIVE, REGISTER
        """
    )


def test_restart_with_mindspores_pauses() -> None:
    played(
        BEGIN
        + """
        1    208 1      | KillAll
        2    done       |
        61   tick       | KEEP_ALIVE, REGISTER
        62   tick       | KEEP_ALIVE, StartAll
        63   done       |
        63   209 3 4    | KillRanks [3, 4]
        64   done       |
        78   tick       | KEEP_ALIVE
        79   tick       | KEEP_ALIVE, StartRanks [3, 4]
        """
    )


def test_no_pause_of_no_length() -> None:
    played(
        BEGIN
        + """
        1    208 1      | KillAll
        1    done       | StartAll
        """,
        MindSporePlans(0.0, 0.0, 0.0),
    )


def test_ranks_in_place_for_pytorch() -> None:
    """A rank that has failed and is not among them is reported again."""
    played(
        """
        0    joined     | REGISTER, 201 2
        0    210        | StartAll
        0    done       |
        1    tick       | KEEP_ALIVE, Look
        1    seen 3 4   | 202 3 4 at 1
        2    209 3      | StartRanks [3]
        2    done       |
        3    tick       | KEEP_ALIVE, Look
        3    seen 4     | 202 4 at 3
        """,
        PyTorchPlans(),
    )


def test_ranks_that_are_stopped_have_failed() -> None:
    played(
        BEGIN
        + """
        1    213 3      | KillRanks [3]
        1    done       |
        2    tick       | KEEP_ALIVE, Look
        2    seen 3     | 202 3 at 2
        """
    )


def test_commands_are_carried_out_in_their_order() -> None:
    """A look that has begun before a command says nothing about the workers after it."""
    played(
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    213 3      |
        1    213 4      |
        2    seen 3     | KillRanks [3]
        3    213 5      |
        3    done       | KillRanks [4]
        4    done       | KillRanks [5]
        5    done       |
        """
    )


def test_exit_waits_for_the_current_call_alone() -> None:
    played(
        BEGIN
        + """
        1    208 1      | KillAll
        1    213 3      |
        2    203        |
        3    done       | KillAll
        4    done       | 202 at 4, leave 1: the Mgr has sent 203
        """
    )


def test_exit_cuts_a_pause_short() -> None:
    played(
        BEGIN
        + """
        1    208 1      | KillAll
        1    done       |
        2    203        | KillAll
        3    done       | 202 at 3, leave 1: the Mgr has sent 203
        """
    )


def test_graceful_exit() -> None:
    played(
        BEGIN
        + """
        1    GRACE_EXIT | AskToEnd
        1    done       |
        2    tick       | KEEP_ALIVE, Look
        2    seen       |
        40   tick       | KEEP_ALIVE, Look
        41   joined     |
        42   208 1      | ignored: the Agent is to leave
        42   seen 3 4 ended | KillAll
        43   done       | leave 143: the Mgr has sent GRACE_EXIT
        """
    )


def test_graceful_exit_ends_after_600_seconds() -> None:
    played(
        BEGIN
        + """
        1    GRACE_EXIT | AskToEnd
        1    failed     |
        600  tick       | KEEP_ALIVE, Look
        600  failed     |
        601  tick       | KEEP_ALIVE, KillAll
        601  failed     | leave 143: the Mgr has sent GRACE_EXIT
        """
    )


def test_exit_cuts_a_graceful_one_short() -> None:
    played(
        BEGIN
        + """
        1    GRACE_EXIT | AskToEnd
        1    done       |
        2    tick       | KEEP_ALIVE, Look
        2    203        |
        3    seen       | KillAll
        3    done       | 202 at 3, leave 1: the Mgr has sent 203
        """
    )


def test_fault_without_an_answer() -> None:
    """The time counts from the last new set, and ends with 208 or 209."""
    begin = (
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    seen 3     | 202 3 at 1
        100  tick       | KEEP_ALIVE, Look
        100  seen 3 4   | 202 3 4 at 100
        399  tick       | KEEP_ALIVE, Look
        """
    )
    left = """
        399  seen 3 4   |
        400  tick       | KEEP_ALIVE, KillAll
        400  done       | leave 143: no answer to a fault within 300 s
        """
    answered = """
        399  209 5      |
        399  seen 3 4   | KillRanks [5]
        400  tick       | KEEP_ALIVE, REGISTER
        """
    played(begin + left)
    played(begin + answered)
    off = AgentTimes(join=180.0, go=900.0, repeat=30.0, grace=600.0)
    played(begin + "500 seen 3 4 |\n 9999 tick | KEEP_ALIVE, Look", times=off)


def test_workers_that_could_not_be_started() -> None:
    played(
        """
        0    joined     | REGISTER, 201 2
        0    210 2      | StartAll
        1    failed     | KillAll
        1    failed     | leave 1: the workers could not be started
        """
    )


def test_call_that_fails_ends_its_command() -> None:
    """The next look says what has become of the workers."""
    played(
        BEGIN
        + """
        1    tick       | KEEP_ALIVE, Look
        1    seen 3     | 202 3 at 1
        2    208 1      | KillAll
        2    213 4      |
        3    failed     | KillRanks [4]
        3    done       |
        4    tick       | KEEP_ALIVE, Look
        4    failed     |
        5    tick       | KEEP_ALIVE, Look
        5    seen 3     | 202 3 at 5
        """
    )


def test_worker_that_ends_is_looked_at_at_once() -> None:
    played(
        BEGIN
        + """
        0.1  ended      | Look
        0.1  seen 1     | 202 1 at 0
        0.2  ended      | Look
        0.2  ended      |
        0.2  seen 1     | Look
        0.2  seen 1 2   | 202 1 2 at 0
        0.3  seen 1 2   |
        """
    )


def test_worker_that_ends_during_a_plan_is_looked_at_after_it() -> None:
    played(
        """
        0    joined     | REGISTER, 201 2
        0    ended      |
        0    210 2      | StartAll 2
        0    ended      |
        0    done       | Look
        0    seen       |
        1    213 1      | KillRanks [1]
        1    ended      |
        1    done       | Look
        1    seen 1     | 202 1 at 1
        2    203        | KillAll
        2    ended      |
        2    done       | 202 at 2, leave 1: the Mgr has sent 203
        """,
        PyTorchPlans(),
    )


def test_reports_name_the_state_of_the_workers() -> None:
    supervisor = Supervisor(PyTorchPlans(), TIMES, "incarnation", "2", 0.0)
    supervisor.handle(AgentJoined(), 0.0, 0)
    supervisor.handle(Commanded(messages.Go(2)), 0.0, 0)
    supervisor.handle(CallReturned(), 0.0, 0)
    supervisor.handle(Tick(), 1.0, 1)
    supervisor.handle(WorkerStatus(state="HEALTHY"), 1.0, 1)
    assert SendReport(messages.keep_alive("HEALTHY")) in supervisor.handle(Tick(), 2.0, 2)
    failed = supervisor.handle(WorkerStatus(failed=frozenset({3}), state="FAILED"), 2.0, 2)
    assert failed == [SendReport(messages.fault({3}, 2, worker_state="FAILED"))]


@pytest.mark.parametrize("ours", [False, True])
def test_progress_is_told_to_a_manager_of_this_package(ours: bool) -> None:
    supervisor = Supervisor(PyTorchPlans(), TIMES, "incarnation", "2", 0.0)
    seen = NodeProgress(2, watched=2)
    assert supervisor.handle(Tick(progress=seen), 0.0, 0) == []
    supervisor.handle(Commanded(messages.Go(2, ours=ours)), 0.0, 0)
    told = messages.keep_alive("", seen if ours else None)
    assert SendReport(told) in supervisor.handle(Tick(progress=seen), 1.0, 1)
    supervisor.handle(CallReturned(), 1.0, 1)
    supervisor.handle(Tick(), 1.5, 1)
    failed = supervisor.handle(WorkerStatus(failed=frozenset({3}), progress=seen), 2.0, 2)
    assert failed == [SendReport(messages.fault({3}, 2, progress=seen if ours else None))]


@pytest.mark.parametrize("restarts", [False, True])
def test_an_agent_is_of_a_job_that_restarts_what_fails_as_its_go_says(restarts: bool) -> None:
    supervisor = Supervisor(PyTorchPlans(), TIMES, "incarnation", "2", 0.0)
    supervisor.handle(Commanded(messages.Go(2, restarts=restarts)), 0.0, 0)
    assert supervisor.is_of_job is restarts


MET = """
    0    joined              | REGISTER, 201 2
    0    210 2 ours round 1  | Offer
    0    offered 10.0.0.7:70 | 304 1 2 10.0.0.7:70
    0.5  305 1               | StartAll 2 {meeting}
    1    done                |
""".format(meeting=messages.Meeting(1, "10.0.0.7:7001", (2, 2)))
"""An Agent meets the others by way of the Manager."""


def test_nodes_meet_by_way_of_the_manager_and_leave_together() -> None:
    played(
        MET
        + """
        2    tick                    | KEEP_ALIVE, Look
        2    seen finished ended     | 306 1, waits for release
        3    tick                    | KEEP_ALIVE
        3    209 0                   | ignored: no worker runs
        4    307 7                   | ignored: nobody waits for it
        33   tick                    | KEEP_ALIVE, waits for release, REGISTER round 1, 306 1
        34   307 1                   | return result
        """,
        PyTorchPlans(),
    )


def test_workers_that_run_learn_where_their_store_is_when_another_node_has_come_back() -> None:
    moved = messages.Meeting(1, "10.0.0.7:7009", (2, 2))
    played(
        MET
        + f"""
        2    305 1 waits 99          | waits for 1, 99 s
        3    305 1                   |
        4    305 1 10.0.0.7:7009     | TakeMeeting {moved}
        4    done                    |
        5    305 1 10.0.0.7:7009     |
        6    305 2                   | ignored: nobody waits for it
        40   tick                    | KEEP_ALIVE, REGISTER round 1, Look
        """,
        PyTorchPlans(),
    )


def test_a_round_begins_when_the_processes_of_the_one_before_have_ended() -> None:
    again = messages.Meeting(2, "10.0.0.7:7001", (2, 2))
    played(
        MET
        + f"""
        2    208 2 round 2 uuid=u-1  | KillAll
        3    done                    | Offer
        3    offered                 | 304 2 2
        4    tick                    | KEEP_ALIVE
        5    305 1                   | ignored: nobody waits for it
        5    305 2                   | StartAll 2 {again}
        6    done                    |
        7    208 2 round 2           | ignored: the Agent is in round 2
        """,
        PyTorchPlans(),
    )


def test_a_later_round_and_an_end_take_the_place_of_a_wait() -> None:
    played(
        MET
        + """
        2    208 2 round 2           | KillAll
        3    208 2 round 3           |
        4    done                    | Offer
        4    offered                 | KillAll
        5    done                    | Offer
        5    offered                 | 304 3 2
        6    208 2 round 4           | KillAll
        6    done                    | Offer
        6    offered                 | 304 4 2
        7    203                     | KillAll
        7    done                    | 202 at 7, leave 1: the Mgr has sent 203
        """,
        PyTorchPlans(),
    )
    played(
        MET
        + """
        2    208 2 round 2           | KillAll
        2    done                    | Offer
        2    offered                 | 304 2 2
        3    GRACE_EXIT              | AskToEnd
        3    done                    |
        4    tick                    | KEEP_ALIVE, Look
        4    seen ended              | KillAll
        4    done                    | leave 143: the Mgr has sent GRACE_EXIT
        """,
        PyTorchPlans(),
    )
    played(
        MET
        + """
        2    tick                    | KEEP_ALIVE, Look
        2    seen finished ended     | 306 1, waits for release
        3    208 2 round 2           | KillAll
        3    done                    | Offer
        3    offered                 | 304 2 2
        """,
        PyTorchPlans(),
    )


def test_whom_an_agent_waits_for_is_said_at_once_and_every_half_minute() -> None:
    played(
        """
        0    joined                  | REGISTER, 201 2
        1    305 1 waits 99          | waits for 1, 99 s
        9    305 1 waits 90          |
        9    305 1,2 waits 90        |
        31   tick                    | waits for 1,2, 90 s, REGISTER, 201 2
        35   210 2 ours round 1      | Offer
        35   offered                 | 304 1 2
        61   tick                    | KEEP_ALIVE, REGISTER round 1, 304 1 2
        """,
        PyTorchPlans(),
    )


def test_an_agent_waits_for_its_go_as_long_as_its_manager_waits_for_nodes() -> None:
    played(
        """
        0    joined                  | REGISTER, 201 2
        1    305 1 waits 2000        | waits for 1, 2000 s
        1999 tick                    | waits for 1, 2000 s, REGISTER, 201 2
        2031 tick                    | waits for 1, 2000 s, leave 1: no go within 900 s
        """,
        PyTorchPlans(),
    )


def test_a_manager_that_says_nothing_ends_a_wait() -> None:
    played(
        """
        0    joined                  | REGISTER, 201 2
        0    210 2 ours round 1      | Offer
        0    offered                 | 304 1 2
        129  tick                    | KEEP_ALIVE, REGISTER round 1, 304 1 2
        130  tick                    | KEEP_ALIVE, KillAll
        130  done                    | leave 143: no word of the other nodes within 130 s
        """,
        PyTorchPlans(),
    )
    played(
        MET
        + """
        2    tick                    | KEEP_ALIVE, Look
        2    seen finished ended     | 306 1, waits for release
        132  tick                    | KEEP_ALIVE, waits for release, return result
        """,
        PyTorchPlans(),
    )


def test_manager_that_is_lost_with_its_node_ends_a_fault_without_an_answer() -> None:
    """A platform would bring it back at any time. A Manager that waits for a node says so, and ends the wait itself."""
    fault = """
        2    ended                   | Look
        2    seen 3 ended            | 202 3 at 2
    """
    times = AgentTimes(join=180.0, go=900.0, repeat=300.0, grace=600.0)
    silent = """
        131  tick                    | KEEP_ALIVE, Look
        131  seen 3 ended            |
        132  tick                    | KEEP_ALIVE, KillAll
        132  done                    | leave 143: no answer to a fault within 130 s
    """
    waits = """
        100  305 0 waits 99          | waits for 0, 99 s
        228  tick                    | KEEP_ALIVE, waits for 0, 99 s, Look
        228  seen 3 ended            |
        229  tick                    | KEEP_ALIVE, KillAll
    """
    for rest in (silent, waits):
        played(MET + fault + rest, PyTorchPlans(), times)


def test_a_start_without_a_round_is_the_frameworks_own() -> None:
    played(
        MET
        + """
        2    208 2                   | KillAll
        2    done                    | StartAll 2
        2    done                    |
        3    tick                    | KEEP_ALIVE, Look
        3    seen finished ended     | return result
        """,
        PyTorchPlans(),
    )


def test_a_reason_of_the_managers_is_that_of_the_end() -> None:
    supervisor = Supervisor(PyTorchPlans(), TIMES, "incarnation", "2", 0.0)
    ends = messages.Exit("node 1 has not come within 100 s", Cause(rank=3, node=1), (0,))
    supervisor.handle(Commanded(ends), 0.0, 0)
    (leaves,) = [each for each in supervisor.handle(CallReturned(), 0.0, 0) if isinstance(each, Leave)]
    assert leaves == Leave(1, "the Mgr has sent 203: node 1 has not come within 100 s", ends)


def test_an_agent_with_a_fault_tells_a_new_manager_of_its_round() -> None:
    played(
        MET
        + """
        2    ended                   | Look
        2    seen 3 ended            | 202 3 at 2
        3    joined                  | REGISTER round 1, 202 3 at 2
        """,
        PyTorchPlans(),
    )


def test_a_wait_may_be_told_before_the_join_is_known() -> None:
    played("0 305 1 waits 99 | waits for 1, 99 s", PyTorchPlans())
