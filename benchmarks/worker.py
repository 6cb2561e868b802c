"""The cost of a Worker for its training process: the measure `worker`."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Final, cast

import psutil

from benchmarks.measures import SMALL, Bench
from benchmarks.processes import ROOT, BenchFailed
from benchmarks.systems import DIRECT, OURS
from benchmarks.trainee import Cost
from taskd_net.base.environment import wanted

IDLE_SETTLES: Final = 5
"""Factor on the settling time for CPU at rest: 10 s, so that rare wake-ups count."""

SLICES: Final = 6
"""Turns of the loops within each turn, a third of a throughput measurement each: short compared with other load of the
machine, long compared with the switch interval."""

RATE: Final = 50
"""Messages a second under load: more than any Mgr sends, and as many as get through to a handler beside a loop that
gives way to other threads every 5 ms only."""


class Trainee:
    """A training process (`trainee`)."""

    def __init__(self, kind: str, upstream: str, rank: int, folder: str) -> None:
        self.position = f"Worker/0/{rank}"
        self._kind = kind
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.trainee", kind, upstream, str(rank)],
            cwd=ROOT,
            env=_environment(folder),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def join(self) -> Cost:
        """Join by its kind."""
        self._begin("join")
        return cast(Cost, self._answer())

    def begin(self, seconds: float) -> None:
        """Start computing; `rate` waits for the end."""
        self._begin(seconds)

    def rate(self) -> float:
        """Rounds a second."""
        return cast(float, self._answer())

    def cpu(self) -> float:
        """Seconds of CPU time used, to the nanosecond."""
        return time.clock_gettime((~self._process.pid << 3) | 2)

    def resident(self) -> int:
        """Bytes of memory in use."""
        return int(psutil.Process(self._process.pid).memory_info().rss)

    def threads(self) -> int:
        """Threads, those of gRPC included."""
        return int(psutil.Process(self._process.pid).num_threads())

    def end(self) -> None:
        """End it in order, or else by force."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _begin(self, request: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()

    def _answer(self) -> object:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise BenchFailed(f"the training process {self._kind} has ended")
        return cast(object, json.loads(line))


def _environment(folder: str) -> dict[str, str]:
    """As of a process with an installed package, whose bytecode is there; `folder` has bytecode and logs here."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    ours = {"TASKD_LOG_PATH": folder, "TASKD_LOG_STDOUT": "False", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
    return {**wanted(), **environment, **ours}


def worker(bench: Bench) -> None:
    """The cost of a Worker for its training process: import time, memory, threads, CPU at rest, a loop beside it."""
    # The link that a Worker has by default.
    upstream = bench.chain(DIRECT).proxy.address
    # Processes of their own, beside the Workers of all other measures.
    ranks = iter(range(1000, 2000))
    joined = []
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        bare = Trainee("bare", upstream, next(ranks), folder)
        stack.callback(bare.end)
        for kind in ("grpc", "worker"):  # they write the bytecode that the measured ones read
            first = Trainee(kind, upstream, next(ranks), folder)
            first.join()
            first.end()
        for turn in bench._turns("what a Worker costs"):
            with bench._turn(f"worker, turn {turn}", OURS), contextlib.ExitStack() as until_then:
                plain, one = (Trainee(kind, upstream, next(ranks), folder) for kind in ("grpc", "worker"))
                until_then.callback(plain.end)
                stack.callback(one.end)
                _startup(bench, plain, one)
                _loops(bench, bare, one)
                joined.append(one)
        _at_rest(bench, joined)


def _startup(bench: Bench, plain: Trainee, one: Trainee) -> None:
    """A training process that joins, beside one with gRPC alone."""
    add = bench.results.add
    plain_cost, cost = plain.join(), one.join()
    add("worker", "import, beyond grpcio's", "ms", OURS, cost["taskd_net"])
    add("worker", "import of grpcio", "ms", OURS, plain_cost["grpc"])
    add("worker", "init_taskd_worker", "ms", OURS, cost["init"])
    add("worker", "memory, beyond a channel of grpcio's", "MiB", OURS, (one.resident() - plain.resident()) / 2**20)
    add("worker", "memory of a channel of grpcio's", "MiB", OURS, plain.resident() / 2**20)
    add("worker", "threads, beyond a channel of grpcio's", "", OURS, one.threads() - plain.threads())
    add("worker", "threads of a channel of grpcio's", "", OURS, plain.threads())


def _loops(bench: Bench, bare: Trainee, one: Trainee) -> None:
    """The loop in a process with a Worker, in turns with the same loop in one without: at rest, and under load."""
    mgr = bench.chain(DIRECT).mgr
    seconds = bench.effort.seconds / 3
    at_rest = _speed(bare, one, seconds)
    mgr.begin("pace", to=one.position, body=SMALL, seconds=2 * SLICES * seconds, rate=RATE)
    under_load = _speed(bare, one, seconds)
    mgr.answer()
    unit = "% of its speed without"
    bench.results.add("worker", "a loop beside it, at rest", unit, OURS, at_rest * 100)
    bench.results.add("worker", f"a loop beside it, {RATE} messages/s", unit, OURS, under_load * 100)


def _speed(bare: Trainee, one: Trainee, seconds: float) -> float:
    """The speed of the loop in one process, relative to the other."""
    rates = []
    for _ in range(SLICES):
        for each in (bare, one):
            each.begin(seconds)
            rates.append(each.rate())
    return sum(rates[1::2]) / sum(rates[::2])


def _at_rest(bench: Bench, joined: list[Trainee]) -> None:
    time.sleep(min(1.0, bench.effort.settle))
    before = [each.cpu() for each in joined]
    began = time.perf_counter()
    time.sleep(IDLE_SETTLES * bench.effort.settle)
    after = [each.cpu() for each in joined]
    took = time.perf_counter() - began
    for then, now in zip(before, after, strict=True):
        bench.results.add("worker", "CPU at rest", "% of a core", OURS, (now - then) / took * 100)
