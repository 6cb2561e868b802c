"""The cost of a Worker of the original's to our Proxy: its unary calls to the Mgr, beside a handler that does nothing.

    python -m benchmarks.calls                  calls a second and CPU time of each; their ratio
    python -m benchmarks.calls --against TREE   the Proxy and Mgr of another checkout of this package take turns as well
    python -m benchmarks.calls --to Proxy/0     messages for the Proxy itself: no second hop

The Worker (`systems/calls.py`) keeps 64 calls in flight and costs less than half of a gRPC client. The other server
(`systems/bare.py`) has our settings, and answers each call with the same Ack: no server on grpc.aio is faster. All
servers stay up and take short turns, so that other load of the machine affects all. Each ratio is the median over the
turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks.mesh import MGR, PROXY, WORKER
from benchmarks.processes import ROOT, Process, closing

IN_FLIGHT = 64
BODY = 64
TURNS = 40
SECONDS, WARM_UP = 0.25, 0.05

BARE, OURS, BEFORE = "a handler alone", "our Proxy", "the other checkout's"


@dataclass(slots=True)
class Server:
    """A server under test, and its figures, turn by turn.

    Attributes:
        rate: calls a second.
        cpu: microseconds of CPU time for each.
    """

    name: str
    process: Process
    worker: Process
    rate: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def turn(self, to: str, seconds: float) -> None:
        """Take one turn."""
        self.worker.load(to, body=BODY, in_flight=IN_FLIGHT, seconds=WARM_UP)
        before = self.process.cpu()
        run = self.worker.load(to, body=BODY, in_flight=IN_FLIGHT, seconds=seconds)
        self.cpu.append((self.process.cpu() - before) / run["count"] * 1e6)
        self.rate.append(run["count"] / run["seconds"])


def measure(to: str = MGR, turns: int = TURNS, seconds: float = SECONDS, against: Path | None = None) -> list[Server]:
    """Let the servers take turns."""
    processes: list[Process] = []

    def start(system: str, position: str, upstream: str = "", tree: Path = ROOT) -> Process:
        process = Process(system, [position], upstream, tree=tree)
        processes.append(process)
        return process

    with closing(processes):
        chosen = {BARE: start("bare", PROXY)}
        for name, tree in ((OURS, ROOT), (BEFORE, against)):
            if tree is not None:
                mgr = start("taskd_net", MGR, tree=tree)
                chosen[name] = start("taskd_net", PROXY, mgr.address, tree)
        servers = []
        for name, process in chosen.items():
            process.ask("ready")
            worker = start("calls", WORKER, process.address)
            worker.ask("ready")
            servers.append(Server(name, process, worker))
        for _ in range(turns):
            for server in servers:
                server.turn(to, seconds)
    return servers


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """The median of the ratios of each turn."""
    return median(mine / theirs for mine, theirs in zip(one, other, strict=True))


def main() -> None:
    """Measure by the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, metavar="TREE", help="another checkout")
    parser.add_argument("--to", default=MGR, help=f"whom the messages are for: {MGR} or {PROXY}")
    parser.add_argument("--turns", type=int, default=TURNS, help="turns of each server")
    arguments = parser.parse_args()
    against = None if arguments.against is None else arguments.against.resolve()
    servers = measure(arguments.to, arguments.turns, against=against)
    for server in servers:
        print(f"{server.name:<22}{median(server.rate):>8.0f} calls/s{median(server.cpu):>8.0f} µs of CPU each")
    ours = servers[1]
    for other in (servers[0], *servers[2:]):
        rate, cpu = ratio(ours.rate, other.rate), ratio(other.cpu, ours.cpu)
        print(f"{ours.name} against {other.name}: {rate:.2f} x the calls/s; for the same CPU time, {cpu:.2f} x")


if __name__ == "__main__":
    main()
