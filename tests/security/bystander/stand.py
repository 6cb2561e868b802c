"""An attacked node and two Workers that send to each other through it: each a process of its own.

async with Stand(folder, attack) as stand:
    calm = await stand.offer(3.0)
    stand.reset_peak()
    ...  # the attack, by the caller's process
    assert stand.growth() < MIB
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from tests.faults.controlled import ControlledProcess
from tests.faults.lab import free_port

MIB: Final = 1024 * 1024

RATE: Final = 100.0
"""Messages a second of the bystanders: far below what two cores carry, beside an attack too."""

ANSWER_S: Final = 60.0
"""Seconds that a bystander waits for an answer: a parent that stands still is measured to its end."""

RESET_PEAK: Final = "5"
"""The word for `/proc/PID/clear_refs` that resets `VmHWM`."""


@dataclass(frozen=True, slots=True)
class Offered:
    """The outcome of the bystanders' messages; times in seconds."""

    p50: float
    p99: float
    slowest: float
    sent: int
    failed: int


class Stand:
    """The attacked node, `target`, and its bystanders below it.

    Args:
        folder: a new folder, for logs.
        from_above: the target is a Proxy whose parent attacks it; else a Mgr that is attacked by a child.

    Attributes:
        address: where the target listens.
        parent: where the attacking parent has to listen.
    """

    def __init__(self, folder: Path, *, from_above: bool) -> None:
        self._folder = folder
        self._from_above = from_above
        self._processes: list[ControlledProcess] = []
        self.address = f"127.0.0.1:{free_port()}"
        self.parent = f"127.0.0.1:{free_port()}"

    async def __aenter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            if self._from_above:
                target = self._launch("target", "proxy", listen=self.address, upstream=self.parent, server_rank=0)
            else:
                target = self._launch("target", "mgr", listen=self.address)
            await asyncio.to_thread(target.event, "started")
            for rank in (900, 901):
                self._launch(f"worker{rank}", "worker", server_rank=90, rank=rank, upstream=self.address)
            for process in self._processes[1:]:
                await asyncio.to_thread(process.event, "started")
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._close)

    async def joined(self) -> None:
        """Wait until all have joined, and the bystanders reach each other."""
        for process in self._processes[not self._from_above :]:
            await self._ask(process, "joined", timeout=ANSWER_S)
        await self._ask(self._sender, "until", to=self._receiver, codes=[0], patience=ANSWER_S, timeout=1.0)

    @property
    def target(self) -> ControlledProcess:
        """The attacked node's process."""
        return self._processes[0]

    def log(self) -> str:
        """The log of the attacked node."""
        return (self._folder / "target.log").read_text(errors="replace")

    # ---- the bystanders

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
        codes = told["codes"]
        sent = sum(codes.values())
        return Offered(told["p50"], told["p99"], told["slowest"], sent, sent - codes.get("0", 0))

    # ---- memory

    def reset_peak(self) -> None:
        """Measure growth from now on."""
        Path(f"/proc/{self.target.pid}/clear_refs").write_text(RESET_PEAK)
        self._before = self._status("VmRSS")

    def growth(self) -> int:
        """Bytes by which the target's resident memory has grown at its peak."""
        return self._status("VmHWM") - self._before

    def _status(self, field: str) -> int:
        for line in Path(f"/proc/{self.target.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
        raise LookupError(field)

    # ---- inside

    _receiver: Final = "Worker/90/901"

    @property
    def _sender(self) -> ControlledProcess:
        return self._processes[1]

    def _launch(self, name: str, kind: str, **settings: Any) -> ControlledProcess:
        settings["inbox"] = 4096
        records = str(self._folder / f"{name}.records")
        arguments = ["-m", "tests.faults.member", kind, json.dumps(settings), name, records]
        process = ControlledProcess(name, arguments, self._folder / f"{name}.log")
        self._processes.append(process)
        return process

    def _close(self) -> None:
        for process in reversed(self._processes):
            process.begin_end()
        for process in reversed(self._processes):
            process.end()

    async def _ask(self, process: ControlledProcess, do: str, *, within: float = ANSWER_S, **arguments: object) -> Any:
        number = process.begin(do, **arguments)
        return await asyncio.to_thread(process.answer, number, within + 5.0)
