"""Scenes whose every event and decision is written down in `golden/`; `pytest --rewrite-golden` writes them again.

A change of a transcript is a change of behaviour: read it before it is committed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.job.decide import epochs
from taskd_net.job.decide.events import (
    Event,
    FaultFiles,
    ProfilingSwitch,
    ResetEnded,
    Resumed,
    RetryTime,
    SeparatedNames,
)
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.plugins import Plugin, Progress, built_in
from taskd_net.job.decide.plugins.stress_test import StressTest
from taskd_net.job.decide.plugins.switch_nic import SwitchNic
from taskd_net.job.decide.snapshot import JobConfig, Snapshot
from taskd_net.job.decide.traffic import Outcome
from tests.jobs.plugins.test_fault_level import GRACE, L1, L3, L4, L5, L6, OFTEN, Devices, resets
from tests.jobs.scene import CLUSTERD, IN_PLACE, Scene

OTHER = "0/Ascend910-0"
"""The device of rank 0."""

GOLDEN = Path(__file__).parent / "golden"


def agents() -> Scene:
    """Agents register, ask, restart."""
    scene = Scene()
    scene.say("Two Agents ask for the go: the first 201 is the job's count.")
    scene.register(0, restarts="3")
    scene.register(1, process="p", restarts="5")
    scene.settle()
    scene.say("An Agent of this package registers again, and asks again, because its 210 got lost.")
    scene.register(1, process="p", restarts="5")
    scene.settle()
    scene.say("ClusterD holds Agents back during a stress test.")
    scene.signal("pauseStartAgent")
    scene.register(2)
    scene.settle()
    scene.signal("continueStartAgent")
    scene.settle()
    scene.say("A 210 that nobody takes is sent five times and decided on again, until the next process registers.")
    scene.away.add("Agent/3")
    scene.register(3)
    scene.settle()
    for _ in range(6):
        scene.tick(3.0)
    scene.away.clear()
    scene.register(3)
    scene.settle()
    return scene


def pod_rescheduling() -> Scene:
    """A job without ClusterD's recovery replaces faulty nodes."""
    scene = Scene()
    scene.register(0, 1, 2, 3)
    scene.take(RetryTime(4))
    scene.settle()
    scene.say("Agent 1 reports a failed rank: a round.")
    scene.away.add("Agent/3")
    scene.fault(1, 3)
    scene.settle()
    scene.say("Agent 2 has restarted and fails: it is answered in the round. Agent 1 says all is well: it leaves.")
    scene.fault(2, 5)
    scene.fault(1)
    scene.settle()
    scene.say("Agent 3 was away for longer than five attempts; its old report is older than the 208.")
    for _ in range(5):
        scene.tick(3.0)
    scene.fault(3, 7)
    scene.settle()
    scene.away.clear()
    scene.tick(3.0)
    scene.say("The platform counts up RetryTime, and the exited come back: the round is over.")
    scene.take(RetryTime(5))
    scene.register(1, 2)
    scene.settle()
    scene.say("RetryTime changes, without a fault: everybody restarts.")
    scene.take(RetryTime(6))
    scene.settle()
    scene.say("Agent 1 fails once more, and then Agent 0: the job is rescheduled.")
    scene.fault(1, 3)
    scene.settle()
    scene.fault(0, 1)
    scene.settle()
    return scene


def in_place() -> Scene:
    """A job whose Workers rejoin."""
    scene = Scene(IN_PLACE)
    scene.say("The start: an epoch begins when all ranks are there.")
    scene.register(0, 1, process="p")
    scene.settle()
    scene.part(epochs.NEW, 0, 1, 2)
    scene.settle()
    scene.part(epochs.NEW, 3)
    scene.settle()
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=1)
    scene.settle()
    scene.say("Rank 3 dies: it alone is restarted, and the others leave and rejoin.")
    scene.fault(1, 3)
    scene.settle()
    scene.part(epochs.LEFT, 0, 1, 2, epoch=1)
    scene.settle()
    scene.part(epochs.NEW, 3)
    scene.settle()
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=2)
    scene.settle()
    scene.say("Two at once, on two nodes: one failure.")
    scene.fault(0, 0)
    scene.settle()
    scene.fault(1, 2)
    scene.settle()
    scene.part(epochs.LEFT, 1, 3, epoch=2)
    scene.part(epochs.NEW, 0, 2)
    scene.settle()
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=3)
    scene.settle()
    scene.say("A second failure, 5 s after the first, of a rank that has left: pods.")
    scene.fault(1, 3)
    scene.settle()
    scene.part(epochs.LEFT, 2, epoch=3)
    scene.tick(5.0)
    scene.fault(1, 2)
    scene.settle()
    scene.register(1, process="q")
    scene.settle()
    scene.part(epochs.NEW, 0, 1, 2, 3)
    scene.settle()
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=4)
    scene.settle()
    scene.say("No restart is left: pods at once.")
    scene.fault(1, 3)
    scene.settle()
    return scene


def recover() -> Scene:
    """ClusterD recovers a process fault."""
    scene = Scene(CLUSTERD)
    scene.register(0, 1)
    scene.settle()
    scene.say("Reports of Agents alone move nothing.")
    scene.fault(1, 3, at="1000")
    scene.settle()
    scene.say("stopTrain, globalFault, and the strategy: the controller waits for the node to have its 203.")
    scene.signal("stopTrain", "stop_train")
    scene.settle()
    scene.signal("globalFault", "on_global_rank", "fault_nodes_exit", nodes=(1,))
    scene.settle()
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", "change_strategy", strategy="recover", nodes=(1,))
    scene.settle()
    scene.away.clear()
    scene.tick(3.0)
    scene.settle()
    scene.register(1)
    scene.settle()
    scene.say("In place.")
    scene.signal("changeStrategy", strategy="recover", nodes=(1,), params='{"recover-in-place": true}')
    scene.settle()
    scene.say("A signal that comes again does nothing; signals that come together are taken one by one.")
    scene.signal("stopTrain", "pause_train", uuid="x1")
    scene.signal("stopTrain", "pause_train", uuid="x1")
    scene.signal("preExitProcess", "pre exit process", uuid="x2", nodes=(0,))
    scene.signal("changeStrategy", uuid="x3", strategy="continue")
    scene.settle()
    scene.say("Dump, and exit: the nodes come back, and the round ends.")
    scene.signal("changeStrategy", uuid="x4", strategy="dump")
    scene.signal("changeStrategy", uuid="x5", strategy="exit", nodes=(1,))
    scene.settle()
    scene.register(1)
    scene.settle()
    scene.say("saveAndExit, then killMaster: once.")
    scene.signal("saveAndExit", nodes=(1,))
    scene.settle()
    scene.signal("killMaster")
    scene.settle()
    scene.tick(60.0)
    return scene


def overdue() -> Scene:
    """ClusterD leaves a fault of Agent 0 unanswered."""
    scene = Scene(CLUSTERD)
    scene.register(0, 1)
    scene.settle()
    scene.say("stopTrain holds the stream; ClusterD then says nothing more.")
    scene.signal("stopTrain", "stop_train")
    scene.fault(0, 1, at="1000")
    scene.settle()
    scene.say("25 minutes after the report the job is rescheduled.")
    scene.tick(1400.0)
    scene.tick(100.0)
    return scene


def elastic() -> Scene:
    """Smaller, at full size again, and the hot switch."""
    scene = Scene(CLUSTERD)
    scene.register(0, 1)
    scene.settle()
    scene.say("Downgrade: the faulty node leaves by a signal of its own, and the stream stays taken.")
    scene.signal("changeStrategy", "change_strategy", strategy="downgrade", params='{"scale-in-strategy": "DP"}')
    scene.settle()
    scene.signal("faultNodesExit", "fault_nodes_exit", nodes=(1,))
    scene.settle()
    scene.register(1)
    scene.settle()
    scene.signal("changeStrategy", "change_strategy", strategy="upgrade")
    scene.settle()
    scene.say("Another order frees it: a hot switch, its end with the same uuid, and a migration.")
    scene.signal("hot-switch", "hot switch", uuid="h1")
    scene.settle()
    scene.signal("hot-switch", "stop switch", uuid="h1")
    scene.settle()
    scene.signal("changeStrategy", "change_strategy", strategy="migration")
    scene.settle()
    return scene


def operations() -> Scene:
    """Profiling, a switch of cards and a stress test, side by side."""
    scene = Scene(JobConfig(nodes=2, processes_per_node=2))
    scene.say("The profiling switch waits for all Workers.")
    scene.workers(0, 1, 2)
    scene.take(ProfilingSwitch(default=True))
    scene.settle()
    scene.workers(3)
    scene.settle()
    scene.say("Three switch on, one fails: it is sent again after 30 s.")
    for rank, code in enumerate((1410, 1410, 1410, 1420)):
        scene.report(f"Worker/{rank // 2}/{rank}", "STATUS", code)
    scene.settle()
    scene.tick(30.0)
    scene.report("Worker/1/3", "STATUS", 1410)
    scene.settle()
    scene.tick(30.0)
    scene.say("All Workers switch their cards; one is late.")
    scene.take(SwitchNic((1, 2), (True, False)))
    outcome = scene.settle()[0]
    uuid = outcome.commands[0].extension["switchNicUUID"]
    for rank in (0, 1, 2, 3):
        scene.report(f"Worker/{rank // 2}/{rank}", "ACTION", 204, "switchOK", switchNicUUID=uuid)
        scene.settle()
    scene.say("A stress test: one answers, one falls silent, one is unknown, one cannot be reached.")
    scene.away.add("Worker/1/3")
    scene.take(StressTest({0: (0, 1), 1: (0,), 3: (1,), 9: (0,)}))
    outcome = scene.settle()[0]
    uuid = outcome.commands[0].extension["stressTestUUID"]
    result = '{"rankResult": {"0": {"code": "0", "result": "OK"}, "1": {"code": "2", "result": "find fault rank"}}}'
    scene.tick(2.0)
    scene.report("Worker/0/1", "KEEP_ALIVE", 0)
    scene.report("Worker/0/0", "ACTION", 205, result, stressTestUUID=uuid)
    scene.settle()
    for _ in range(5):
        scene.tick(3.0)
    return scene


def mixed() -> Scene:
    """Streams of different kinds do not wait for each other; those of recovery do."""
    scene = Scene(CLUSTERD)
    scene.register(0, 1)
    scene.workers(0, 1)
    scene.settle()
    scene.say("A pause for a switch of cards, and a device fault meanwhile.")
    scene.signal("stopTrain", "pause_train", timeout=900)
    scene.take(SwitchNic((0,), (True,)))
    scene.take(ProfilingSwitch(communication=True))
    outcome = scene.settle()[0]
    uuid = next(c.extension["switchNicUUID"] for c in outcome.commands if c.code == 204)
    scene.report("Worker/0/0", "ACTION", 204, "switchFail", switchNicUUID=uuid)
    scene.signal("preExitProcess", "pre exit process", nodes=(1,))
    scene.settle()
    scene.say("Two processes restart in place; then the job ends.")
    scene.signal("globalFault", "on_global_rank", "fault_nodes_restart", nodes=(0, 1))
    scene.settle()
    scene.signal("killMaster")
    scene.settle()
    return scene


def mixed_reports() -> Scene:
    """A round, a change of RetryTime, profiling and a stress test at once, and Agent 0 fails in the round."""
    scene = Scene(JobConfig(nodes=2, processes_per_node=1))
    scene.register(0, 1)
    scene.workers(0, 2)
    scene.take(RetryTime(0))
    scene.settle()
    scene.say("All at once: the fault and RetryTime are one round.")
    scene.take(ProfilingSwitch(default=True))
    scene.take(StressTest({0: (0,), 2: (0,)}))
    scene.take(RetryTime(1))
    scene.fault(1, 2)
    scene.settle()
    scene.say("The Worker of node 1 is a new process: its test has failed, and its profiling is unknown.")
    scene.report("Worker/0/0", "STATUS", 1410)
    scene.register(1)
    scene.workers(2)
    scene.settle()
    scene.say("Both nodes fail together, in a tick: Agent 0 decides.")
    scene.fault(1, 2)
    scene.fault(0, 0)
    scene.settle()
    scene.say("Agent 0 returns; the fault of Agent 1 is answered now.")
    scene.register(0)
    scene.settle()
    scene.register(1)
    scene.settle()
    scene.tick(30.0)
    return scene


def mixed_orders() -> Scene:
    """Orders of ClusterD that come while another plugin has the recovery."""
    scene = Scene(CLUSTERD)
    scene.register(0, 1)
    scene.settle()
    scene.say("killMaster while the controller waits for a 203.")
    scene.away.add("Agent/1")
    scene.signal("changeStrategy", strategy="recover", nodes=(1,))
    scene.settle()
    scene.signal("killMaster")
    scene.settle()
    scene.away.clear()
    scene.tick(3.0)
    scene.settle()
    scene.register(0, 1)
    scene.settle()
    scene.say("A hot switch while stopTrain holds; both signals are carried out, in their order.")
    scene.signal("stopTrain", "stop_train")
    scene.settle()
    scene.signal("hot-switch", "hot switch")
    scene.settle()
    scene.say("Smaller; then Agent 0 fails, and ClusterD says nothing for 25 minutes.")
    scene.signal("changeStrategy", "change_strategy", strategy="downgrade")
    scene.fault(0, 1, at=f"{scene.now:.0f}")
    scene.settle()
    scene.tick(1500.0)
    scene.settle()
    return scene


class Faulty(Plugin[None]):
    """A user's plugin that wants the recovery before all others, and raises."""

    name = "Faulty"
    streams: ClassVar = {"ResumeTrainingAfterFaultStream": 0, "Own": None}

    def __init__(self) -> None:
        super().__init__(None)

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """Both, while somebody is faulty."""
        return self.streams if snapshot.any_faulty else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Work on its own stream alone."""
        if stream != "Own":
            raise RuntimeError("no recovery")
        self.send("Worker/All/All", 9001, f"{len(snapshot.records.faulty)} faulty")
        return Progress.FINAL


def mixed_plugins() -> Scene:
    """A user's plugin beside the built-in ones: it fails on the common stream, and works on its own."""
    scene = Scene(plugins=lambda: [*built_in(), Faulty()])
    scene.register(0, 1)
    scene.workers(0)
    scene.settle()
    scene.say("It is barred, and the round goes on.")
    scene.fault(1, 3)
    for _ in range(3):
        scene.tick(0.1)
    scene.register(1)
    scene.settle()
    scene.say("The round is over, so it may try again.")
    scene.fault(1, 3)
    for _ in range(3):
        scene.tick(0.1)
    return scene


def device_faults() -> Scene:
    """Faults of devices in the mode grace: restarts, resets, and devices that are out."""
    scene = Devices(GRACE)
    scene.say("Level 1 asks for nothing, level 3 runs again.")
    scene.answer(L1)
    scene.answer(L3)
    scene.say("Level 5: the process is stopped, the device is reset, all run again.")
    scene.device(L5)
    scene.settle()
    scene.fault(1, 3)
    reset(scene)
    scene.say("Level 4 waits until the process has ended by itself. Its reset fails, and the node is replaced.")
    scene.device(L4, OTHER, node=0)
    scene.device(L4)
    scene.settle()
    scene.fault(1, 3)
    reset(scene, "no such chip")
    scene.register(1, process="q")
    scene.settle()
    scene.say("The Manager ends during a reset: nobody knows what became of it.")
    scene.device(L4, OTHER, kind="recovered", node=0)
    scene.device(L5, OTHER, node=0)
    scene.settle()
    scene.fault(0, 0)
    scene.settle()
    scene.job.step(scene.now, Resumed("v"))
    scene.settle()
    return scene


def device_rounds() -> Scene:
    """Faults of devices in the mode rescheduling: one round each, whatever comes first."""
    scene = Devices()
    scene.say("The process dies, and its device says why; then the node comes back.")
    scene.fault(1, 3)
    scene.device(L6)
    scene.settle()
    scene.register(1, process="q")
    scene.settle()
    scene.say("A frequency separates a device for a person to give free.")
    for kind in ("occurred", "recovered", "occurred", "recovered"):
        scene.device(OFTEN, OTHER, kind=kind, node=0)
        scene.tick(1.0)
    scene.register(0, process="r")
    scene.settle()
    scene.take(SeparatedNames(frozenset((OTHER,))))
    scene.take(SeparatedNames(frozenset()))
    scene.settle()
    scene.say("A port is down for longer than its timeout: nothing, until the process dies.")
    scene.device(L6, kind="recovered")
    scene.device("81078603")
    scene.settle()
    scene.tick(31.0)
    scene.fault(1, 3)
    scene.settle()
    scene.register(1, process="s")
    scene.settle()
    scene.say("The files give a code that stands another level, and are refused once.")
    scene.device(L1, OTHER, node=0)
    scene.settle()
    with pytest.raises(ConfigError):
        scene.take(FaultFiles({"faultCode.json": "{"}))
    scene.take(FaultFiles({"faultCode.json": f'{{"RestartNPUCodes": ["{L1}"]}}'}))
    scene.settle()
    return scene


def device_in_place() -> Scene:
    """A device is reset in a training whose Workers rejoin; a second one is isolated meanwhile."""
    scene = Devices(GRACE, JobConfig(in_place=True))
    for phase, epoch in ((epochs.NEW, 0), (epochs.RUNNING, 1)):
        scene.part(phase, 0, 1, 2, 3, epoch=epoch)
        scene.settle()
    scene.say("Level 5: the rank that was stopped alone starts again.")
    scene.device(L5)
    scene.settle()
    scene.fault(1, 3)
    scene.part(epochs.LEFT, 0, 1, 2, epoch=1)
    reset(scene)
    scene.part(epochs.NEW, 3)
    scene.settle()
    scene.part(epochs.RUNNING, 0, 1, 2, 3, epoch=2)
    scene.settle()
    scene.say("Level 6 on the same node while it is reset: the node is replaced.")
    scene.device(L5)
    scene.settle()
    scene.device(L6, "1/Ascend910-0")
    scene.settle()
    return scene


def reset(scene: Devices, failed: str = "") -> None:
    """The reset that is decided now comes to its end."""
    (found,) = resets(scene.settle())
    scene.take(ResetEnded(found.uuid, not failed, failed))
    scene.settle()


_SCENES = [agents, pod_rescheduling, in_place, recover, overdue, elastic, operations, mixed]
_SCENES += [mixed_reports, mixed_orders, mixed_plugins, device_faults, device_rounds, device_in_place]


@pytest.mark.parametrize("play", _SCENES)
def test_transcript(play: Callable[[], Scene], request: pytest.FixtureRequest) -> None:
    transcript = play().transcript()
    file = GOLDEN / f"{play.__name__}.txt"
    if request.config.getoption("--rewrite-golden"):
        file.write_text(transcript, "utf-8")
    assert transcript == file.read_text("utf-8")


@pytest.mark.parametrize("play", _SCENES)
def test_recorded_events_lead_to_the_same_outcomes(play: Callable[[], Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """One Job that nobody stores decides as the many that each went on from a stored state."""
    step, recorded = Job.step, list[tuple[float, Event, Outcome]]()

    def record(job: Job, now: float, event: Event) -> Outcome:
        outcome = step(job, now, event)
        recorded.append((now, event, outcome))
        return outcome

    monkeypatch.setattr(Job, "step", record)
    scene = play()
    again = Job(scene.config, "u", scene.plugins())
    for now, event, outcome in recorded:
        # Decisions about devices are lines for the log, which are not stored.
        told = replace(outcome, faults=[], fault_counts=Counter())
        assert replace(step(again, now, event), faults=[], fault_counts=Counter()) == told, (now, event)
    assert json.loads(again.to_json()) == json.loads(scene.job.to_json())
