"""ClusterD's messages as events of a job, checked once."""

from __future__ import annotations

from typing import Any

from taskd_net.base.untrusted import shown
from taskd_net.job.clusterd.operations import OPERATIONS
from taskd_net.job.clusterd.reports import rank_number
from taskd_net.job.decide.events import Event, ProfilingSwitch, Signal
from taskd_net.job.profiling_switch import COMMUNICATION, DOMAINS
from taskd_net.net.wire import datatrace_pb2, recover_pb2

VALID_SWITCH = 200
"""Code of a DataStatusRes whose switch is valid."""

Message = Any
"""The answer of a stream that brings orders: a ProcessManageSignal, a DataStatusRes, or one of `OPERATIONS`."""


def job_of(message: Message) -> str | None:
    """The job that a message is for; None where it does not say."""
    job: str | None = getattr(message, "jobId", None)
    return job


def read(message: Message) -> Event:
    """A message of ClusterD as an event.

    Raises:
        ValueError: names the field that cannot be read, and its value.
    """
    match message:
        case recover_pb2.ProcessManageSignal():
            return _signal(message)
        case datatrace_pb2.DataStatusRes():
            return _switch(message)
    return next(each.read(message) for each in OPERATIONS if isinstance(message, each.orders.answer))


def _signal(message: recover_pb2.ProcessManageSignal) -> Signal:
    ranks = [rank_number(each.rankId, "a rankId") for each in message.faultRanks]
    kinds = [rank_number(each.faultType, "a faultType") for each in message.faultRanks]
    return Signal(
        uuid=message.uuid,
        signal_type=message.signalType,
        actions=tuple(message.actions),
        fault_ranks=dict(zip(ranks, kinds, strict=True)),
        change_strategy=message.changeStrategy,
        timeout=max(message.timeout, 0),
        node_rank_ids=tuple(rank_number(rank, "a nodeRankId") for rank in message.nodeRankIds),
        extra_params=message.extraParams,
    )


def _switch(message: datatrace_pb2.DataStatusRes) -> ProfilingSwitch:
    if message.code != VALID_SWITCH:
        raise ValueError(f"code is {message.code} ({shown(message.message)}); expected {VALID_SWITCH}")
    states = {domain: getattr(message.profilingSwitch, domain) or "off" for domain in DOMAINS}
    for domain, state in states.items():
        if state not in ("on", "off"):
            raise ValueError(f"{domain} is {shown(state)}; expected on or off")
    return ProfilingSwitch("on" in states.values(), states[COMMUNICATION] == "on")
