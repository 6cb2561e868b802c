"""The processes of a benchmark, from outside: start, requests, measurements, and a certain end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, cast

import psutil

from benchmarks.member import Loaded, Started
from benchmarks.systems.member import Spec
from taskd_net.base.environment import wanted
from taskd_net.demo.process import CLOSE_S

ROOT: Final = Path(__file__).resolve().parent.parent
ANSWER_S: Final = 120.0
"""Seconds for an answer: longer than every request here takes."""


class BenchFailed(Exception):
    """A process has died or does not answer, so the run cannot continue."""


class TurnFailed(Exception):
    """One turn of one system failed; the others count."""


class Process:
    """One process with one member of a system in it (`member`), of this checkout or of another one.

    Attributes:
        patience: seconds for an answer.
    """

    def __init__(
        self,
        system: str,
        positions: Sequence[str],
        upstream: str = "",
        certificates: str = "",
        listen: str = "",
        tree: Path = ROOT,
    ) -> None:
        self.name = f"{system} {positions[0]}"
        spec = Spec(system=system, positions=positions, upstream=upstream, listen=listen, certificates=certificates)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 -- closed by `end`
        self._process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "benchmarks.member"),
                json.dumps(spec),
            ],
            cwd=tree,
            env={**wanted(), **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            # A Ctrl-C is for the controller, which then ends the others.
            start_new_session=True,
        )
        self.patience = ANSWER_S
        self._buffer = b""
        self._started: Started | None = None

    def wait_started(self) -> None:
        """Wait until the member has started."""
        self._start()

    @property
    def address(self) -> str:
        """The address of the member."""
        return self._start()["address"]

    @property
    def pid(self) -> int:
        """The process that holds the member's CPU time."""
        return self._start()["pids"][0]

    def ask(self, do: str, **arguments: object) -> object:
        """Send a request and wait for the answer."""
        self.begin(do, **arguments)
        return self.answer()

    def begin(self, do: str, **arguments: object) -> None:
        """Send a request, and leave its answer to `answer`, so that several processes work at once."""
        self._start()
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise BenchFailed(self._obituary()) from None

    def answer(self) -> object:
        """The answer to the oldest open request.

        Raises:
            TurnFailed: the request failed.
            BenchFailed: the process has died or does not answer.
        """
        answer = json.loads(self._line())
        if "error" in answer:
            raise TurnFailed(f"{self.name}: {answer['error']}")
        return cast(object, answer["value"])

    def load(self, to: str, *, body: int, in_flight: int, seconds: float, latencies: bool = False) -> Loaded:
        """Keep messages in flight for some seconds."""
        answer = self.ask("load", to=to, body=body, in_flight=in_flight, seconds=seconds, latencies=latencies)
        return cast(Loaded, answer)

    def cpu(self) -> float:
        """Seconds of CPU time that the member has used, to the nanosecond."""
        # The clock of another process, by the numbering of clock_getcpuclockid(3).
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident(self) -> int:
        """Bytes of memory in use."""
        return int(psutil.Process(self.pid).memory_info().rss)

    def begin_end(self) -> None:
        """Ask the process to end; `end` waits for it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """End the process in order, or else by force."""
        self.begin_end()
        assert self._process.stdout is not None
        try:
            self._process.wait(CLOSE_S + 1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._stderr.close()

    def _start(self) -> Started:
        if self._started is None:
            self._started = cast(Started, self.answer())
        return self._started

    def _line(self) -> bytes:
        assert self._process.stdout is not None
        give_up_at = time.monotonic() + self.patience
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                if not selector.select(give_up_at - time.monotonic()):
                    raise BenchFailed(f"{self.name} did not answer within {self.patience:.0f} s")
                data = os.read(self._process.stdout.fileno(), 1 << 20)
                if not data:
                    raise BenchFailed(self._obituary())
                self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _obituary(self) -> str:
        code = self._process.wait()
        self._stderr.seek(0)
        words = "".join(f"\n    {line}" for line in self._stderr.read().decode(errors="replace").splitlines()[-12:])
        return f"{self.name} ended with exit code {code}; the end of its stderr:{words or ' nothing'}"


@contextlib.contextmanager
def closing(processes: list[Process]) -> Iterator[None]:
    """End these processes at the end of the block, also those added to the list meanwhile."""
    try:
        yield
    finally:
        for process in processes:
            process.begin_end()
        for process in processes:
            process.end()
