"""ClusterD's messages as events of a job, checked once."""

from __future__ import annotations

from taskd_net.base.untrusted import shown
from taskd_net.job.clusterd.reports import rank_number
from taskd_net.job.decide.events import Event, ProfilingSwitch, Signal, StressTest, SwitchNic
from taskd_net.job.profiling_switch import COMMUNICATION, DOMAINS
from taskd_net.net.wire import datatrace_pb2, recover_pb2

VALID_SWITCH = 200
"""Code of a DataStatusRes whose switch is valid."""

Message = (
    recover_pb2.ProcessManageSignal
    | recover_pb2.SwitchRankList
    | recover_pb2.StressTestRankParams
    | datatrace_pb2.DataStatusRes
)


def job_of(message: Message) -> str | None:
    """The job that a message is for; None where it does not say."""
    return None if isinstance(message, datatrace_pb2.DataStatusRes) else message.jobId


def read(message: Message) -> Event:
    """A message of ClusterD as an event.

    Raises:
        ValueError: names the field that cannot be read, and its value.
    """
    match message:
        case recover_pb2.ProcessManageSignal():
            return _signal(message)
        case recover_pb2.SwitchRankList():
            ranks = tuple(rank_number(rank, "a rankID") for rank in message.rankID)
            if len(ranks) != len(message.op):
                raise ValueError(f"op has {len(message.op)} entries; expected one for each of {len(ranks)} ranks")
            return SwitchNic(ranks, tuple(message.op))
        case recover_pb2.StressTestRankParams():
            params = message.stressParam.items()
            return StressTest({rank_number(rank, "a rank of stressParam"): tuple(each.ops) for rank, each in params})
        case _:
            return _switch(message)


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
