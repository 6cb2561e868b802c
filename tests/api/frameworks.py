"""Doubles of the training frameworks, with workers that are processes: msrun's functions and PyTorch's elastic agent.

They take what the real ones take, and nothing else.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from queue import Empty, SimpleQueue
from typing import Any

from taskd_net.job import api

PATIENCE_S = 10.0

RUNS = (
    "import os, signal, sys; signal.signal(signal.SIGTERM, lambda *_: os._exit(7)); print(flush=True); sys.stdin.read()"
)
"""A worker that ends with 7 on SIGTERM, and with the process that started it."""

FINISHES = "print(flush=True)"


def process(program: str) -> subprocess.Popen[bytes]:
    """A worker that has begun to work."""
    made = subprocess.Popen([sys.executable, "-S", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert made.stdout is not None
    with made.stdout:
        made.stdout.readline()
    return made


class Double:
    """The common part: calls are noted in their order, apart from MONITOR's, when they have been carried out."""

    program = RUNS
    operators: tuple[str, ...]

    def __init__(self) -> None:
        self.calls: SimpleQueue[tuple[object, ...]] = SimpleQueue()
        self.looks: SimpleQueue[None] = SimpleQueue()
        self.processes: list[subprocess.Popen[bytes]] = []

    def register(self) -> None:
        """Register the functions."""
        functions: dict[str, Callable[..., object]] = {
            "KILL_WORKER": self.kill,
            "START_ALL_WORKER": self.start_all,
            "START_WORKER_LIST": self.start_list,
            "MONITOR": self.monitor,
            "RESTART": self.restart,
        }
        for operator in self.operators:
            assert api.register_func(operator, functions[operator])

    def called(self) -> tuple[object, ...]:
        """The next call."""
        return self.calls.get(timeout=PATIENCE_S)

    def looked(self) -> None:
        """Wait for a look that begins from now on, and for the end of the one before."""
        with suppress(Empty):
            while True:
                self.looks.get_nowait()
        for _ in range(2):
            self.looks.get(timeout=PATIENCE_S)

    def new(self) -> subprocess.Popen[bytes]:
        """Start a worker."""
        made = process(self.program)
        self.processes.append(made)
        return made

    def end(self) -> None:
        """End what runs."""
        for made in self.processes:
            made.kill()
            made.communicate()

    def kill(self, *arguments: Any) -> object:
        """KILL_WORKER."""
        raise NotImplementedError

    def start_all(self, *arguments: Any) -> object:
        """START_ALL_WORKER."""
        raise NotImplementedError

    def start_list(self, *arguments: Any) -> object:
        """START_WORKER_LIST."""
        raise NotImplementedError

    def monitor(self, *arguments: Any) -> object:
        """MONITOR."""
        raise NotImplementedError

    def restart(self, *arguments: Any) -> object:
        """RESTART."""
        raise NotImplementedError


class Msrun(Double):
    """Two workers of MindSpore, with global ranks from 8 on."""

    operators = ("KILL_WORKER", "START_ALL_WORKER", "START_WORKER_LIST", "MONITOR")

    def __init__(self) -> None:
        super().__init__()
        self.workers: dict[int, subprocess.Popen[bytes] | None] = {0: None, 1: None}
        self.vanished: set[int] = set()
        self.answer = 0
        self.malformed: object = None
        """Answer of MONITOR in place of the state."""

    def kill(self, pids: list[int]) -> int:
        """KILL_WORKER: pids, or [-1]."""
        for worker in self.workers.values():
            if worker is not None and (pids == [-1] or worker.pid in pids):
                worker.kill()
                worker.wait(PATIENCE_S)
        self.calls.put(("KILL_WORKER", [self._name(pid) for pid in pids]))
        return self.answer

    def start_all(self) -> int:
        """START_ALL_WORKER."""
        self.workers = {local: self.new() for local in self.workers}
        self.calls.put(("START_ALL_WORKER",))
        return self.answer

    def start_list(self, local_ranks: list[int]) -> int:
        """START_WORKER_LIST."""
        for local in local_ranks:
            self.workers[local] = self.new()
            self.vanished.discard(local)
        self.calls.put(("START_WORKER_LIST", local_ranks))
        return self.answer

    def monitor(self, local_ranks: list[int]) -> object:
        """MONITOR: local ranks, or [-1]."""
        assert local_ranks == [-1]
        self.looks.put(None)
        if self.malformed is not None:
            return self.malformed
        return {local: self._state(local) for local in self.workers}

    def _state(self, local: int) -> dict[str, int | None]:
        worker = self.workers[local]
        status = 200 if worker is None else 300 if local in self.vanished else worker.poll()
        return {"pid": None if worker is None else worker.pid, "status": status, "global_rank": 8 + local}

    def _name(self, pid: int) -> object:
        names = [local for local, worker in self.workers.items() if worker is not None and worker.pid == pid]
        return f"pid of {names[0]}" if names else pid


class WorkerState(Enum):
    """PyTorch's states, as far as MONITOR gives them."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class RunResult:
    """PyTorch's result."""

    state: WorkerState
    return_values: dict[int, object] = field(default_factory=dict)
    failures: dict[int, object] = field(default_factory=dict)


class Worker:
    """PyTorch's worker."""

    __slots__ = ("global_rank", "id", "local_rank")

    def __init__(self, local_rank: int) -> None:
        self.local_rank = local_rank
        self.global_rank = -1
        self.id: int | None = None


class WorkerGroup:
    """PyTorch's group."""

    __slots__ = ("spec", "state", "workers")

    def __init__(self, size: int) -> None:
        self.workers = [Worker(local) for local in range(size)]
        self.state = WorkerState.INIT
        self.spec = "spec"


class SimpleElasticAgent(Double):
    """Two workers of PyTorch, with global ranks from 8 on."""

    operators = ("KILL_WORKER", "START_ALL_WORKER", "MONITOR", "RESTART")

    def __init__(self, remaining: int = 3) -> None:
        super().__init__()
        self._worker_group = WorkerGroup(2)
        self._remaining_restarts = remaining
        self._by_pid: dict[int, subprocess.Popen[bytes]] = {}

    def kill(self, worker_group: WorkerGroup) -> None:
        """`_stop_workers`."""
        self._stop(worker_group)
        self.calls.put(("KILL_WORKER", self._ranks(worker_group)))

    def start_all(self, worker_group: WorkerGroup) -> None:
        """`_initialize_workers`: ranks come from the rendezvous."""
        assert worker_group is self._worker_group
        self._begin(worker_group)
        self.calls.put(("START_ALL_WORKER", self._remaining_restarts))

    def restart(self, worker_group: WorkerGroup) -> None:
        """`_restart_workers`."""
        self._stop(worker_group)
        self._begin(worker_group)
        self.calls.put(("RESTART", self._ranks(worker_group)))

    def monitor(self, worker_group: WorkerGroup) -> RunResult:
        """`_monitor_workers`."""
        assert worker_group is self._worker_group
        self.looks.put(None)
        codes = {worker.global_rank: self._process(worker).poll() for worker in worker_group.workers}
        if failures := {rank: code for rank, code in codes.items() if code}:
            return RunResult(WorkerState.FAILED, failures=dict(failures))
        if all(code == 0 for code in codes.values()):
            return RunResult(WorkerState.SUCCEEDED, return_values=dict(codes))
        return RunResult(WorkerState.HEALTHY)

    def pid(self, rank: int) -> int:
        """The process with this global rank."""
        (pid,) = [worker.id for worker in self._worker_group.workers if worker.global_rank == rank]
        assert pid is not None
        return pid

    def _ranks(self, worker_group: WorkerGroup) -> list[int]:
        assert worker_group.spec == "spec"
        return [worker.global_rank for worker in worker_group.workers]

    def _process(self, worker: Worker) -> subprocess.Popen[bytes]:
        assert worker.id is not None
        return self._by_pid[worker.id]

    def _begin(self, worker_group: WorkerGroup) -> None:
        for worker in worker_group.workers:
            made = self.new()
            worker.id, worker.global_rank = made.pid, 8 + worker.local_rank
            self._by_pid[made.pid] = made

    def _stop(self, worker_group: WorkerGroup) -> None:
        for worker in worker_group.workers:
            if worker.id is not None:
                self._process(worker).kill()
                self._process(worker).wait(PATIENCE_S)
