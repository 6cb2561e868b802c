"""Steps that several plugins share, as commands and calls: actions of ClusterD's signals, a round, an epoch.

In a *round* every process of the job is restarted, and faulty nodes are replaced.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Final, TypeVar

from taskd_net.base import limits, vocabulary
from taskd_net.base.position import ALL
from taskd_net.job.decide import epochs, traffic
from taskd_net.job.decide.events import Signal
from taskd_net.job.decide.plugins.plugin import Plugin, Recovery
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.decide.traffic import Command, Restarts, read_count

S = TypeVar("S")

RECOVERY: str = "ResumeTrainingAfterFaultStream"
IN_PLACE: str = "recover-in-place"

ASSUMED_RESTARTS: Final = 1
"""Restarts of a job of which no Agent has said it: enough for the round that begins."""

UNLIMITED: Final = 32_767
"""Restarts that an Agent offers where nobody has set a number, as with TaskD."""

_RESTARTS: Final = {vocabulary.EXIT, vocabulary.RESTART_ALL, vocabulary.RESTART_RANKS}


def carry_out(plugin: Recovery[S], snapshot: Snapshot) -> None:
    """Decide on every action of the signal, in its order. Unknown actions are left alone, as by the original."""
    signal = snapshot.signal
    ranks, timeout = signal.fault_ranks, signal.timeout
    for action in signal.actions:
        match action:
            case "stop_train":
                plugin.call("stop_train", ranks, "stop", timeout=timeout)
            case "pause_train":
                plugin.call("stop_train", ranks, "pause", timeout=timeout)
            case "on_global_rank":
                plugin.call("on_global_rank", ranks, timeout=timeout)
            case "change_strategy":
                change_strategy(plugin, signal)
            case "save_and_exit":
                plugin.call("dump")
            case "hot switch" | "stop switch":
                plugin.call("prepare_action", ranks, action)
            case "fault_nodes_exit":
                exit_nodes(plugin, snapshot)
            case "fault_nodes_restart":
                restart_ranks(plugin, snapshot)
            case "pre exit process":
                for node in signal.node_rank_ids:
                    plugin.send(traffic.agent(node), vocabulary.STOP_RANKS, traffic.rank_texts(ranks))
            case _:
                pass


def change_strategy(plugin: Recovery[S], signal: Signal) -> None:
    """Tell the controller the decided strategy."""
    plugin.call("change_strategy", text=signal.change_strategy, params=signal.extra_params)


def exit_nodes(plugin: Recovery[S], snapshot: Snapshot) -> None:
    """203 to the Agents that the signal names; once in a round, so that no pod ends that has come back."""
    signal = snapshot.signal
    extension = {"SignalType": signal.signal_type, "Actions": json.dumps(signal.actions)}
    for node in signal.node_rank_ids:
        if not snapshot.was_replaced(node):
            plugin.send(traffic.agent(node), vocabulary.EXIT, extension=extension)


def restart_ranks(plugin: Recovery[S], snapshot: Snapshot) -> None:
    """209 with all faulty ranks to the Agents that the signal names; each rank once in a round."""
    for node in snapshot.signal.node_rank_ids:
        if ranks := snapshot.to_restart(node):
            both = traffic.rank_texts(ranks), traffic.fault_ranks(ranks)
            plugin.send(traffic.agent(node), vocabulary.RESTART_RANKS, *both)


def restarts_left(snapshot: Snapshot) -> int:
    """The count after one more restart."""
    known = snapshot.records.restarts
    return (ASSUMED_RESTARTS if known is None else known) - 1


def offered(snapshot: Snapshot, rank: int) -> int:
    """Restarts that the Agent of a node has offered, or that its user allows."""
    asked = snapshot.records.agents[rank].reports.get(f"{vocabulary.STATUS}/{vocabulary.MAY_I_START}")
    if asked is None:
        return UNLIMITED
    count = read_count(asked.extension.get(vocabulary.MAX_RESTARTS, asked.message))
    return UNLIMITED if count is None else count


def limit(snapshot: Snapshot) -> int | None:
    """Restarts that the node of the first failure has; None without a number."""
    failure = snapshot.failures.open
    if failure is None or failure.first.node not in snapshot.records.agents:
        return None
    count = offered(snapshot, failure.first.node)
    return None if count >= UNLIMITED else count


def verdict(snapshot: Snapshot, *, settled: bool = False) -> str:
    """The reason to end the job because of its open failure; empty to go on.

    Args:
        snapshot: the state.
        settled: all nodes have said what has failed. They do so in a meeting, and never without one.
    """
    settled = settled or not snapshot.records.rounds.meets
    return snapshot.failures.verdict(snapshot.now, limit(snapshot), settled=settled)


def begin_round(plugin: Recovery[S], snapshot: Snapshot, faulty: Collection[int]) -> None:
    """203 to the faulty; 208, with one restart less, to all who run; the controller starts again.

    Whoever waits for a 210, was just sent one, or has returned in the middle of an epoch, starts anyway. Where the
    Manager restarts processes, it counts the restarts otherwise, and a node that has returned meets the others.
    """
    for rank in faulty:
        plugin.send(traffic.agent(rank), vocabulary.EXIT)
    records, supervises = snapshot.records, snapshot.config.supervises
    left = (records.restarts or 0) if supervises else restarts_left(snapshot)
    plugin.decide(Restarts(left))
    start_anyway = records.exited | records.asking | (set() if supervises else snapshot.returned)
    for rank in sorted(records.agents.keys() - set(faulty) - start_anyway):
        if not snapshot.starting(rank):
            plugin.send(traffic.agent(rank), vocabulary.RESTART_ALL, str(left))
    plugin.call("restart")


def begin_epoch(plugin: Plugin[S], snapshot: Snapshot, reason: str) -> None:
    """EPOCH_BEGIN with the next number to all Workers, and with the store that the present node 0 has for them."""
    number, records = snapshot.records.epochs.number + 1, snapshot.records
    store = records.said_ready(0, vocabulary.STORE) if records.rounds.meets else ""
    extension = {vocabulary.REASON: reason} | ({vocabulary.STORE: store} if store else {})
    plugin.send(traffic.ALL_WORKERS, vocabulary.EPOCH_BEGIN, str(number), extension)


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
