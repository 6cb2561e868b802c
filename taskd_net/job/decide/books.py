"""Books of a run: its wall time by account, the phases of each recovery, and the steps that it has done. Pure.

The time that passes goes to one account, the *stage* of the run:

```
  NODES ─ all are there ─▶ START ─ a process has begun ─▶ STEPS ◀───────────────────────────────┐
                                                          │  ▲ a failure                        │ a step is done
                                    HANG ◀── it stands ───┤  └─ DECIDED ─ answered ─▶ RESTARTED ─▶ JOINED ─▶ LOADED
                                                          │         └─── a node is away: NODES ───┘
                                                          └─ the run ends
```

In the stage STEPS the time is *open*: the nodes tell later what they have spent it on. A node's seconds of each class
are cumulative since its Agent began, so a lost report loses nothing. The job has a clock for each class: the node that
is furthest ahead moves it, since a training waits for its slowest rank. A node that follows within two looks moves
nothing: it tells of the same seconds. `_divide` gives the open time to the classes, never more than there is, and
STEPS gets the rest.

Often a stage has ended before it is known: a process says when it has begun, and a failed one when it has failed. Then
time moves from one account to another. So the sum of all accounts is the wall time, in whole microseconds.

A step of the clock moves `at` (`clock_moves`), so it invents no time. The time in which a Manager was away is time: it
goes to the stage in which the Manager was lost, and the nodes tell what they have done then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from taskd_net.base.progress import Account, NodeProgress, Spent
from taskd_net.job.decide.failures import JobFailure, JobFailures
from taskd_net.job.decide.plain import UNSTORED
from taskd_net.job.decide.records import Records
from taskd_net.job.decide.times import Moment

LOOK_S: Final = 2.0
"""Seconds of training that are divided together: each node has told of them once, whatever the order of reports."""

CARRY_S: Final = 1.0
"""Seconds of a class that one look may leave to the next: reports of a node come a second apart, and bring a second."""

UNSEEN_S: Final = 5.0
"""Seconds of training that no node has told of, and that count as steps all the same: its reports are on their way."""

AWAY_S: Final = 3.0
"""Seconds of silence after which a node that the others wait for is away. Before, it ends its processes."""

LATE_S: Final = 60.0
"""Seconds by which a failure of ranks that mark no steps may be older than its report: the clock of their host may be
wrong. Ranks with steps are believed back to their last one."""

STORE_S: Final = 10.0
"""Seconds after which the books are stored again without an event: a Manager that is lost finds the rest at the
nodes."""

_US: Final = 1_000_000
_RECOVERY: Final = (Account.DECIDED, Account.RESTARTED, Account.JOINED, Account.LOADED)
_PHASES: Final = (Account.NOTICED, Account.NODES, *_RECOVERY)
_PROCESSES: Final = (Account.RESTARTED, Account.JOINED, Account.LOADED)
_TRAINS: Final = (Account.STEPS, Account.HANG)
_WORK: Final = (Spent.STEPS, Spent.AGAIN)
_STEPPING: Final = (Account.STEPS, Account.AGAIN)
_PACE: Final = (Account.STEPS, Account.AGAIN, Account.DATA, Account.SAVE, Account.EVALUATION, Account.OTHER)


@dataclass(slots=True)
class NodeBook:
    """A node, as its Agent has told it last. Times are in microseconds.

    Args:
        birth: of the Agent's record; another Agent counts from the beginning.
        heard: wall time of the run at its last KEEP_ALIVE.
        spent: by class, since the Agent began.
        place: on the job's clock of each class.
        steps, again: since the Agent began.
        done, redone: steps in this run, and those of them that the job had done before.
        begun: wall time at which its processes began in this recovery, or had joined without a start; 0 before.
        rest, load, repeats: time in all but steps, in loading, and in steps done again since then.
        joined: its ranks have a group of torch's since then.
        watched: its ranks have told something, in this run.
        due: its next report is about the recovery.
    """

    birth: int = 0
    heard: int = 0
    spent: dict[str, int] = field(default_factory=dict)
    place: dict[str, int] = field(default_factory=dict)
    steps: int = 0
    again: int = 0
    done: int = 0
    redone: int = 0
    begun: int = 0
    rest: int = 0
    load: int = 0
    repeats: int = 0
    joined: bool = False
    watched: bool = False
    due: bool = False

    def restarts(self, begun: int = 0) -> None:
        """Forget the processes of before; the next ones begin."""
        self.begun, self.rest, self.load, self.repeats, self.joined = begun, 0, 0, 0, False


@dataclass(slots=True)
class Books:
    """The books of a run. Times are in microseconds.

    Args:
        at: time up to which the books go.
        stage: account of the time that passes; empty without a run.
        spent: by account.
        open: training that is not divided yet.
        told: by class, of the open time: the moves of the job's clocks.
        clock: of the job, by class.
        floor: the same at the look before the last one: the least place of a node.
        next_floor: the same at the last look.
        recent: by account, what the present stage has got; of STEPS, since the last look at which a step was done.
        before: the same, of the stretch before.
        nodes: by rank.
        whole: the run was seen from its beginning, so Agents have told nothing before.
        failure: number of the last failure that was seen.
        recovers: its recovery is under way.
        phases: of that recovery, by account.
        awaited: nodes whose processes start in it.
        began: begin of the present attempt, as `JobFailures` has it.
        marks: a rank has marked something, in this run.
        unmarked: the part of START before.
        highest: the highest step that the job has done; None without one.
        current: the last step of the present attempt.
        of: number of the last step of the training; None: not known.
        done, redone: steps in this run, and those of them that it had done before.
        done_before, redone_before: the same at the begin of the attempt.
        done_then: `done` at the last look.
        stored: wall time when they were taken out for storing.
        changed: since then, by more than time.
    """

    at: Moment = 0.0
    stage: str = ""
    spent: dict[str, int] = field(default_factory=dict)
    open: int = 0
    told: dict[str, int] = field(default_factory=dict)
    clock: dict[str, int] = field(default_factory=dict)
    floor: dict[str, int] = field(default_factory=dict)
    next_floor: dict[str, int] = field(default_factory=dict)
    recent: dict[str, int] = field(default_factory=dict)
    before: dict[str, int] = field(default_factory=dict)
    nodes: dict[int, NodeBook] = field(default_factory=dict)
    whole: bool = False
    failure: int = 0
    recovers: bool = False
    phases: dict[str, int] = field(default_factory=dict)
    awaited: set[int] = field(default_factory=set)
    began: Moment = 0.0
    marks: bool = False
    unmarked: int = 0
    highest: int | None = None
    current: int | None = None
    of: int | None = None
    done: int = 0
    redone: int = 0
    done_before: int = 0
    redone_before: int = 0
    done_then: int = 0
    stored: int = field(default=0, compare=False, metadata=UNSTORED)
    changed: bool = field(default=False, compare=False, metadata=UNSTORED)

    @property
    def wall(self) -> int:
        """The wall time of the run, in microseconds: that of all accounts."""
        return sum(self.spent.values()) + self.open

    def look(
        self, now: float, stage: Account | None, failures: JobFailures, *, joined: bool, hung: float = 0.0
    ) -> None:
        """Go on to the present, and take in what the Manager knows.

        Args:
            now: the time.
            stage: the Manager's own view (`stage_of`).
            failures: of the run; a recovery that is over gets its phases.
            joined: all ranks are in their epoch.
            hung: seconds for which the job has been standing; 0 while it goes on.
        """
        if not self.stage and stage is not None:
            self._begin(now, stage, failures)
            return
        self._pass(now)
        failure = failures.open
        self.failure = min(self.failure, failures.count)  # those of the next run begin with 1
        if failure is not None and failure.number > self.failure:
            self._fails(now, failure, failures)
        if failures.began != self.began:
            self.began = failures.began
            self.done_before, self.redone_before = self.done, self.redone
        if stage is None:
            if self.stage:
                self._hand_over(failures, stepped=False)
                self._enter("")
            return
        refined = self._refined(stage, hung=hung > 0.0)
        if refined == Account.HANG and self.stage == Account.STEPS:
            self._divide()
            self._take_back(round(hung * _US), Account.HANG)
        self._enter(refined)
        if joined and self.stage in (Account.RESTARTED, Account.JOINED):
            self._enter(Account.LOADED)
            self._end_unmarked(failures)

    def awaits(self, node: int) -> None:
        """The processes of a node start, or start again."""
        self.awaited.add(node)
        if node in self.nodes:
            self.nodes[node].restarts()

    def report(
        self, now: float, node: int, birth: int, progress: NodeProgress | None, failures: JobFailures, *, runs: bool
    ) -> None:
        """An Agent tells of its node.

        Args:
            now: the time.
            node: its rank.
            birth: of the Agent's record.
            progress: of the node's ranks; None where the Agent says none.
            failures: of the run; a recovery that is over gets its phases.
            runs: its processes run in the present attempt, as far as its Agent says it otherwise.
        """
        if not self.stage:
            return
        self._pass(now)
        known = self.nodes.get(node)
        if known is None:
            known = self.nodes[node] = NodeBook(birth)
            if not self.whole and progress is not None:
                known.spent, known.steps, known.again = _spent_of(progress), progress.steps, progress.again
        elif known.birth != birth:
            self.nodes[node] = known = NodeBook(
                birth,
                place=known.place,
                watched=known.watched,
                done=max(known.done, self.done_before),
                redone=max(known.redone, self.redone_before),
            )
        known.heard = self.wall
        if progress is None:
            self._follow(known, node, {}, (0, 0), failures, runs=runs)
            return
        self.marks = self.marks or progress.marked is not None or progress.marking > 0
        self.unmarked = 0 if self.marks else self.unmarked
        spent = _spent_of(progress)
        # A counter that goes back has lied: it counts again where it is beyond what it has said before.
        more = {name: us - known.spent.get(name, 0) for name, us in spent.items() if us > known.spent.get(name, 0)}
        known.spent = {**known.spent, **{name: spent[name] for name in more}}
        known.watched = known.watched or progress.watched > 0
        steps, again = max(0, progress.steps - known.steps), max(0, progress.again - known.again)
        known.steps, known.again = known.steps + steps, known.again + again
        known.done, known.redone = known.done + steps, known.redone + again
        self.done, self.redone = max(self.done, known.done), max(self.redone, known.redone)
        if progress.highest is not None:
            self.highest = max(progress.highest, self.highest or 0)
            self.current = progress.highest
        self.of = self.of if progress.of is None else progress.of
        if self.stage == Account.STEPS:
            self._count(known, more)
        elif self.stage == Account.HANG:
            if steps:  # since its last report, each as long as those of this run
                stepping = sum(self.spent.get(each, 0) for each in _STEPPING)
                self._enter(Account.STEPS, steps * stepping // max(1, self.done - steps))
        else:
            if known.begun:
                known.joined = known.joined or progress.low_group is not None
            self._follow(known, node, more, (steps, again), failures, runs=runs and Spent.START not in known.spent)
        if self.stage == Account.STEPS and self.open >= LOOK_S * _US:
            self._divide()

    def clock_moves(self, by: float) -> None:
        """The clock has stepped."""
        self.at += by if self.stage else 0.0

    def take_out(self) -> bool:
        """True where they are to be stored: after an event, or some time."""
        if not self.changed and self.wall - self.stored < STORE_S * _US:
            return False
        self.changed, self.stored = False, self.wall
        return True

    def seconds(self, now: float) -> dict[Account, float]:
        """Seconds by account, of all that have some, for people. Steps of ranks that mark none are unknown."""
        spent, passed, unmarked = dict(self.spent), self._since(now), self.unmarked
        if self.stage == Account.STEPS:
            shares = _shares(self.open + passed, self.told)
            unmarked += 0 if self.marks else shares.get(Account.START, 0)
            _add(spent, shares)
        elif self.stage:
            _add(spent, {self.stage: passed})
        unknown = spent.pop(Account.STEPS, 0) if self.highest is None else 0
        unmarked = min(unmarked, spent.get(Account.START, 0))
        _add(spent, {Account.START: -unmarked, Account.UNKNOWN: unknown + unmarked})
        return {each: spent[each] / _US for each in Account if spent.get(each)}

    def seconds_of_recovery(self, now: float, number: int) -> dict[str, float]:
        """Seconds by phase, of the recovery under way from a failure; nothing for one that is over."""
        if not self.recovers or number != self.failure:
            return {}
        phases = dict(self.phases)
        _add(phases, {self.stage: self._since(now)})
        return _in_seconds(phases)

    def seconds_left(self, now: float) -> float | None:
        """Seconds until the last step, at the pace of this run; None where it is not known."""
        if self.stage != Account.STEPS or self.of is None or self.current is None or not self.done:
            return None
        spent = self.seconds(now)
        trained = sum(spent.get(each, 0.0) for each in _PACE)
        return max(0, self.of - self.current) * trained / self.done

    def _begin(self, now: float, stage: Account, failures: JobFailures) -> None:
        """A run begins, or is seen first."""
        for name, value in _empty().items():
            setattr(self, name, value)
        self.at, self.stage, self.changed = now, stage, True
        self.whole = stage in (Account.NODES, Account.START)
        # One that has ended the run before may be open still.
        noticed = self.whole or failures.open is None
        self.failure, self.began = failures.count if noticed else failures.count - 1, failures.began

    def _since(self, now: float) -> int:
        return max(0, round(now * _US) - round(self.at * _US)) if self.stage else 0

    def _pass(self, now: float) -> None:
        """The time up to now goes to the stage."""
        passed = self._since(now)
        if not passed:
            return
        self.at = now
        if self.stage == Account.STEPS:
            self.open += passed
        else:
            self._give({self.stage: passed})

    def _give(self, amounts: Mapping[str, int]) -> None:
        _add(self.spent, amounts)
        _add(self.recent, amounts)
        if self.recovers:
            _add(self.phases, {each: us for each, us in amounts.items() if each in _PHASES})

    def _enter(self, stage: str, ago: int = 0) -> None:
        """Another stage begins, some time ago: at most as long as the present one has lasted."""
        if stage == self.stage:
            return
        self._divide()
        back = max(0, min(ago, self.recent.get(self.stage, 0)))
        self._give({self.stage: -back} if back else {})
        self.stage, self.recent, self.before, self.changed = stage, {}, {}, True
        if stage == Account.STEPS:
            self.open, self.told = back, {}
            self.floor, self.next_floor = dict(self.clock), dict(self.clock)
            self.awaited.clear()
        else:
            self._give({stage: back} if back else {})
        for each in self.nodes.values() if stage == Account.LOADED else ():
            if not each.begun:
                each.restarts(self.wall)  # it has kept its processes

    def _refined(self, stage: Account, *, hung: bool) -> str:
        """The stage after what the nodes have told, which the Manager does not know."""
        own = self.stage
        if stage in (Account.DECIDED, Account.RESTARTED) and not self.recovers:
            stage = Account.STEPS  # the ranks train again; its failure is open until the next one
        if stage == Account.START and own in _TRAINS:
            stage = Account.STEPS
        if stage == Account.RESTARTED and own in _PROCESSES:
            return own
        if stage != Account.STEPS:
            return stage
        if own in _TRAINS:
            return Account.HANG if hung else Account.STEPS
        if self.recovers:
            return own if own in _PROCESSES else Account.RESTARTED
        return Account.START

    def _fails(self, now: float, failure: JobFailure, failures: JobFailures) -> None:
        """A failure is noticed, some time after it has occurred."""
        self._hand_over(failures, stepped=False)
        self._divide()
        if failure.ranks:
            late = round((now - failure.first.at_ns / 1e9) * _US)
            if self.highest is None:
                late = min(late, round(LATE_S * _US))
        else:
            heard = [self.nodes[node].heard for node in failure.lost if node in self.nodes]
            late = self.wall - min(heard, default=self.wall)
        self.failure, self.recovers, self.phases = failure.number, True, {}
        self._take_back(late, Account.NOTICED)
        self._enter(Account.DECIDED)
        self.awaited.clear()
        for each in self.nodes.values():
            each.restarts()

    def _take_back(self, us: int, account: Account) -> None:
        """Move the last time of training, or of the present stage, to another account."""
        for source in (self.recent, self.before):
            for each in sorted(source, key=lambda name: (name != Account.STEPS, -source[name])):
                moved = min(us, source[each])
                if moved > 0:
                    source[each] -= moved
                    us -= moved
                    _add(self.spent, {each: -moved, account: moved})
                    if self.recovers:
                        _add(self.phases, {account: moved})

    def _count(self, known: NodeBook, more: Mapping[str, int]) -> None:
        """Move the job's clocks by what a node has spent since its last report."""
        if known.due:  # ranks that kept their processes book the wait as a step
            known.due = False
            return
        for name, us in more.items():
            place = max(known.place.get(name, 0), self.floor.get(name, 0)) + us
            known.place[name] = place
            ahead = place - self.clock.get(name, 0)
            if ahead > 0:
                self.clock[name] = place
                self.told[name] = self.told.get(name, 0) + ahead

    def _charge(self, known: NodeBook, told: Mapping[str, int], more: Mapping[str, int]) -> None:
        """Begin the open time with what one node has told of it. The others tell of the same seconds next."""
        self.told = dict(told)
        for name, us in {**more, **told}.items():
            known.place[name] = self.clock[name] = self.clock.get(name, 0) + us

    def _divide(self) -> None:
        """Give the open time to the accounts."""
        if not self.open:
            return
        shares = _shares(self.open, self.told)
        most = self.open + round(CARRY_S * _US)
        self.told = {
            name: min(us, most) - self.open for name, us in self.told.items() if us > self.open and name != Spent.STEPS
        }
        self.open, self.floor, self.next_floor = 0, self.next_floor, dict(self.clock)
        if not self.marks:
            self.unmarked += shares.get(Account.START, 0)
        if self.done > self.done_then:
            self.done_then, self.before, self.recent = self.done, self.recent, {}
        self._give(shares)

    def _follow(
        self,
        known: NodeBook,
        node: int,
        more: Mapping[str, int],
        steps: tuple[int, int],
        failures: JobFailures,
        *,
        runs: bool,
    ) -> None:
        """Follow the processes of a node from their begin to their first step.

        Args:
            known, node: the node.
            more: its time by class, since its last report.
            steps: those that it has done since then, and those of them that were done again.
            failures, runs: as of `report`.
        """
        begins = not known.begun and (more.get(Spent.START, 0) > 0 or runs)
        if begins:
            # Steps are of the processes before.
            lived = sum(us for name, us in more.items() if name != Spent.STEPS or self.stage == Account.START)
            known.restarts(max(1, self.wall - lived))
        if known.begun:
            known.rest += sum(us for name, us in more.items() if name not in _WORK)
            known.repeats += more.get(Spent.AGAIN, 0)
            known.load += more.get(Spent.LOAD, 0)
        if self.stage == Account.START and known.begun:
            self._enter(Account.STEPS, self.wall - known.begun)
            self._charge(known, more, more)
        elif self.stage in _PROCESSES:
            unseen = not any(self.nodes[each].watched for each in self.awaited if each in self.nodes)
            witness = known.begun and not begins and (node in self.awaited or unseen)
            if witness and steps[0]:
                self._train_again(known, more, steps, failures)
            else:
                self._follow_recovery(failures)

    def _train_again(
        self, known: NodeBook, more: Mapping[str, int], steps: tuple[int, int], failures: JobFailures
    ) -> None:
        """A step was done: the recovery has succeeded. The arguments are those of `_follow`."""
        load = max((self.nodes[each].load for each in self.awaited if each in self.nodes), default=0)
        self._enter(Account.STEPS, self.wall - known.begun - known.rest)
        self._load(load)
        # Ranks that kept their processes book the wait as a step, so the number of steps decides.
        self._charge(known, {Spent.AGAIN: min(known.repeats, self.open * steps[1] // steps[0])}, more)
        for each in self.nodes.values():
            each.due = each is not known
        self._hand_over(failures, stepped=True)

    def _follow_recovery(self, failures: JobFailures) -> None:
        """Follow the stages of a recovery."""
        awaited = [self.nodes.get(each, NodeBook()) for each in self.awaited]
        if self.stage == Account.RESTARTED and all(each.begun for each in awaited):
            self._enter(Account.JOINED, self.wall - max((each.begun for each in awaited), default=self.wall))
        if self.stage == Account.JOINED and awaited and all(each.joined for each in awaited):
            self._enter(Account.LOADED)
        self._end_unmarked(failures)

    def _end_unmarked(self, failures: JobFailures) -> None:
        """End a recovery of ranks that mark no steps, when nothing more can be seen of it."""
        unseen = self.stage == Account.JOINED and not any(each.watched for each in self.nodes.values())
        if self.highest is None and (unseen or self.stage == Account.LOADED):
            self._enter(Account.STEPS)
            self._hand_over(failures, stepped=False)

    def _load(self, us: int) -> None:
        """The nodes have loaded for so long: in LOADED, or before they were known to have joined."""
        moved = min(us - self.phases.get(Account.LOADED, 0), self.phases.get(Account.JOINED, 0))
        if moved > 0:
            for amounts in (self.spent, self.phases):
                _add(amounts, {Account.JOINED: -moved, Account.LOADED: moved})

    def _hand_over(self, failures: JobFailures, *, stepped: bool) -> None:
        """A recovery is over, or another failure has come: its failure keeps the phases."""
        if self.recovers:
            failures.recovered(self.failure, _in_seconds(self.phases), stepped=stepped)
        self.recovers, self.phases = False, {}


def stage_of(now: float, records: Records, failures: JobFailures, *, supervises: bool) -> Account | None:
    """The stage of a run as the Manager knows it; None without a run.

    Args:
        now: the time.
        records: of Agents and Workers.
        failures: of the run.
        supervises: the Manager restarts processes, so that it knows when a run begins.
    """
    rounds = records.rounds
    if supervises and not rounds.open:
        return Account.NODES if records.asking else None
    if not supervises and len(records.agents) <= len(records.asking) + len(records.exited):
        return None
    if any(_is_away(now, node, records) for node in rounds.missing):
        return Account.NODES
    if failures.open is not None:
        return Account.RESTARTED if failures.open.answer else Account.DECIDED
    return Account.STEPS if failures.began else Account.START


def _is_away(now: float, node: int, records: Records) -> bool:
    agent = records.agents.get(node)
    if agent is None or agent.exited or records.left(node) is not None:
        return True
    return records.silent_since(node, now, AWAY_S) is not None


def _shares(open_: int, told: Mapping[str, int]) -> dict[str, int]:
    """The open time by account: classes that are told have their parts, of too much their proportion."""
    classes = {name: us for name, us in told.items() if name != Spent.STEPS}
    whole = sum(classes.values())
    if whole > open_:
        classes = {name: us * open_ // whole for name, us in classes.items()}
    rest = open_ - sum(classes.values())
    unseen = rest - told.get(Spent.STEPS, 0)
    unknown = unseen if unseen > UNSEEN_S * _US else 0
    return {**classes, Account.STEPS: rest - unknown, Account.UNKNOWN: unknown}


def _add(amounts: dict[str, int], more: Mapping[str, int]) -> None:
    for name, us in more.items():
        amounts[name] = amounts.get(name, 0) + us


def _spent_of(progress: NodeProgress) -> dict[str, int]:
    return {each.value: round(seconds * _US) for each, seconds in progress.spent.items()}


def _in_seconds(phases: Mapping[str, int]) -> dict[str, float]:
    return {each.value: phases[each] / _US for each in _PHASES if phases.get(each)}


def _empty() -> dict[str, object]:
    fresh = Books()
    return {name: getattr(fresh, name) for name in Books.__slots__}
