"""Actions that ClusterD's signals name, as commands and calls."""

from __future__ import annotations

import json
from typing import TypeVar

from taskd_net.base import vocabulary
from taskd_net.job.decide import traffic
from taskd_net.job.decide.events import Signal
from taskd_net.job.decide.plugins.plugin import Recovery
from taskd_net.job.decide.snapshot import Snapshot

S = TypeVar("S")

RECOVERY: str = "ResumeTrainingAfterFaultStream"
IN_PLACE: str = "recover-in-place"


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
