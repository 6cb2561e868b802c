"""Agents as faces see them: a bounded number, those in trouble before others."""

from __future__ import annotations

from itertools import chain, islice

from taskd_net import job_limits
from taskd_net.job_view import AgentView
from taskd_net.jobs.outbox import Outbox
from taskd_net.jobs.records import Records
from taskd_net.jobs.traffic import agent


def agent_views(records: Records, outbox: Outbox) -> tuple[AgentView, ...]:
    """The views of `job_limits.AGENTS_SHOWN` Agents at most, by rank."""
    trouble = records.faulty | records.exited
    first = trouble | records.asking
    others = (rank for rank in records.agents if rank not in first)
    chosen = chain(sorted(trouble), sorted(first - trouble), others)
    return tuple(_view(rank, records, outbox) for rank in sorted(islice(chosen, job_limits.AGENTS_SHOWN)))


def _view(rank: int, records: Records, outbox: Outbox) -> AgentView:
    record = records.agents[rank]
    fault = record.fault
    return AgentView(
        rank=rank,
        registered=record.registered,
        asking=rank in records.asking,
        fault=fault is not None,
        fault_ranks=() if fault is None else tuple(fault.ranks[: job_limits.RANKS_SHOWN]),
        fault_at=0.0 if fault is None else fault.at,
        exited=record.exited,
        heartbeat=record.heartbeat,
        commands=tuple(outbox.codes_to(agent(rank))),
    )
