"""The steps of each scenario. In most of them the Manager is killed with -9, and the next one has the state file."""

from __future__ import annotations

from typing import Final

from taskd_net.job.manager.faults import NO_SWITCH
from taskd_net_lab.demos.faults.stage import LASTING, OFTEN, PORT_DOWN, RELEASE_S, SLOW, FaultStage
from taskd_net_lab.demos.job.scenarios import WORKERS
from taskd_net_lab.demos.job.terms import COMMAND, ENDED
from taskd_net_lab.demos.recovery.stage import CLUSTERD, ENTERED

DMP_DAEMON: Final = "8C0A4E00"
"""TaskD's first worked example: from L1 to L5, where devices are isolated."""

BUSINESS: Final = "8C204E00"
"""The second one: from L3 to L5, in the mode `grace`."""

REQUEST: Final = "80C98008"
"""A code of L2."""

DEVICE: Final = "1/Ascend910-1"
"""The device of rank 3, in all scenarios."""

BY_A_PERSON: Final = "a person has released the device"
"""The reason in the line of the Manager's log."""


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


async def level_1_to_5(stage: FaultStage) -> None:
    """The level of a code is edited while the job runs, with a fault before and after it."""
    await stage.start_job()
    await stage.report(DMP_DAEMON)
    await stage.settle()
    await stage.report(DMP_DAEMON, kind="recovered")
    await stage.move(DMP_DAEMON, "RestartNPUCodes")
    stage.freeze("Agent/0")
    await stage.report(DMP_DAEMON)
    await _replaced_while_the_manager_dies(stage)


async def level_3_to_5(stage: FaultStage) -> None:
    """The same in the mode `grace`; the Manager dies while 213 is on its way."""
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


async def reset_in_place(stage: FaultStage) -> None:
    """A device is reset, and its Worker rejoins the others."""
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


async def wait_until_idle(stage: FaultStage) -> None:
    """A device waits for the end of its process, beyond the life of a Manager."""
    await stage.start_job()
    await stage.report("8C0E4E00")
    await stage.settle()
    await stage.replace_mgr()
    await stage.all_registered()
    await stage.kill("Worker/3")
    await stage.starts(2, 0, 1, 2, 3)


async def reset_fails(stage: FaultStage) -> None:
    """The program that resets devices fails."""
    await stage.start_job()
    stage.freeze("Agent/0")
    await stage.report("8C1FA006")
    await _replaced_while_the_manager_dies(stage)


async def frequency(stage: FaultStage) -> None:
    """A code occurs often; the list of separated devices is edited by somebody else, and by a person."""
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
    await stage.look_for(lambda: BY_A_PERSON in stage.log, "the log says that a person has released the device")
    await stage.report("80E3A201", kind="once")  # it is in again, and this one counts
    await _node_1_is_replaced(stage, 3)


async def duration(stage: FaultStage) -> None:
    """A port is down for longer than FaultTimeout, and then its process dies."""
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


async def counted_durations(stage: FaultStage) -> None:
    """A code with both rules lasts twice, with two Managers; what does not last does not count."""
    await stage.start_job()
    for _ in range(2):
        await stage.report(LASTING, kind="once")
    await stage.report(LASTING)
    await stage.look_for(lambda: _is_told(stage, LASTING, "PreSeparateNPU"), "the device takes no new job")
    await stage.report(LASTING, kind="recovered")
    await stage.look_for(lambda: "device_fault_over" in stage.log, "the fault is over")
    await stage.replace_mgr()
    await stage.all_registered()  # nobody has left
    await stage.report(LASTING)
    await _node_1_is_replaced(stage)


async def unknown_codes(stage: FaultStage) -> None:
    """Two codes that no file has, with their severities."""
    await stage.start_job()
    await stage.report("8CFFFFFF", severity="minor")
    await stage.settle()
    stage.freeze("Agent/0")
    await stage.report("8CFFFFFE", severity="major")
    await _replaced_while_the_manager_dies(stage)


async def one_round(stage: FaultStage) -> None:
    """A process dies, and its device reports why."""
    await stage.start_job()
    stage.freeze("Agent/0")
    await stage.kill("Worker/3")
    await stage.report("80E3A201")
    await _replaced_while_the_manager_dies(stage)


async def refused_files(stage: FaultStage) -> None:
    """A broken file comes between faults of two nodes. Only the second is serious by the rules in force."""
    await stage.start_job()
    await stage.break_files()
    await stage.report(DMP_DAEMON, node=0)
    await stage.settle()
    await stage.report("80E3A201")
    await _node_1_is_replaced(stage)


async def slow_device_stays(stage: FaultStage) -> None:
    """A slow device moves nothing, and a serious fault replaces its node."""
    await stage.start_job()
    await stage.report(SLOW)
    await stage.settle()
    await stage.replace_mgr()
    await stage.all_registered()  # nobody has left
    await stage.report("80E3A201")
    await _node_1_is_replaced(stage)


async def no_hot_switch(stage: FaultStage) -> None:
    """The same, with a line in the log for the switch over that cannot be done."""
    await slow_device_stays(stage)
    await stage.look_for(lambda: _is_told(stage, SLOW, NO_SWITCH), "the log says that the job goes on with the device")


async def slow_node_is_replaced(stage: FaultStage) -> None:
    """A slow device replaces its node."""
    await stage.start_job()
    stage.freeze("Agent/0")
    await stage.report(SLOW)
    await _replaced_while_the_manager_dies(stage)


async def release(stage: FaultStage) -> None:
    """A device is raised twice, and is free in between, because ReleaseTimeWindow has passed."""
    await stage.start_job()
    await _twice_often(stage)
    await _node_1_is_replaced(stage)
    await stage.replace_mgr()
    await stage.all_registered()
    over = "device_fault_over"
    await stage.look_for(lambda: over in stage.log, "the device is free after ReleaseTimeWindow", RELEASE_S)
    await _twice_often(stage)
    await _node_1_is_replaced(stage, 3)


async def _twice_often(stage: FaultStage) -> None:
    for _ in range(2):
        await stage.report(OFTEN, kind="once")


async def request_again(stage: FaultStage) -> None:
    """The command to run a request again is on its way while the Manager dies."""
    await stage.start_job()
    stage.freeze("Worker/3")
    await stage.report(REQUEST)
    await stage.replace_mgr()
    stage.thaw("Worker/3")
    got = "Worker 3 is told to run its request again"
    await stage.until(lambda seen: seen.count("Worker/3", COMMAND, 1) == 1, got)


async def clusterd_answers(stage: FaultStage) -> None:
    """Faults are reported to two Managers that have subscribed, one after the other."""
    await stage.start_job()
    await stage.until(lambda seen: seen.count(CLUSTERD, ENTERED) == 1, "the Manager has subscribed")
    await stage.report(SLOW)
    await stage.look_for(lambda: _is_told(stage, SLOW, "hot_switch"), "the log has the slow device")
    await stage.report("80E3A201")
    await stage.look_for(lambda: _is_told(stage, "80E3A201", "isolate"), "the log has the separated device")
    await stage.replace_mgr()
    await stage.all_registered()
    await stage.until(lambda seen: seen.count(CLUSTERD, ENTERED) == 2, "the next Manager has subscribed")
    await stage.settle()


def _is_told(stage: FaultStage, code: str, text: str) -> bool:
    """True for a line of the Manager's log about a fault that has this text."""
    lines = [line for line in stage.log.splitlines() if '"event": "device_fault"' in line and code in line]
    return any(text in line for line in lines)
