"""The processes of a job that is watched: one launcher with its Manager, and four ranks."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from taskd_net.base.address import Address
from taskd_net.observe.client import AskFailed, NodeClient
from taskd_net_lab.demos.job.stage import Missed
from taskd_net_lab.demos.training import stage
from taskd_net_lab.demos.training.stage import CLI, PATIENCE_S
from taskd_net_lab.demos.watch.evidence import LIMIT_S, Evidence, Look
from taskd_net_lab.demos.watch.terms import FAULT, RANKS

WORLD: Final = 4
SCRIPT: Final = Path(__file__).with_name("trainee.py")

ASK_S: Final = 0.2
"""Seconds between two questions to the Manager."""

ANSWER_S: Final = 5.0

LOOKED_AT_S: Final = 3.5
"""Seconds after which somebody asks for the stacks. At the limit the Manager collects them itself, and a node is asked
once in 30 s."""


class Stage(stage.Stage):
    """The processes of one scenario. None is left after `async with`.

    Args:
        fault: what ranks do that are hurt, for the script; empty for nothing.
        hurt: those ranks.
        patience: seconds for one step.

    Attributes:
        seen: everything that was seen from outside.
    """

    def __init__(self, fault: str, hurt: Collection[int], patience: float = PATIENCE_S) -> None:
        super().__init__(patience=patience, alone=True)
        self.seen = Evidence()
        self._fault = fault
        self._hurt = frozenset(hurt)
        self._mgr = Address.parse(f"{self.host}.1:9601")

    async def begin(self, steps: int) -> None:
        """Start the launcher, which starts its Manager, for a training of some steps."""
        torchrun = [f"--nproc-per-node={WORLD}", "--redirects=3", f"--log-dir={self.folder}/logs"]
        torchrun += [f"--master-addr={self._mgr.host}", f"--mgr-port={self._mgr.port}", f"--hang-timeout={LIMIT_S:g}"]
        own = {"TASKD_NET_UPSTREAM": f"{self.host}.2:9602", "TMPDIR": str(self.folder)}
        own |= {FAULT: self._fault, RANKS: ",".join(map(str, sorted(self._hurt)))}
        await self._start("Agent/0", CLI, "run", *torchrun, str(SCRIPT), str(steps), **own)

    def stop(self) -> None:
        """Stop the training processes of the ranks that are hurt, and note when."""
        for rank in self._hurt:
            os.kill(self.evidence.pids[rank][-1], signal.SIGSTOP)
        self.seen.hurt = dict.fromkeys(self._hurt, time.monotonic())

    async def until_hurt(self) -> None:
        """Wait until all ranks that are hurt have said so."""
        paths = {rank: self.folder / f"hurt-{rank}" for rank in self._hurt}
        await self.until(lambda: all(path.exists() for path in paths.values()), "a rank holds the job up")
        self.seen.hurt = {rank: float(path.read_text()) for rank, path in paths.items()}

    async def ask_until(self, true: Callable[[], bool], what: str, seconds: float) -> None:
        """Ask the Manager for its judgement again and again.

        Raises:
            Missed: the awaited state has not come in time, or the Manager does not answer.
        """
        give_up_at = time.monotonic() + seconds
        async with NodeClient(self._mgr, ANSWER_S) as client:
            while not true():
                if time.monotonic() > give_up_at:
                    raise Missed(f"not within {seconds:g} s: {what}")
                await self._ask(client)
                await asyncio.sleep(ASK_S)

    async def look_at_stacks(self) -> None:
        """Have the Manager collect the stacks of all ranks, as `taskd-net job stacks` does.

        Raises:
            Missed: they have not come.
        """
        async with NodeClient(self._mgr, 2 * ANSWER_S) as client:
            try:
                self.seen.stacks = list((await client.stacks(())).groups)
            except AskFailed as failed:
                raise Missed(f"no stacks: {failed}") from None

    def runs(self) -> bool:
        """True while the launcher runs."""
        return self._processes["Agent/0"].returncode is None

    async def _ask(self, client: NodeClient) -> None:
        try:
            hang = (await client.job()).hang
        except AskFailed as failed:
            # The Manager ends a moment before its launcher.
            await self.until(lambda: not self.runs(), f"the launcher ends, after {failed}", ANSWER_S)
            return
        self.seen.looks.append(Look(time.monotonic(), hang.state, frozenset(each.rank for each in hang.guilty)))
