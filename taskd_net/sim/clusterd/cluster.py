"""A job's devices and pods as the platform knows them, and the times of ClusterD and of its cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final


class Wait(StrEnum):
    """Times that a scenario can set."""

    NOTICE = "notice"
    CENTRE = "centre"
    FILTER = "filter"
    PRE_EXIT = "pre_exit"
    MEMORY = "memory"
    NODE = "node"
    SUB_HEALTH = "sub_health"
    FLUSH = "flush"
    RELEASE = "release"
    IN_PLACE = "in_place"
    NETWORK = "network"
    READ = "read"
    TESTED = "tested"
    POLL = "poll"
    SETTLE = "settle"
    RETRY = "retry"
    SCHEDULE = "schedule"
    RESET = "reset"
    MOVED = "moved"
    BEGIN = "begin"
    REFUSED = "refused"
    REPORT = "report"
    NEW_POD = "new_pod"
    RESTART = "restart"
    KEEP_ALIVE = "keep_alive"
    CRASH = "crash"
    POD = "pod"
    OLD_POD = "old_pod"
    PODS = "pods"


SECONDS: Final[Mapping[Wait, float]] = {
    Wait.NOTICE: 0.25,
    Wait.CENTRE: 0.5,
    Wait.FILTER: 4.7,
    Wait.PRE_EXIT: 15.5,
    Wait.MEMORY: 21.0,
    Wait.NODE: 10.6,
    Wait.SUB_HEALTH: 5.8,
    Wait.FLUSH: 1.0,
    Wait.RELEASE: 10.0,
    Wait.IN_PLACE: 13.0,
    Wait.NETWORK: 3.0,
    Wait.READ: 5.0,
    Wait.TESTED: 1.5,
    Wait.POLL: 5.0,
    Wait.SETTLE: 20.0,
    Wait.RETRY: 135.0,
    Wait.SCHEDULE: 270.0,
    Wait.RESET: 0.75,
    Wait.MOVED: 2.0,
    Wait.BEGIN: 0.1,
    Wait.REFUSED: 6.0,
    Wait.REPORT: 900.0,
    Wait.NEW_POD: 60.0,
    Wait.RESTART: 60.0,
    Wait.KEEP_ALIVE: 5.0,
    Wait.CRASH: 5.0,
    Wait.POD: 5.0,
    Wait.OLD_POD: 5.0,
    Wait.PODS: 20.0,
}
"""Seconds by default, as measured of ClusterD 26.1.0. docs/clusterd-sim.md says what each is for."""


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
