"""A training as the Manager's watch over hangs sees it: ranks that mark, and looks of their nodes once a second."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from taskd_net.base.progress import NodeProgress, RankProgress, Seen, furthest_behind, read_progress, write_progress
from taskd_net.base.untrusted import json_value
from taskd_net.job.decide.hangs import STUCK, Hangs, Verdict
from taskd_net.job.decide.plain import from_plain, to_text


@dataclass
class Rank:
    """A rank, with the times of its last mark and of its last collective."""

    number: int
    marked: float | None = None
    moved: float | None = None
    step: int | None = None
    group: int | None = None
    section: str = ""
    waits: bool = False
    seen: Seen = Seen.RUNS


class Training:
    """A training, and the watch over it.

    Args:
        nodes, processes: its size.
        timeout: the user's limit.
        marks: the script marks its steps.
    """

    def __init__(self, nodes: int = 2, processes: int = 2, timeout: float | None = None, *, marks: bool = True) -> None:
        self.timeout, self.marks, self.processes = timeout, marks, processes
        self.now = 1000.0
        self.hangs = Hangs()
        self.ranks = [Rank(number) for number in range(nodes * processes)]
        self.silent: set[int] = set()
        """Nodes whose looks do not arrive."""
        self.history = list[tuple[float, Verdict]]()
        self.of: int | None = None
        """The last step, where the script says it."""
        self.lines = list[str]()
        """A transcript: the second, and the verdict that came then."""
        self.hangs.watch(self.now, going=True)

    @property
    def nodes(self) -> range:
        return range(len(self.ranks) // self.processes)

    @property
    def verdict(self) -> Verdict:
        return self.hangs.verdict

    @property
    def named(self) -> list[int]:
        return [each.rank for each in self.verdict.guilty]

    @property
    def when(self) -> dict[str, float]:
        """Seconds from 1000 on at which each state was entered first."""
        return {verdict.state: at - 1000.0 for at, verdict in reversed(self.history)}

    def say(self, words: str) -> None:
        """Add a heading to the transcript."""
        self.lines.append(f"# {words}")

    def _note(self) -> None:
        verdict = self.verdict
        self.history.append((self.now, verdict))
        limit = f", limit {verdict.limit:.0f} s" if verdict.limit else ""
        since = f", since {verdict.since - 1000.0:.0f}" if verdict.since else ""
        words = f": {verdict.words}" if verdict.words else ""
        self.lines.append(f"{self.now - 1000.0:5.0f}  {verdict.state}{limit}{since}{words}")
        self.lines += [f"       rank {each.rank} of node {each.node}: {each.words}" for each in verdict.guilty]

    def all(self, *but: int) -> list[int]:
        return [rank.number for rank in self.ranks if rank.number not in but]

    def enter(self, *ranks: int, now: float | None = None) -> None:
        """Ranks enter the next collective."""
        for number in ranks or self.all():
            rank = self.ranks[number]
            rank.group, rank.moved = (rank.group or 0) + 1, self.now if now is None else now

    def step(self, *ranks: int, now: float | None = None) -> None:
        """Ranks do a step with a collective in it."""
        self.enter(*ranks, now=now)
        for number in ranks or self.all():
            rank = self.ranks[number]
            if self.marks:
                rank.step, rank.marked = (rank.step or 0) + 1, self.now if now is None else now

    def section(self, name: str, *ranks: int) -> None:
        """Ranks enter a section, or leave it where it has no name."""
        for number in ranks or self.all():
            self.ranks[number].section, self.ranks[number].marked = name, self.now

    def progress(self, node: int) -> NodeProgress:
        """The look of a node, as it arrives."""
        ranks = [self._told(each) for each in self.ranks[node * self.processes : (node + 1) * self.processes]]
        marked = [each.marked for each in ranks if each.marked is not None]
        steps = [each.step for each in ranks if each.step is not None]
        groups = [each.group for each in ranks if each.group is not None]
        found = read_progress(
            write_progress(
                NodeProgress(
                    ranks=len(ranks),
                    watched=len(ranks),
                    marking=len(steps),
                    lowest=min(steps, default=None),
                    highest=max(steps, default=None),
                    low_group=min(groups, default=None),
                    high_group=max(groups, default=None),
                    marked=min(marked, default=None),
                    slowest=furthest_behind(ranks),
                    of=self.of,
                )
            )
        )
        assert found is not None
        return found

    def _told(self, rank: Rank) -> RankProgress:
        ages = (None if at is None else self.now - at for at in (rank.marked, rank.moved))
        marked, moved = ages
        return RankProgress(
            rank.number, 100 + rank.number, rank.seen, rank.step, rank.group, rank.section, rank.waits, marked, moved
        )

    def look(self, *nodes: int) -> None:
        """Looks of nodes arrive."""
        for node in nodes or self.nodes:
            if node not in self.silent and self.hangs.take(self.now, node, self.progress(node), self.timeout):
                self._note()

    def pass_by(self, seconds: float) -> None:
        """Some time passes, with a look of each node in each second."""
        for _ in range(round(seconds)):
            self.now += 1.0
            self.look()

    def steps(self, count: int, every: float = 1.0) -> None:
        """All ranks do steps."""
        for _ in range(count):
            end = self.now + every
            while self.now + 1.0 < end:
                self.pass_by(1)
            self.now = end
            self.step()
            self.look()

    def quiet(self) -> None:
        """The tick that is due where no node reports any more."""
        self.now = max(self.now, self.hangs.wake)
        if self.hangs.look(self.now, self.timeout):
            self._note()

    def again(self) -> None:
        """The Manager is killed, and the next one goes on from the stored state."""
        self.hangs = from_plain(Hangs, json_value(to_text(self.hangs)), "hangs")

    def recover(self, seconds: float, ranks: Iterable[int] = ()) -> None:
        """A recovery takes some time, in which some ranks, or all, are replaced."""
        self.hangs.watch(self.now, going=False)
        self.hangs.look(self.now, self.timeout)
        for number in ranks or self.all():
            self.ranks[number] = Rank(number)
        self.now += seconds
        self.hangs.watch(self.now, going=True)


def is_stuck(verdict: Verdict) -> bool:
    """True for a verdict that needs attention."""
    return verdict.state in STUCK
