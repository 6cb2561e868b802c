"""The state of a job's Manager as one JSON object, described in docs/manager.md."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from taskd_net.observe.document import Document
from taskd_net.observe.job_view import (
    ETCD_SCHEME,
    OWN,
    AgentView,
    ClusterdView,
    DecisionView,
    DeviceView,
    JobView,
    LeaderView,
)

FAULTY: Final = "faulty"
EXITED: Final = "exited"
SILENT: Final = "silent"
TROUBLE: Final = (FAULTY, EXITED)
"""The states of an Agent that need attention."""


def job_document(view: JobView) -> Document:
    """The document of a job."""
    counters = view.counters
    answered = counters.fault_to_command_count
    return {
        "job": view.job_id,
        "time": round(view.at, 3),
        "expected": {"nodes": view.nodes, "processes": view.processes_per_node} if view.nodes else None,
        "decides_on": "ClusterD" if view.recovers else "reports",
        "restarts_left": view.restarts_left,
        "paused": view.paused,
        "retry_time": view.retry_time,
        "trouble": trouble_of(view),
        "state": {"file": view.state_file or None, "durable": counters.durable, "failures": counters.store_failures},
        "leader": leader_document(view.leader) if view.leader.term else None,
        "plugins_off": list(view.plugins_off),
        "clusterd": _clusterd(view.clusterd) if view.clusterd.address else None,
        "streams": [
            {
                "name": stream.name,
                "owner": stream.owner or None,
                "plugins": list(stream.plugins),
                "barred": list(stream.barred),
            }
            for stream in view.streams
        ],
        **devices_document(view),
        "agents": [_agent(each) for each in view.agents],
        "agents_known": view.agents_known,
        "agents_in_trouble": view.agents_in_trouble,
        "agents_silent": view.agents_silent,
        "unprotected": view.unprotected,
        "workers": view.workers,
        "profiling": {str(state): number for state, number in sorted(view.profiling.items())},
        "decisions": [_decision(each) for each in view.decisions],
        "counters": {
            "reports": counters.reports,
            "refused": counters.refused,
            "signals": counters.signals,
            "ticks": counters.ticks,
            "decisions": dict(counters.decisions),
            "rounds": counters.rounds,
            "commands": counters.commands,
            "resends": counters.resends,
            "acknowledged": counters.acknowledged,
            "lost": counters.lost,
            "plugin_failures": dict(counters.plugin_failures),
            "device_faults": dict(counters.device_faults),
            "faults_answered": answered,
            "fault_to_command": round(counters.fault_to_command_seconds / answered, 6) if answered else None,
        },
    }


def trouble_of(view: JobView) -> list[str]:
    """The troubles of a job in words: first those of the Manager itself, then its Agents."""
    found = manager_trouble(view)
    if view.agents_in_trouble:
        found.append(f"Agents in trouble: {view.agents_in_trouble} of {view.agents_known}")
    return found


def manager_trouble(view: JobView) -> list[str]:
    """The troubles of the Manager itself in words.

    They are a state that is not durable, a lease that is not confirmed, a refusal of ClusterD, plugins that are
    off, and nodes without MindIO's controller.
    """
    found = []
    if not view.counters.durable:
        in_etcd = view.state_file.startswith(ETCD_SCHEME)
        then = "the Manager decides nothing until it is" if in_etcd else "a restart may repeat commands"
        found.append(f"the state in {view.state_file} is not durable: {then}")
    if view.leader.term and not view.leader.decides:
        found.append(f"the lease in {view.state_file} is not confirmed: the Manager decides nothing until it is")
    if view.clusterd.refused:
        found.append(f"ClusterD at {view.clusterd.address} refuses the job: {view.clusterd.refused}")
    found += [f"plugin {name} is off until the Manager restarts" for name in view.plugins_off]
    if view.unprotected:
        nodes = f"{view.unprotected} nodes train"
        found.append(f"unprotected: {nodes} without MindIO's controller until they are started again")
    return found


def leader_document(leader: LeaderView) -> Document:
    """The object of the lead of a job."""
    return {
        "name": leader.name,
        "term": leader.term,
        "since": round(leader.since, 3),
        "changes": leader.changes,
        "decides": leader.decides,
        "last_commit": _time(leader.committed),
    }


def devices_document(view: JobView) -> Document:
    """The fields of a job's devices, which the document of a mesh has too."""
    return {
        "fault_mode": view.fault_mode or None,
        "devices": [_device(each) for each in view.devices],
        "devices_known": view.devices_known,
        "devices_isolated": view.devices_isolated,
    }


def silent_document(view: JobView) -> Document:
    """The fields of a job's silent Agents in the document of a mesh."""
    shown = [{"rank": each.rank, "since": _time(each.silent_since)} for each in view.agents if _state(each) == SILENT]
    return {"agents_silent": view.agents_silent, "silent_agents": shown}


def _device(device: DeviceView) -> Document:
    """The object of a device."""
    return {
        "device": device.device,
        "node": device.node,
        "rank": device.rank,
        "type": device.fault_type or None,
        "level": device.level or None,
        "code": device.code or None,
        "reason": device.reason,
        "isolated": device.isolated,
        "action": device.action or None,
        "since": _time(device.since),
        "reporter": device.reporter or None,
    }


def _agent(agent: AgentView) -> Document:
    return {
        "rank": agent.rank,
        "state": _state(agent),
        "fault_ranks": list(agent.fault_ranks),
        "fault_at": _time(agent.fault_at),
        "heartbeat": _time(agent.heartbeat),
        "silent_since": _time(agent.silent_since),
        "commands": list(agent.commands),
        "worker_state": agent.worker_state or None,
    }


def _state(agent: AgentView) -> str:
    if agent.exited:
        return EXITED
    if agent.fault:
        return FAULTY
    if agent.asking:
        return "asking"
    if agent.silent_since:
        return SILENT
    return "running" if agent.registered else "unregistered"


def _clusterd(client: ClusterdView) -> Document:
    return {
        "address": client.address,
        "state": client.state,
        "orders": client.orders,
        "keep_alives": client.keep_alives,
        "unknown_actions": client.unknown_actions,
        "failed_actions": client.failed_actions,
        "reports": client.reports,
        "reconnects": client.reconnects,
        "rounds": client.rounds,
    }


def _decision(decision: DecisionView) -> Document:
    return {
        "number": decision.number,
        "time": round(decision.at, 3),
        "plugin": decision.plugin or OWN,
        "cause": decision.cause,
        "restarts_left": decision.restarts,
        "messages": [asdict(each) for each in decision.messages],
        "sent": decision.sent,
        "acknowledged": decision.acknowledged,
        "lost": decision.lost,
        "calls": list(decision.calls),
    }


def _time(seconds: float) -> float | None:
    return round(seconds, 3) if seconds else None
