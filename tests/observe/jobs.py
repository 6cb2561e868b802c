"""An invented job in trouble, with every field of its view in use: its state is in a file, or in etcd."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from taskd_net.observe.job_view import (
    AgentView,
    BooksView,
    CauseView,
    ClusterdView,
    DecisionView,
    DeviceView,
    FailureView,
    GuiltyView,
    HangView,
    JobCounters,
    JobView,
    LeaderView,
    MessageView,
    StreamView,
)

AT: Final = 1_700_000_100.0

WHOLE: Final = JobView(
    job_id="J",
    at=AT,
    nodes=5,
    processes_per_node=2,
    recovers=True,
    restarts="platform",
    restarts_left=2,
    waits_for="1,3",
    waits_left=880.5,
    nodes_missing=2,
    paused=True,
    retry_time=1,
    streams=(
        StreamView("ProfilingCollect", "", ("ProfilingPlugin",)),
        StreamView(
            "ResumeTrainingAfterFaultStream",
            "PodReschedulingPlugin",
            ("StopTrainPlugin", "recoverPlugin", "PodReschedulingPlugin"),
            ("recoverPlugin",),
        ),
    ),
    agents=(
        AgentView(0, True, heartbeat=AT - 1, commands=(208,)),
        AgentView(1, True, exited=True, heartbeat=AT - 7, commands=(203,), left=True),
        AgentView(2, True, fault=True, fault_ranks=(4, 5), fault_at=AT - 1, heartbeat=AT - 1, worker_state="FAILED"),
        AgentView(3, asking=True),
        AgentView(4, True, heartbeat=AT - 100, silent_since=AT - 99),
    ),
    agents_known=5,
    agents_in_trouble=2,
    agents_silent=1,
    workers=8,
    profiling={-1: 6, 10: 2},
    decisions=(
        DecisionView(
            11,
            AT - 60,
            "",
            "Agent/3 STATUS 201 3",
            (MessageView("Agent/0", 210, "3", "a", 0), MessageView("Agent/1", 210, "3", "b", 0)),
            sent=2,
            acknowledged=2,
        ),
        DecisionView(
            12,
            AT - 8,
            "PodReschedulingPlugin",
            'Agent/1 STATUS 202 {"fault_ranks": [3], "restart_times": -1}',
            (
                MessageView("Agent/1", 203, "", "c", 6001, lost=True),
                MessageView("Agent/0", 208, "2", "d", 5001),
                MessageView("Agent/2", 208, "2", "e"),
            ),
            sent=3,
            lost=1,
            calls=("controller restart",),
            restarts=2,
        ),
    ),
    counters=JobCounters(
        *(901, 2, 3, 14, {"Manager": 11, "PodReschedulingPlugin": 1}, 1, 5, 4, 2, 1, {"Greeter": 3}, 1, False),
        device_faults={"L5 RestartNPU": 2, "PreSeparateNPU": 1},
        fault_to_command=((0.1, 0), (0.2, 1)),
        fault_to_command_count=1,
        fault_to_command_seconds=0.125,
    ),
    state_file="/var/lib/taskd/J.sqlite3",
    plugins_off=("Greeter",),
    clusterd=ClusterdView(
        *("10.0.0.7:8899", "subscribed"),
        *(12, 1, 2, 3, 40, 1, 2),
        *(5, 1, 4, 1),
        reconnects=6,
        rounds=7,
    ),
    fault_mode="grace",
    devices=(
        DeviceView(
            *("host-a/Ascend910-1", 1, 3, "SeparateNPU", "L6", "8C1F8609", "the code is listed as SeparateNPU", True),
            reporter="Agent/1",
            since=AT - 90,
        ),
        DeviceView(
            *("host-b/Ascend910-0", 2, None, "RestartNPU", "L5", "8C204E00", "it is listed", False),
            action="reset device",
            since=AT - 3,
        ),
    ),
    devices_known=2,
    devices_isolated=1,
    unprotected=3,
    failures=(
        FailureView(5, AT - 90, 9.0, CauseView(1, 0, end="exit code 1"), (0,), "round 1", AT - 80, lost=(2,)),
        FailureView(
            *(6, AT - 30, 41.5),
            CauseView(
                *(3, 1, "worker-7", 4711, "exit code 1", AT - 31, "ValueError", "ValueError: boom"),
                *("/job/train.py", 42, "step", ("Traceback (most recent call last):", "ValueError: boom")),
            ),
            (0, 2),
            "all ranks restarted: round 2",
            AT - 29,
            phases={"noticed": 0.5, "decided": 0.01, "restarted": 2.25, "joined": 3.0, "loaded": 1.5},
            stepped=True,
        ),
        FailureView(
            *(7, AT - 2, 5.0),
            CauseView(0, 0, "worker-6", 12, "ended by SIGKILL", AT - 2, last_lines=("step 41",)),
        ),
    ),
    ended="6 failures within 600 s",
    hang=HangView(
        *("hung", AT - 312, AT - 11, 300.0, "no rank has marked anything for longer than its limit"),
        guilty=(GuiltyView(3, 1, 4711, "stopped", "is stopped (SIGSTOP)"),),
        limits={"steps": 300.0, "section checkpoint": 720.25},
    ),
    books=BooksView(
        wall=1000.0,
        stage="steps",
        seconds={"steps": 812.0, "again": 20.0, "start": 8.0, "data": 152.74, "noticed": 0.5, "restarted": 6.76},
        done=420,
        again=10,
        step=405,
        highest=410,
        of=1000,
        left=1395.5,
    ),
)

IN_ETCD: Final = replace(
    WHOLE,
    state_file="etcd://10.0.0.1:2379/taskd/J",
    leader=LeaderView("10.0.0.7:9601", 41, AT - 200, 2, True, AT - 3),
)
"""The same job with its state in etcd, and a leader that decides."""

REFUSED: Final = replace(
    IN_ETCD,
    clusterd=replace(WHOLE.clusterd, refused="Init 502, ClusterD does not know the job"),
    failures=(*WHOLE.failures, FailureView(8, AT - 9, 42.0, hung="no mark for 300 s")),
)
"""The same job, which ClusterD refuses, and which hung."""
