"""The scenarios: for each its title, and the evidence that its steps (`plays`) have to leave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, cast

from taskd_net_lab.demos.faults import plays
from taskd_net_lab.demos.faults.plays import DEVICE, REQUEST
from taskd_net_lab.demos.faults.stage import (
    ClusterdStage,
    CountedStage,
    CurrentStage,
    FaultStage,
    GraceExitStage,
    GraceStage,
    HotSwitchStage,
    InferenceStage,
    InPlaceStage,
)
from taskd_net_lab.demos.faults.terms import RESET_FAILS
from taskd_net_lab.demos.job.evidence import Summary
from taskd_net_lab.demos.job.scenarios import ALL, KILLED, WORKERS, Scenario
from taskd_net_lab.demos.job.stage import Stage
from taskd_net_lab.demos.recovery.stage import CLUSTERD


def _on(play: Callable[[FaultStage], Awaitable[None]]) -> Callable[[Stage], Awaitable[None]]:
    async def played(stage: Stage) -> None:
        await play(cast(FaultStage, stage))

    return played


def _each(value: str) -> dict[str, str]:
    return dict.fromkeys(WORKERS, value)


_REPLACED: Final = Summary(
    commands={"Agent/0": "210 3, 208 2", "Agent/1": "210 3, 203, 210 2"},
    starts=_each("3 2"),
    exits={"Agent/1": "1", **KILLED},
    running=ALL,
)
_JOINED: Final = "302 1, 302 2"

SCENARIOS: Final = (
    Scenario(
        "level-1-to-5",
        "8C0A4E00 goes from L1 to L5 while the job runs, in the mode rescheduling: 203 to Agent 1, 208 to Agent 0",
        _on(plays.level_1_to_5),
        _REPLACED,
        stage=FaultStage,
    ),
    Scenario(
        "level-3-to-5",
        "8C204E00 goes from L3 to L5 in the mode grace: first 208 to both, then 213, a reset, and 208 to both",
        _on(plays.level_3_to_5),
        Summary(
            commands={"Agent/0": "210 3, 208 2, 208 1", "Agent/1": '210 3, 208 2, 213 ["3"], 208 1'},
            starts=_each("3 2 1"),
            exits=KILLED,
            running=ALL,
            resets=DEVICE,
        ),
        stage=GraceStage,
    ),
    Scenario(
        "release",
        "The second occurrence isolates the device, until ReleaseTimeWindow has passed; then two more isolate it again",
        _on(plays.release),
        Summary(
            commands={"Agent/0": "210 3, 208 2, 208 1", "Agent/1": "210 3, 203, 210 2, 203, 210 1"},
            starts=_each("3 2 1"),
            exits={"Agent/1": "1 1", **KILLED},
            running=ALL,
        ),
        stage=CurrentStage,
    ),
    Scenario(
        "reset-in-place",
        "L5 where Workers rejoin: 213, a reset, 209 for rank 3 alone, and the others keep their processes",
        _on(plays.reset_in_place),
        Summary(
            commands={
                "Agent/0": "210 3",
                "Agent/1": '210 3, 213 ["3"], 209 ["3"]',
                **dict.fromkeys(WORKERS[:3], "302 1, 303 1, 302 2"),
                "Worker/3": _JOINED,
            },
            starts={**_each("3"), "Worker/3": "3 3"},
            running=ALL,
            resets=DEVICE,
        ),
        stage=InPlaceStage,
    ),
    Scenario(
        "wait-until-idle",
        "L4 waits until its process has ended: a reset, and 208 to both instead of a round for node 1",
        _on(plays.wait_until_idle),
        Summary(
            commands=dict.fromkeys(("Agent/0", "Agent/1"), "210 3, 208 2"),
            starts=_each("3 2"),
            exits=KILLED,
            running=ALL,
            resets=DEVICE,
        ),
        stage=GraceStage,
    ),
    Scenario(
        "reset-fails",
        "L5 whose reset fails: the device is isolated, and the job rescheduled",
        _on(plays.reset_fails),
        Summary(
            commands={"Agent/0": "210 3, 208 2", "Agent/1": '210 3, 213 ["3"], 203, 210 2'},
            starts=_each("3 2"),
            exits={"Agent/1": "1", **KILLED},
            running=ALL,
            resets=DEVICE,
        ),
        variables={RESET_FAILS: "yes"},
        stage=GraceStage,
    ),
    Scenario(
        "frequency",
        "The second occurrence in the window separates the device, until a person removes its name from the list",
        _on(plays.frequency),
        Summary(
            commands={"Agent/0": "210 3, 208 2, 208 1", "Agent/1": "210 3, 203, 210 2, 203, 210 1"},
            starts=_each("3 2 1"),
            exits={"Agent/1": "1 1", **KILLED},
            running=ALL,
        ),
        stage=FaultStage,
    ),
    Scenario(
        "duration",
        "A port that is down for long: nothing now, and no restart in place on that device when its process dies",
        _on(plays.duration),
        Summary(
            commands={
                "Agent/0": "210 3, 208 2",
                "Agent/1": "210 3, 203, 210 2",
                **_each(_JOINED),
            },
            starts=_each("3 2"),
            exits={"Agent/1": "1", **KILLED},
            running=ALL,
        ),
        stage=InPlaceStage,
    ),
    Scenario(
        "duration-and-frequency",
        "Both rules for one code: only what stands for longer than FaultTimeout counts, and the second time isolates",
        _on(plays.counted_durations),
        _REPLACED,
        stage=CountedStage,
    ),
    Scenario(
        "unknown-codes",
        "Unknown codes by their severity: minor asks for nothing, major isolates",
        _on(plays.unknown_codes),
        _REPLACED,
        stage=FaultStage,
    ),
    Scenario(
        "one-round",
        "A process dies, and its device reports why: one round",
        _on(plays.one_round),
        _REPLACED,
        stage=FaultStage,
    ),
    Scenario(
        "refused-files",
        "A broken file is refused, and the rules in force stay",
        _on(plays.refused_files),
        Summary(_REPLACED.commands, _REPLACED.starts, {"Agent/1": "1"}, ALL),
        stage=FaultStage,
    ),
    Scenario(
        "sub-health-ignore",
        "A slow device is ignored, by the setting; a serious fault of it isolates",
        _on(plays.slow_device_stays),
        _REPLACED,
        stage=CurrentStage,
    ),
    Scenario(
        "sub-health-grace-exit",
        "A slow device, with the setting graceExit: 203 to Agent 1, 208 to Agent 0",
        _on(plays.slow_node_is_replaced),
        _REPLACED,
        stage=GraceExitStage,
    ),
    Scenario(
        "sub-health-hot-switch",
        "A slow device, with the setting hotSwitch and no ClusterD: the job goes on with it, and the log says so",
        _on(plays.no_hot_switch),
        _REPLACED,
        stage=HotSwitchStage,
    ),
    Scenario(
        "request-again",
        "L2 of an inference job in the mode grace: the Worker gets FAULT, and no process ends",
        _on(plays.request_again),
        Summary(
            commands={
                **dict.fromkeys(("Agent/0", "Agent/1"), "210 3"),
                "Worker/3": f"1 {REQUEST} run_request_again",
            },
            starts=_each("3"),
            exits=KILLED,
            running=ALL,
        ),
        stage=InferenceStage,
    ),
    Scenario(
        "clusterd-answers",
        "With ClusterD the Manager reports a slow and a separated device, and sends no command",
        _on(plays.clusterd_answers),
        Summary(
            commands=dict.fromkeys(("Agent/0", "Agent/1"), "210 3"),
            starts=_each("3"),
            exits=KILLED,
            running=", ".join(sorted((*ALL.split(", "), CLUSTERD))),
        ),
        stage=ClusterdStage,
    ),
)
