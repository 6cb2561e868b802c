"""A random play with faults of devices: their watchers, the files, a person, resets, and the rules that always hold."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import strategies as st

from taskd_net.base import vocabulary
from taskd_net.base.codes import ConfigError
from taskd_net.base.position import Position
from taskd_net.job.decide.device_state import FaultConfig
from taskd_net.job.decide.events import DeviceEvent, DeviceRanks, DeviceReleased, FaultFiles, ResetEnded, SeparatedNames
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Command, Outcome, Reset
from taskd_net.job.faults.events import FaultKind, read_event
from taskd_net.job.faults.levels import Action, Mode
from tests.jobs.play import AGENTS, Play

CODES = tuple(f"8C00000{level}" for level in range(1, 7))
OFTEN, PORT_DOWN = "8C0000AA", "81078603"
KEYS = ("NotHandleFault", "RestartRequest", "RestartBusiness", "FreeRestartNPU", "RestartNPU", "SeparateNPU")
FREQUENCY = {"EventId": OFTEN, "TimeWindow": 60, "Times": 2, "FaultHandling": "ManuallySeparateNPU"}
CUSTOM = json.dumps({"FaultFrequency": [FREQUENCY]})


def files(first: int) -> FaultFiles:
    """The six codes at the six levels, beginning with this one; the seventh are broken."""
    if first == len(KEYS):
        return FaultFiles({"faultCode.json": "{"})
    lists = {f"{key}Codes": [CODES[(first + number) % len(CODES)]] for number, key in enumerate(KEYS)}
    lists["NotHandleFaultCodes"].append(OFTEN)
    return FaultFiles({"faultCode.json": json.dumps(lists), "faultCustomization.json": CUSTOM})


def config(mode: Mode, **more: Any) -> JobConfig:
    """Three nodes with a process and a device each."""
    return JobConfig(nodes=AGENTS, processes_per_node=1, faults=FaultConfig(mode=mode, resets=True), **more)


CONFIGS = (
    config(Mode.GRACE),
    config(Mode.RESCHEDULING),
    config(Mode.GRACE, in_place=True),
    config(Mode.GRACE, clusterd=True),
    config(Mode.GRACE, clusterd=True, fault_recover="on"),
)

DEVICE = st.tuples(
    st.sampled_from((*CODES, *CODES[3:5] * 3, OFTEN, PORT_DOWN, "8CFFFFFF")),  # resets are rare otherwise
    st.sampled_from((FaultKind.OCCURRED, *FaultKind)),
    st.integers(0, AGENTS),
)
DEVICE_STEP = st.one_of(
    st.tuples(st.just("device"), DEVICE, st.sampled_from((0.0, 0.0, 5.0, 1000.0, -1000.0))),
    st.tuples(st.just("device"), DEVICE, st.just(0.0)),
    st.tuples(st.just("reset_ends"), st.booleans(), st.none()),
    st.tuples(st.just("files"), st.integers(0, len(KEYS)), st.none()),
    st.tuples(st.just("release"), st.integers(0, AGENTS), st.none()),
    st.tuples(st.just("listed"), st.sets(st.integers(0, AGENTS)), st.none()),
)


def device(rank: int) -> str:
    """The device of a rank; one more is of no node."""
    return f"host-{rank}/npu"


class DevicePlay(Play):
    """A play whose nodes have devices.

    Args:
        config: of the job.
        ours: as in a Play; the ranks of devices stand in the mapping file where they are no Agents of this package.
    """

    def __init__(self, config: JobConfig, *, ours: bool = True) -> None:
        self.resets: dict[str, Reset] = {}
        self.uuids: set[str] = set()
        self.stopped: list[int] = []
        self.halted: set[int] = set()
        """Ranks that were stopped for their device, and have not started since: each report of their Agent has them."""
        self.running: set[int] = set()
        self.unclear_nodes: set[int] = set()
        """Nodes that have had an acknowledgement lost: nobody knows for sure whether their processes run."""
        self.over = False
        super().__init__(config, ours=ours)
        self.take(FaultFiles(files(0).files))
        if not ours:
            self.take(DeviceRanks({device(rank): rank for rank in range(AGENTS)}))

    def register(self, rank: int) -> None:
        """Another process of an Agent begins; it names its device."""
        self.running.discard(rank)
        self.halted.discard(rank)
        super().register(rank)

    def say(self, src: Position, msg_type: str, code: int, message: str = "", **extension: str) -> None:
        """A node says something; an Agent of this package names its device when it registers."""
        if self.ours and msg_type == vocabulary.REGISTER and src.role == "Agent":
            extension = {**extension, vocabulary.DEVICES: json.dumps([device(int(src.server_rank))])}
        super().say(src, msg_type, code, message, **extension)

    def tick(self) -> None:
        """Decide; an Agent that was told to stop a process says then that it has ended."""
        super().tick()
        self.nodes_go_on()

    def nodes_go_on(self) -> None:
        """Agents say what they have stopped; at the end, resets end."""
        stopped, self.stopped = self.stopped, []
        for rank in stopped:
            self.failed.add(rank)
            self.report(rank, [rank])
        while self.over and self.resets:
            self.end_reset(True)

    def look(self, outcome: Outcome) -> None:
        """Assert the rules for resets, and for a job whose faults ClusterD answers."""
        super().look(outcome)
        if self.config.clusterd:
            assert not outcome.resets and not self.job.state.devices.tasks, "ClusterD answers faults of devices"
        for reset in outcome.resets:
            assert reset.uuid not in self.uuids, "a reset once"
            self.uuids.add(reset.uuid)
            assert all(rank not in self.running or rank in self.unclear_nodes for rank in reset.ranks), "it is idle"
            self.resets[reset.uuid] = reset

    def obey(self, command: Command) -> None:
        """A process carries out a command."""
        super().obey(command)
        position = command.destination.position
        if position.role != "Agent":
            return
        rank = int(position.server_rank)
        if command.to in self.mute:
            self.unclear_nodes.add(rank)
        if command.code in (vocabulary.START, vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS):
            under_way = [each for each in self.resets.values() if rank in each.ranks]
            assert not under_way or rank in self.unclear_nodes, "nothing starts on a device that is reset"
            self.running.add(rank)
            self.halted.discard(rank)
        elif command.code == vocabulary.EXIT:
            self.running.discard(rank)
        elif command.code == vocabulary.STOP_RANKS and self.is_about_device(command):
            self.running.discard(rank)
            self.halted.add(rank)
            self.stopped.append(rank)

    def is_about_device(self, command: Command) -> bool:
        """True for the stop of a process of the play; ClusterD's orders name others too."""
        return int(command.destination.position.server_rank) in map(int, json.loads(command.message))

    def step(self, kind: str, first: Any, second: Any) -> None:
        """Something happens."""
        if kind == "device":
            code, how, rank = first
            at = max(self.now - second, 0.0)
            event = read_event({"code": code, "device": device(rank), "kind": how.value, "severity": "major"}, at)
            self.take(DeviceEvent(event, rank if rank < AGENTS else None))
        elif kind == "reset_ends":
            self.end_reset(first)
        elif kind == "files":
            with suppress(ConfigError):
                self.take(files(first))
        elif kind == "release":
            self.take(DeviceReleased(device(first)))
        elif kind == "listed":
            self.take(SeparatedNames(frozenset(map(device, first))))
        else:
            super().step(kind, first, second)

    def node_step(self, kind: str, rank: int, how: object) -> None:
        """A node does something; a rank that has failed does not run."""
        super().node_step(kind, rank, how or (kind == "fault" and rank in self.halted))
        if kind == "fault" and rank in self.failed:
            self.running.discard(rank)

    @property
    def held(self) -> set[int]:
        """Agents whose device is to be reset after the round that replaces a node."""
        if not self.job.state.records.exited:
            return set()
        tasks = self.job.state.devices.tasks.items()
        return {rank for rank in range(AGENTS) for name, task in tasks if name == device(rank) and task.resets}

    def end_reset(self, done: bool) -> None:
        """The oldest reset comes to its end."""
        if self.resets:
            uuid = next(iter(self.resets))
            del self.resets[uuid]
            self.take(ResetEnded(uuid, done, "" if done else "no such chip"))

    def end_faults(self) -> None:
        """Every fault is over, and resets end well from now on."""
        super().end_faults()
        self.over = True
        self.clear()

    def clear(self) -> None:
        """All devices recover, and people give all of them free."""
        for rank in range(AGENTS + 1):
            for code in (*CODES, OFTEN, PORT_DOWN, "8CFFFFFF"):
                event = read_event({"code": code, "device": device(rank), "kind": "recovered"}, self.now)
                self.take(DeviceEvent(event, None))
            self.take(DeviceReleased(device(rank)))

    def assert_rest(self) -> None:
        """Assert that no device is out, and that no answer waits but for a device that is in use."""
        self.clear()
        self.settle(200.0)
        super().assert_rest()
        assert list(self.job.devices.isolated()) == [] and not self.job.devices.separated
        waiting = {task.action for task in self.job.state.devices.tasks.values()}
        assert waiting <= {Action.WAIT_UNTIL_IDLE, Action.NO_NEW_JOB}
