"""The scenarios: for each its steps, and the evidence that it has to leave.

In each of them the Manager is killed with -9 in the middle, and the next one goes on from the state file.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net_lab.demos.job.evidence import Evidence, Summary
from taskd_net_lab.demos.job.stage import Stage
from taskd_net_lab.demos.job.terms import BEGAN, COMMAND, ENDED, FAILS, HUNG, REPLY, SILENT

AGENTS: Final = ("Agent/0", "Agent/1")
WORKERS: Final = ("Worker/0", "Worker/1", "Worker/2", "Worker/3")
ALL: Final = ", ".join((*AGENTS, "Mgr", *WORKERS))
KILLED: Final = {"Mgr": "-9"}

HANGING: Final = """\
import time
from taskd_net_lab.demos.job.witness import Witness
from taskd_net.job.decide.plugins import Plugin, Progress


class Hanging(Plugin):
    name = "Hanging"
    streams = {"ResumeTrainingAfterFaultStream": 0}

    def __init__(self):
        super().__init__(None)

    def wants(self, snapshot):
        Witness("Plugin").say("hung")
        time.sleep(3600)

    def step(self, stream, snapshot):
        return Progress.FINAL
"""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    Args:
        name: for the command line.
        title: a sentence for people.
        play: the steps.
        expected: the evidence that they have to leave.
        restarts: restarts that each launcher has left at first.
        variables: further environment of the processes.
        stage: the kind of stage that it is played on.
    """

    name: str
    title: str
    play: Callable[[Stage], Awaitable[None]]
    expected: Summary
    restarts: int = 3
    variables: Mapping[str, str] = field(default_factory=dict)
    stage: type[Stage] = Stage


def _got(who: str, code: int) -> Callable[[Evidence], bool]:
    return lambda seen: seen.count(who, COMMAND, code) > 0


def _starts(times: int, *workers: str) -> Callable[[Evidence], bool]:
    return lambda seen: all(seen.count(worker, BEGAN) == times for worker in workers)


async def _start(stage: Stage) -> None:
    await stage.start_mgr()
    await stage.launch(0)
    await stage.until(_starts(1, *WORKERS[:2]), "node 0 starts")
    await stage.replace_mgr()
    await stage.launch(1, restarts=5)  # the job's count is that of the first Agent
    await stage.until(_starts(1, *WORKERS), "node 1 starts")


async def _worker_dies(stage: Stage) -> None:
    await stage.start_job()
    await _replace_node_1(stage)


async def _replace_node_1(stage: Stage) -> None:
    stage.freeze("Agent/0")  # so that its 208 is on its way when the Manager is killed
    await stage.kill("Worker/3")
    await stage.until(lambda seen: seen.count("Agent/1", ENDED) == 1, "Agent 1 leaves")
    await stage.replace_mgr()
    stage.thaw("Agent/0")
    await stage.until(_starts(2, *WORKERS[:2]), "Agent 0 restarts its training processes")
    await stage.launch(1)
    await stage.until(_starts(2, *WORKERS), "Agent 1 returns, and starts its training processes")


async def _rank_0_dies(stage: Stage) -> None:
    await stage.start_job()
    await stage.kill("Mgr")
    await stage.kill("Worker/0")
    await stage.start_mgr()
    await stage.until(lambda seen: seen.count("Agent/0", ENDED) == 1, "Agent 0 leaves")


async def _retry_time_grows(stage: Stage) -> None:
    await stage.start_job()
    stage.freeze("Agent/1")
    stage.set_retry_time(1)
    await stage.until(_starts(2, *WORKERS[:2]), "Agent 0 restarts its training processes")
    await stage.replace_mgr()
    stage.thaw("Agent/1")
    await stage.until(_starts(2, *WORKERS), "Agent 1 restarts its training processes")


async def _restarts_run_out(stage: Stage) -> None:
    await stage.start_job()
    stage.freeze("Agent/0")
    await stage.kill("Worker/3")
    await stage.until(lambda seen: seen.count("Agent/1", ENDED) == 1, "Agent 1 leaves")
    await stage.replace_mgr()
    stage.thaw("Agent/0")
    await stage.until(lambda seen: seen.count("Agent/0", ENDED) == 1, "Agent 0 leaves")
    await stage.launch(1)
    await stage.until(lambda seen: seen.count("Agent/1", ENDED) == 2, "Agent 1 returns, and leaves again")


async def _profiling(stage: Stage) -> None:
    await stage.start_job()
    stage.freeze("Worker/3")
    stage.signal("ProfilingSwitch", default=True, communication=True)
    await stage.until(lambda seen: all(_got(worker, 711)(seen) for worker in WORKERS[:3]), "three Workers get 711")
    await stage.replace_mgr()
    stage.thaw("Worker/3")
    await stage.until(_got("Worker/3", 711), "Worker 3 gets 711")
    await stage.all_registered()
    stage.signal("ProfilingSwitch", default=False, communication=False)
    await stage.until(lambda seen: all(_got(worker, 700)(seen) for worker in WORKERS), "all Workers get 700")


async def _switch(stage: Stage) -> None:
    await stage.start_job()
    stage.freeze("Worker/3")
    stage.signal("SwitchNic", ranks=[0, 1, 2, 3], ops=[True, True, True, True])
    await stage.until(lambda seen: all(_got(worker, 204)(seen) for worker in WORKERS[:3]), "three Workers get 204")
    await stage.replace_mgr()
    stage.thaw("Worker/3")
    await stage.until(lambda seen: seen.count("ClusterD", REPLY) > 0, "ClusterD gets the result")


async def _stress(stage: Stage) -> None:
    await stage.start_job()
    stage.signal("StressTest", ops={str(rank): [0] for rank in range(len(WORKERS))})
    await stage.until(lambda seen: all(_got(worker, 205)(seen) for worker in WORKERS), "all Workers get 205")
    await stage.replace_mgr()
    await stage.until(lambda seen: seen.count("ClusterD", REPLY) > 0, "ClusterD gets the results")


async def _hanging_plugin(stage: Stage) -> None:
    stage.plugins = stage.folder / "plugins"
    stage.plugins.mkdir()
    (stage.plugins / "hanging.py").write_text(HANGING)
    await stage.start_job()
    await stage.until(lambda seen: seen.count("Plugin", HUNG) > 0, "the plugin is called")
    await _replace_node_1(stage)


def _each(value: str) -> dict[str, str]:
    return dict.fromkeys(WORKERS, value)


_ROUND: Final = Summary(
    commands={"Agent/0": "210 3, 208 2", "Agent/1": "210 3, 203, 210 2"},
    starts=_each("3 2"),
    exits={"Agent/1": "1", **KILLED},
    running=ALL,
)
_STARTED: Final = {"Agent/0": "210 3", "Agent/1": "210 3"}
_OK: Final = {"0": {"code": "0", "result": "OK"}}
_RESULTS: Final = {"0": _OK, "1": _OK, "2": _OK, "3": {"0": {"code": "3", "result": "timeout"}}}

SCENARIOS: Final = (
    Scenario(
        "start",
        "Both nodes get 210, and four training processes run",
        _start,
        Summary(commands=_STARTED, starts=_each("3"), exits=KILLED, running=ALL),
    ),
    Scenario(
        "worker-dies",
        "A training process of node 1 dies: 203 to Agent 1, 208 with one restart less to Agent 0, Agent 1 returns",
        _worker_dies,
        _ROUND,
    ),
    Scenario(
        "rank-0-dies",
        "Rank 0 dies: 203 to Agent 0, and none to Agent 1",
        _rank_0_dies,
        Summary(
            commands={"Agent/0": "210 3, 203", "Agent/1": "210 3"},
            starts=_each("3"),
            exits={"Agent/0": "1", **KILLED},
            running="Agent/1, Mgr, Worker/2, Worker/3",
        ),
    ),
    Scenario(
        "retry-time",
        "RetryTime grows: 208 with one restart less to both Agents",
        _retry_time_grows,
        Summary(commands=dict.fromkeys(AGENTS, "210 3, 208 2"), starts=_each("3 2"), exits=KILLED, running=ALL),
    ),
    Scenario(
        "restarts-run-out",
        "No restart is left: both Agents leave with 1",
        _restarts_run_out,
        Summary(
            commands={"Agent/0": "210 0, 208 -1", "Agent/1": "210 0, 203, 210 -1"},
            starts=_each("0"),
            exits={"Agent/0": "1", "Agent/1": "1 1", **KILLED},
            running="Mgr",
        ),
        restarts=0,
    ),
    Scenario(
        "profiling",
        "Profiling is switched on and off: 711 and 700 to all Workers",
        _profiling,
        Summary(commands={**_STARTED, **_each("711, 700")}, starts=_each("3"), exits=KILLED, running=ALL),
    ),
    Scenario(
        "switch-nic",
        "A switch of cards fails on one Worker: ClusterD gets false",
        _switch,
        Summary(
            commands={**_STARTED, **_each("204")},
            starts=_each("3"),
            exits=KILLED,
            running=ALL,
            replies="ReplySwitchNicResult false",
        ),
        variables={FAILS: "3"},
    ),
    Scenario(
        "stress-test",
        "A stress test with a silent Worker: ClusterD gets result 3 for it",
        _stress,
        Summary(
            commands={**_STARTED, **_each("205")},
            starts=_each("3"),
            exits=KILLED,
            running=ALL,
            replies=f"ReplyStressTestResult {json.dumps(_RESULTS)}",
        ),
        variables={SILENT: "3"},
    ),
    Scenario(
        "hanging-plugin",
        "A user's plugin hangs: a training process of node 1 dies, and the round goes on as without it",
        _hanging_plugin,
        Summary(_ROUND.commands, _ROUND.starts, _ROUND.exits, _ROUND.running, hung="Plugin"),
    ),
)
