"""A training of two nodes under a launcher each: started, hurt, watched, and ended in every case."""

from __future__ import annotations

import json
import os
import random
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, Self

import psutil

from benchmarks.processes import ROOT, TurnFailed
from benchmarks.training import guard

SCRIPT: Final = Path(__file__).with_name("script.py")
NODES: Final = 2
PROCESSES: Final = 2
"""Ranks of a node."""

START_S: Final = 120.0
"""Seconds until a training has begun, on a busy machine."""

APART_S: Final = 0.5
"""Seconds from the start of node 0's launcher to that of node 1: it serves what the other asks for."""

STEPS_LEFT: Final = 20
"""Steps until all succeed: each rank has seen the file by then."""

LOOK_S: Final = 0.02
WORDS: Final = 30
"""Lines of each launcher that a result keeps."""

PORTS: Final = range(10_000, 30_000)

MEMORY: Final = Path("/sys/fs/cgroup/memory")
"""Folder of the memory cgroups of version 1."""

SPARE_BYTES: Final = 64 << 20
"""Memory that a rank may still take, where it is to run out of it."""


class Event(NamedTuple):
    """A line of a training process. `at` is of `time.monotonic`, as all times here."""

    event: str
    at: float
    step: int
    rank: int
    pid: int
    node: int


@dataclass(frozen=True, slots=True)
class Place:
    """Arguments of a launcher about its job.

    Args:
        node: its rank.
        nodes: their number.
        processes: ranks of this node.
        host: address of node 0.
        name: id of the job.
        store: port of torchrun's rendezvous.
        mgr: port of the Manager.
        restarts: budget of failures.
        patience: seconds for which launchers wait for a node; 0 for their default.
    """

    node: int
    nodes: int
    processes: int
    host: str
    name: str
    store: int
    mgr: int
    restarts: int
    patience: int

    @property
    def options(self) -> list[str]:
        """Options that torchrun and `taskd-net run` share."""
        size = [f"--nnodes={self.nodes}", f"--nproc-per-node={self.processes}"]
        return [*size, f"--max-restarts={self.restarts}", "--monitor-interval=0.1"]


@dataclass(frozen=True, slots=True)
class Column:
    """A launcher, with a script for it.

    Args:
        name: in the table.
        command: of a node, without Python and without the script.
        manages: a Manager is part of its job.
        variables: of its environment.
        script: of the training.
    """

    name: str
    command: Callable[[Place], list[str]]
    manages: bool = True
    variables: Mapping[str, str] = field(default_factory=dict)
    script: str = str(SCRIPT)


def torchrun(place: Place) -> list[str]:
    """The command of torchrun, whose nodes meet at an endpoint on node 0."""
    module = ["-m", "torch.distributed.run", "--rdzv-backend=c10d", f"--rdzv-endpoint={place.host}:{place.store}"]
    patience = f",join_timeout={place.patience}" if place.patience else ""
    wait = f"--rdzv-conf=last_call_timeout=1{patience}"
    return [*module, f"--rdzv-id={place.name}", wait, *place.options]


def run(place: Place) -> list[str]:
    """The command of `taskd-net run`."""
    module = ["-m", "taskd_net.cli", "run", "--mgr", f"--node-rank={place.node}", f"--master-addr={place.host}"]
    return [*module, f"--mgr-port={place.mgr}", f"--job-id={place.name}", *place.options]


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses of a job, and its id.

    Args:
        hosts: the first three numbers of its nodes' addresses.
        name: id of the job.
        store: port of torchrun's rendezvous.
        mgr: port of the Manager.
        proxy: port of each node's Proxy.
    """

    hosts: str
    name: str
    store: int
    mgr: int
    proxy: int

    @classmethod
    def fresh(cls, hosts: str = "") -> Addresses:
        """Addresses that nobody else has, on new hosts or on these."""
        hosts = hosts or ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
        return cls(hosts, f"job-{secrets.token_hex(3)}", *(free(f"{hosts}.1") for _ in range(3)))

    @property
    def first(self) -> str:
        """Address of node 0."""
        return f"{self.hosts}.1"

    def of_proxy(self, node: int) -> str:
        """Address of the Proxy of a node."""
        return f"{self.hosts}.{10 + node}:{self.proxy}"


class Job:
    """A training. No process is left after `with`, nor 3 s after the end of this process.

    Args:
        column: its launcher.
        addresses: of the job; None for new ones.
        processes: ranks of each node.
        script: of the training; None for that of the column.
        restarts: budget of failures.
        patience: seconds for which launchers wait for a node; 0 for their default.
    """

    def __init__(
        self,
        column: Column,
        *,
        addresses: Addresses | None = None,
        processes: tuple[int, ...] = (PROCESSES,) * NODES,
        script: str | None = None,
        restarts: int = 3,
        patience: int = 0,
    ) -> None:
        self.column = column
        self.processes = processes
        self.addresses = addresses or Addresses.fresh()
        self.folder = Path(tempfile.mkdtemp(prefix="taskd-net-")).resolve()
        self.launchers: dict[int, subprocess.Popen[bytes]] = {}
        self.ended_at: dict[int, float] = {}
        self.proxies: list[subprocess.Popen[bytes]] = []
        self.events: list[Event] = []
        self._script = column.script if script is None else script
        self._restarts = restarts
        self._patience = patience
        self._read_to: dict[Path, int] = {}
        self._cgroups: list[Path] = []

    def __enter__(self) -> Self:
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,  # a Ctrl-C is for the controller
        )
        return self

    def __exit__(self, *_: object) -> None:
        for launcher in self.launchers.values():
            if launcher.poll() is None:
                launcher.kill()
        assert self._guardian.stdin is not None
        self._guardian.stdin.close()
        self._guardian.wait()
        for process in (*self.launchers.values(), *self.proxies):
            process.wait()
        for folder in self._cgroups:
            with suppress(OSError):
                folder.rmdir()

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return sum(self.processes)

    def start(self, *nodes: int) -> None:
        """Start the launchers of nodes; those of all without an argument."""
        for node in nodes or range(len(self.processes)):
            if node and 0 in self.launchers and not nodes:
                time.sleep(APART_S)
            at, size = self.addresses, len(self.processes)
            place = Place(
                node, size, self.processes[node], at.first, at.name, at.store, at.mgr, self._restarts, self._patience
            )
            ours = {"BENCH_NODE": str(node)}
            ours |= {"TASKD_NET_NODE_TIMEOUT": str(self._patience)} if self._patience else {}
            ours |= {"TASKD_NET_UPSTREAM": at.of_proxy(node), **self.column.variables}
            self.launchers[node] = self._begin(f"out-{node}", [*self.column.command(place), self._script], ours)
            self.ended_at.pop(node, None)

    def start_proxy(self, node: int) -> None:
        """Start the Proxy of a node in a process of its own, until it listens. A launcher that comes later uses it.

        Raises:
            TurnFailed: it does not listen.
        """
        at = self.addresses
        command = ["-m", "taskd_net.cli", "proxy", f"--server-rank={node}", f"--job-id={at.name}"]
        command += [f"--listen={at.of_proxy(node)}", f"--upstream={at.first}:{at.mgr}"]
        self.proxies.append(self._begin(f"out-proxy-{node}", command, {}))
        host, _, port = at.of_proxy(node).rpartition(":")
        give_up_at = time.monotonic() + START_S
        while time.monotonic() < give_up_at:
            with suppress(ConnectionRefusedError), socket.create_connection((host, int(port))):
                return
            self.wait()
        raise TurnFailed(f"the Proxy does not listen\n{self.words()}")

    def _begin(
        self, out: str, command: list[str], variables: Mapping[str, str], within: Iterable[str] = ()
    ) -> subprocess.Popen[bytes]:
        cleared = ("TASKD_", "MS_", "RANK", "LOCAL_", "POD_IP", "MASTER_", "TORCHELASTIC_", "PET_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(cleared)}
        ours = {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
        with (self.folder / out).open("ab") as file:
            return subprocess.Popen(
                [*within, sys.executable, *command],
                cwd=self.folder,
                env={**clean, **ours, **variables},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def look(self) -> None:
        """Take in what has happened."""
        for path in self.folder.glob("events-*"):
            with path.open("rb") as file:
                file.seek(self._read_to.get(path, 0))
                for line in file:
                    if line.endswith(b"\n"):
                        self._read_to[path] = self._read_to.get(path, 0) + len(line)
                        self.events.append(Event(**json.loads(line)))
        for node, launcher in self.launchers.items():
            if node not in self.ended_at and launcher.poll() is not None:
                self.ended_at[node] = time.monotonic()

    def stepped(self, since: float, fresh: Iterable[int] = (), count: int = 3) -> float | None:
        """The time at which the last rank took its first step after a time; None while one has not taken `count`.

        Args:
            since: the time.
            fresh: ranks that have to have begun after it.
            count: steps of each rank.
        """
        begun = {each.pid for each in self.events if each.event == "process" and each.at > since}
        first: dict[int, list[float]] = {}
        for each in self.events:
            if each.event == "step" and each.at > since and (each.rank not in set(fresh) or each.pid in begun):
                first.setdefault(each.rank, []).append(each.at)
        if len(first) < self.ranks or any(len(each) < count for each in first.values()):
            return None
        return max(each[0] for each in first.values())

    def until_training(self, steps: int) -> None:
        """Wait until each rank has taken steps.

        Raises:
            TurnFailed: it has not begun.
        """
        give_up_at = time.monotonic() + START_S
        while self.stepped(0.0, count=steps) is None:
            if time.monotonic() > give_up_at or (self.launchers and len(self.ended_at) == len(self.launchers)):
                raise TurnFailed(f"the training has not begun\n{self.words()}")
            self.wait()

    def wait(self) -> None:
        """Wait a moment, and look."""
        time.sleep(LOOK_S)
        self.look()

    def pid(self, rank: int) -> int:
        """The process of a rank."""
        return next(each.pid for each in reversed(self.events) if each.rank == rank and each.event == "process")

    def of_node(self, node: int) -> list[int]:
        """The ranks that a launcher has started last. torchrun gives nodes ranks as they come."""
        latest = {each.rank: each.node for each in self.events if each.event == "process"}
        return sorted(rank for rank, where in latest.items() if where == node)

    def tell(self, rank: int, fault: str) -> None:
        """Let a rank fail at its next step."""
        new = self.folder / "fault.new"
        new.write_text(fault)
        new.rename(self.folder / f"fault-{rank}")

    def limit_memory(self, rank: int) -> None:
        """Put a rank into a memory cgroup below that of this process, which has little left."""
        (own,) = (
            line.split(":")[2] for line in Path("/proc/self/cgroup").read_text().splitlines() if ":memory:" in line
        )
        folder = MEMORY / own.lstrip("/") / f"taskd-net-{secrets.token_hex(4)}"
        folder.mkdir()
        self._cgroups.append(folder)
        pid = self.pid(rank)
        bytes_ = psutil.Process(pid).memory_info().rss
        (folder / "memory.limit_in_bytes").write_text(str(bytes_ + SPARE_BYTES))
        (folder / "cgroup.procs").write_text(str(pid))

    def tree(self, node: int) -> list[psutil.Process]:
        """A launcher and all processes below it."""
        launcher = psutil.Process(self.launchers[node].pid)
        return [launcher, *launcher.children(recursive=True)]

    def manager(self) -> int:
        """The process of the Manager that node 0's launcher has started."""
        return next(each.pid for each in self.tree(0) if "mgr" in each.cmdline())

    def finish(self) -> None:
        """Let all ranks succeed, soon."""
        latest = {each.rank: each.step for each in self.events if each.event == "step"}
        new = self.folder / "finish.new"
        new.write_text(str(max(latest.values(), default=0) + STEPS_LEFT))
        new.rename(self.folder / "finish")

    def signal(self, node: int, number: int) -> None:
        """Send a signal to a launcher, as a terminal does: to its process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.launchers[node].pid, number)

    def words(self) -> str:
        """The last lines of each launcher."""
        return "\n".join(f"[{path.name}] {line}" for path, line in self._last_lines())

    def _last_lines(self) -> Iterator[tuple[Path, str]]:
        for path in sorted(self.folder.glob("out-*")):
            for line in path.read_text(errors="replace").splitlines()[-WORDS:]:
                yield path, line


def free(host: str) -> int:
    """A port that nobody listens at, below those that the kernel gives to connections."""
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as found, suppress(OSError):
            found.bind((host, port))
            return port
    raise TurnFailed(f"no port of {host} is free")
