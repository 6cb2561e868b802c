"""Commands that begin and end an epoch of the training."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, TypeVar

from taskd_net.base import limits, vocabulary
from taskd_net.base.position import ALL
from taskd_net.job.decide import epochs, traffic
from taskd_net.job.decide.plugins.plugin import Plugin
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.traffic import Command

S = TypeVar("S")

_RESTARTS: Final = {vocabulary.EXIT, vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS}


def begin_epoch(plugin: Plugin[S], snapshot: Snapshot, reason: str) -> None:
    """EPOCH_BEGIN with the next number to all Workers."""
    number = snapshot.records.epochs.number + 1
    plugin.send(traffic.ALL_WORKERS, vocabulary.EPOCH_BEGIN, str(number), {vocabulary.REASON: reason})


def end_epoch(plugin: Plugin[S], snapshot: Snapshot, gone: Collection[int], reason: str) -> bool:
    """EPOCH_END to the Workers that are in the epoch.

    Args:
        plugin: sends it.
        snapshot: the state.
        gone: ranks whose processes have ended.
        reason: in words.

    Returns:
        True where there are any.
    """
    ranks = [rank for rank, each in snapshot.records.workers.items() if is_inside(each) and rank not in gone]
    if ranks:
        listed = ",".join(map(str, sorted(ranks))) if len(ranks) <= limits.RANKS_PER_LIST else ALL
        number = str(snapshot.records.epochs.number)
        plugin.send(f"Worker/{ALL}/{listed}", vocabulary.EPOCH_END, number, {vocabulary.REASON: reason})
    return bool(ranks)


def is_last_begin(command: Command, snapshot: Snapshot) -> bool:
    """True for the beginning of the last epoch: a Worker needs it, however long it takes."""
    last = str(snapshot.records.epochs.number)
    return command.code == vocabulary.EPOCH_BEGIN and command.message == last


def restart(plugin: Plugin[S], node: int, ranks: Collection[int]) -> None:
    """209 for ranks of a node."""
    both = traffic.rank_texts(ranks), traffic.fault_ranks(dict.fromkeys(ranks, 1))
    plugin.send(traffic.agent(node), vocabulary.RESTART_RANKS, *both)


def is_inside(worker: epochs.Member) -> bool:
    """True for a Worker that is in an epoch, or was called to one."""
    return worker.phase in (epochs.RUNNING, epochs.CALLED)


def fallen(snapshot: Snapshot) -> dict[int, set[int]]:
    """The dead ranks that no command on its way restarts, by node."""
    found: dict[int, set[int]] = {}
    for node in sorted(snapshot.records.faulty):
        fault, codes = snapshot.records.agents[node].fault, snapshot.outbox.codes_to(traffic.agent(node))
        if fault is not None and fault.ranks and not set(codes) & _RESTARTS:
            found[node] = set(fault.ranks)
    return found


def dead(snapshot: Snapshot) -> set[int]:
    """The ranks that Agents have reported as failed."""
    faults = (snapshot.records.agents[node].fault for node in snapshot.records.faulty)
    return {rank for fault in faults if fault is not None for rank in fault.ranks}
