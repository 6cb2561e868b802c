"""The state of a job in text."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from taskd_net.cli.job_lines import AGENTS, DECISIONS, draw
from taskd_net.observe.fields import document_of
from taskd_net.observe.job_view import (
    AGENTS_SHOWN,
    DECISIONS_SHOWN,
    AgentView,
    BooksView,
    ClusterdView,
    DecisionView,
    JobView,
    MessageView,
)
from tests.observe.jobs import AT, IN_ETCD, WHOLE


def lines(view: JobView, *, everything: bool = False) -> list[str]:
    """The lines without their styles."""
    return [text for text, _ in draw(document_of(view), everything=everything)]


def test_one_look_shows_the_job_its_trouble_and_what_was_decided() -> None:
    text = "\n".join(lines(WHOLE))
    for part in (
        "job J of 5x2, ClusterD decides on faults, restarts: platform, waits for node 1,3, for at most 14 min",
        "restarts left: 2, RetryTime 1, PAUSED by Clus",
        "\nTIME  16 min, goodput 81%, step 405 of 1000, 10 steps done again, 23 min left\n  steps 13 min, data 2 min, ",
        ", steps done again 20 s, start-up 8.0 s, until the processes were there 6.8 s, failures until noticed 0.5 s\n",
        "since its start: 12 decisions, restart rounds: 1, faults answered in 125 ms on average",
        "\nplugin Greeter is off until the Manager restarts\n",
        "\nunprotected: 3 nodes train without MindIO's controller until they are started again\n",
        "ResumeTrainingAfterFaultStream  PodReschedulingPlugin  barred after a failure: recoverPlugin",
        "ProfilingCollect                free",
        "\nCLUSTERD  10.0.0.7:8899  orders come in, 6 reconnects\n",
        "\n  orders   12 taken, 1 repeated, 2 foreign, 3 unreadable; 40 keep-alives\n  actions  1 unknown, 2 failed\n",
        "\n  reports  5 sent, 1 refused, 4 unanswered, 1 void\n",
        "AGENTS  5 of 5, 2 in trouble, 1 silent; 8 of 10 Workers, profiling 6 unknown, 2 in 1410",
        "Agent/2    FAULTY: ranks 4,5  workers FAILED  reported 1 s ago",
        "Agent/1    sent away (203), has not come back  heartbeat 7 s ago  on their way: 203 exit",
        "Agent/3    waits for its start",
        "Agent/4    silent since ",
        "Manager  after Agent/3 STATUS 201 3\n      210 start (3) to Agent 0-1: acknowledged\n",
        "round: 2 restarts left\n      203 exit to Agent 1: LOST, last answer 6001\n",
        "208 restart all (2) to Agent 0: on its way, last answer 5001\n",
        "208 restart all (2) to Agent 2: on its way\n      controller restart",
    ):
        assert part in text, part


def test_a_job_that_stands_still_is_the_first_line() -> None:
    assert lines(WHOLE)[0] == "HUNG, no mark for 5 min: rank 3 of node 1 is stopped (SIGSTOP)"
    suspected = replace(WHOLE, hang=replace(WHOLE.hang, state="suspected", guilty=()))
    words = "no rank has marked anything for longer than its limit"
    assert lines(suspected)[0] == f"SUSPECTED, no mark for 5 min: who holds it up is not known: {words}"
    calm = replace(WHOLE, hang=replace(WHOLE.hang, state="unknown"))
    assert lines(calm)[0].startswith("job J of 5x2, ")


def test_leader_is_named_with_its_age_and_that_of_its_last_commit() -> None:
    (found,) = (line for line in lines(IN_ETCD) if "leads" in line)
    since = time.strftime("%H:%M:%S", time.localtime(AT - 200))
    assert found == f"10.0.0.7:9601 leads since {since}, for 3 min, term 41, after 2 changes, last commit 3 s ago"
    leader = replace(IN_ETCD.leader, changes=1, committed=0.0, decides=False)
    (found,) = (line for line in lines(replace(IN_ETCD, leader=leader)) if "leads" in line)
    assert found.endswith("after 1 change, no commit yet, DECIDES NOTHING")
    assert not any("leads" in line for line in lines(WHOLE))


def test_a_job_that_has_just_begun() -> None:
    assert lines(JobView("J", AT)) == [
        "job J, decides on reports, restarts left: not said yet",
        "since its start: 0 decisions, restart rounds: 0, no state file",
        "",
        "STREAMS",
        "",
        "AGENTS  0, 0 in trouble; 0 Workers",
        "",
        "DECISIONS  none yet",
    ]


def test_goodput_of_a_script_that_marks_no_steps_is_not_known() -> None:
    books = BooksView(wall=7.5, stage="unknown", seconds={"start": 2.5, "unknown": 5.0})
    text = "\n".join(lines(JobView("J", AT, books=books)))
    assert "TIME  7.5 s, goodput not known: the script marks no steps\n  unknown 5.0 s, start-up 2.5 s\n" in text
    marking = BooksView(wall=10.0, seconds={"steps": 10.0}, step=3, highest=3)
    assert "TIME  10 s, goodput 100%, step 3\n" in "\n".join(lines(JobView("J", AT, books=marking)))


@pytest.mark.parametrize(("state", "words"), [("off", "recovery is off for the job"), ("away", "AWAY"), ("new", "new")])
def test_states_of_clusterds_client(state: str, words: str) -> None:
    found = lines(JobView("J", AT, clusterd=ClusterdView("c:8899", state)))
    assert f"CLUSTERD  c:8899  {words}, 0 reconnects" in found


def test_many_agents_are_folded_but_those_in_trouble() -> None:
    agents = tuple(AgentView(rank, True, fault=rank == 500) for rank in range(AGENTS_SHOWN))
    view = JobView("J", AT, agents=agents, agents_known=5000, agents_in_trouble=1)
    short = [line for line in lines(view) if line.startswith("  ")]
    assert short[0].startswith("  Agent/500  FAULTY: ranks unknown")
    assert len(short) == 1 + AGENTS + 1 and short[-1] == f"  and {5000 - 1 - AGENTS} more"
    assert f"  and {5000 - AGENTS_SHOWN} more" in lines(view, everything=True)


def test_many_decisions_are_cut_to_the_last() -> None:
    decisions = tuple(DecisionView(number, AT, "P", "time") for number in range(DECISIONS_SHOWN))
    view = JobView("J", AT, decisions=decisions)
    assert f"DECISIONS  the last {DECISIONS}, oldest first" in lines(view)
    numbers = [line.split()[0] for line in lines(view, everything=True) if line.startswith("  #")]
    assert numbers == [f"#{number}" for number in range(DECISIONS_SHOWN)]


def test_a_command_to_all_and_a_thousand_commands() -> None:
    everybody = DecisionView(1, AT, "ProfilingPlugin", "time", (MessageView("Worker/All/All", 701, "", "a", 0),), 1, 1)
    shown = tuple(MessageView(f"Agent/{rank}", 9000, "", str(rank), 0) for rank in range(16))
    thousand = DecisionView(2, AT, "P", "time", shown, 1000, 990, 4)
    found = lines(replace(WHOLE, decisions=(everybody, thousand)))
    assert "      701 profiling to Worker/All/All: acknowledged" in found
    assert "      9000 to Agent 0-15: acknowledged" in found
    assert "      of all 1000 commands 990 acknowledged, 4 lost, 6 open" in found
