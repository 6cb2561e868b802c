"""A Manager that answers each failure with a restart of all workers (208). Its argument is the address to listen at.

It is TaskD's way where another node has failed; the node of the failure itself gets a new pod.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

import uvloop

from benchmarks.training.timeline import RANKS
from taskd_net import Node, NodeConfig
from taskd_net.job.decide.plugins import AnyPlugin, built_in
from taskd_net.job.decide.plugins.actions import RECOVERY, begin_round
from taskd_net.job.decide.plugins.plugin import Progress, Recovery
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.manager import Manager, ManagerConfig


@dataclass
class Nothing:
    """State: none."""


class RestartAll(Recovery[Nothing]):
    """Restart all workers where one has failed."""

    name = "RestartAll"
    streams: ClassVar = {RECOVERY: 0}  # before all others

    def __init__(self) -> None:
        super().__init__(Nothing())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The recovery stream, for a failure that no restart on its way will settle."""
        return self.streams if any(snapshot.needs_answer(rank) for rank in snapshot.records.faulty) else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Restart."""
        begin_round(self, snapshot, ())
        return Progress.FINAL


class Restarter(Manager):
    """A Manager as it is, with that plugin."""

    def _plugins(self) -> list[AnyPlugin]:
        return [RestartAll(), *built_in()]


async def _run(address: str) -> None:
    config = ManagerConfig(job_id="bench", nodes=1, processes_per_node=RANKS, state="state")
    async with Node(NodeConfig.mgr(listen=address, confirms=True)) as node, Restarter(node, config):
        print(f"listens at {node.address}", flush=True)
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    uvloop.run(_run(sys.argv[1]))
