"""The measures: one method for each name that `taskd-net bench` knows.

Systems take turns within a measure (A B C D, A B C D, …), so that other load of the machine affects all of them.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, cast

from benchmarks import systems
from benchmarks.member import Loaded
from benchmarks.mesh import DOWN, MGR, PROXY, ROLES, UP, Chain
from benchmarks.processes import Process, TurnFailed, closing
from benchmarks.results import Conditions, Results
from benchmarks.systems import DIRECT, OURS

SMALL: Final = 64
BODIES: Final = (SMALL, 4096, 65_536, 1_048_576)
IN_FLIGHT: Final = (1, 8, 64, 256, 512)
RATES: Final = (1000, 4000, 16_000)
"""Messages a second of the open-loop runs."""

HEADROOM: Final = 1.5
"""Least capacity of a system in an open-loop run, × the rate: a slower one would only show its backlog."""

LARGE_SHARE: Final = 0.4
"""Share of the latency time for bodies above 64 B: their percentiles are no targets."""

WARM_UP: Final = 0.2
"""Warm-up before each measurement, as a share of its seconds."""

BROADCASTS: Final = (8, 64, 512)
JOINS: Final = (8, 64, 512, 2000)
FAR_WORKER: Final = "Worker/1/1"
PROXIES: Final = 4
CHILD_PROCESSES: Final = 4
"""Processes that many children are spread over."""

REST_FROM: Final = 512
"""Children from which on memory and CPU time at rest are measured: with fewer, the process itself outweighs them."""

BACK_S: Final = 60.0
"""Seconds after which children no longer count as back."""

LOOK_S: Final = 0.01
"""Seconds between two looks at who is back."""

ROUTES: Final = (100, 1000, 10_000, 100_000)
LINKS: Final = (10, 100, 1000)
SWITCH_INTERVALS: Final = (0.005, 0.0005)


@dataclass(frozen=True, slots=True)
class Effort:
    """The effort of a run.

    Attributes:
        turns: turns of each system.
        seconds: of a throughput measurement.
        latency_seconds: of a latency measurement.
        settle: seconds for memory and CPU at rest.
    """

    turns: int = 5
    seconds: float = 0.3
    latency_seconds: float = 0.6
    settle: float = 2.0


@dataclass(frozen=True, slots=True)
class _Run:
    count: int
    seconds: float
    latencies: str
    cpu: Sequence[float]


class Bench:
    """One run of measures.

    Args:
        effort: the effort of the run.
        progress: called with the current step.
        names: the systems that take part; peers are compared with `taskd_net`.

    Attributes:
        names: the same.
    """

    def __init__(self, effort: Effort, progress: Callable[[str], None], names: Sequence[str] = systems.ALL) -> None:
        self.results = Results()
        self.effort = effort
        self.names = names
        self._progress = progress
        self._processes: list[Process] = []
        self._chains: dict[str, Chain] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The block for measures; no process outlives it."""
        with closing(self._processes):
            yield

    def chain(self, system: str) -> Chain:
        """A system's chain, started on first use and kept."""
        if system not in self._chains:
            self._progress(f"starting {system}")
            chain = Chain(system, self._processes)
            chain.ready()
            self._chains[system] = chain
        return self._chains[system]

    def latency(self, bodies: Sequence[int] = BODIES, names: Sequence[str] = ()) -> None:
        """Two hops with one message in flight: p50, p99, p99.9, by size of the body."""
        cases = [(direction, body) for direction in (UP, DOWN) for body in bodies]
        for turn in self._turns("latency, one in flight"):
            for direction, body in cases:
                for chain in self._chains_for(names, direction):
                    with self._turn(f"latency, turn {turn}", chain.system):
                        seconds = self.effort.latency_seconds * (1.0 if body == SMALL else LARGE_SHARE)
                        run = self._load(chain, direction, body, 1, seconds, latencies=True)
                        case: Conditions = {"direction": direction, "body": body}
                        self.results.add_latencies("latency", chain.system, run.latencies, **case)

    def rate(self, in_flight: Sequence[int] = IN_FLIGHT) -> None:
        """Two hops, messages/s by messages in flight, 64 B bodies; CPU time per message in each process."""
        self.rates([(SMALL, count, ()) for count in in_flight])

    def bodies(self, bodies: Sequence[int] = BODIES[1:]) -> None:
        """Two hops, messages/s by size of the body, 64 in flight (8 with 1 MiB)."""
        self.rates([(body, 8 if body > 500_000 else 64, ()) for body in bodies])

    def rates(self, cases: Sequence[tuple[int, int, Sequence[str]]]) -> None:
        """Two hops, messages/s either way, for each body, number in flight, and systems (none: all)."""
        for turn in self._turns("messages/s"):
            for direction in (UP, DOWN):
                for body, in_flight, names in cases:
                    for chain in self._chains_for(names, direction):
                        with self._turn(f"rate, turn {turn}", chain.system):
                            self._rate(chain, direction, body, in_flight)

    def _rate(self, chain: Chain, direction: str, body: int, in_flight: int) -> None:
        run = self._load(chain, direction, body, in_flight, self.effort.seconds)
        case: Conditions = {"direction": direction, "body": body, "in_flight": in_flight}
        self.results.add("rate", "messages/s", "1/s", chain.system, run.count / run.seconds, **case)
        if in_flight in (1, 64):
            for role, used in zip(ROLES, run.cpu, strict=True):
                self.results.add("cpu", role, "µs", chain.system, used / run.count * 1e6, **case)

    def open_loop(self, rates: Sequence[int] = RATES) -> None:
        """Two hops up at a fixed rate, latency from the intended start. Systems that are too slow are left out."""
        capacity: dict[str, float] = {}
        for chain in self._chains_for((), UP):
            run = self._load(chain, UP, SMALL, 64, 0.3)
            capacity[chain.system] = run.count / run.seconds
        for turn in self._turns("open loop"):
            for rate in rates:
                able = [name for name, most in capacity.items() if most >= HEADROOM * rate]
                for chain in self._chains_for(able, UP) if able else ():
                    with self._turn(f"open loop, turn {turn}", chain.system):
                        sender, _, to = chain.ends(UP)
                        seconds = self.effort.latency_seconds
                        paced = cast(Loaded, sender.ask("pace", to=to, body=SMALL, seconds=seconds, rate=rate))
                        self.results.add_latencies("open-loop", chain.system, paced["latencies"], rate=rate)

    def four_hops(self, names: Sequence[str] = (OURS, DIRECT, "tasknet", "unary")) -> None:
        """Worker → Proxy → Mgr → Proxy → Worker: latency with one in flight, messages/s with 64."""
        far: list[str] = []
        processes: list[Process] = []
        with closing(processes):
            for name in names:
                if name in self.names:
                    proxy = Process(name, ["Proxy/1"], self.chain(name).mgr.address)
                    processes.append(proxy)
                    worker = Process(name, [FAR_WORKER], proxy.address)
                    processes.append(worker)
                    proxy.ask("ready")
                    worker.ask("ready")
                    far.append(name)
            for turn in self._turns("four hops"):
                for chain in self._chains_for(far, UP):
                    with self._turn(f"four hops, turn {turn}", chain.system):
                        self._four_hops(chain)

    def _four_hops(self, chain: Chain) -> None:
        seconds, worker = self.effort.latency_seconds, chain.worker
        # Two hops in the same turn, so that the ratio does not depend on the machine's other load.
        for hops, to in ((4, FAR_WORKER), (2, MGR)):
            worker.load(to, body=SMALL, in_flight=1, seconds=seconds * WARM_UP)
            one = worker.load(to, body=SMALL, in_flight=1, seconds=seconds, latencies=True)
            self.results.add_latencies("four-hops", chain.system, one["latencies"], hops=hops)
        worker.load(FAR_WORKER, body=SMALL, in_flight=64, seconds=self.effort.seconds * WARM_UP)
        many = worker.load(FAR_WORKER, body=SMALL, in_flight=64, seconds=self.effort.seconds)
        rate = many["count"] / many["seconds"]
        self.results.add("four-hops", "messages/s", "1/s", chain.system, rate, hops=4, in_flight=64)

    def broadcast(self, workers: Sequence[int] = BROADCASTS, names: Sequence[str] = (OURS, DIRECT, "tasknet")) -> None:
        """Mgr → every Worker, under 4 Proxies: time to the last ack, and copies on each link."""
        for count in workers:
            for name in names:
                processes: list[Process] = []
                with closing(processes):
                    self._broadcast(name, count, processes)

    def _broadcast(self, system: str, count: int, processes: list[Process]) -> None:
        mgr = Process(system, [MGR])
        processes.append(mgr)
        proxies = [Process(system, [f"Proxy/{rank}"], mgr.address) for rank in range(PROXIES)]
        processes += proxies
        workers = []
        for rank, proxy in enumerate(proxies):
            positions = [f"Worker/{rank}/{worker}" for worker in range(rank, count, PROXIES)]
            workers.append(Process(system, positions, proxy.address))
            processes.append(workers[-1])
        for process in proxies:
            process.ask("ready")
        for process in workers:
            process.begin("join")
        for process in workers:
            process.answer()
        to = "Worker/All/All"
        for turn in self._turns(f"broadcast to {count} by {system}"):
            with self._turn(f"broadcast, turn {turn}", system):
                mgr.load(to, body=SMALL, in_flight=1, seconds=self.effort.seconds * WARM_UP)
                before = [_statistics(process) for process in processes]
                run = mgr.load(to, body=SMALL, in_flight=1, seconds=self.effort.seconds, latencies=True)
                after = [_statistics(process) for process in processes]
                self.results.add_latencies("broadcast", system, run["latencies"], workers=count)
                copies = _copies(before, after, run["count"])
                self.results.add("broadcast", "copies per link", "", system, copies / (PROXIES + count), workers=count)

    def join(self, children: Sequence[int] = JOINS, names: Sequence[str] = (OURS, DIRECT)) -> None:
        """Children that join one parent at once: time, and the parent's memory and CPU time for each at rest.

        Then the parent is killed, and a new one listens at its address: time until all children are there again.
        """
        for turn in self._turns("join"):
            for count, name in product(children, names):
                processes: list[Process] = []
                with closing(processes), self._turn(f"join of {count}, turn {turn}", name):
                    self._join(name, count, processes)

    def _join(self, system: str, count: int, processes: list[Process]) -> None:
        parent = Process(system, [MGR])
        processes.append(parent)
        address = parent.address
        for first in range(CHILD_PROCESSES):
            positions = [f"Worker/0/{rank}" for rank in range(first, count, CHILD_PROCESSES)]
            processes.append(Process(system, positions, address))
        children = processes[1:]
        for child in children:
            child.wait_started()
        memory, cpu = parent.resident(), parent.cpu()
        for child in children:
            child.begin("join")
        spans = [cast(dict[str, float], child.answer()) for child in children]
        took = max(span["ended"] for span in spans) - min(span["began"] for span in spans)
        if parent.ask("routes") != count:
            raise TurnFailed(f"{parent.name} does not know all of {count} children")
        self.results.add("join", "time to the last", "s", system, took, children=count)
        spent = (parent.cpu() - cpu) / count
        self.results.add("join", "CPU of the parent, each child", "µs", system, spent * 1e6, children=count)
        if count >= REST_FROM:
            time.sleep(1.0)
            grown = (parent.resident() - memory) / count / 1024
            self.results.add("join", "memory of the parent, each child", "KiB", system, grown, children=count)
            cpu = parent.cpu()
            time.sleep(self.effort.settle)
            share = (parent.cpu() - cpu) / self.effort.settle * 1000
            self.results.add("join", "CPU of the parent at rest", "ms/s", system, share, children=count)
            parent.kill()
            processes.append(Process(system, [MGR], listen=address))
            back = _until_back(processes[-1], count)
            self.results.add("join", "killed parent: all are back", "s", system, back, children=count)

    def idle(self, names: Sequence[str] = ()) -> None:
        """CPU time of each process without traffic."""
        chains = [self.chain(name) for name in self.names if not names or name in names]
        self._progress("CPU at rest")
        time.sleep(1.0)
        before = [[process.cpu() for process in chain.roles] for chain in chains]
        time.sleep(self.effort.settle)
        for chain, cpus in zip(chains, before, strict=True):
            for role, process, used in zip(ROLES, chain.roles, cpus, strict=True):
                share = (process.cpu() - used) / self.effort.settle
                self.results.add("idle", f"CPU {role}", "ms/s", chain.system, share * 1000)

    def blocking(self) -> None:
        """`BlockingNode` against `Node`: two hops up, one message in flight."""
        plain = self.chain(OURS)
        processes: list[Process] = []
        with closing(processes):
            facade = Chain(OURS, processes, worker="blocking")
            facade.ready()
            for turn in self._turns("blocking face"):
                for name, chain in (("Node", plain), ("BlockingNode", facade)):
                    with self._turn(f"blocking, turn {turn}", name):
                        run = self._load(chain, UP, SMALL, 1, self.effort.latency_seconds, latencies=True)
                        self.results.add_latencies("blocking", OURS, run.latencies, face=name)

    def busy(self) -> None:
        """A Worker in whose process another thread computes in pure Python: two hops either way, one in flight."""
        processes: list[Process] = []
        with closing(processes):
            chain = Chain(OURS, processes)
            chain.ready()
            for turn in self._turns("beside a computing thread"):
                for interval in SWITCH_INTERVALS:
                    self._busy(chain, interval, turn)

    def _busy(self, chain: Chain, interval: float, turn: int) -> None:
        chain.worker.ask("compute", interval=interval)
        try:
            for direction in (UP, DOWN):
                with self._turn(f"busy, turn {turn}", OURS):
                    run = self._load(chain, direction, SMALL, 1, self.effort.latency_seconds, latencies=True)
                    case: Conditions = {"direction": direction, "switch_us": round(interval * 1e6)}
                    self.results.add_latencies("busy", OURS, run.latencies, **case)
        finally:
            chain.worker.ask("rest")

    def router(self) -> None:
        """The Router alone, in memory: a unicast by number of routes, a broadcast by number of links."""
        processes: list[Process] = []
        with closing(processes):
            processes.append(Process("router", [PROXY]))
            for _ in self._turns("the Router alone"):
                self._router(processes[0])

    def _router(self, process: Process) -> None:
        for routes in ROUTES:
            spent = cast(float, process.ask("unicast", routes=routes))
            self.results.add("router", "unicast", "ns", OURS, spent, routes=routes)
        for links in LINKS:
            spent = cast(float, process.ask("broadcast", links=links))
            self.results.add("router", "broadcast", "ns", OURS, spent, links=links)
            self.results.add("router", "broadcast, each link", "ns", OURS, spent / links, links=links)

    def _chains_for(self, names: Sequence[str], direction: str) -> list[Chain]:
        """The chains of these systems (none: of all), in the order in which they take turns."""
        # Upwards `stream` is the same as `unary`.
        left_out = () if names or direction == DOWN else ("stream",)
        return [self.chain(name) for name in self.names if name not in left_out and (not names or name in names)]

    def _turns(self, what: str) -> Iterator[int]:
        for turn in range(1, self.effort.turns + 1):
            self._progress(f"{what}: turn {turn} of {self.effort.turns}")
            yield turn

    @contextlib.contextmanager
    def _turn(self, what: str, system: str) -> Iterator[None]:
        """One turn of one system. A failure is recorded and excludes this turn only."""
        try:
            yield
        except TurnFailed as failed:
            self.results.failures.append(f"{system}, {what}: {failed}")
            self._progress(f"failed: {system}, {what}: {failed}")

    def _load(
        self, chain: Chain, direction: str, body: int, in_flight: int, seconds: float, *, latencies: bool = False
    ) -> _Run:
        """A measurement after a warm-up.

        Raises:
            TurnFailed: a message was not acknowledged, or not received exactly once.
        """
        sender, receiver, to = chain.ends(direction)
        sender.load(to, body=body, in_flight=in_flight, seconds=seconds * WARM_UP)
        received = cast(int, receiver.ask("received"))
        before = [process.cpu() for process in chain.roles]
        run = sender.load(to, body=body, in_flight=in_flight, seconds=seconds, latencies=latencies)
        cpu = [process.cpu() - used for process, used in zip(chain.roles, before, strict=True)]
        received = cast(int, receiver.ask("received")) - received
        if received != run["count"]:
            raise TurnFailed(f"{run['count']} messages were acknowledged, {received} received")
        return _Run(run["count"], run["seconds"], run["latencies"], cpu)


def _until_back(parent: Process, count: int) -> float:
    """Seconds from when a parent listens until it has routes to this many children."""
    parent.wait_started()
    began = time.perf_counter()
    while parent.ask("routes") != count:
        if time.perf_counter() - began > BACK_S:
            raise TurnFailed(f"{parent.name} does not have all of {count} children back after {BACK_S:.0f} s")
        time.sleep(LOOK_S)
    return time.perf_counter() - began


def _statistics(process: Process) -> list[dict[str, int]]:
    return cast(list[dict[str, int]], process.ask("statistics"))


def _copies(before: Sequence[Sequence[dict[str, int]]], after: Sequence[Sequence[dict[str, int]]], sent: int) -> float:
    """Copies of each broadcast on all links, by the counters of all nodes: Mgr, Proxies, then Workers.

    Raises:
        TurnFailed: a Worker got no copy or two, or a link carried more than one.
    """
    grown = [
        [{name: new[name] - old[name] for name in new} for old, new in zip(*process, strict=True)]
        for process in zip(before, after, strict=True)
    ]
    mgr, proxies, workers = grown[0], grown[1 : 1 + PROXIES], grown[1 + PROXIES :]
    if any(node["delivered"] != sent or node["duplicates"] for process in workers for node in process):
        raise TurnFailed("a Worker did not get each broadcast exactly once")
    forwarded = [mgr[0]["forwarded"], *(proxy[0]["forwarded"] for proxy in proxies)]
    if forwarded != [sent * PROXIES, *(sent * len(process) for process in workers)]:
        raise TurnFailed(f"{sent} broadcasts crossed links {forwarded} times")
    return sum(forwarded) / sent
