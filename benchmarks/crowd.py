"""A whole job that joins at once: Workers below eight Proxies below one Mgr, 500 Workers in a process.

Run it by `python -m benchmarks.crowd`; it takes six minutes. Each size has three rows: the first join, the return
after `kill -9` of the Mgr, and the return after `kill -9` of all Proxies at once. A row has the seconds until all
Workers have joined, the Register calls of a Worker on average, and the largest memory of a Proxy. Calls that found
nothing listening do not count. The last lines are the ratios of the largest size to the smallest one.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final, cast

from benchmarks.processes import Process, closing

PROXIES: Final = 8
PER_PROCESS: Final = 500
SIZES: Final = (1_000, 4_000, 10_000)
TARGET: Final = 12.0
"""Times the seconds of 1,000 that 10,000 may take."""
JOIN_S: Final = 300.0

FIRST, MGR, ALL_PROXIES = "first join", "Mgr killed", "Proxies killed"


class Crowd:
    """The processes of a job with this many Workers. `processes` collects them, to be ended."""

    def __init__(self, count: int, processes: list[Process]) -> None:
        self.count = count
        self._processes = processes
        self._mgr = self._start(["Mgr/0"])
        # Ports that are known before, as a killed parent comes back at its own.
        self._addresses = [_free_address() for _ in range(PROXIES)]
        self._proxies = [self._proxy(rank) for rank in range(PROXIES)]
        self._workers: list[Process] = []
        for first in range(0, count, PER_PROCESS):
            ranks = range(first, min(first + PER_PROCESS, count))
            self._workers.append(self._start([f"Worker/{rank % PROXIES}/{rank}" for rank in ranks], *self._addresses))
        for process in self._processes:
            process.wait_started()
        for proxy in self._proxies:
            proxy.ask("ready")

    def join(self) -> float:
        """Seconds until all Workers have joined."""
        return self._until_joined(lambda: None)

    def lose_mgr(self) -> float:
        """Seconds until all Workers have joined again, from the start of the next Mgr."""
        address = self._mgr.address
        self._mgr.kill()
        self._all_lost()

        def restart() -> None:
            self._mgr = self._start(["Mgr/0"], listen=address)

        return self._until_joined(restart)

    def lose_proxies(self) -> float:
        """Seconds until all Workers have joined again, from the start of the next Proxies."""
        for proxy in self._proxies:
            proxy.kill()
        self._all_lost()

        def restart() -> None:
            self._proxies = [self._proxy(rank) for rank in range(PROXIES)]

        return self._until_joined(restart)

    @property
    def registers(self) -> int:
        """Register calls that the Workers have made so far."""
        return sum(cast(int, worker.ask("registers")) for worker in self._workers)

    @property
    def memory(self) -> int:
        """Bytes of memory of the largest Proxy."""
        return max(proxy.resident() for proxy in self._proxies)

    def require_routes(self) -> None:
        """End the run if the Mgr does not know every node."""
        routes = self._mgr.ask("routes")
        if routes != self.count + PROXIES:
            sys.exit(f"the Mgr knows {routes} nodes; expected {self.count + PROXIES}")

    def _until_joined(self, begin: Callable[[], None]) -> float:
        began = time.monotonic()
        begin()
        for worker in self._workers:
            worker.begin("join")
        for worker in self._workers:
            worker.answer()
        return time.monotonic() - began

    def _all_lost(self) -> None:
        for worker in self._workers:
            worker.begin("lost")
        for worker in self._workers:
            worker.answer()

    def _proxy(self, rank: int) -> Process:
        return self._start([f"Proxy/{rank}"], self._mgr.address, listen=self._addresses[rank])

    def _start(self, positions: Sequence[str], *upstreams: str, listen: str = "") -> Process:
        process = Process("crowd", positions, ",".join(upstreams), listen=listen)
        process.patience = JOIN_S
        self._processes.append(process)
        return process


def _free_address() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{found.getsockname()[1]}"


def _measure(count: int, tell: Callable[[str, float, float, int], None]) -> dict[str, float]:
    processes: list[Process] = []
    seconds = {}
    with closing(processes):
        crowd = Crowd(count, processes)
        before = 0
        for name, phase in ((FIRST, crowd.join), (MGR, crowd.lose_mgr), (ALL_PROXIES, crowd.lose_proxies)):
            seconds[name] = phase()
            crowd.require_routes()
            registers = crowd.registers
            tell(name, seconds[name], (registers - before) / count, crowd.memory)
            before = registers
    return seconds


def main() -> None:
    """Measure each size, and print a row for each phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, metavar="N", help="Workers of each run")
    sizes = sorted(parser.parse_args().sizes)
    print(f"{'Workers':>8} {'phase':<16} {'seconds':>8} {'Registers each':>15} {'Proxy, MiB':>11}")
    seconds = {}
    for count in sizes:

        def tell(name: str, took: float, registers: float, memory: int, count: int = count) -> None:
            print(f"{count:>8,} {name:<16} {took:>8.1f} {registers:>15.2f} {memory / 2**20:>11.0f}", flush=True)

        seconds[count] = _measure(count, tell)
    least, most = seconds[sizes[0]], seconds[sizes[-1]]
    for name in least:
        print(
            f"{name}: {sizes[-1]:,} in {most[name] / least[name]:.1f} x the time of {sizes[0]:,} (target {TARGET:.0f})"
        )


if __name__ == "__main__":
    main()
