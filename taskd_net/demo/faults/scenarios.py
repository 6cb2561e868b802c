"""The scenarios: for each its steps, and the evidence that it has to leave.

In most of them the Manager is killed with -9 in the middle, and the next one goes on from the state file.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, cast

from taskd_net.demo.faults.stage import OFTEN, PORT_DOWN, FaultStage, GraceStage, InPlaceStage
from taskd_net.demo.faults.terms import RESET_FAILS
from taskd_net.demo.job.evidence import Summary
from taskd_net.demo.job.scenarios import ALL, KILLED, WORKERS, Scenario
from taskd_net.demo.job.stage import Stage
from taskd_net.demo.job.terms import COMMAND, ENDED

DMP_DAEMON: Final = "8C0A4E00"
"""TaskD's first worked example: from L1 to L5, where devices are isolated."""

BUSINESS: Final = "8C204E00"
"""The second one: from L3 to L5, in the mode `grace`."""

DEVICE: Final = "1/Ascend910-1"
"""The device of rank 3, in all scenarios."""


def _on(play: Callable[[FaultStage], Awaitable[None]]) -> Callable[[Stage], Awaitable[None]]:
    async def played(stage: Stage) -> None:
        await play(cast(FaultStage, stage))

    return played


async def _node_1_is_replaced(stage: FaultStage, times: int = 2) -> None:
    """The rest of a round: Agent 1 leaves, and the platform starts it again."""
    await stage.until(lambda seen: seen.count("Agent/1", ENDED) == times - 1, "Agent 1 leaves")
    await stage.launch(1)
    await stage.starts(times, 0, 1, 2, 3)


async def _replaced_while_the_manager_dies(stage: FaultStage) -> None:
    """The same, with a Manager that is killed while the 208 to Agent 0 is on its way."""
    await stage.until(lambda seen: seen.count("Agent/1", ENDED) == 1, "Agent 1 leaves")
    await stage.replace_mgr()
    stage.thaw("Agent/0")
    await stage.starts(2, 0, 1)
    await stage.launch(1)
    await stage.starts(2, 0, 1, 2, 3)


async def _level_1_to_5(stage: FaultStage) -> None:
    await stage.start_job()
    await stage.report(DMP_DAEMON)
    await stage.settle()
    await stage.report(DMP_DAEMON, kind="recovered")
    await stage.move(DMP_DAEMON, "RestartNPUCodes")
    stage.freeze("Agent/0")
    await stage.report(DMP_DAEMON)
    await _replaced_while_the_manager_dies(stage)


async def _level_3_to_5(stage: FaultStage) -> None:
    await stage.start_job()
    await stage.report(BUSINESS)
    await stage.starts(2, 0, 1, 2, 3)
    await stage.all_registered()
    await stage.report(BUSINESS, kind="recovered")
    await stage.move(BUSINESS, "RestartNPUCodes")
    stage.freeze("Agent/1")
    await stage.report(BUSINESS)
    await stage.replace_mgr()  # while the 213 is on its way
    stage.thaw("Agent/1")
    await stage.starts(3, 0, 1, 2, 3)


async def _reset_in_place(stage: FaultStage) -> None:
    await stage.start_job()
    await _epoch(stage, 1)
    await stage.report("8C1FA006")
    await stage.starts(2, 3)
    await _epoch(stage, 2)


async def _epoch(stage: FaultStage, number: int) -> None:
    """Wait until all Workers have joined an epoch."""
    joined = [f"Worker/{rank}" for rank in range(len(WORKERS))]
    await stage.until(
        lambda seen: all(
            any(
                each.who == who and each.what == COMMAND and each.code == 302 and each.text == str(number)
                for each in seen.seen
            )
            for who in joined
        ),
        f"all Workers join epoch {number}",
    )


async def _wait_until_idle(stage: FaultStage) -> None:
    await stage.start_job()
    await stage.report("8C0E4E00")
    await stage.settle()
    await stage.replace_mgr()
    await stage.all_registered()
    await stage.kill("Worker/3")
    await stage.starts(2, 0, 1, 2, 3)


async def _reset_fails(stage: FaultStage) -> None:
    await stage.start_job()
    stage.freeze("Agent/0")
    await stage.report("8C1FA006")
    await _replaced_while_the_manager_dies(stage)


async def _frequency(stage: FaultStage) -> None:
    await stage.start_job()
    await stage.report(OFTEN)
    await stage.report(OFTEN, kind="recovered")
    await stage.settle()
    await stage.replace_mgr()
    await stage.all_registered()
    await stage.report(OFTEN)
    await _node_1_is_replaced(stage)
    await stage.report(OFTEN, kind="recovered")
    await stage.look_for(lambda: stage.separated == {DEVICE}, "the device is in the list")
    (stage.folder / "separated").write_text(f"{DEVICE},0/Ascend910-0")
    await stage.look_for(lambda: stage.separated == {DEVICE}, "a name of somebody else's is taken out")
    await stage.report("8C1FA006", kind="once")  # the device is out already
    await stage.settle()
    stage.remove_from_list(DEVICE)
    await stage.settle()
    await stage.report("80E3A201", kind="once")  # it is in again, and this one counts
    await _node_1_is_replaced(stage, 3)


async def _duration(stage: FaultStage) -> None:
    await stage.start_job()
    await _epoch(stage, 1)
    await stage.report(PORT_DOWN)
    await stage.settle()
    await stage.settle()
    await stage.settle()  # longer than FaultTimeout
    await stage.replace_mgr()
    await stage.all_registered()
    await stage.kill("Worker/3")
    await _node_1_is_replaced(stage)
    await _epoch(stage, 2)


async def _unknown_codes(stage: FaultStage) -> None:
    await stage.start_job()
    await stage.report("8CFFFFFF", severity="minor")
    await stage.settle()
    stage.freeze("Agent/0")
    await stage.report("8CFFFFFE", severity="major")
    await _replaced_while_the_manager_dies(stage)


async def _one_round(stage: FaultStage) -> None:
    await stage.start_job()
    stage.freeze("Agent/0")
    await stage.kill("Worker/3")
    await stage.report("80E3A201")
    await _replaced_while_the_manager_dies(stage)


async def _refused_files(stage: FaultStage) -> None:
    await stage.start_job()
    await stage.break_files()
    await stage.report(DMP_DAEMON)
    await stage.settle()
    await stage.report("80E3A201")
    await _node_1_is_replaced(stage)


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
        _on(_level_1_to_5),
        _REPLACED,
        stage=FaultStage,
    ),
    Scenario(
        "level-3-to-5",
        "8C204E00 goes from L3 to L5 in the mode grace: first 208 to both, then 213, a reset, and 208 to both",
        _on(_level_3_to_5),
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
        "reset-in-place",
        "L5 where Workers rejoin: 213, a reset, 209 for rank 3 alone, and the others keep their processes",
        _on(_reset_in_place),
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
        _on(_wait_until_idle),
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
        _on(_reset_fails),
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
        _on(_frequency),
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
        _on(_duration),
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
        "unknown-codes",
        "Unknown codes by their severity: minor asks for nothing, major isolates",
        _on(_unknown_codes),
        _REPLACED,
        stage=FaultStage,
    ),
    Scenario(
        "one-round",
        "A process dies, and its device reports why: one round",
        _on(_one_round),
        _REPLACED,
        stage=FaultStage,
    ),
    Scenario(
        "refused-files",
        "A broken file is refused, and the rules in force stay",
        _on(_refused_files),
        Summary(_REPLACED.commands, _REPLACED.starts, {"Agent/1": "1"}, ALL),
        stage=FaultStage,
    ),
)
