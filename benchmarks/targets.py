"""The targets of the mesh, and whether it reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypedDict

from benchmarks.mesh import DOWN, UP
from benchmarks.results import Conditions, Results
from benchmarks.systems import DIRECT, OURS, TORCHRUN


class Verdict(TypedDict):
    """One target as `--json` prints it. `value` is None where its turns failed."""

    name: str
    value: float | None
    unit: str
    target: str
    met: bool


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and its bound: at least or at most that."""

    name: str
    value: float | None
    unit: str
    bound: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        """True if the bound holds."""
        if self.value is None:
            return False
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def verdict(self) -> Verdict:
        """As plain data."""
        value = None if self.value is None else float(f"{self.value:.3g}")
        sign = ">=" if self.at_least else "<="
        return Verdict(name=self.name, value=value, unit=self.unit, target=f"{sign} {self.bound:g}", met=self.met)


def targets(results: Results) -> Iterator[Target]:
    """Every target with its figure. Direct links are compared with NATS at its best settings, in the same run."""
    for direction in (UP, DOWN):
        one: Conditions = {"direction": direction, "body": 64}
        name = f"two hops {direction}"
        yield Target(f"p50, {name}", results.ratio("latency", "p50", DIRECT, "nats", **one), "x nats", 1.0)
        p50, p99 = (results.value("latency", metric, DIRECT, **one) for metric in ("p50", "p99"))
        yield Target(f"p99 / p50, {name}", p99 / p50 if p50 and p99 else None, "x p50", 2.0)
        for what, body, in_flight, bound in (
            ("64 in flight", 64, 64, 1.1),
            ("256 in flight", 64, 256, 1.0),
            ("64 KiB bodies", 65_536, 64, 1.8),
            ("1 MiB bodies", 1_048_576, 8, 1.0),
        ):
            case: Conditions = {"direction": direction, "body": body, "in_flight": in_flight}
            ratio = results.ratio("rate", "messages/s", DIRECT, "nats", **case)
            yield Target(f"messages/s, {name}, {what}", ratio, "x nats", bound, at_least=True)

    ratio = results.ratio("tls", "p50", DIRECT, "nats", over="TLS")
    yield Target("over TLS: p50, two hops up", ratio, "x nats", 1.3)
    for what, body, bound in (("64 in flight", 64, 0.9), ("64 KiB bodies", 65_536, 1.0)):
        ratio = results.ratio("tls", "messages/s", DIRECT, "nats", over="TLS", body=body, in_flight=64)
        yield Target(f"over TLS: messages/s, two hops up, {what}", ratio, "x nats", bound, at_least=True)

    four, two = (results.value("four-hops", "p50", DIRECT, hops=hops) for hops in (4, 2))
    yield Target("p50, four hops, Worker to Worker", four / two if four and two else None, "x two hops", 2.0)
    workers, children = {"workers": 512}, {"children": 2000}
    last = results.value("broadcast", "p50", DIRECT, **workers)
    yield Target("broadcast to 512 Workers, last ack", last / 1000 if last else None, "ms", 60.0)
    copies = results.value("broadcast", "copies per link", DIRECT, **workers)
    yield Target("broadcast to 512 Workers, copies per link", copies, "", 1.0)
    yield Target("join of 2,000 children", results.value("join", "time to the last", DIRECT, **children), "s", 2.8)
    back = results.value("join", "killed parent: all are back", DIRECT, **children)
    yield Target("2,000 children are back after their parent's kill -9", back, "s", 2.8)
    memory = results.value("join", "memory of the parent, each child", DIRECT, **children)
    yield Target("memory of the parent for each of 2,000 idle children", memory, "KiB", 35.0)

    for metric, along, name, unit in (
        ("unicast", "routes", "Router: a unicast with {} routes", "x {} routes"),
        ("broadcast, each link", "links", "Router: a broadcast to {} links, per link", "x {} links"),
    ):
        curve = results.curve("router", metric, OURS, along)
        (least, first), (most, last_value) = (curve[0], curve[-1]) if len(curve) > 1 else ((0, 0.0), (0, 0.0))
        growth = last_value / first if first else None
        yield Target(name.format(f"{most:,}"), growth, unit.format(f"{least:,}"), GROWTH)

    # `--quick` leaves it out, because it waits for 10 s.
    if any(key.measure == "worker" for key in results.figures):
        for metric, name, unit, bound in (
            ("import, beyond grpcio's", "a Worker's import time beyond grpcio's", "ms", 150.0),
            ("memory, beyond a channel of grpcio's", "a Worker's memory beyond grpcio's", "MiB", 13.5),
            ("CPU at rest", "CPU time of a Worker at rest", "% of a core", 0.03),
            ("threads, beyond a channel of grpcio's", "threads of a Worker beyond grpcio's", "", 4.0),
        ):
            yield Target(name, results.value("worker", metric, OURS), unit, bound)
    yield from targets_of([measure for measure in OF_MEASURE if _measured(measure, results)], results)


def targets_of(names: Iterable[str], results: Results) -> Iterator[Target]:
    """The targets of these measures alone, for those that have targets of their own."""
    for name in names:
        if name in OF_MEASURE:
            yield from OF_MEASURE[name](results)


def _measured(measure: str, results: Results) -> bool:
    return any(key.measure == measure for key in results.figures)


def job(results: Results) -> Iterator[Target]:
    """The targets of a job's Manager. An interval is 100 ms."""
    for agents, which, bound in (
        (2, "first", 250.0),
        (2, "last", 250.0),
        (1000, "first", 250.0),
        (1000, "last", 400.0),
    ):
        at = results.value("job", f"202 until the {which} command is acknowledged", OURS, agents=agents)
        yield Target(f"Manager: 202 to the {which} command of {agents:,} Agents acknowledged", at, "ms", bound)
    for metric, unit, bound in (
        ("a tick over all records", "ms", 5.0),
        ("KEEP_ALIVE of 1,000 Agents below 125 Proxies", "% of a core", 10.0),
        ("idle with 9,000 silent records", "% of a core", 0.5),
        ("killed Manager: command after the Agent is back", "ms", 1000.0),
        ("memory of 9,000 records", "MB", 60.0),
    ):
        yield Target(f"Manager: {metric}", results.value("job", metric, OURS), unit, bound)


def recovery(results: Results) -> Iterator[Target]:
    """The targets of the client of ClusterD. An interval is 100 ms."""
    for metric, unit, bound in (
        ("signal sent until its command is acknowledged, p99", "ms", 130.0),
        ("ClusterD listens until its client has subscribed, p99", "ms", 1500.0),
        ("10,000 signals in a row: lost", "", 0.0),
        ("10,000 signals in a row: twice", "", 0.0),
        ("idle client", "% of a core", 0.2),
    ):
        yield Target(f"Recovery: {metric}", results.value("recovery", metric, OURS), unit, bound)


def rounds(results: Results) -> Iterator[Target]:
    """The targets of the flows of recovery."""
    flows = [key.metric for key in results.figures if key.measure == "rounds"]
    slowest = max((results.value("rounds", flow, OURS) or 0.0 for flow in flows), default=None)
    yield Target(f"Recovery: the longest wait of ours in {len(flows)} flows", slowest, "ms", 1000.0)


def faults(results: Results) -> Iterator[Target]:
    """The targets of the fault levels. An interval is 100 ms. Without a watch the files are looked at once a second."""
    for metric, unit, bound, at_least in (
        ("events through the policy", "events/s", 100_000.0, True),
        ("memory of 10,000 devices, 1 % of them with counters", "MB", 200.0, False),
        ("event at the Manager until its command is at the Agent, p99", "ms", 130.0, False),
        ("change of a file until it is in force, p99", "ms", 1000.0, False),
        ("change of a file until it is in force, unwatched, PollInterval 30", "s", 31.0, False),
    ):
        value = results.value("faults", metric, OURS)
        yield Target(f"Faults: {metric}", value, unit, bound, at_least=at_least)


def training(results: Results) -> Iterator[Target]:
    """The targets of a training whose processes stay, beside torchrun. An interval is 100 ms."""
    total = "kill to first step of all"
    ratio = results.ratio("training", total, TORCHRUN, OURS)
    yield Target(
        "Training: in place, from a kill to the first step", ratio, "x faster than torchrun", 2.0, at_least=True
    )
    ours, theirs = (results.values("training", total, system) for system in (OURS, TORCHRUN))
    slowest = max(ours) / min(theirs) if ours and theirs else None
    yield Target("Training: in place, the slowest time", slowest, "x torchrun's quickest", 1.0)
    for metric, bound in (
        ("noticed", 100.0),
        ("decided", 150.0),
        ("the others joined after the new one called", 50.0),
    ):
        yield Target(f"Training: in place, {metric}", results.value("training", metric, OURS), "ms", bound)
    for metric, unit, bound in (("CPU", "% of a core", 1.0), ("memory", "MB", 60.0)):
        agent, plain = (results.value("training", f"launcher, {metric}", system) for system in (OURS, TORCHRUN))
        beyond = None if agent is None or plain is None else max(agent - plain, 0.0)
        yield Target(f"Training: {metric} of the Agent beyond torchrun's", beyond, unit, bound)


OF_MEASURE: Final[dict[str, Callable[[Results], Iterator[Target]]]] = {
    "job": job,
    "recovery": recovery,
    "rounds": rounds,
    "faults": faults,
    "training": training,
}
"""Targets of measures that a quick run leaves out."""

GROWTH = 1.5
"""The bound for independence of the size: a processor's caches hold a hundred routes, not a hundred thousand."""
