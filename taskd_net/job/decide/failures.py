"""Failures of a job's processes: which one came first, what it led to, and whether the job goes on. Pure.

An *attempt* is a stretch of training. It goes from a start, or the begin of an epoch, to the next failure. That
`JobFailure` has its first cause, and every rank that failed because of it, on any node. It stays open until the next
attempt begins. So a process that dies seconds after its exception belongs to it. Causes have the times of their nodes'
clocks.

The *budget*: with `--max-restarts N` each node may fail N times. Without it, `FAILURES` within `FAILURES_S` are too
many, and each further one makes the next pause longer. An attempt that has made *progress* gives them back: the job's
highest step has risen in it. Where ranks mark no steps, it lived for `FAILURES_S`, or `FURTHER_S` longer than the one
before. The same failure twice in a row, without progress between, ends the job: a further start would end in it, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.cause import NEVER_AGAIN, Cause, order, summary
from taskd_net.job.decide.plain import UNSTORED
from taskd_net.job.decide.records import Fault
from taskd_net.job.decide.times import Moment

FAILURES: Final = 5
"""Failures within `FAILURES_S` that a job may have without a number of restarts."""

FAILURES_S: Final = 600.0
"""Seconds after which a failure is forgotten: all ranks have lived for ten minutes then, or failed again."""

FURTHER_S: Final = 60.0
"""Seconds that an attempt has to live longer than the one before to have gone further: starts differ by less."""

PAUSE_S: Final = 1.0
"""Seconds before the start that follows the second failure in that time. Each further one doubles it."""

KEPT: Final = 10
"""Last failures that are kept for people: twice `FAILURES`."""

TOGETHER_S: Final = 10.0
"""Seconds after an answer in which a further failed rank belongs to that failure, where a platform starts lost nodes
again: no round of the Manager's says when the next attempt begins."""


@dataclass(slots=True)
class JobFailure:
    """A failure of the job.

    Args:
        number: among those of the run, from 1.
        at: the time at which the Manager heard of it.
        lived: seconds since the begin of its attempt.
        fresh: that attempt has made progress, or it is the first one.
        first: the first cause; that of no rank where only nodes were lost.
        ranks: node by rank, of all that have failed.
        answer: what the Manager did then, in words; empty before.
        answered: the time of it.
        charged: a node has one restart less for it.
        lost: nodes that were lost, where ranks have failed because of that, or none has.
        phases: seconds of the recovery, by account (`decide.books`); empty while it goes on.
        stepped: a further step has been done after it: the recovery has succeeded.
    """

    number: int = 0
    at: Moment = 0.0
    lived: float = 0.0
    fresh: bool = True
    first: Cause = field(default_factory=Cause)
    ranks: dict[int, int] = field(default_factory=dict)
    answer: str = ""
    answered: Moment = 0.0
    charged: bool = False
    lost: list[int] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)
    stepped: bool = False

    def take(self, cause: Cause) -> None:
        """A cause on some node: the earliest one counts."""
        if not (self.ranks or self.first.hung) or order(cause) < order(self.first):
            self.first = cause

    @property
    def others(self) -> list[int]:
        """Ranks that failed because of the first one."""
        return sorted(self.ranks.keys() - {self.first.rank})


@dataclass(slots=True)
class JobFailures:
    """The failures of a run.

    Args:
        count: of all failures.
        began: begin of the present attempt; 0 before the first.
        open: the one that the present attempt has ended with; None while it goes on.
        past: the last ones before, oldest first.
        charged: failures that count, by node.
        lost: nodes that were lost since the begin of the attempt.
        ended: why the run has ended; empty while it goes on.
        step: the highest step that the job has done; None where ranks mark none.
        step_before: the same at the begin of the present attempt.
        heard: this Manager has been told of steps. Before, one that was killed may have heard of more.
        changed: since it was taken out for storing.
    """

    count: int = 0
    began: Moment = 0.0
    open: JobFailure | None = None
    past: list[JobFailure] = field(default_factory=list)
    charged: dict[int, int] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    ended: str = ""
    step: int | None = None
    step_before: int | None = None
    heard: bool = field(default=False, compare=False, metadata=UNSTORED)
    changed: bool = field(default=False, compare=False, metadata=UNSTORED)

    @property
    def shown(self) -> list[JobFailure]:
        """All that are kept, oldest first."""
        return [*self.past, *([] if self.open is None else [self.open])]

    def take(self, now: float, node: int, fault: Fault, cause: Cause | None, *, rounds: bool) -> None:
        """Processes of a node have failed.

        Args:
            now: the time.
            node: its rank.
            fault: the report of its Agent.
            cause: their first failure, if the Agent says it.
            rounds: the Manager says itself when the next attempt begins.
        """
        if not rounds:
            self.close(now)
        if cause is None:
            at = fault.at if fault.reported is None else fault.reported
            cause = Cause(rank=min(fault.ranks, default=0), node=node, at_ns=int(at * 1e9))
        if self.open is None:
            self.open, self.count = self._opened(now, cause), self.count + 1
        else:
            self.open.take(cause)
        self.open.ranks |= dict.fromkeys(fault.ranks, node)
        self._name_lost()

    def close(self, now: float) -> None:
        """Take an answered failure as over after some seconds, where no round of the Manager's says it."""
        answered = 0.0 if self.open is None else self.open.answered
        if 0.0 < answered <= now - TOGETHER_S:
            self.attempt_begins(answered)

    def late(self, cause: Cause) -> None:
        """A node that was restarted says why a process of it had failed, perhaps before all others."""
        failure = self.open or (self.past[-1] if self.past else None)
        if failure is not None:
            failure.take(cause)
            failure.ranks[cause.rank] = cause.node
            self._name_lost()

    def replaces(self, node: int) -> None:
        """The Agent of a node is another process."""
        self.lost.add(node)
        self._name_lost()

    def loses(self, now: float, nodes: Collection[int]) -> None:
        """The others wait for lost nodes. That is a failure of its own where no rank has failed."""
        self.lost.update(nodes)
        if self.open is None:
            cause = Cause(node=min(nodes), at_ns=int(now * 1e9))
            self.open, self.count = self._opened(now, cause), self.count + 1
        self._name_lost()

    def answer(self, now: float, words: str) -> None:
        """The Manager has answered the open failure."""
        if self.open is not None:
            self.open.answer, self.open.answered, self.changed = words, now, True

    def attempt_begins(self, now: float) -> None:
        """All processes are there again."""
        failure = self.open
        if failure is not None:
            if not self._is_of_lost_node(failure):
                node = failure.first.node
                self.charged[node], failure.charged = self.charged.get(node, 0) + 1, True
            for each in self.past:
                each.first = each.first.brief
            self.past, self.open = [*self.past, failure][-KEPT:], None
        self.began, self.step_before, self.changed = now, self.step, True
        self.lost.clear()

    def reaches(self, step: int | None) -> None:
        """The highest step of the job. It may be told after the failure that has ended the attempt."""
        self.heard = step is not None
        if step == self.step:
            return
        self.step, self.changed = step, True
        if self.open is not None:
            self.open.fresh = self.open.fresh or self._has_risen

    def recovered(self, number: int, phases: dict[str, float], *, stepped: bool) -> None:
        """The recovery from a failure is over: a step was done, or nothing more of it will be seen."""
        for failure in self.shown:
            if failure.number == number:
                failure.phases, failure.stepped, self.changed = phases, stepped, True

    def ends(self, reason: str) -> None:
        """The run is over. A failure stays open: what comes belongs to it."""
        self.ended, self.changed = reason, True

    @property
    def comes_again(self) -> bool:
        """True where a further start would end in the open failure, too: its process says so, or it has come twice."""
        failure, before = self.open, self._before
        if failure is None:
            return False
        likeness = failure.first.likeness
        twice = likeness and before is not None and not failure.fresh and before.first.likeness == likeness
        return failure.first.code == NEVER_AGAIN or bool(twice)

    def verdict(self, now: float, offered: int | None, *, settled: bool) -> str:
        """The reason to end the job because of the open failure; empty to go on.

        A rank that has lost a peer may be heard of before that peer, so it decides nothing until all nodes have
        answered.

        Args:
            now: the time.
            offered: restarts that the node of the first failure has; None without a number.
            settled: all nodes have said what has failed.
        """
        failure = self.open
        if failure is None:
            return ""
        first = failure.first
        if first.code == NEVER_AGAIN:
            return f"rank {first.rank} has ended with {NEVER_AGAIN}, so it is not to be started again"
        if self._is_of_lost_node(failure) or (first.lost_peer and not settled):
            return ""
        if self.comes_again:
            return f"the same failure twice in a row: {first.likeness}"
        if offered is not None:
            times = self.charged.get(first.node, 0) + 1
            return f"failure {times} of node {first.node}, which has {offered} restarts" if times > offered else ""
        recent = self.recent(now)
        return f"{recent} failures within {FAILURES_S:g} s" if recent > FAILURES else ""

    def pause(self, now: float) -> float:
        """Seconds before the next start, where no number of restarts is given."""
        recent = self.recent(now)
        return PAUSE_S * 2 ** (recent - 2) if recent > 1 else 0.0

    def recent(self, now: float) -> int:
        """Failures that count since the last progress, with the open one."""
        count = 0
        for failure in reversed(self.shown):
            if failure.at <= now - FAILURES_S:
                break
            count += failure.charged or (failure is self.open and not self._is_of_lost_node(failure))
            if failure.fresh:
                break
        return count

    def left(self, now: float, offered: Mapping[int, int | None]) -> int:
        """Failures that the job may still have: of the node that has the fewest left.

        Args:
            now: the time.
            offered: restarts by node, as for `verdict`.
        """
        failed = -1 if self.open is None or self._is_of_lost_node(self.open) else self.open.first.node
        recent = 0 if self.open is None and self._is_fresh(self._lived(now)) else self.recent(now)
        counts = [
            FAILURES - recent if limit is None else limit - self.charged.get(node, 0) - (node == failed)
            for node, limit in offered.items()
        ]
        return max(0, min(counts, default=0))

    def _opened(self, now: float, cause: Cause) -> JobFailure:
        lived = self._lived(now)
        return JobFailure(self.count + 1, now, lived, self._is_fresh(lived), cause)

    def _lived(self, now: float) -> float:
        """Seconds since the begin of the present attempt."""
        return max(0.0, now - self.began) if self.began else 0.0

    def _is_fresh(self, lived: float) -> bool:
        """True where an attempt that has lived so long has made progress, or is the first one."""
        before = self._before
        if self.heard:
            return before is None or self._has_risen
        return before is None or lived >= FAILURES_S or lived >= before.lived + FURTHER_S

    @property
    def _has_risen(self) -> bool:
        """True where the job has done a step in this attempt that it had not done before."""
        return self.step is not None and (self.step_before is None or self.step > self.step_before)

    @property
    def _before(self) -> JobFailure | None:
        """The last failure of ranks before the open one."""
        return next((each for each in reversed(self.past) if not each.lost), None)

    def _name_lost(self) -> None:
        """Note whether the open failure comes from lost nodes, which may be heard of later than of their peers."""
        self.changed = True
        if self.open is not None:
            self.open.lost = sorted(self.lost) if self._is_of_lost_node(self.open) else []

    def _is_of_lost_node(self, failure: JobFailure) -> bool:
        """True where ranks failed only because a node was lost, or none failed: no node has one restart less."""
        return bool(self.lost) and (failure.first.lost_peer or not (failure.ranks or failure.first.hung))


def told(failure: JobFailure) -> str:
    """A failure in one line, for the log."""
    if failure.lost:
        nodes, ranks = (",".join(map(str, each)) for each in (failure.lost, sorted(failure.ranks)))
        return f"node {nodes} was lost" + (f"; after it ranks {ranks}" if ranks else "")
    hung = failure.first.hung if not failure.ranks else ""
    said = f"the job hung: {hung}" if hung else summary(failure.first)
    return f"{said}; after it ranks {','.join(map(str, failure.others))}" if failure.others else said
