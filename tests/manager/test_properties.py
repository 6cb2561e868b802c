"""Random plays with a state file: the Manager is killed around its commits, and goes on from the file."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from taskd_net.base import vocabulary
from taskd_net.base.vocabulary import KEEP_ALIVE
from taskd_net.job.decide.events import (
    DeviceEvent,
    DeviceRanks,
    DeviceReleased,
    Event,
    FaultFiles,
    Reported,
    Resumed,
    RetryTime,
)
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Command
from taskd_net.job.manager.keeping import Store
from tests.jobs.device_play import CONFIGS, DEVICE_STEP, DevicePlay
from tests.jobs.play import RESTARTS, STEP, Play
from tests.jobs.scene import CLUSTERD, LOCAL

KILLS = st.tuples(st.just("kill"), st.sampled_from(("reading", "decided", "stored", "sent")), st.none())


class StoredPlay(Play):
    """A job whose Managers go on from a file. Receivers drop what they have, as a mesh's do.

    Args:
        config: of the job.
        path: the file.
        ours: as in a Play.
    """

    def __init__(self, config: JobConfig, path: Path, *, ours: bool) -> None:
        self._path = path
        self._store = Store(path, "J")
        self._store.open()
        self._managers = 0
        self._dies = ""
        self._unanswered: list[Event] = []
        self._retry_time: Event | None = None
        self._counts: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._exits: set[tuple[int, int]] = set()
        super().__init__(config, ours=ours)

    def close(self) -> None:
        """Close the file."""
        self._store.close()

    def take(self, event: Event) -> None:
        """An event happens; reports are repeated until they are answered, and files are read again."""
        if isinstance(event, Reported) and event.msg_type != KEEP_ALIVE:
            self._unanswered.append(event)
        elif isinstance(event, RetryTime):
            self._retry_time = event
        super().take(event)

    def tick(self) -> None:
        """Decide, store, answer, and carry out; the Manager may be killed between any two of these."""
        dies, self._dies = self._dies, ""
        rounds = self.rounds
        outcome = self.decide()
        if dies == "decided":
            self.rounds = rounds  # nobody knows of it
            return self._resume()
        self._store.write(self.job.unsaved())
        if dies == "stored":
            return self._resume()
        self._unanswered.clear()
        self.look(outcome)
        return self._resume() if dies == "sent" else None

    def may_come_again(self, uuid: str) -> bool:
        """True: an acknowledgement is lost with a Manager that is killed."""
        return True

    def step(self, kind: str, first: object, second: object) -> None:
        """Something happens; a kill comes at the next tick, or at once."""
        if kind != "kill":
            super().step(kind, first, second)
        elif first in ("reading", None):
            self._resume()
        else:
            self._dies = str(first)

    def end_faults(self) -> None:
        """Everybody is reachable, and the Manager lives, from now on."""
        super().end_faults()
        self._dies = ""

    def obey(self, command: Command) -> None:
        """Assert that no process gets an order twice, and no count below the documented one."""
        super().obey(command)
        position = command.destination.position
        if position.role != "Agent":
            return
        rank = int(position.server_rank)
        process = rank, self.processes[rank]
        if command.code == vocabulary.EXIT:
            assert process not in self._exits, "203 once for a process"
            self._exits.add(process)
        elif command.code == vocabulary.RESTART_ALL:
            count = int(command.message)
            assert count >= RESTARTS - self.rounds
            assert not self._counts[process] or count < self._counts[process][-1], "208 once for a process and a round"
            self._counts[process].append(count)

    def resumed(self) -> None:
        """Another process of the Manager has read the state file, and no report yet."""

    def _resume(self) -> None:
        """Another process of the Manager begins."""
        self._store.close()
        self._store = Store(self._path, "J")
        parts = self._store.open()
        self._managers += 1
        seed = f"v{self._managers}"
        self.job = Job.from_parts(parts, self.config) if parts else Job(self.config, seed)
        if parts:
            self.job.step(self.now, Resumed(seed))
        if self._retry_time is not None:
            super().take(self._retry_time)
        self.resumed()
        for report in self._unanswered:
            super().take(report)


class StoredDevicePlay(StoredPlay, DevicePlay):
    """A stored play whose nodes have devices; every Manager reads the files, and none knows the resets before it."""

    def __init__(self, config: JobConfig, path: Path, *, ours: bool) -> None:
        self._mounted: list[Event] = []
        super().__init__(config, path, ours=ours)

    def take(self, event: Event) -> None:
        """An event happens; watchers repeat what nobody has answered, and files stay where they are."""
        super().take(event)
        if isinstance(event, DeviceEvent | DeviceReleased):
            self._unanswered.append(event)
        elif isinstance(event, FaultFiles | DeviceRanks):
            self._mounted = [each for each in self._mounted if type(each) is not type(event)] + [event]

    def tick(self) -> None:
        """Decide, store, answer; then the nodes go on."""
        super().tick()
        self.nodes_go_on()

    def resumed(self) -> None:
        """The files are read; a reset under way ends untold."""
        self.resets.clear()
        for event in self._mounted:
            self.job.step(self.now, event)


@settings(max_examples=100)
@given(st.lists(st.one_of(STEP, KILLS), max_size=40), st.sampled_from((LOCAL, CLUSTERD)), st.booleans())
def test_a_job_whose_manager_is_killed_comes_to_rest(
    steps: list[tuple[str, object, object]], config: JobConfig, ours: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = StoredPlay(config, Path(folder) / "state", ours=ours)
        try:
            play.run(steps)
            play.assert_rest()
        finally:
            play.close()


@settings(max_examples=100)
@given(st.lists(st.one_of(DEVICE_STEP, DEVICE_STEP, STEP, KILLS), max_size=40), st.sampled_from(CONFIGS), st.booleans())
def test_faults_of_devices_come_to_rest_though_the_manager_is_killed(
    steps: list[tuple[str, object, object]], config: JobConfig, ours: bool
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = StoredDevicePlay(config, Path(folder) / "state", ours=ours)
        try:
            play.run(steps)
            play.assert_rest()
        finally:
            play.close()
