"""The launchers of the measure `training`, each with a training of four processes on one node."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Self, TypeVar

import psutil

from benchmarks.processes import ROOT, TurnFailed
from benchmarks.systems import FT_LAUNCHER, OURS, RESTART_ALL, TORCHRUN
from benchmarks.training import guard, timeline
from benchmarks.training.timeline import RANKS, Event, Incomplete, Line, Patterns, Recovery

T = TypeVar("T")

PATIENCE_S: Final = 120.0
"""For one step: four processes import torch in it."""

END_S: Final = 30.0
LOOK_S: Final = 0.02
WORDS: Final = 8
"""Lines of a launcher in the text of a failure."""

FOLDER: Final = Path(__file__).parent
INTERVAL: Final = "0.1"
"""Seconds from one look at the training processes to the next, for all launchers: torchrun's default."""


@dataclass(frozen=True, slots=True)
class Launcher:
    """A launcher.

    Args:
        name: in the tables.
        command: a module and its arguments.
        patterns: its lines.
        manager: the same of its Manager; empty: it has none.
        variables: of the environment.
    """

    name: str
    command: tuple[str, ...]
    patterns: Patterns
    manager: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()


_ONE_NODE: Final = (f"--nproc-per-node={RANKS}", "--nnodes=1", f"--monitor-interval={INTERVAL}")
_IN_PLACE: Final = (
    *("taskd_net.cli", "mgr", "--listen={host}:9601", "--job-id=bench", f"--expect=1x{RANKS}"),
    *("--state=state", "--reset-file=none", "--in-place"),
)
_TASKD: Final = (
    *("taskd_net.cli", "run", "--no-mgr", *_ONE_NODE, "--node-rank=0"),
    *("--master-addr={host}", "--master-port={port}"),
)

_OTHERS: Final = (*_ONE_NODE, "--rdzv-backend=c10d", "--rdzv-endpoint={host}:{port}", "--max-restarts=1000")
# In the store of the launcher, restarted workers would read the addresses of their predecessors, and fail.
_STORE: Final = (("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"),)
_OTHERS_SAY: Final = Patterns(r"Sending process .* closing signal|failed \(exitcode", "will restart worker group")

LAUNCHERS: Final = (
    Launcher(TORCHRUN, ("torch.distributed.run", *_OTHERS), _OTHERS_SAY, variables=_STORE),
    Launcher(
        FT_LAUNCHER,
        ("nvidia_resiliency_ext.fault_tolerance.launcher", *_OTHERS, "--ignore-missing-fault-tol-cfg"),
        _OTHERS_SAY,
    ),
    Launcher(
        RESTART_ALL,
        _TASKD,
        Patterns("worker_failed", r"command .*code=208"),
        ("benchmarks.training.restarter", "{host}:9601"),
    ),
    Launcher(OURS, _TASKD, Patterns("worker_failed", r"command .*code=209"), _IN_PLACE),
)


@dataclass(frozen=True, slots=True)
class Use:
    """Use of the machine by a launcher, without the training.

    Args:
        cpu: seconds of CPU time so far.
        memory: bytes.
    """

    cpu: float
    memory: int


class Job:
    """A training under a launcher. No process is left after `with`, nor 3 s after the end of this process.

    Args:
        launcher: the launcher.
    """

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._folder = Path(tempfile.mkdtemp(prefix="taskd-net-")).resolve()
        self._host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
        with socket.socket() as free:
            free.bind((self._host, 0))
            self._port: int = free.getsockname()[1]
        self._said: list[Line] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._guardian = subprocess.Popen(
            [sys.executable, "-I", "-S", guard.__file__, str(self._folder)],
            stdin=subprocess.PIPE,
            # A Ctrl-C is for the controller.
            start_new_session=True,
        )
        try:
            if self._launcher.manager:
                self._start(*self._launcher.manager)
                self._until(lambda: self._said[0], "the Manager says a line")
            self._start(*self._launcher.command, str(FOLDER / "script.py"))
        except BaseException:
            self._end(0)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        interrupted = kind is not None and not issubclass(kind, Exception)
        self._end(0 if interrupted else END_S)

    def events(self) -> list[Event]:
        """The events of all ranks so far."""
        return timeline.events(path.read_text() for path in self._folder.glob("events-*"))

    def until_steps(self, number: int, since: float = 0.0) -> None:
        """Wait until each rank has done steps.

        Args:
            number: of steps of each rank.
            since: the time from which on they count.

        Raises:
            TurnFailed: they have not come in time.
        """

        def count() -> None:
            done = [each.rank for each in self.events() if each.event == "step" and each.at > since]
            if any(done.count(rank) < number for rank in range(RANKS)):
                raise Incomplete(f"{number} steps of each rank")

        self._until(count, f"{number} steps of each rank")

    def kill(self, rank: int) -> float:
        """End a training process as a crash does. Returns the time."""
        pid = next(each.pid for each in reversed(self.events()) if each.rank == rank)
        killed = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        return killed

    def recovery(self, killed: float) -> Recovery:
        """Wait for the end of a recovery.

        Args:
            killed: the time of the kill.

        Raises:
            TurnFailed: it has not come in time.
        """
        patterns = self._launcher.patterns
        return self._until(lambda: timeline.recovery(self.events(), self._said, patterns, RANKS, killed), "a recovery")

    def use(self) -> Use:
        """The launcher's use of the machine: with its helpers, without the training processes and a Manager."""
        training = {each.pid for each in self.events()}
        cpu, memory = 0.0, 0
        for process in _below(psutil.Process(self._processes[-1].pid), training):
            cpu += time.clock_gettime((~process.pid << 3) | 2)
            memory += process.memory_info().rss
        return Use(cpu, memory)

    def _end(self, grace: float) -> None:
        """End everything.

        Args:
            grace: seconds of each process from SIGTERM to SIGKILL.
        """
        try:
            for process in reversed(self._processes):
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(grace)
        finally:
            assert self._guardian.stdin is not None
            self._guardian.stdin.close()
        self._guardian.wait()
        for process in self._processes:
            process.wait()
        for reader in self._readers:
            reader.join()

    def _start(self, *command: str) -> None:
        cleared = ("TASKD_", "MS_", "RANK", "LOCAL_", "POD_IP", "PROCESS_RECOVER", "MASTER_", "TORCHELASTIC_", "PET_")
        clean = {name: value for name, value in os.environ.items() if not name.startswith(cleared)}
        ours = {"TASKD_NET_UPSTREAM": f"{self._host}:9602", "MASTER_ADDR": self._host, "TASKD_LOG_PATH": "log"}
        ours |= {"TASKD_STD_LOG_LEVEL": "INFO"}
        ours |= {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "LOGLEVEL": "INFO", "PYTHONWARNINGS": "ignore"}
        process = subprocess.Popen(
            [sys.executable, "-m", *(part.format(host=self._host, port=self._port) for part in command)],
            cwd=self._folder,
            env=clean | ours | dict(self._launcher.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # A Ctrl-C is for the controller, which then ends the others.
            start_new_session=True,
        )
        assert process.stdout is not None
        self._processes.append(process)
        self._readers.append(threading.Thread(target=_read, args=(process.stdout, self._said), daemon=True))
        self._readers[-1].start()

    def _until(self, get: Callable[[], T], what: str) -> T:
        give_up_at = time.monotonic() + PATIENCE_S
        while True:
            try:
                return get()
            except (Incomplete, IndexError) as error:
                ended = self._processes[-1].poll()
                if ended is None and time.monotonic() < give_up_at:
                    time.sleep(LOOK_S)
                    continue
                why = f"it has left with {ended}" if ended is not None else f"not within {PATIENCE_S:g} s"
                words = "".join(f"\n    {line.text}" for line in self._said[-WORDS:])
                raise TurnFailed(f"{what}: {why} ({error}){words}") from None


def _below(process: psutil.Process, without: set[int]) -> Iterator[psutil.Process]:
    """A process and those below it, without some and those below them."""
    yield process
    for child in process.children():
        if child.pid not in without:
            yield from _below(child, without)


def _read(stream: IO[bytes], said: list[Line]) -> None:
    for line in stream:
        said.append(Line(time.monotonic(), line.decode(errors="replace").rstrip("\n")))  # noqa: PERF401
