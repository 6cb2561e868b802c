"""The scenarios of recovery: for each its steps, and the evidence that it has to leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from taskd_net_lab.demos.job.evidence import Evidence, Summary
from taskd_net_lab.demos.job.scenarios import ALL, WORKERS, Scenario
from taskd_net_lab.demos.job.stage import Missed, Stage
from taskd_net_lab.demos.job.terms import BEGAN, COMMAND, FAULTY
from taskd_net_lab.demos.recovery.flows import FURTHER, RECOVER, RETRY, STRATEGIES, TEST_RESULT, Flow
from taskd_net_lab.demos.recovery.kills import MGR, RESTARTS, expected, kill_at_each_stage
from taskd_net_lab.demos.recovery.manager import SAYS, WATCHES
from taskd_net_lab.demos.recovery.stage import CLUSTERD, ENTERED, RecoveryStage

_ROUND: Final = f"StopComplete 0, {STRATEGIES}"
_STARTED: Final = {"Agent/0": "210 3", "Agent/1": "210 3"}
_REPLACED: Final = {"Agent/0": "210 3", "Agent/1": "210 3, 203, 210 3"}
_RESTARTED: Final = {"Agent/0": "210 3, 208 2", "Agent/1": "210 3, 203, 210 2"}
_ONCE: Final = dict.fromkeys(WORKERS, "3")
_NODE_1_AGAIN: Final = {**_ONCE, "Worker/2": "3 3", "Worker/3": "3 3"}
_ALL_AGAIN: Final = dict.fromkeys(WORKERS, "3 2")


def _steps(
    name: str, leaving: int | None = None, *, returns: bool = True, again: str = ""
) -> Callable[[Stage], Awaitable[None]]:
    """The steps of a scenario.

    Args:
        name: of ClusterD's scenario.
        leaving: node whose Agent has to leave; None for none.
        returns: the platform brings its pod back.
        again: training process that starts a second time in its pod; empty for none.
    """

    async def play(stage: Stage) -> None:
        assert isinstance(stage, RecoveryStage)
        await stage.start_job()
        await stage.start_clusterd(name)
        if leaving is not None:
            await stage.until_left(leaving)
        if leaving is not None and returns:
            await stage.launch(leaving)
        await stage.until_clusterd_ends()
        if again:
            await stage.until(lambda seen: seen.count(again, BEGAN) == 2, f"{again} starts again")
        if returns:
            await stage.all_registered()

    return play


async def _pause(stage: Stage) -> None:
    """An Agent that comes while starts are held back gets its go when they are not any more."""
    assert isinstance(stage, RecoveryStage)
    await stage.start_job()
    await stage.start_clusterd("pause-start-agent")
    await stage.until(lambda seen: _sent(seen, "pauseStartAgent"), "ClusterD sends pauseStartAgent")
    await stage.kill("Agent/1")
    await stage.launch(1)
    await stage.until(lambda seen: seen.count("Agent/1", COMMAND, 210) == 2, "Agent 1 gets its second 210")
    if not _sent(stage.evidence, "continueStartAgent"):
        raise Missed("Agent 1 got its 210 while starts were held back")
    await stage.until_clusterd_ends()
    await stage.all_registered()


def _sent(seen: Evidence, signal: str) -> bool:
    return any((each.who, each.what, each.text) == (CLUSTERD, ENTERED, signal) for each in seen.seen)


def _summary(
    framework: str,
    replies: str,
    agents: Mapping[str, str] = _STARTED,
    starts: Mapping[str, str] = _ONCE,
    exits: Mapping[str, str] | None = None,
    running: str = ALL,
    workers: str = "",
) -> Summary:
    """The expected course.

    Args:
        framework: calls of its controller.
        replies: reports to ClusterD.
        agents: commands to each.
        starts, exits, running: as in `Summary`; ClusterD's exit code is 0 besides.
        workers: commands to each Worker.
    """
    calls = {"Framework": ", ".join(f"0 {each}" for each in framework.split(", "))} if framework else {}
    each_worker = dict.fromkeys(WORKERS, workers) if workers else {}
    commands = {**agents, **calls, **each_worker}
    return Summary(commands, starts, {CLUSTERD: "0", **(exits or {})}, running, replies)


_LEFT: Final = {"Agent/1": "1"}

FLOWS: Final = tuple(
    Scenario(name, title, steps, expected, variables=variables, stage=RecoveryStage)
    for name, title, steps, variables, expected in (
        (
            "retry",
            "A memory fault: the step is retried, and no process ends",
            _steps("retry"),
            {},
            _summary("stop, ranks 3, retry", f"{_ROUND}, RecoverStatus 0"),
        ),
        (
            "recover",
            "203 to the faulty node, whose pod comes back; the others wait in their processes",
            _steps("recover", 1),
            {},
            _summary("stop, ranks 2 3, recover", f"{_ROUND}, RecoverStatus 0", _REPLACED, _NODE_1_AGAIN, _LEFT),
        ),
        (
            "recover-in-place",
            "209 to the faulty node: one process is replaced in its pod; the others go on in theirs",
            _steps("recover-in-place", again="Worker/3"),
            {},
            _summary(
                "stop, ranks 3, recover",
                f"{_ROUND}, RecoverStatus 0",
                {"Agent/0": "210 3", "Agent/1": '210 3, 209 ["3"]'},
                {**_ONCE, "Worker/3": "3 3"},
            ),
        ),
        (
            "dump",
            "A last checkpoint, then 203 and 208: all processes restart",
            _steps("dump", 1),
            {},
            _summary("stop, ranks 2 3, dump", f"{_ROUND}, RecoverStatus 0", _RESTARTED, _ALL_AGAIN, _LEFT),
        ),
        (
            "exit",
            "No strategy is left: 203 and 208, the pod comes back, all processes restart",
            _steps("exit", 1),
            {},
            _summary("stop, ranks 2 3", _ROUND, _RESTARTED, _ALL_AGAIN, _LEFT),
        ),
        (
            "save-and-exit",
            "The job is configured for a checkpoint only: it is written, then all processes restart",
            _steps("save-and-exit", 1),
            {},
            _summary("save", "RecoverStatus 0", _RESTARTED, _ALL_AGAIN, _LEFT),
        ),
        (
            "downgrade-upgrade",
            "The job goes on without the faulty node, and with it again when its pod is back",
            _steps("downgrade-upgrade", 1),
            {SAYS: '{"downgrade": [201]}'},
            _summary(
                "stop, ranks 2 3, downgrade, upgrade",
                f"{_ROUND}, RecoverStatus 201, RecoverStatus 0, RecoverStatus 0",
                _REPLACED,
                _NODE_1_AGAIN,
                _LEFT,
            ),
        ),
        (
            "hot-switch",
            "A pod is replaced while the job trains",
            _steps("hot-switch"),
            {},
            _summary("hot switch, migration", "RecoverStrategy migration, RecoverStatus 0"),
        ),
        (
            "hot-switch-timeout",
            "The new pod does not come: the switch is called off",
            _steps("hot-switch-timeout"),
            {},
            _summary("hot switch, stop switch", "RecoverStrategy migration"),
        ),
        (
            "switch-cards",
            "The training pauses, 204 to all Workers, the training continues",
            _steps("switch-cards"),
            {},
            _summary("pause, continue", "StopComplete 0, SwitchNicResult true, RecoverStatus 0", workers="204"),
        ),
        (
            "stress-test",
            "The training pauses, 205 to all Workers; one is found faulty, and its node is replaced",
            _steps("stress-test", 1),
            {FAULTY: "3"},
            _summary(
                "pause, stop, ranks 2 3, recover",
                f"StopComplete 0, StressTestResult {TEST_RESULT}, {_ROUND}, RecoverStatus 0",
                _REPLACED,
                _NODE_1_AGAIN,
                _LEFT,
                workers="205",
            ),
        ),
        (
            "pre-exit",
            "213 ends the processes of a faulty device, and their death is the fault",
            _steps("pre-exit", 1),
            {WATCHES: "on"},
            _summary(
                "stop, ranks 2 3, recover",
                f"ProcessFault 3, {_ROUND}, RecoverStatus 0",
                {"Agent/0": "210 3", "Agent/1": '210 3, 213 ["3"], 203, 210 3'},
                _NODE_1_AGAIN,
                _LEFT,
            ),
        ),
        (
            "pause-start-agent",
            "An Agent that comes while starts are held back gets its 210 afterwards",
            _pause,
            {},
            _summary("", "", {"Agent/0": "210 3", "Agent/1": "210 3, 210 3"}, _NODE_1_AGAIN, {"Agent/1": "-9"}),
        ),
        (
            "kill-master",
            "ClusterD gives the job up: 203 to Agent 0",
            _steps("kill-master", 0, returns=False),
            {},
            _summary(
                "stop",
                "StopComplete 0",
                {"Agent/0": "210 3, 203", "Agent/1": "210 3"},
                exits={"Agent/0": "1"},
                running="Agent/1, Mgr, Worker/2, Worker/3",
            ),
        ),
        (
            "switched-on-later",
            "Recovery is off (403), then on: the Manager asks again after 30 s",
            _steps("switched-on-later", 1),
            {},
            _summary(
                "stop, ranks 2 3, recover",
                f"{_ROUND}, RecoverStatus 0",
                {**_REPLACED, CLUSTERD: "403 Init"},
                _NODE_1_AGAIN,
                _LEFT,
            ),
        ),
    )
)
"""Each flow, and nothing is killed."""


def _kills(*flows: Flow) -> tuple[Scenario, ...]:
    return tuple(
        Scenario(
            f"{flow.name}-{name}-killed",
            f"{who} is killed at each stage of {flow.name}, and back; a whole {flow.name} follows",
            kill_at_each_stage(flow, victim),
            expected(flow, victim),
            RESTARTS,
            flow.variables,
            RecoveryStage,
        )
        for victim, name, who in ((CLUSTERD, "clusterd", "ClusterD"), (MGR, "manager", "The Manager"))
        for flow in flows
    )


SCENARIOS: Final = (*_kills(RECOVER, RETRY), *FLOWS)
"""The scenarios of the demo. The longest come first, as some are played beside each other."""

FURTHER_KILLS: Final = _kills(*FURTHER)
"""Kills at each stage of the other flows, which take minutes: only those that are named are played."""
