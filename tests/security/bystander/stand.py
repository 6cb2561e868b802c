"""An attacked node and two Workers that send to each other through it: each a process of its own.

async with Stand(folder) as stand:
    calm = await stand.offer(3.0)
    stand.reset_peak()
    ...  # the attack, by the caller's process
    assert stand.growth() < MIB
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.faults.controlled import ROOT, ControlledProcess
from tests.fork_server import forked
from tests.peers.certificates import Folder
from tests.ports import free_port

MIB: Final = 1024 * 1024

RATE: Final = 200.0
"""Messages a second of the bystanders: far below what two cores carry, beside an attack too."""

ANSWER_S: Final = 60.0
"""Seconds that a bystander waits for an answer: a parent that stands still is measured to its end."""

REST_S: Final = 0.2
"""Seconds without work after which the target rests."""

RESET_PEAK: Final = "5"
"""The word for `/proc/PID/clear_refs` that resets `VmHWM`."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The outcome of the bystanders' messages; times in seconds."""

    p50: float
    p99: float
    slowest: float
    codes: Mapping[str, int]

    @property
    def failed(self) -> int:
        """Messages that did not arrive, or may not have."""
        return sum(self.codes.values()) - self.codes.get("0", 0)


class Stand:
    """The attacked node, `target`, and its bystanders.

    Args:
        folder: a new folder, for logs.
        from_above: the target is a Proxy whose parent attacks it; else it is attacked by a child.
        command: what users run as the target: `mgr`, with all its ports and a reader of its output, or `listen`, which
            is itself one of the bystanders. Without it the target is a bare node.
        secure: all nodes speak TLS, with `certificates`.
        environment: of the target's process.
        metered: the bare node has asyncio's loop, for `longest_turn`. The commands have uvloop, as all others.
        one_session: the nodes have the session of the attacker. Else Linux may give each one a share of the processors
            (autogroup), and latencies depend on these shares too.

    Attributes:
        address: where children connect: to the target, or to the Mgr above `listen`.
        parent: where the attacking parent has to listen.
        page, metrics: the ports of the command `mgr`.
        certificates: of all nodes.
    """

    def __init__(
        self,
        folder: Path,
        *,
        from_above: bool = False,
        command: str = "",
        secure: bool = False,
        environment: Mapping[str, str] | None = None,
        metered: bool = False,
        one_session: bool = False,
    ) -> None:
        self._folder = folder
        self._from_above = from_above
        self._command = command
        self._environment = environment or {}
        self.metered = metered and not command
        self._one_session = one_session
        # The nodes with orders, those that join before the others, and the sender.
        self._members: list[ControlledProcess] = []
        self._commands: list[subprocess.Popen[bytes]] = []
        self._target: subprocess.Popen[bytes] | None = None
        self.address, self.parent, self.page, self.metrics = (f"127.0.0.1:{free_port()}" for _ in range(4))
        self.certificates = Folder(folder / "certificates") if secure else None

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            await asyncio.to_thread(self._start)
        except BaseException:
            self._close()
            raise
        return self

    def _start(self) -> None:
        if self._from_above:
            self._launch("target", "proxy", listen=self.address, upstream=self.parent, server_rank=0)
        elif self._command:
            ports = ("--http-port", self.page, "--metrics-port", self.metrics, "--log-path", str(self._folder))
            self._run("mgr", "--listen", self.address, *ports)
        else:
            self._launch("target", "mgr", listen=self.address)
        for process in self._members:
            process.event("started")
        if self._command == "listen":
            self._run("listen", "--as", self._receiver, "--upstream", self.address, "--inbox", "4096")
        for rank in (900,) if self._command == "listen" else (900, 901):
            self._launch(f"worker{rank}", "worker", server_rank=90, rank=rank, upstream=self.address)
        for process in self._members:
            if process.name.startswith("worker"):
                process.event("started")

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._close)

    async def joined(self) -> None:
        """Wait until all have joined, and the bystanders reach each other."""
        for process in self._members:
            if process.name != "target" or self._from_above:
                await self._ask(process, "joined", timeout=ANSWER_S)
        await self._ask(self._sender, "until", to=self._receiver, codes=[0], patience=ANSWER_S, timeout=1.0)

    @property
    def pid(self) -> int:
        """The attacked node's process."""
        return self._members[0].pid if self._target is None else self._target.pid

    @property
    def pids(self) -> list[int]:
        """The processes of all nodes."""
        return [process.pid for process in self._members] + [command.pid for command in self._commands]

    def log(self) -> str:
        """The log of the attacked node."""
        return (self._folder / "target.log").read_text(errors="replace")

    def log_bytes(self) -> int:
        """The size of all its log files, on disk and on stderr."""
        return sum(file.stat().st_size for file in self._folder.rglob("*.log*"))

    async def offer(self, seconds: float) -> Offered:
        """Have one bystander send to the other at a fixed rate."""
        told = await self._ask(
            self._sender,
            "offer",
            to=self._receiver,
            seconds=seconds,
            rate=RATE,
            timeout=ANSWER_S,
            wait=False,
            within=seconds + 2.0 * ANSWER_S,
        )
        return Offered(told["p50"], told["p99"], told["slowest"], told["codes"])

    async def rests(self) -> None:
        """Wait until the target has done what an attack has left to it, such as printing."""
        async with asyncio.timeout(ANSWER_S):
            before, now = -1.0, self._worked()
            while now - before > REST_S / 10.0:
                await asyncio.sleep(REST_S)  # the measure is work done in this time
                before, now = now, self._worked()

    def _worked(self) -> float:
        """Seconds of CPU time of the target."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    async def longest_turn(self) -> float:
        """Seconds of processor time of the longest turn of the target's loop since the last call."""
        return float(await self._ask(self._members[0], "longest_turn"))

    def reset_peak(self) -> None:
        """Measure growth from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text(RESET_PEAK)
        self._before = self._status("VmRSS")

    def growth(self) -> int:
        """Bytes by which the target's resident memory has grown at its peak."""
        return self._status("VmHWM") - self._before

    def _status(self, field: str) -> int:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
        raise LookupError(field)

    _receiver: Final = "Worker/90/901"

    @property
    def _sender(self) -> ControlledProcess:
        return next(process for process in self._members if process.name == "worker900")

    def _launch(self, name: str, kind: str, **settings: Any) -> None:
        """Start a node with orders."""
        settings |= {"inbox": 4096, "metered": self.metered and name == "target"}
        if self.certificates is not None:
            files = self.certificates
            settings["tls"] = asdict(files.tls() if "listen" in settings else files.connecting())
        records = str(self._folder / f"{name}.records")
        arguments = ["-m", "tests.faults.member", kind, json.dumps(settings), name, records]
        environment = self._environment if name == "target" else {}
        log = self._folder / f"{name}.log"
        session = not self._one_session
        self._members.append(ControlledProcess(name, arguments, log, environment=environment, session=session))

    def _run(self, *arguments: str) -> None:
        """Start a command of the user's, and a reader of its output."""
        with (self._folder / "target.log").open("ab") as log, forked():
            command = subprocess.Popen(
                [sys.executable, "-m", "taskd_net.cli", *arguments],
                cwd=ROOT,
                env={"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
            )
        self._commands.append(command)
        if arguments[0] == self._command:
            self._target = command
        assert command.stdout is not None
        if arguments[0] == "mgr":
            line = command.stdout.readline()
            assert b" ready, " in line, self.log()
        self._commands.append(subprocess.Popen(["cat"], stdin=command.stdout, stdout=subprocess.DEVNULL))

    def _close(self) -> None:
        for process in reversed(self._members):
            process.begin_end()
        for process in reversed(self._members):
            process.end()
        for command in self._commands:
            command.kill()
        for command in self._commands:
            command.wait(ANSWER_S)
            if command.stdout is not None:
                command.stdout.close()

    async def _ask(self, process: ControlledProcess, do: str, *, within: float = ANSWER_S, **arguments: object) -> Any:
        number = process.begin(do, **arguments)
        return await asyncio.to_thread(process.answer, number, within + 5.0)


def connect(address: str) -> socket.socket:
    """A connection that says nothing."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), ANSWER_S)
