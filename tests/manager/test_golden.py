"""The runtime between doubles: reports, commits, Acks and commands in their order, written down in `golden/`.

`pytest --rewrite-golden` writes the transcripts again. A change of one is a change of behaviour.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from taskd_net.job.decide.events import Signal
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.manager import ManagerConfig
from tests.manager.doubles import Shell

GOLDEN = Path(__file__).parent / "golden"
REPORTS = ManagerConfig(job_id="J", state="state", reset_file="/nonexistent/reset.json")
CLUSTERD = replace(REPORTS, clusterd=True, fault_recover="on")
DEVICES = replace(REPORTS, fault_mode="grace", nodes=2, processes_per_node=2)


async def a_round(shell: Shell) -> None:
    """A fault and its round: what is answered is stored, and what is stored comes before what is sent."""
    await shell.start()
    shell.say("Reports that come together are committed together, and answered then.")
    shell.begin(0, "a")
    shell.begin(1, "b")
    await shell.rest()
    shell.say("A resend, and the same process again: nothing to store. A KEEP_ALIVE neither.")
    shell.report("Agent/1", "REGISTER", 0, Incarnation="b")
    shell.report("Agent/1", "KEEP_ALIVE", 0)
    await shell.rest()
    shell.say("A fault: the round is in the state before its Ack and before its commands.")
    shell.fault(1, 3)
    await shell.rest()
    shell.say("The exited returns, and gets the new count.")
    shell.begin(1, "c")
    await shell.rest()
    shell.say("The first RetryTime is the baseline.")
    for value in (1, 2):
        shell.retry_time(value)
        await shell.rest()


async def killed(shell: Shell) -> None:
    """A Manager is killed while a command is on its way; the next one repeats it with its uuid, and nothing else."""
    await shell.start()
    for rank in (0, 1):
        shell.begin(rank, f"process {rank}")
        await shell.rest()
    shell.say("Agent 0 is frozen, so its 208 has no answer.")
    shell.away.add("Agent/0")
    shell.fault(1, 3)
    await shell.rest()
    await shell.kill()
    shell.say("The next Manager, with Agent 0 back. Its own commands have other uuids.")
    shell.away.clear()
    await shell.start()
    shell.begin(1, "another")
    await shell.rest()


async def full_disk(shell: Shell) -> None:
    """Decisions go on while nothing can be stored; later all of it is."""
    await shell.start()
    for rank in (0, 1):
        shell.begin(rank, f"process {rank}")
    await shell.rest()
    shell.say("The disk is full: one line, and the round.")
    shell.disk.full = True
    shell.fault(1, 3)
    await shell.rest()
    shell.begin(1, "another")
    await shell.rest()
    assert not shell.manager.view().counters.durable
    shell.say("There is room again: all that has changed is committed at once.")
    shell.disk.full = False
    shell.store_again()
    await shell.rest()
    assert shell.manager.view().counters.durable


async def clusterd(shell: Shell) -> None:
    """ClusterD's orders become commands, calls and answers, each after its commit."""
    await shell.start()
    for rank in (0, 1):
        shell.begin(rank, f"process {rank}")
        shell.report(f"Worker/{rank}/{rank}", "REGISTER", 101)
    await shell.rest()
    shell.say("A pause for a switch of cards, of which one fails; two signals come together.")
    shell.signal(Signal("a", "stopTrain", ("pause_train",)))
    shell.signal(SwitchNic((0,), (True,)))
    await shell.rest()
    uuid = shell.manager.job.requests["SwitchNic"].uuid
    shell.report("Worker/0/0", "ACTION", 204, "switchOK", switchNicUUID=uuid)
    shell.report("Worker/1/1", "ACTION", 204, "switchFail", switchNicUUID=uuid)
    await shell.rest()
    shell.say("Agents are held back: the 201 is answered, and its 210 waits.")
    shell.signal(Signal("b", "pauseStartAgent"))
    shell.begin(1, "another")
    await shell.rest()
    shell.signal(Signal("c", "continueStartAgent"))
    await shell.rest()
    shell.say("A process restarts in place; then the node exits, and the job restarts.")
    shell.signal(Signal("d", "globalFault", ("on_global_rank", "fault_nodes_restart"), {3: 1}, node_rank_ids=(1,)))
    await shell.rest()
    shell.signal(Signal("e", "changeStrategy", (), {3: 1}, "exit", node_rank_ids=(1,)))
    await shell.rest()


async def device(shell: Shell) -> None:
    """A fault of a device: its event is stored before its Ack, and the order of a reset before the reset."""
    await shell.start()
    shell.files({"faultCode.json": '{"RestartNPUCodes": ["8C000005"]}'})
    await shell.rest()
    for rank in (0, 1):
        shell.begin(rank, f"process {rank}")
    await shell.rest()
    shell.say("The processes are stopped, the device is reset, all run again.")
    shell.report("Agent/1", "FAULT", 1, "8C000005", Device="host-b/npu")
    await shell.rest()
    shell.fault(1, 2, 3)
    await shell.rest()
    shell.reset_ends(True)
    await shell.rest()
    shell.say("The Manager is killed during the next reset: the device is isolated, and not reset again.")
    shell.report("Agent/1", "FAULT", 2, "8C000005", Device="host-b/npu")
    await shell.rest()
    shell.fault(1, 2, 3)
    await shell.rest()
    await shell.kill()
    await shell.start()
    shell.begin(1, "another")
    await shell.rest()


@pytest.mark.parametrize(
    ("play", "config"),
    [(a_round, REPORTS), (killed, REPORTS), (full_disk, REPORTS), (clusterd, CLUSTERD), (device, DEVICES)],
)
async def test_transcript(
    play: Callable[[Shell], Awaitable[None]],
    config: ManagerConfig,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shell = Shell(monkeypatch, config)
    try:
        await play(shell)
        transcript = shell.transcript()
    finally:
        await shell.manager.close()
    file = GOLDEN / f"{play.__name__}.txt"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(transcript, "utf-8")
    assert transcript == file.read_text("utf-8")
