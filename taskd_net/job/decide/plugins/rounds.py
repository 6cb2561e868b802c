"""A round: every process of the job is restarted, and faulty nodes are replaced."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

from taskd_net.base import vocabulary
from taskd_net.job.decide import traffic
from taskd_net.job.decide.plugins.plugin import Recovery
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.traffic import Restarts

S = TypeVar("S")

ASSUMED_RESTARTS: Final = 1
"""Restarts of a job of which no Agent has said it: enough for the round that begins."""


def restarts_left(snapshot: Snapshot) -> int:
    """The count after one more restart."""
    known = snapshot.records.restarts
    return (ASSUMED_RESTARTS if known is None else known) - 1


def begin_round(plugin: Recovery[S], snapshot: Snapshot, faulty: Collection[int]) -> None:
    """203 to the faulty; 208, with one restart less, to all who run; the controller starts again.

    Whoever waits for a 210, was just sent one, or has returned in the middle of an epoch, starts anyway.
    """
    for rank in faulty:
        plugin.send(traffic.agent(rank), vocabulary.EXIT)
    records = snapshot.records
    left = restarts_left(snapshot)
    plugin.decide(Restarts(left))
    for rank in sorted(records.agents.keys() - set(faulty) - records.exited - records.asking - snapshot.returned):
        if not snapshot.starting(rank):
            plugin.send(traffic.agent(rank), vocabulary.RESTART_ALL, str(left))
    plugin.call("restart")
