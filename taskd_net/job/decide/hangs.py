"""Hangs: whether a job stands still, and which ranks hold it up. Pure.

```
                    a mark                a rank, or all, without a mark for its limit
  not watched ─▶ goes on ◀──────────▶ suspected ─── still so in the next look of every node ─▶ hung
                    ▲  │
                    └──▶ unknown: quiet, and nothing is known to measure it by
```

A rank *marks* a step, the begin or the end of a section. It is *overdue* where it has marked nothing for the limit of
its place in the training. The job stands still where every rank is overdue, because one rank that is not may be the
one that all others wait for. One rank alone stands still where the others do further steps without it.

The *limit* is the user's, else learnt: each place (steps, each section, the time before the first step) has the
lengths of its intervals, and a limit far above the longest. A place in which no interval has ended has none, so a rank
there is never overdue. Nor is one that never marks, or whose script says that it waits.

An age counts as its Agent reported it, so a late report proves no silence. It counts from the begin of the attempt, and
from the first report after a gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.progress import NodeProgress, RankProgress, Seen
from taskd_net.job.decide.laggards import APART_MOST, LISTED_MOST, Described, Guess, Leaders, Place, guess, in_words
from taskd_net.job.decide.plain import UNSTORED
from taskd_net.job.decide.times import Moment, Timer

INFINITY: Final = float("inf")

UNWATCHED: Final = "not watched"
GOES_ON: Final = "goes on"
UNKNOWN: Final = "unknown"
SUSPECTED: Final = "suspected"
HUNG: Final = "hung"
STATES: Final = (UNWATCHED, GOES_ON, UNKNOWN, SUSPECTED, HUNG)
STUCK: Final = (SUSPECTED, HUNG)
"""The states that need attention."""

FLOOR_S: Final = 300.0
"""The least limit that is learnt, in seconds. A script that marks its steps alone is quiet while it evaluates, saves
100 GB to a disk with 400 MB/s, or waits for its loader. It is half of NCCL's ten minutes, after which torch ends the
processes, and the evidence with them."""

TYPICAL_TIMES: Final = 40.0
"""The mean time of a step, times this, is no hang. An evaluation now and then takes 30 steps' time, and is seen for the
first time long after the limit is in use."""

LONGEST_TIMES: Final = 3.0
"""The longest interval, times this, is no hang: a shared disk or a cold cache makes the next one twice as long."""

STALE_S: Final = 5.0
"""Seconds without a look of a node after which its ranks are out of sight. Its Agent sends one each second."""

EVIDENCE_S: Final = 6.0
"""Seconds after a suspicion in which nothing is killed: the Manager collects the stacks of all ranks, for five at most.
"""

EACH_LOOK: Final = 32
"""Nodes up to which each look is judged at once: some 3 ms in a second."""

LOOK_S: Final = 1.0
"""The longest time between two judgements of a larger job, in seconds: the pace of the looks."""

NODE_S: Final = 0.002
"""Seconds between two judgements for each of its nodes: they take some 3 µs for each, so 0.15 % of a core."""

BEATS_S: Final = 3.0
"""Seconds of quiet after which numbers of collectives can be compared: a process counts its own once a second, and its
Agent tells them once a second."""

LASTS_S: Final = 1.5
"""Seconds that an odd state of a process has to last: a look of py-spy stops it for 0.1 s, a page fault for less."""

ONSET_S: Final = 5.0
"""Seconds after the last mark of all in which an odd state explains the quiet, or half of that quiet. A process that
somebody stops or traces later, to look at the hang, is not its cause."""

LIE_S: Final = 300.0
"""Seconds by which an age may grow faster than the clock. Looks that come late in a burst differ by less."""

PLACES_MOST: Final = 64
"""Places of a training whose lengths are kept: a script has some ten sections."""

SETTLED_S: Final = 10.0
"""Seconds of an attempt after which the looks of all nodes tell its size: ten of each node."""

OPEN_MOST: Final = 16
"""Ranks of a node whose present interval is remembered: its Agent describes four at a time."""

STEPS: Final = "steps"
FIRST: Final = "first step"
COLLECTIVES: Final = "collectives"
SECTION: Final = "section "
"""Head of the places that are sections; the others have no name of a script's."""

NETWORK: Final = "no Agent reports any more: the mesh's network, not a hang"
OFF: Final = "switched off by hang_timeout"
RECOVERS: Final = "a recovery is under way"
DONE: Final = "all ranks have done the last step, and have not ended"
ENDING: Final = "the ranks end"
_HELD: Final = (Seen.STOPPED, Seen.TRACED)

UNMARKED: Final = "no rank marks steps, so a hang is reported as unknown, and nothing is done about it"


@dataclass(slots=True)
class Lengths:
    """Intervals between two marks that have ended.

    Args:
        count: of them.
        total: their sum, in seconds.
        longest: of them, in seconds.
    """

    count: int = 0
    total: float = 0.0
    longest: float = 0.0


@dataclass(slots=True)
class Guilty:
    """A rank that holds up the others.

    Args:
        rank, node, pid: the process.
        seen: its state, a value of `base.progress.Seen`.
        words: the reason.
    """

    rank: int = 0
    node: int = 0
    pid: int = 0
    seen: str = ""
    words: str = ""


@dataclass(slots=True)
class Verdict:
    """The state of a job.

    Args:
        state: one of `STATES`.
        since: time of the last mark of the ranks that stand still; 0 without any.
        noticed: time of the suspicion; 0 without one.
        limit: seconds that were exceeded; 0: none.
        words: the reason.
        guilty: the ranks that hold up the others; none: not known.
    """

    state: str = UNWATCHED
    since: Moment = 0.0
    noticed: Timer = 0.0
    limit: float = 0.0
    words: str = ""
    guilty: list[Guilty] = field(default_factory=list)


@dataclass(slots=True)
class _Open:
    """The present interval of a rank, at a look.

    Args:
        at: time of the look.
        place: its place in the training.
        age: seconds without a mark that count.
        rank: the whole of it.
        stepped: it has done a step since its node is watched in this attempt.
    """

    at: Timer
    place: str
    age: float
    rank: RankProgress
    stepped: bool = False


@dataclass(slots=True)
class _Odd:
    """An odd state of a process, and the time at which it began."""

    seen: Seen
    since: Timer


@dataclass(slots=True)
class _Look:
    """The last look of a node.

    Args:
        at: time of its arrival.
        progress: the look.
        heard: time since which the node is heard without a gap; 0: since before this Manager.
        rose: time at which its highest step rose; 0 for never.
        open: intervals under way, by rank.
        odd: processes in an odd state, by rank.
        lies: ranks whose ages cannot be.
    """

    at: Timer
    progress: NodeProgress
    heard: Timer = 0.0
    rose: Timer = 0.0
    open: dict[int, _Open] = field(default_factory=dict)
    odd: dict[int, _Odd] = field(default_factory=dict)
    lies: set[int] = field(default_factory=set)

    @property
    def has_ended(self) -> bool:
        """True where no process is left, of those that its Agent describes."""
        return all(rank.seen is Seen.ENDED for rank in self.progress.slowest)

    @property
    def hides(self) -> bool:
        """True where the Agent does not describe all of its ranks."""
        return self.progress.ranks > len(self.progress.slowest)


@dataclass(frozen=True, slots=True)
class _Standing:
    """A rank that is measured.

    Args:
        rank: it.
        place: its place in the training.
        since: time of its last mark, or from which its quiet counts.
        age: seconds of it.
        limit: of that place; None without one.
    """

    rank: RankProgress
    place: str
    since: float
    age: float
    limit: float | None

    @property
    def is_overdue(self) -> bool:
        return self.limit is not None and self.age > self.limit


@dataclass(slots=True)
class Hangs:
    """The watch over a job.

    Args:
        verdict: the present one.
        going: an attempt is under way: the Manager waits for nothing.
        began: begin of the present attempt; 0 before the first.
        lengths: of intervals, by place.
        world: number of ranks for which those hold; 0 before it is known.
        marks: a rank of the run has marked something.
        known: nodes of the attempt that watch their ranks.
        whole: nodes of which each rank has told something once.
        steps_fell: a rank counts its steps from the beginning again, so that steps cannot be compared.
        groups_fell: time at which the number of collectives of a rank has fallen, with a new group; 0 for never.
        held: time of the last judgement by which a person or a program had stopped a process; 0 for never.
        told: the state that the log has.
        acted: the hang was answered.
        changed: since it was taken out for storing.
        nodes: the last looks, by node.
        judged: time of the last judgement.
        taken: time of the last look.
        listens: time at which this Manager has judged first.
    """

    verdict: Verdict = field(default_factory=Verdict)
    going: bool = False
    began: Timer = 0.0
    lengths: dict[str, Lengths] = field(default_factory=dict)
    world: int = 0
    marks: bool = False
    known: set[int] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)
    steps_fell: bool = False
    groups_fell: Timer = 0.0
    held: Timer = 0.0
    told: str = GOES_ON
    acted: bool = False
    changed: bool = field(default=False, compare=False, metadata=UNSTORED)
    nodes: dict[int, _Look] = field(default_factory=dict, compare=False, metadata=UNSTORED)
    judged: Timer = field(default=0.0, compare=False, metadata=UNSTORED)
    taken: Timer = field(default=0.0, compare=False, metadata=UNSTORED)
    listens: Timer = field(default=0.0, compare=False, metadata=UNSTORED)

    @property
    def wake(self) -> float:
        """Time of a judgement that is due without a further look: no node reports any more."""
        due = self.taken + STALE_S + LOOK_S
        return due if self.taken and self.known and self.judged < due else INFINITY

    def watch(self, now: float, *, going: bool) -> None:
        """Note whether an attempt is under way. Silence before its begin counts for nothing."""
        if going == self.going:
            return
        self.going, self.changed = going, True
        if going:
            self.began, self.acted = now, False
            self.steps_fell, self.groups_fell = False, 0.0
            self.nodes.clear()
            self.known.clear()

    def take(self, now: float, node: int, progress: NodeProgress, timeout: float | None) -> bool:
        """Take a look of a node in, and judge where it is time to.

        Args:
            now: the time.
            node: its rank.
            progress: of its ranks.
            timeout: the user's limit in seconds; 0: nothing is watched; None: it is learnt.

        Returns:
            True where the verdict is another one.
        """
        look, before = _Look(now, progress), self.nodes.get(node)
        self.nodes[node], self.taken = look, now
        if before is not None:
            look.heard = now if now - before.at > STALE_S else before.heard
            risen = (progress.highest or 0) > (before.progress.highest or 0)
            look.rose = now if risen else before.rose
        self._learn(look, before)
        if progress.watched and node not in self.known:
            self.known.add(node)
            self.changed = True
        if progress.watched == progress.ranks > 0 and node not in self.whole:
            self.whole.add(node)
            self.changed = True
        if progress.marked is not None and not self.marks:
            self.marks = self.changed = True
        if len(self.nodes) > EACH_LOOK and now < self.judged + min(LOOK_S, NODE_S * len(self.nodes)):
            return False
        return self.look(now, timeout)

    def look(self, now: float, timeout: float | None) -> bool:
        """Judge; see `take`."""
        self.listens, self.judged = self.listens or now, now
        judged, before = self._judge(now, timeout), self.verdict
        if judged is before:
            return False
        if judged.state == SUSPECTED:
            if before.state in STUCK and judged.since <= before.noticed:
                judged.since, judged.noticed = before.since, before.noticed
                confirmed = all(self.nodes[node].at > before.noticed for node in self.known)
                judged.state = HUNG if before.state == HUNG or confirmed else SUSPECTED
            else:
                judged.noticed = now
        elif (judged.state, judged.words) == (before.state, before.words):
            judged.since = before.since
        if judged.state in STUCK and any(each.seen in _HELD for each in judged.guilty):
            self.held, self.changed = now, True
        if judged == before:
            return False
        self.verdict, self.changed = judged, True
        return True

    def news(self) -> str:
        """The event for the log since the last call; empty for none."""
        state = self.verdict.state if self.verdict.state in STUCK else GOES_ON
        if state == self.told:
            return ""
        self.told, self.changed = state, True
        return {SUSPECTED: "hang_suspected", HUNG: "hang_found"}.get(state, "hang_over")

    def stands(self, now: float) -> float:
        """Seconds for which the job has been hung; 0 while it is not."""
        return max(0.0, now - self.verdict.since) if self.verdict.state == HUNG else 0.0

    def _learn(self, look: _Look, before: _Look | None) -> None:
        """Note intervals that have ended, and the states of processes."""
        opened = {} if before is None else before.open
        first = None
        for rank in look.progress.slowest:
            if first is not None and _is_alike(rank, first):
                opened.pop(rank.rank, None)
                continue  # it waits for the same, as most ranks do
            first = first or rank
            place, age = self._quiet(look, rank)
            if before is None or (known := opened.pop(rank.rank, None)) is None:
                look.open[rank.rank] = _Open(look.at, place, age, rank)
            else:
                self._compare(look, before, known, _Open(look.at, place, age, rank, known.stepped))
            if rank.seen is not Seen.RUNS:
                odd = None if before is None else before.odd.get(rank.rank)
                look.odd[rank.rank] = odd if odd is not None and odd.seen is rank.seen else _Odd(rank.seen, look.at)
        lowest = look.progress.lowest
        for number, was in opened.items():
            if lowest is not None and was.rank.step is not None and was.rank.step < lowest:
                self._ended(was.place, was.at, was.age)
            elif len(look.open) < OPEN_MOST:
                look.open[number] = was

    def _compare(self, look: _Look, before: _Look, was: _Open, now: _Open) -> None:
        """Draw the conclusions from two looks at one rank."""
        rank, old = now.rank, was.rank
        look.open[rank.rank] = now
        if rank.step != old.step:
            self._ended(was.place, was.at, was.age)
            if was.stepped and rank.step is not None and old.step is not None and rank.step < old.step:
                self.steps_fell = self.changed = True
            now.stepped = True
        elif now.age < was.age or now.place != was.place:
            self._ended(was.place, was.at, was.age)
        elif now.age > was.age + (now.at - was.at) + LIE_S or rank.rank in before.lies:
            look.lies.add(rank.rank)
        if rank.group == old.group or rank.group is None or old.group is None or old.moved is None:
            return
        if rank.group < old.group:
            self.groups_fell, self.changed = look.at, True
        self._ended(COLLECTIVES, was.at, min(old.moved, was.at - self.began))

    def _ended(self, place: str, at: float, seconds: float) -> None:
        """An interval in a place has ended. One in which somebody has stopped a process tells nothing of the next."""
        was_held = at - seconds <= self.held
        if not self.going or was_held or (place not in self.lengths and len(self.lengths) >= PLACES_MOST):
            return
        lengths = self.lengths.setdefault(place, Lengths())
        lengths.count += 1
        lengths.total += seconds
        lengths.longest = max(lengths.longest, seconds)
        self.changed = True

    def _quiet(self, look: _Look, rank: RankProgress) -> tuple[str, float]:
        """The place of a rank in the training, and the seconds without a mark that count."""
        attempt, most = look.at - self.began, look.at - max(self.began, look.heard)
        if rank.marked is None or rank.marked > attempt:
            return FIRST, most
        place = FIRST if rank.step is None else STEPS
        return SECTION + rank.section if rank.section else place, min(rank.marked, most)

    def limit(self, place: str, timeout: float | None) -> float | None:
        """Seconds without a mark in a place that are a hang; None: not known."""
        lengths = self.lengths.get(place)
        if timeout and place != FIRST:
            return timeout
        if lengths is None:
            return None
        typical = TYPICAL_TIMES * lengths.total / lengths.count if place in (STEPS, COLLECTIVES) else 0.0
        return max(timeout or FLOOR_S, typical, LONGEST_TIMES * lengths.longest)

    def _judge(self, now: float, timeout: float | None) -> Verdict:
        if timeout == 0.0:
            return Verdict(words=OFF)
        if not self.known:
            return Verdict()
        if not self.going:
            return Verdict(GOES_ON, words=RECOVERS)
        missing = self.known - self.nodes.keys()
        if missing and now - self.listens <= STALE_S:
            return self.verdict  # this Manager has just begun
        looks = {node: self.nodes[node] for node in sorted(self.known - missing)}
        silent = {node for node, look in looks.items() if now - look.at > STALE_S and not look.has_ended} | missing
        if silent == self.known:
            return Verdict(UNKNOWN, words=NETWORK)
        if silent:
            named = ", ".join(map(str, sorted(silent)[:OPEN_MOST]))
            return Verdict(UNKNOWN, words=f"node {named} is out of sight: its Agent does not report")
        self._note_world(now, looks)
        return self._judge_ranks(looks, timeout)

    def _note_world(self, now: float, looks: dict[int, _Look]) -> None:
        """Learn again where the number of ranks has changed: their steps take another time."""
        world = sum(look.progress.ranks for look in looks.values())
        if world != self.world and now - self.began >= SETTLED_S:
            if self.world:
                self.lengths.clear()
            self.world, self.changed = world, True

    def _judge_ranks(self, looks: dict[int, _Look], timeout: float | None) -> Verdict:
        """Judge where every node is in sight."""
        if not self.marks:
            return self._judge_unmarked(looks, timeout)
        standing, goes_on = self._standing(looks, timeout)
        overdue = [each for each in standing if each.is_overdue]
        quiet = [each for each in standing if each.limit is None and each.age > (timeout or FLOOR_S)]
        if goes_on or len(overdue) + len(quiet) < len(standing):
            return self._judge_alone(looks, [each for each in overdue if self._is_left(each, looks)])
        if not standing:
            return Verdict(GOES_ON, words=ENDING)
        since = max(each.since for each in standing)
        if self._is_done(looks):
            return Verdict(UNKNOWN, since, words=DONE)
        if quiet:
            first = min(quiet, key=lambda each: each.rank.rank)
            where = first.place if first.place in (STEPS, FIRST) else f"the {first.place}"
            words = f"rank {first.rank.rank} is quiet at {where}, for longer than anything that is known of it"
            return Verdict(UNKNOWN, since, words=words)
        found = self._guess(looks, since)
        if found.ends:
            return Verdict(UNKNOWN, since, words=found.words)
        limit = max(each.limit or 0.0 for each in overdue)
        words = found.words or "no rank has marked anything for longer than its limit"
        return Verdict(SUSPECTED, since, limit=limit, words=words, guilty=_guilty(found.guilty))

    def _is_done(self, looks: dict[int, _Look]) -> bool:
        """True where each rank that marks steps has done the last one."""
        of = max((look.progress.of for look in looks.values() if look.progress.of is not None), default=None)
        steps = [look.progress.lowest for look in looks.values() if look.progress.lowest is not None]
        return of is not None and min(steps, default=0) >= of

    def _judge_alone(self, looks: dict[int, _Look], left: list[_Standing]) -> Verdict:
        """Judge where some ranks go on, and have left others behind."""
        if not left:
            return Verdict(GOES_ON)
        since, limit = max(each.since for each in left), max(each.limit or 0.0 for each in left)
        alone = {each.rank.rank for each in left}
        highest = max(look.progress.highest or 0 for look in looks.values())
        described = [each for each in self._described(looks, since) if each.rank.rank in alone][:LISTED_MOST]
        guilty = [
            (
                each,
                in_words(
                    each, Place(f"it stands still at step {each.rank.step}, and others have gone on to {highest}")
                ),
            )
            for each in described
        ]
        words = "some ranks go on without others"
        return Verdict(SUSPECTED, since, limit=limit, words=words, guilty=_guilty(guilty))

    def _standing(self, looks: dict[int, _Look], timeout: float | None) -> tuple[list[_Standing], bool]:
        """The ranks that are measured, and whether one that is not described goes on, or waits."""
        begun = [look for look in looks.values() if _marked(look) <= look.at - self.began]
        standing, goes_on = list[_Standing](), False
        for look in looks.values():
            for rank in look.progress.slowest:
                if rank.seen in (Seen.ENDED, Seen.ABSENT) or (begun and rank.marked is None):
                    continue
                goes_on = goes_on or rank.waits
                place, age = self._quiet(look, rank)
                limit = None if rank.rank in look.lies else self.limit(place, timeout)
                standing.append(_Standing(rank, place, look.at - age, age, limit))
            if look.hides and begun:
                # The others of this node are ahead, and outside of sections as far as anybody knows.
                age = min(_marked(look), look.at - max(self.began, look.heard))
                goes_on = goes_on or age <= (self.limit(STEPS, timeout) or timeout or FLOOR_S)
        return standing, goes_on

    def _is_left(self, standing: _Standing, looks: dict[int, _Look]) -> bool:
        """True where others have done two steps more, and the last one of them lately."""
        step = standing.rank.step
        if step is None or self.steps_fell:
            return False
        return any(
            2 <= (look.progress.highest or 0) - step <= APART_MOST
            and look.rose > 0.0
            and look.at - look.rose < standing.age / 2
            for look in looks.values()
        )

    def _judge_unmarked(self, looks: dict[int, _Look], timeout: float | None) -> Verdict:
        """Judge ranks by torch's collectives alone: nothing is done about their hang."""
        limit = self.limit(COLLECTIVES, timeout) or FLOOR_S
        moments = [
            max(look.at - rank.moved, self.began, look.heard)
            for look in looks.values()
            for rank in look.progress.slowest
            if rank.moved is not None
        ]
        if not moments:
            return Verdict(UNKNOWN, words=UNMARKED)
        since, at = max(moments), min(look.at for look in looks.values())
        if at - since <= limit:
            return Verdict(GOES_ON, words=UNMARKED)
        found = self._guess(looks, since)
        return Verdict(UNKNOWN, since, limit=limit, words=UNMARKED, guilty=_guilty(found.guilty))

    def _guess(self, looks: dict[int, _Look], since: float) -> Guess:
        """Guess the ranks that hold up the others."""
        return guess(self._described(looks, since), self._leaders(looks, since))

    def _described(self, looks: dict[int, _Look], since: float) -> list[Described]:
        named = {each.rank for each in self.verdict.guilty}
        return [
            Described(node, rank, _is_odd(look, rank, since, known=rank.rank in named), node in self.whole)
            for node, look in looks.items()
            for rank in look.progress.slowest
            if not rank.waits
        ]

    def _leaders(self, looks: dict[int, _Look], since: float) -> Leaders:
        """The ranks in front, with the numbers that may be compared."""
        is_fresh = min(look.at for look in looks.values()) - since >= BEATS_S
        steps = [look.progress.highest for look in looks.values() if look.progress.highest is not None]
        groups = [look.progress.high_group for look in looks.values() if look.progress.high_group is not None]
        again = all(
            rank.moved is not None and look.at - rank.moved > self.groups_fell
            for look in looks.values()
            for rank in look.progress.slowest
        )
        ranks = sum(look.progress.ranks for look in looks.values())
        return Leaders(
            None if self.steps_fell else max(steps, default=None),
            max(groups, default=None) if is_fresh and (again or not self.groups_fell) else None,
            ranks,
            [node for node, look in looks.items() if look.hides],
        )


def _marked(look: _Look) -> float:
    """Seconds since the last mark of a node; infinity without any."""
    return INFINITY if look.progress.marked is None else look.progress.marked


def _is_alike(rank: RankProgress, other: RankProgress) -> bool:
    """True where two ranks are at the same place, and both processes run."""
    if rank.step != other.step or rank.group != other.group or rank.section != other.section:
        return False
    if rank.marked is None or other.marked is None:
        return False
    return rank.seen is other.seen is Seen.RUNS and abs(rank.marked - other.marked) < LOOK_S


def _is_odd(look: _Look, rank: RankProgress, since: float, *, known: bool) -> bool:
    """True where the odd state of a process explains the quiet since then, or was `known` to do so."""
    if rank.seen in (Seen.RUNS, Seen.ENDED, Seen.ABSENT):
        return rank.seen is not Seen.RUNS
    began = look.odd[rank.rank].since
    return known or (look.at - began >= LASTS_S and began - since <= max(ONSET_S, (look.at - since) / 2))


def _guilty(found: Iterable[tuple[Described, str]]) -> list[Guilty]:
    return [Guilty(each.rank.rank, each.node, each.rank.pid, each.rank.seen.value, words) for each, words in found]
