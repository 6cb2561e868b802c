"""The state of a job: its document, and what follows from its fields."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from taskd_net.observe.fields import document_of
from taskd_net.observe.job_view import AgentView, BooksView, ClusterdView, HangView, JobCounters, JobView, LeaderView
from tests.observe.jobs import AT, IN_ETCD, WHOLE

pytestmark = pytest.mark.oldest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "manager.md"


def test_manager_without_its_etcd_decides_nothing() -> None:
    view = replace(IN_ETCD, plugins_off=(), unprotected=0)
    state, then = "in etcd://10.0.0.1:2379/taskd/J is not", "the Manager decides nothing until it is"
    assert view.manager_trouble == [f"the state {state} durable: {then}"]
    silent = replace(view, counters=JobCounters(), leader=replace(view.leader, decides=False))
    assert silent.manager_trouble == [f"the lease {state} confirmed: {then}"]


def test_leader_of_a_job_with_its_state_in_etcd() -> None:
    assert document_of(IN_ETCD)["leader"] == {
        "name": "10.0.0.7:9601", "term": 41, "since": AT - 200, "changes": 2, "decides": True, "last_commit": AT - 3,
    }  # fmt: skip
    assert document_of(WHOLE)["leader"] is None
    just_begun = replace(IN_ETCD, leader=LeaderView("a", 1, AT))
    assert document_of(just_begun)["leader"]["last_commit"] is None


def test_a_job_in_trouble() -> None:
    found = document_of(WHOLE)
    assert (found["job"], found["time"], found["expected"]) == ("J", AT, {"nodes": 5, "processes": 2})
    assert (found["decides_on"], found["restarts_left"], found["retry_time"]) == ("ClusterD", 2, 1)
    assert found["trouble"] == [
        "the job is hung: `taskd-net job hang` tells more",
        "the state in /var/lib/taskd/J.sqlite3 is not durable: a restart may repeat commands",
        "plugin Greeter is off until the Manager restarts",
        "unprotected: 3 nodes train without MindIO's controller until they are started again",
        "Agents in trouble: 2 of 5",
    ]
    assert found["state"] == {"file": "/var/lib/taskd/J.sqlite3", "durable": False, "failures": 1}
    assert [stream["owner"] for stream in found["streams"]] == [None, "PodReschedulingPlugin"]
    assert found["agents"][2] == {
        "rank": 2, "state": "faulty", "fault_ranks": [4, 5], "fault_at": AT - 1, "heartbeat": AT - 1,
        "silent_since": None, "commands": [], "worker_state": "FAILED",
    }  # fmt: skip
    assert found["profiling"] == {"-1": 6, "10": 2}
    assert found["counters"]["fault_to_command"] == 0.125
    assert found["clusterd"] == {
        "address": "10.0.0.7:8899",
        "state": "subscribed",
        "orders": {"taken": 12, "repeated": 1, "foreign": 2, "unreadable": 3},
        "keep_alives": 40,
        "unknown_actions": 1,
        "failed_actions": 2,
        "reports": {"sent": 5, "refused": 1, "unanswered": 4, "void": 1},
        "reconnects": 6,
        "rounds": 7,
    }
    own, round_ = found["decisions"]
    assert (own["plugin"], own["restarts_left"], round_["restarts_left"]) == ("Manager", None, 2)
    assert round_["messages"][0] == {
        "to": "Agent/1", "code": 203, "message": "", "uuid": "c", "answer": 6001, "lost": True,
    }  # fmt: skip


def test_a_hang_of_a_job() -> None:
    assert document_of(WHOLE)["hang"] == {
        "state": "hung", "since": AT - 312, "noticed": AT - 11, "limit": 300.0,
        "words": "no rank has marked anything for longer than its limit",
        "guilty": [{"rank": 3, "node": 1, "pid": 4711, "seen": "stopped", "words": "is stopped (SIGSTOP)"}],
        "limits": {"section checkpoint": 720.2, "steps": 300.0},
    }  # fmt: skip
    never = document_of(JobView())["hang"]
    assert (never["state"], never["since"], never["noticed"], never["words"]) == ("not watched", None, None, None)


def test_failures_of_a_job() -> None:
    found = document_of(WHOLE)
    lost, whole, bare = found["failures"]
    assert lost["lost"] == [2]
    assert whole == {
        "number": 6, "time": AT - 30, "lived": 41.5, "others": [0, 2],
        "answer": "all ranks restarted: round 2", "answered": AT - 29, "lost": [], "stepped": True, "hung": None,
        "phases": {"noticed": 0.5, "decided": 0.01, "restarted": 2.25, "joined": 3.0, "loaded": 1.5},
        "first": {
            "rank": 3, "node": 1, "host": "worker-7", "pid": 4711, "end": "exit code 1", "time": AT - 31,
            "type": "ValueError", "message": "ValueError: boom", "file": "/job/train.py", "line": 42,
            "function": "step", "traceback": ["Traceback (most recent call last):", "ValueError: boom"],
            "last_lines": [],
        },
    }  # fmt: skip
    assert bare["first"]["last_lines"] == ["step 41"]
    assert (bare["answer"], bare["answered"], bare["first"]["type"], bare["first"]["file"]) == (None,) * 4
    assert found["ended"] == "6 failures within 600 s" and document_of(JobView())["ended"] is None


def test_books_of_a_run() -> None:
    assert document_of(WHOLE)["books"] == {
        "wall": 1000.0, "stage": "steps", "done": 420, "again": 10, "step": 405, "highest": 410, "of": 1000,
        "left": 1395.5, "goodput": 0.812,
        "seconds": {"steps": 812.0, "again": 20.0, "start": 8.0, "data": 152.74, "noticed": 0.5, "restarted": 6.76},
    }  # fmt: skip
    assert document_of(JobView())["books"] is None
    unmarked = document_of(JobView(books=BooksView(wall=5.0, seconds={"unknown": 5.0})))["books"]
    assert (unmarked["goodput"], unmarked["step"], unmarked["left"], unmarked["stage"]) == (None,) * 4
    assert BooksView(highest=1).goodput is None and BooksView(wall=2.0, highest=1).goodput == 0.0


def test_a_refusal_of_clusterd_is_trouble() -> None:
    refused = ClusterdView("10.0.0.7:8899", "away", refused="Init 502, ClusterD does not know the job (yet)")
    view = replace(WHOLE, agents_in_trouble=0, plugins_off=(), counters=JobCounters(), clusterd=refused, unprotected=0)
    view = replace(view, hang=HangView())
    assert view.trouble == ["ClusterD at 10.0.0.7:8899 refuses the job: Init 502, ClusterD does not know the job (yet)"]


@pytest.mark.parametrize(
    ("agent", "state"),
    [
        (AgentView(0), "unregistered"),
        (AgentView(0, True), "running"),
        (AgentView(0, True, asking=True), "asking"),
        (AgentView(0, True, left=True, silent_since=5.0), "left"),
        (AgentView(0, True, silent_since=5.0), "silent"),
        (AgentView(0, True, worker_state="SUCCEEDED"), "finished"),
        (AgentView(0, True, worker_state="SUCCEEDED", silent_since=5.0), "silent"),
        (AgentView(0, True, fault=True, silent_since=5.0), "faulty"),
        (AgentView(0, True, asking=True, fault=True), "faulty"),
        (AgentView(0, True, fault=True, exited=True), "exited"),
    ],
)
def test_states_of_an_agent(agent: AgentView, state: str) -> None:
    found = document_of(JobView(agents=(agent,)))["agents"][0]
    assert (found["state"], found["heartbeat"], found["fault_at"]) == (state, None, None)


def test_a_job_that_has_just_begun() -> None:
    found = document_of(JobView("J", AT))
    assert (found["trouble"], found["expected"], found["decides_on"]) == ([], None, "reports")
    assert found["counters"]["fault_to_command"] is None and found["state"]["file"] is None
    assert found["clusterd"] is None


def test_the_mean_time_of_a_command_is_rounded_to_microseconds() -> None:
    counters = JobCounters(fault_to_command_count=3, fault_to_command_seconds=1.0)
    assert document_of(JobView(counters=counters))["counters"]["fault_to_command"] == 0.333333


def names(document: object) -> set[str]:
    """The keys of a document and of the objects in it; numbers by plugin or by state are no keys."""
    if isinstance(document, list):
        return {name for each in document for name in names(each)}
    if not isinstance(document, dict):
        return set()
    counted = ("profiling", "plugin_failures", "decisions", "device_faults")
    by_other = counted if "rounds" in document else ("profiling", "limits")
    below = (value for name, value in document.items() if name not in by_other)
    return set(document).union(*map(names, below))


@pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")
def test_every_field_is_documented() -> None:
    (section,) = re.findall(r"^## Looking at it$(.*?)^## ", DOCUMENT.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    tables = re.sub(r"```.*?```", "", section, flags=re.DOTALL)
    known = set(re.findall(r"\w+", " ".join(re.findall(r"`([^`]+)`", tables))))
    assert names(document_of(IN_ETCD)) - known == set()


def test_troubles_of_agents_are_not_those_of_the_manager() -> None:
    assert replace(WHOLE, counters=JobCounters(), plugins_off=(), unprotected=0).manager_trouble == []
