"""A plugin of the Manager: every Worker gets a greeting when another one has registered.

taskd-net mgr --job-id J --plugins examples/plugins
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from taskd_net.job.decide.plugins import Plugin, Progress
from taskd_net.job.decide.snapshot import Snapshot


@dataclass
class Greeted:
    """State: the Workers that are greeted."""

    workers: int = 0


class Greeter(Plugin[Greeted]):
    """Send every Worker a greeting when another one has registered."""

    name = "Greeter"
    streams = {"Greetings": None}  # noqa: RUF012 - a stream of its own; a number would be its priority

    def __init__(self) -> None:
        super().__init__(Greeted())

    def wants(self, snapshot: Snapshot) -> Collection[str]:
        """The stream, while somebody is not greeted."""
        return self.streams if snapshot.records.registered_workers > self.state.workers else ()

    def step(self, stream: str, snapshot: Snapshot) -> Progress:
        """Greet everybody."""
        self.state.workers = snapshot.records.registered_workers
        self.send("Worker/All/All", 9001, f"{self.state.workers} of us")
        return Progress.FINAL
