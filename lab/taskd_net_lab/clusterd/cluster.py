"""A job's devices and pods as the platform knows them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Cluster:
    """The pods of a job, and the faults of its devices.

    Attributes:
        devices: type of fault by rank, of devices that are faulty now.
        nodes: faulty nodes.
        absent: nodes whose pod has gone, with the time of its return; infinite for never.
        replaced: a pod has returned since the round began.
    """

    devices: dict[int, int] = field(default_factory=dict)
    nodes: set[int] = field(default_factory=set)
    absent: dict[int, float] = field(default_factory=dict)
    replaced: bool = False

    def look(self, now: float) -> None:
        """Take note of the pods that have returned."""
        for node in [node for node, back in self.absent.items() if back <= now]:
            del self.absent[node]
            self.replaced = True
