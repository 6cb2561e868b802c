"""A job as faces see it. Agents are a bounded number, those in trouble before others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, islice

from taskd_net.base.cause import Cause, Place, Reason
from taskd_net.base.vocabulary import JOB, PLATFORM, SUCCEEDED
from taskd_net.core.counters import Latency
from taskd_net.job.decide.books import Books
from taskd_net.job.decide.failures import JobFailure
from taskd_net.job.decide.hangs import FIRST, STEPS, Hangs
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.outbox import Outbox
from taskd_net.job.decide.records import Records
from taskd_net.job.decide.traffic import agent
from taskd_net.job.manager.config import ManagerConfig
from taskd_net.observe.job_view import (
    AGENTS_SHOWN,
    FAILURES_SHOWN,
    RANKS_SHOWN,
    TRACEBACK_LINES,
    AgentView,
    BooksView,
    CauseView,
    ClusterdView,
    DecisionView,
    FailureView,
    GuiltyView,
    HangView,
    JobCounters,
    JobView,
    StreamView,
)


def counted(counters: JobCounters, latency: Latency) -> JobCounters:
    """The counters of a moment, with the seconds from faults to commands."""
    return replace(
        counters,
        decisions=dict(counters.decisions),
        plugin_failures=dict(counters.plugin_failures),
        device_faults=dict(counters.device_faults),
        fault_to_command=tuple(latency.octaves()),
        fault_to_command_count=latency.count,
        fault_to_command_seconds=latency.total,
    )


def job_view(
    config: ManagerConfig,
    job: Job,
    now: float,
    decisions: tuple[DecisionView, ...],
    counters: JobCounters,
    plugins_off: tuple[str, ...],
    clusterd: ClusterdView,
) -> JobView:
    """The state of a job at one moment."""
    state, records = job.state, job.state.records
    wait, rounds = job.config.times.silent, records.rounds
    silent = {rank: at for rank in records.agents if (at := records.silent_since(rank, now, wait)) is not None}
    if not rounds.open:  # else the others still need it
        silent = {rank: at for rank, at in silent.items() if not records.has_finished(rank)}
    streams = tuple(
        StreamView(name, stream.owner, job.candidates(name), tuple(sorted(stream.barred)))
        for name, stream in state.streams.items()
    )
    return JobView(
        job_id=config.job_id or "",
        at=now,
        nodes=config.nodes,
        processes_per_node=config.processes_per_node,
        recovers=job.config.recovers,
        restarts=JOB if job.config.supervises else PLATFORM,
        waits_for=",".join(map(str, sorted(rounds.missing))),
        waits_left=max(0.0, rounds.until - now) if rounds.missing else 0.0,
        nodes_missing=len(rounds.missing),
        restarts_left=job.restarts_left(now),
        paused=state.paused,
        retry_time=state.retry_time,
        streams=streams,
        agents=agent_views(records, state.outbox, silent),
        agents_known=len(records.agents),
        agents_in_trouble=len(records.faulty | records.exited),
        agents_silent=len(silent.keys() - records.faulty),
        workers=records.registered_workers,
        profiling=dict(records.profiling),
        decisions=decisions,
        counters=counters,
        state_file=config.state or "",
        plugins_off=plugins_off,
        clusterd=clusterd,
        failures=tuple(_failure(each, state.books, now) for each in state.failures.shown[-FAILURES_SHOWN:]),
        ended=state.failures.ended,
        books=_books(state.books, now),
        hang=_hang(state.hangs, job.config.hang_timeout),
    )


def agent_views(
    records: Records, outbox: Outbox, silent: Mapping[int, float], most: int = AGENTS_SHOWN
) -> tuple[AgentView, ...]:
    """The views of `most` Agents at most, by rank. `silent`: since when, by rank."""
    trouble = records.faulty | records.exited
    quiet = silent.keys() - trouble
    first = trouble | quiet | records.asking
    others = (rank for rank in records.agents if rank not in first)
    chosen = chain(sorted(trouble), sorted(quiet), sorted(first - trouble - quiet), others)
    shown = sorted(islice(chosen, most))
    return tuple(_view(rank, records, outbox, silent.get(rank, 0.0)) for rank in shown)


def _view(rank: int, records: Records, outbox: Outbox, silent_since: float) -> AgentView:
    record = records.agents[rank]
    fault = record.fault if rank in records.faulty else None
    return AgentView(
        rank=rank,
        registered=record.registered,
        asking=rank in records.asking,
        fault=fault is not None,
        fault_ranks=() if fault is None else tuple(fault.ranks[:RANKS_SHOWN]),
        fault_at=0.0 if fault is None else fault.at,
        exited=record.exited,
        heartbeat=record.heartbeat,
        commands=tuple(outbox.codes_to(agent(rank))),
        worker_state=SUCCEEDED if records.has_finished(rank) else record.worker_state,
        silent_since=silent_since,
        left=records.left(rank) is not None,
    )


def _books(books: Books, now: float) -> BooksView:
    seconds = books.seconds(now)
    return BooksView(
        wall=sum(seconds.values()),
        stage=books.stage,
        seconds={each.value: its for each, its in seconds.items()},
        done=books.done,
        again=books.redone,
        step=books.current,
        highest=books.highest,
        of=books.of,
        left=books.seconds_left(now),
    )


def _hang(hangs: Hangs, timeout: float | None) -> HangView:
    verdict = hangs.verdict
    limits = {place: hangs.limit(place, timeout) for place in (STEPS, FIRST, *hangs.lengths)} if timeout != 0.0 else {}
    return HangView(
        state=verdict.state,
        since=verdict.since,
        noticed=verdict.noticed,
        limit=verdict.limit,
        words=verdict.words,
        guilty=tuple(GuiltyView(each.rank, each.node, each.pid, each.seen, each.words) for each in verdict.guilty),
        limits={place: limit for place, limit in limits.items() if limit is not None},
    )


def _failure(failure: JobFailure, books: Books, now: float) -> FailureView:
    return FailureView(
        number=failure.number,
        at=failure.at,
        lived=failure.lived,
        first=_cause(failure.first) if failure.ranks else CauseView(),
        others=tuple(failure.others[:RANKS_SHOWN]),
        answer=failure.answer,
        answered=failure.answered,
        lost=tuple(failure.lost[:RANKS_SHOWN]),
        phases=failure.phases or books.seconds_of_recovery(now, failure.number),
        stepped=failure.stepped,
        hung="" if failure.ranks else failure.first.hung,
    )


def _cause(cause: Cause) -> CauseView:
    reason = cause.reason or Reason()
    place = reason.place or Place("", 0, "")
    lines = reason.traceback.splitlines()
    if len(lines) > TRACEBACK_LINES:
        lines = [*lines[: TRACEBACK_LINES // 4], "[...]", *lines[1 - 3 * TRACEBACK_LINES // 4 :]]
    return CauseView(
        rank=cause.rank,
        node=cause.node,
        host=cause.host,
        pid=cause.pid,
        end=cause.end,
        at=cause.at_ns / 1e9,
        kind=reason.kind,
        message=reason.message,
        file=place.file,
        line=place.line,
        function=place.function,
        traceback=tuple(lines),
        last_lines=tuple(cause.last_lines.splitlines()),
    )
