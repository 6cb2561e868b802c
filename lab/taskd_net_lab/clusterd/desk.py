"""The jobs that ClusterD knows, and its answers to the calls that are no reports."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from taskd_net_lab.clusterd.cluster import Cluster
from taskd_net_lab.clusterd.course import SECONDS, Wait
from taskd_net_lab.clusterd.machine import Machine
from taskd_net_lab.clusterd.messages import Stream
from taskd_net_lab.clusterd.round import Job
from taskd_net_lab.clusterd.table import Event, State

MOST_JOBS: Final = 10_000
CALLS_PER_S: Final = 1_000
HEALTH_CHECKS_PER_S: Final = 10_000
TESTS: Final = (0, 1)
"""Operations of a stress test: the cores, the links between devices."""


class Answer(NamedTuple):
    """A status: its code and a text."""

    code: int = 0
    info: str = "success"


class Rate:
    """A bound on calls, for each second of the clock."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._second = 0
        self._calls = 0

    def take(self, now: float) -> bool:
        """Count a call. Returns False where it is one too many."""
        if int(now) != self._second:
            self._second, self._calls = int(now), 0
        self._calls += 1
        return self._calls <= self._most


class Desk:
    """All jobs, each with a machine from its registration on.

    Args:
        jobs: known to the platform.
        new_uuid: makes the uuid of an order.
        seconds, outcomes, resets: of each machine.
        most: registered jobs at most.

    Attributes:
        jobs: the jobs by their names.
        seconds: times of the next machine.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        new_uuid: Callable[[], str],
        seconds: Mapping[Wait, float] = SECONDS,
        outcomes: Mapping[State, tuple[Event, ...]] | None = None,
        most: int = MOST_JOBS,
        resets: Iterator[float] | None = None,
    ) -> None:
        self.jobs = {job.job_id: job for job in jobs}
        self._new_uuid = new_uuid
        self.seconds = seconds
        self._outcomes = outcomes
        self._most = most
        self._resets = resets
        self._initialized: dict[str, Job] = {}
        self._clusters: dict[str, Cluster] = {}
        self._machines: dict[str, Machine] = {}

    def init(self, job_id: str) -> Answer:
        """Answer Init. The job's settings are kept as the first one that is answered 0 finds them."""
        if job_id in self._initialized:
            return Answer()
        job = self.jobs.get(job_id)
        if job is None:
            return Answer(502, f"job {job_id} has no pod group")
        if not job.enabled:
            return Answer(403, f"neither process recovery nor hot switch is on for job {job_id}")
        self._initialized[job_id] = replace(job)
        return Answer()

    def register(self, job_id: str, now: float = 0.0) -> Answer:
        """Answer Register; the first one makes the job's machine, which finds the faults that stand in the cluster."""
        if job_id in self._machines:
            return Answer()
        if job_id not in self._initialized:
            return Answer(408, f"no Init of job {job_id}")
        if not self.jobs[job_id].known:
            return Answer(402, f"job {job_id} does not exist")
        if len(self._machines) >= self._most:
            return Answer(500, f"{self._most} jobs are registered")
        cluster = self._clusters.setdefault(job_id, Cluster())
        settings = self._initialized[job_id]
        machine = Machine(settings, self._new_uuid, self.seconds, self._outcomes, cluster, self._resets)
        machine.stand(now)
        self._machines[job_id] = machine
        return Answer()

    def machine(self, job_id: str) -> Machine | None:
        """The machine of a registered job."""
        return self._machines.get(job_id)

    def machines(self) -> Iterable[tuple[str, Machine]]:
        """All machines, with the names of their jobs."""
        return self._machines.items()

    def wait(self, seconds: Mapping[Wait, float]) -> None:
        """Change times, from the next state of each machine on."""
        self.seconds = {**self.seconds, **seconds}
        for machine in self._machines.values():
            machine.seconds.update(seconds)

    def forget(self) -> None:
        """Forget all that is in memory only, as a restart of ClusterD does. A job that is paused stays so."""
        for job_id, machine in self._machines.items():
            if machine.state is State.FAULT_RETRY:
                self.jobs[job_id].enabled = False
        self._initialized.clear()
        self._machines.clear()

    def switch_cards(
        self, job_id: str, cards: Mapping[str, tuple[Sequence[str], Sequence[bool]]], now: float
    ) -> Answer:
        """Answer SwitchNicTrack.

        Args:
            job_id: the job.
            cards: for each node (`node-0`) its devices (`0`), and for each whether it goes to the backup card.
            now: the time.
        """
        machine = self._machines.get(job_id)
        if machine is None:
            return Answer(413, f"job {job_id} is not registered")
        ranks: list[int] = []
        ops: list[bool] = []
        for name, (devices, backup) in cards.items():
            found = [self._rank(machine.job, name, device) for device in devices]
            if len(found) != len(backup) or None in found:
                return Answer(413, f"{name} of job {job_id} has no such devices, or not one op for each")
            ranks += [rank for rank in found if rank is not None]
            ops += backup
        by_rank = sorted(zip(ranks, ops, strict=True))
        begun = machine.switch_cards(tuple(rank for rank, _ in by_rank), tuple(op for _, op in by_rank), now)
        return Answer() if begun else _busy(job_id)

    def stress_test(
        self, job_id: str, nodes: Mapping[str, Sequence[int]], everywhere: Sequence[int], now: float
    ) -> Answer:
        """Answer StressTest.

        Args:
            job_id: the job.
            nodes: operations by node (`node-0`).
            everywhere: operations on all nodes, if any.
            now: the time.
        """
        machine = self._machines.get(job_id)
        if machine is None:
            return Answer(413, f"job {job_id} is not registered")
        job = machine.job
        wanted = dict.fromkeys(map(_name, range(job.nodes)), everywhere) if everywhere else dict(nodes)
        tests: dict[int, tuple[int, ...]] = {}
        for name, ops in wanted.items():
            first = self._rank(job, name, "0")
            if first is None or not ops or not set(ops) <= set(TESTS) or len(set(ops)) < len(ops):
                return Answer(413, f"job {job_id} has no {name}, or {list(ops)} are no operations")
            tests |= {rank: tuple(ops) for rank in range(first, first + job.processes)}
        if not tests or not machine.has(Stream.STRESS):
            return Answer(413, f"no node is named, or no client of job {job_id} takes tests")
        return Answer() if machine.stress_test(tests, now) else _busy(job_id)

    @staticmethod
    def _rank(job: Job, name: str, device: str) -> int | None:
        """The global rank of a device; None for one that the job does not have."""
        nodes = {_name(node): node for node in range(job.nodes)}
        devices = {str(local): local for local in range(job.processes)}
        if name not in nodes or device not in devices:
            return None
        return nodes[name] * job.processes + devices[device]


def _name(node: int) -> str:
    return f"node-{node}"


def _busy(job_id: str) -> Answer:
    return Answer(411, f"job {job_id} is busy")
