"""Books of a run: its wall time by account, over failures, Manager kills, Agents that begin again and late reports."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base import vocabulary
from taskd_net.base.cause import Cause
from taskd_net.base.position import Position
from taskd_net.base.progress import Account, NodeProgress, Spent, write_progress
from taskd_net.job.decide.books import AWAY_S, LATE_S, STORE_S, UNSEEN_S, Books, stage_of
from taskd_net.job.decide.events import ClockMoved, Reported
from taskd_net.job.decide.failures import JobFailures
from taskd_net.job.decide.plain import from_plain, to_text
from taskd_net.job.decide.records import Fault, KeptReport, Records
from tests.jobs.plugins.test_restarts import BUG, Nodes
from tests.jobs.scene import Scene, commands

ZERO = 1000.0


@dataclass
class Told:
    """Counters of the Agent of a node."""

    spent: dict[Spent, float] = field(default_factory=dict)
    steps: int = 0
    again: int = 0
    birth: int = 1


class Run:
    """A run, whose Manager and nodes say what a test wants them to say."""

    def __init__(self) -> None:
        self.books = Books()
        self.failures = JobFailures()
        self.now = self.zero = ZERO
        self.stage: Account | None = None
        self.nodes: dict[int, Told] = {}

    def look(self, stage: Account | None, seconds: float = 0.0, *, joined: bool = False, hung: float = 0.0) -> None:
        """The Manager sees a stage, and time passes."""
        self.stage = stage
        self.books.look(self.now, stage, self.failures, joined=joined, hung=hung)
        self.wait(seconds)

    def wait(self, seconds: float) -> None:
        """Time passes, and the Manager looks again."""
        self.now += seconds
        self.books.look(self.now, self.stage, self.failures, joined=False)
        self.check()

    def tell(
        self,
        *nodes: int,
        steps: int = 0,
        again: int = 0,
        highest: int | None = None,
        group: int | None = None,
        runs: bool = False,
        of: int | None = None,
        watched: bool = True,
        **spent: float,
    ) -> None:
        """Agents tell of what their ranks have done since they have told it last, with the seconds by class."""
        for node in nodes:
            told = self.nodes.setdefault(node, Told())
            for name, seconds in spent.items():
                each = {"stepping": Spent.STEPS, "repeating": Spent.AGAIN}.get(name) or Spent(name)
                told.spent[each] = told.spent.get(each, 0.0) + seconds
            told.steps, told.again = told.steps + steps, told.again + again
            progress = NodeProgress(
                ranks=2,
                watched=2 * watched,
                marking=0 if highest is None else 2,
                highest=highest,
                low_group=group,
                steps=told.steps,
                again=told.again,
                of=of,
                spent=dict(told.spent),
            )
            self.books.report(self.now, node, told.birth, progress, self.failures, runs=runs)
            self.failures.reaches(self.books.highest)
        self.check()

    def beat(self, *nodes: int, runs: bool = True) -> None:
        """Agents that tell nothing of their ranks say that these run."""
        for node in nodes:
            self.books.report(self.now, node, 1, None, self.failures, runs=runs)
        self.check()

    def start(self) -> None:
        """Two nodes begin, and have done step 10 after 20 s."""
        self.look(Account.NODES, 3.0)
        self.look(Account.START, 2.0)
        self.failures.attempt_begins(self.now)
        self.look(Account.STEPS)
        self.wait(1.0)
        self.tell(0, 1, start=0.5)
        for _ in range(4):
            self.wait(1.0)
            self.tell(0, 1, start=1.0)
        for number in range(1, 11):
            self.wait(1.0)
            self.train(number)

    def train(self, number: int, again: int = 0) -> None:
        """Both nodes have done a step in the last second."""
        stepping, repeating = (0.0, 1.0) if again else (1.0, 0.0)
        self.tell(0, 1, steps=1, again=again, highest=number, stepping=stepping, repeating=repeating)

    def fail(self, ago: float = 0.0, node: int = 1) -> None:
        """A rank has failed, some time ago."""
        cause = Cause(3, node, "h", 7, 1, at_ns=round((self.now - ago) * 1e9))
        self.failures.take(self.now, node, Fault([3], self.now), cause, rounds=True)
        self.look(Account.DECIDED)

    def answer(self, *nodes: int) -> None:
        """The Manager restarts the processes of nodes."""
        self.failures.answer(self.now, "all ranks restarted")
        for node in nodes:
            self.books.awaits(node)
        self.look(Account.RESTARTED)

    def attempt(self) -> None:
        """All are there again."""
        self.failures.attempt_begins(self.now)
        self.look(Account.STEPS)

    @property
    def seconds(self) -> dict[str, float]:
        """The books, as people see them."""
        return {each.value: round(seconds, 3) for each, seconds in self.books.seconds(self.now).items()}

    def check(self) -> None:
        """The books add up, whatever has happened."""
        books = self.books
        assert books.wall == round(self.now * 1e6) - round(self.zero * 1e6) or not books.stage
        assert min(books.spent.values(), default=0) >= 0 <= books.open
        shown = books.seconds(self.now)
        assert sum(shown.values()) == pytest.approx(books.wall / 1e6) and min(shown.values(), default=0.0) >= 0.0
        assert books.redone <= books.done


def begun() -> Run:
    """A run of two nodes that has done ten steps."""
    run = Run()
    run.start()
    return run


def test_time_before_the_first_step() -> None:
    run = begun()
    assert run.seconds == {"nodes": 3.0, "start": 7.0, "steps": 10.0}
    assert (run.books.done, run.books.redone, run.books.highest) == (10, 0, 10)
    run.look(None, 100.0)
    assert run.seconds == {"nodes": 3.0, "start": 7.0, "steps": 10.0}, "the run is over"


def test_slowest_rank_decides_and_reports_in_any_order_count_once() -> None:
    run = begun()
    for _ in range(5):  # all ranks load data, and the Agents say it half a second apart
        run.wait(0.5)
        run.tell(0, data=1.0)
        run.wait(0.5)
        run.tell(1, data=1.0)
    assert run.seconds["data"] == 5.0
    for _ in range(5):
        run.wait(1.0)
        run.train(11)
    run.wait(1.0)
    run.tell(0, checkpoint=0.25)
    run.tell(1, checkpoint=0.75)
    assert run.seconds["checkpoint"] == 0.75, "one rank is slower in the same look"
    for _ in range(5):
        run.wait(1.0)
        run.train(12)
    run.wait(1.0)
    run.tell(1, checkpoint=0.5)
    assert run.seconds["checkpoint"] == 1.25, "another look"


def test_two_classes_at_once_share_the_time() -> None:
    run = begun()
    run.wait(1.0)
    run.train(11)
    for _ in range(4):
        run.wait(1.0)
        run.tell(0, data=1.0)
        run.tell(1, evaluation=1.0)
    assert run.seconds["data"] + run.seconds["evaluation"] == pytest.approx(4.0)
    assert run.seconds["data"] == pytest.approx(run.seconds["evaluation"], abs=1.0)
    assert run.seconds["steps"] == pytest.approx(11.0)


def test_late_report_is_made_up_for() -> None:
    run = begun()
    run.wait(1.0)
    run.train(11)
    run.wait(3.9)
    run.tell(0, data=3.0)
    run.wait(0.1)
    run.tell(0, data=1.0)
    run.wait(2.0)
    run.tell(0, data=2.0)
    for number in (12, 13, 14):
        run.wait(1.0)
        run.train(number)
    assert run.seconds["data"] == pytest.approx(6.0)


def test_lie_takes_no_more_than_the_time_there_is() -> None:
    run = begun()
    for _ in range(2):
        run.wait(1.0)
        run.train(11)
    run.wait(1.0)
    run.tell(0, data=1e9, other=1e9)
    run.nodes[0] = Told({Spent.DATA: 3.0}, 4)  # backwards
    run.tell(0)
    run.wait(2.0)
    run.train(12)
    assert run.seconds["steps"] >= 10.0
    assert run.books.done == 13 and run.books.redone == 0


def test_recovery_has_its_phases_and_steps_are_counted_again() -> None:
    run = begun()
    run.wait(0.5)
    run.fail(ago=0.4)
    run.wait(0.2)
    run.tell(0, steps=2, highest=12)  # of the last second
    run.answer(0, 1)
    run.wait(2.0)
    run.attempt()
    run.wait(0.8)
    run.tell(0, 1, start=0.5)  # its processes have begun 0.3 s after the attempt
    for _ in range(2):
        run.wait(1.0)
        run.tell(0, 1, start=1.0)
    run.wait(1.0)
    run.tell(0, 1, start=0.5, load=0.5, group=1)
    run.wait(1.0)
    run.tell(0, 1, load=1.0, group=2)
    run.wait(1.0)
    run.tell(0, 1, steps=1, again=1, highest=9, load=0.25, repeating=0.75)
    assert run.books.stage == Account.STEPS
    (failure,) = run.failures.past
    assert failure.stepped
    assert failure.phases == pytest.approx(
        {"noticed": 0.4, "decided": 0.2, "restarted": 2.3, "joined": 3.0, "loaded": 1.75}, abs=0.06
    )
    for number in (10, 11, 12):
        run.wait(1.0)
        run.train(number, again=1)
    for number in (13, 14):
        run.wait(1.0)
        run.train(number)
    assert run.seconds["again"] == pytest.approx(3.75, abs=0.01)
    assert (run.books.done, run.books.redone) == (18, 4)
    assert run.seconds["steps"] == pytest.approx(12.1, abs=0.01)


def test_steps_count_once_over_a_new_agent_and_a_late_word() -> None:
    run = begun()
    run.wait(1.0)
    run.train(11)
    run.fail(node=0)
    run.answer(0, 1)
    run.attempt()
    run.nodes[0] = Told(birth=2)
    run.tell(1, steps=1, highest=12)  # before the failure, and told after the begin of the attempt
    run.wait(1.0)
    run.tell(0, 1, start=0.9)
    for number in (9, 10, 11, 12):
        run.wait(1.0)
        run.train(number, again=1)
    assert (run.books.done, run.books.redone) == (16, 4)


def test_lost_node_is_waited_for_from_its_last_word_on() -> None:
    run = begun()
    run.wait(0.5)
    run.tell(0, 1, stepping=0.5)
    for _ in range(4):
        run.wait(1.0)
        run.tell(0, stepping=1.0)
    run.failures.loses(run.now, [1])
    run.look(Account.DECIDED)
    assert run.seconds["noticed"] == pytest.approx(4.0)
    run.failures.loses(run.now, [7])
    run.look(Account.NODES, 30.0)
    run.answer(0, 1)
    run.wait(1.0)
    run.attempt()
    run.tell(0, 1)
    assert run.books.stage == Account.RESTARTED
    run.wait(1.0)
    run.tell(0, start=0.25)
    run.tell(1, start=0.5)
    run.wait(1.0)
    run.tell(0, 1, start=0.5, steps=1, again=1, highest=5, repeating=0.5)
    assert run.failures.past[0].phases == pytest.approx(
        {"noticed": 4.0, "nodes": 30.0, "restarted": 1.75, "joined": 0.75}
    )


def test_processes_that_load_within_the_first_second() -> None:
    run = Run()
    run.look(Account.START, 1.0)
    run.tell(0, 1, start=0.125, load=0.75)
    run.wait(1.0)
    run.tell(0, 1, load=1.0)
    run.wait(1.0)
    run.train(1)
    assert run.seconds == {"start": 0.25, "load": 1.75, "steps": 1.0}
    run.wait(0.5)
    run.fail(ago=0.25)
    run.answer(0, 1)
    run.attempt()
    run.wait(1.0)
    run.tell(0, 1, stepping=0.25, start=0.125, load=0.75)
    run.wait(1.0)
    run.tell(0, 1, steps=1, again=1, highest=1, load=0.5, repeating=0.5)
    assert run.failures.past[0].phases == {"noticed": 0.25, "restarted": 0.125, "joined": 0.125, "loaded": 1.25}
    assert run.seconds["load"] == 1.75 and run.seconds["again"] == 0.5


def test_process_may_begin_as_the_run_does() -> None:
    run = Run()
    run.look(Account.START)
    run.beat(0)
    assert run.books.stage == Account.STEPS and run.books.wall == 0


def test_lost_node_that_was_never_heard_is_noticed_at_once() -> None:
    run = begun()
    run.failures.loses(run.now, [7])
    run.look(Account.NODES, 1.0)
    assert "noticed" not in run.seconds and run.seconds["nodes"] == 4.0


def test_failure_while_another_one_is_recovered_from() -> None:
    run = begun()
    run.fail()
    run.answer(0, 1)
    run.attempt()
    run.wait(2.0)
    run.fail(ago=0.5)
    assert run.failures.past[0].phases == {"restarted": 2.0} and not run.failures.past[0].stepped
    assert run.books.seconds_of_recovery(run.now + 1.0, 2) == pytest.approx({"noticed": 0.5, "decided": 1.0})
    assert run.books.seconds_of_recovery(run.now, 1) == {}
    run.look(None)
    assert run.failures.open is not None and run.failures.open.phases == {"noticed": 0.5}
    assert run.books.seconds_of_recovery(run.now, 2) == {}


def test_clock_of_the_failed_host_is_believed_back_to_the_last_steps() -> None:
    run = begun()
    run.fail(ago=3600.0)
    assert run.seconds["noticed"] <= 4.0
    later = begun()
    later.fail(ago=-3600.0)
    assert "noticed" not in later.seconds
    unmarked = Run()
    unmarked.look(Account.STEPS, 1000.0)
    unmarked.fail(ago=3600.0)
    assert unmarked.seconds["noticed"] == LATE_S


def test_ranks_that_mark_nothing_and_are_not_watched() -> None:
    run = Run()
    run.look(Account.START, 2.0)
    run.beat(0, 1, runs=False)
    assert run.books.stage == Account.START
    run.failures.attempt_begins(run.now)
    run.look(Account.STEPS, 1.0)
    run.beat(0, 1)
    run.wait(10.0)
    assert run.seconds == {"start": 3.0, "unknown": 10.0}
    run.fail(ago=1.0)
    run.wait(1.0)
    run.answer(0, 1)
    run.wait(2.0)
    run.beat(0, 1, runs=False)
    run.attempt()
    run.wait(0.5)
    run.beat(0)
    assert run.books.stage == Account.RESTARTED, "the processes of the other node are not there"
    run.beat(1)
    assert run.books.stage == Account.STEPS
    (failure,) = run.failures.past
    assert failure.phases == {"noticed": 1.0, "decided": 1.0, "restarted": 2.5} and not failure.stepped
    run.wait(5.0)
    assert run.seconds["unknown"] == 14.0
    assert run.books.seconds_left(run.now) is None


def test_ranks_that_mark_nothing_and_have_a_group_of_torch() -> None:
    run = Run()
    run.look(Account.START, 2.0)
    run.tell(0, 1, start=1.0)
    for _ in range(5):
        run.wait(1.0)
        run.tell(0, 1, start=1.0, group=4)
    assert run.seconds == {"start": 1.0, "unknown": 6.0}
    run.fail()
    run.answer(1)
    run.attempt()
    run.wait(1.0)
    run.tell(0, 1, start=0.5)
    run.wait(1.0)
    run.tell(0, 1, start=1.0)
    assert run.books.stage == Account.JOINED
    run.wait(1.0)
    run.tell(1, start=1.0, group=1)
    assert run.books.stage == Account.STEPS
    assert run.failures.past[0].phases == {"restarted": 0.5, "joined": 2.5}
    run.wait(1.0)
    run.tell(1, start=1.0, highest=1, steps=1)
    assert run.seconds["start"] >= 7.0 and "unknown" not in run.seconds, "it was the start of a script with steps"


def test_ranks_of_which_torch_alone_tells() -> None:
    """Their script does not import what marks steps, so nobody tells when a process has begun."""
    run = Run()
    run.look(Account.START, 2.0)
    run.tell(0, 1, group=None, watched=False)
    run.failures.attempt_begins(run.now)
    run.look(Account.STEPS, 1.0)
    run.tell(0, 1, watched=False, runs=True)
    run.wait(2.0)
    run.tell(0, 1, group=3, runs=True)
    assert run.seconds == {"start": 3.0, "unknown": 2.0}
    run.fail()
    run.answer(0, 1)
    run.nodes[0].birth = 2
    run.attempt()
    run.wait(1.0)
    run.tell(0, 1, watched=False, runs=True)
    assert run.books.stage == Account.JOINED
    run.wait(2.0)
    run.tell(0, 1, group=1, runs=True)
    assert run.books.stage == Account.STEPS
    assert run.failures.past[0].phases == {"restarted": 1.0, "joined": 2.0}


def test_ranks_that_rejoin_have_joined_when_they_are_in_the_epoch() -> None:
    run = begun()
    run.fail()
    run.answer(1)
    run.wait(1.0)
    run.tell(1, start=0.75)
    run.wait(1.0)
    run.attempt()
    run.wait(0.5)
    run.look(Account.STEPS, joined=True)
    assert run.books.stage == Account.LOADED
    run.wait(0.5)
    run.tell(0, steps=1, again=1, highest=10, repeating=3.0)  # it has kept its process, and has waited
    assert run.books.stage == Account.LOADED
    run.tell(1, steps=2, again=1, highest=11, start=1.5, load=0.25, repeating=3.0)
    assert run.books.stage == Account.STEPS
    run.wait(1.0)
    run.tell(0, steps=1, highest=11, repeating=3.0)
    run.wait(1.0)
    run.tell(0, 1, steps=1, highest=12, stepping=1.0)
    assert run.seconds["again"] == 0.125, "one of two steps"
    assert run.failures.past[0].phases == {"restarted": 0.25, "joined": 2.25, "loaded": 0.25}
    run.fail()
    run.failures.answer(run.now, "the ranks rejoin")
    run.attempt()
    run.look(Account.STEPS, joined=True)
    run.wait(1.0)
    run.tell(0, steps=1, highest=13, load=0.5, stepping=0.5)
    assert run.failures.past[1].phases == {"loaded": 0.5} and run.failures.past[1].stepped
    bare = Run()
    bare.look(Account.STEPS, 1.0)
    bare.fail()
    bare.failures.answer(bare.now, "the ranks rejoin")
    bare.attempt()
    bare.look(Account.STEPS, joined=True)
    assert bare.books.stage == Account.STEPS, "they mark nothing, and train"


def test_loading_before_a_group_is_seen_counts_as_loading() -> None:
    run = begun()
    run.fail()
    run.answer(0, 1)
    run.attempt()
    run.wait(1.0)
    run.tell(0, 1, start=1.0)
    run.wait(1.0)
    run.tell(0, 1, start=0.25, load=0.75)
    run.wait(1.0)
    run.tell(0, 1, steps=1, again=1, highest=5, load=0.5, repeating=0.5)
    assert run.failures.past[0].phases == {"joined": 1.25, "loaded": 1.25}
    assert run.seconds["loaded"] == 1.25 and run.seconds["again"] == 0.5


def test_failure_that_stays_open_where_a_platform_restarts() -> None:
    run = begun()
    run.fail()
    run.answer(0)
    run.wait(1.0)
    run.tell(0, start=1.0)
    run.wait(1.0)
    run.tell(0, steps=1, again=1, highest=5, repeating=1.0)
    run.look(Account.RESTARTED, 1.0)
    assert run.books.stage == Account.STEPS


def test_manager_that_was_killed_goes_on_with_its_books() -> None:
    run = begun()
    run.wait(0.5)
    stored = to_text(run.books)
    run.books = reread(stored)
    run.wait(20.0)
    assert run.seconds["unknown"] == 20.5, "nobody has told of it"
    run.tell(0, stepping=14.5, steps=14, highest=24, checkpoint=5.0, again=0)
    assert "unknown" not in run.seconds
    assert (run.seconds["checkpoint"], run.books.done) == (5.0, 24)
    assert run.seconds["steps"] == pytest.approx(25.5)
    run.fail()
    run.books = reread(to_text(run.books))
    run.wait(30.0)
    assert run.seconds["decided"] == 30.0


def reread(stored: str) -> Books:
    """The books of the next Manager."""
    return from_plain(Books, json.loads(stored), "books")


def test_time_that_no_node_has_told_of_is_unknown() -> None:
    run = begun()
    run.wait(UNSEEN_S)
    run.wait(10.0)
    run.fail()
    assert run.seconds["unknown"] == pytest.approx(15.0, abs=1.0)


def test_run_that_is_seen_in_its_middle_counts_from_then_on() -> None:
    run = Run()
    run.nodes[0] = Told({Spent.STEPS: 500.0, Spent.DATA: 100.0}, 50, 5)
    run.look(Account.STEPS)
    run.tell(0, highest=45)
    for number in (46, 47, 48):
        run.wait(1.0)
        run.tell(0, steps=1, highest=number, stepping=1.0)
    run.beat(1)
    assert run.seconds == {"steps": 3.0} and run.books.done == 3
    assert (run.books.redone, run.books.highest) == (0, 48)


def test_step_of_the_clock_invents_no_time() -> None:
    run = begun()
    before = run.seconds
    for by in (3600.0, -7200.0):
        run.now += by
        run.zero += by
        run.books.clock_moves(by)
        assert run.seconds == before
    run.look(None)
    run.books.clock_moves(5.0)
    assert run.books.seconds(run.now + 99.0).keys() == before.keys()


def test_job_that_stands_still_has_done_so_since_its_last_step() -> None:
    run = begun()
    for _ in range(30):
        run.wait(1.0)
        run.tell(0, data=1.0)
        run.tell(1, stepping=1.0)
    run.look(Account.STEPS, hung=28.0)
    assert run.seconds["hang"] == 28.0
    hung = partial(run.books.look, stage=Account.STEPS, failures=run.failures, joined=False)
    for _ in range(2):
        run.now += 1.0
        hung(run.now, hung=30.0)
        run.tell(0, 1, data=1.0)
    assert run.seconds["hang"] == 30.0 and run.books.stage == Account.HANG
    before = run.seconds["steps"]
    run.now += 2.5
    run.tell(0, steps=2, highest=12, stepping=2.0)  # a step of this run takes about a second
    assert run.books.stage == Account.STEPS and run.seconds["hang"] == pytest.approx(30.5, abs=0.5)
    run.tell(1, steps=2, highest=12, stepping=2.0)
    run.wait(1.0)
    assert run.seconds["steps"] + run.seconds["hang"] == pytest.approx(before + 33.5)
    run.now += 1.0
    hung(run.now, hung=0.5)
    run.look(Account.STEPS)
    assert run.books.stage == Account.STEPS
    run.books.look(run.now, Account.START, run.failures, joined=False, hung=1.0)
    assert run.books.stage == Account.HANG
    run.fail()
    assert run.books.stage == Account.DECIDED


def test_time_left_at_the_pace_of_the_run() -> None:
    run = begun()
    assert run.books.seconds_left(run.now) is None, "nobody has said how many steps there are"
    run.tell(0, of=100)
    assert run.books.seconds_left(run.now) == pytest.approx(90.0)
    run.tell(0, of=None, highest=110)
    run.tell(0, of=100)
    assert run.books.seconds_left(run.now) == 0.0
    run.fail()
    assert run.books.seconds_left(run.now) is None


def test_next_run_begins_with_empty_books() -> None:
    run = begun()
    run.fail()
    run.look(None)
    run.wait(50.0)
    run.zero = run.now
    run.look(Account.NODES)
    assert run.seconds == {} and run.books.nodes == {} and run.books.failure == 1
    run.wait(1.0)
    assert run.seconds == {"nodes": 1.0}, "the failure is of the run before"
    run.failures = JobFailures()
    run.look(Account.START, 1.0)
    assert run.books.failure == 0
    run.books.report(run.now, 0, 1, None, run.failures, runs=False)
    run.look(None)
    run.books.report(run.now, 1, 1, None, run.failures, runs=False)
    assert run.books.nodes.keys() == {0}, "no run, no books"


def test_books_are_stored_after_an_event_or_some_time() -> None:
    run = begun()
    assert run.books.take_out() and not run.books.take_out()
    run.wait(STORE_S - 0.1)
    assert not run.books.take_out()
    run.wait(0.1)
    assert run.books.take_out()
    run.fail()
    assert run.books.take_out()


def agents(*ranks: int) -> Records:
    """Agents that have registered, and have been started."""
    records = Records()
    for rank in ranks:
        extension = {vocabulary.INCARNATION: f"i{rank}"}
        records.take(ZERO, Reported(Position.agent(rank), vocabulary.REGISTER, 0, "", extension, f"m{rank}"))
    return records


def test_stage_as_the_manager_knows_it() -> None:
    records, failures = agents(0, 1), JobFailures()

    def stage(now: float = ZERO, *, supervises: bool = True) -> Account | None:
        return stage_of(now, records, failures, supervises=supervises)

    assert stage() is None and stage(supervises=False) == Account.START
    records.asking = {0}
    assert stage() == Account.NODES
    records.run_begins(meets=True)
    assert stage() == Account.START
    records.asking = set()
    records.nodes_missing({1, 2}, ZERO + 9.0)
    assert stage() == Account.NODES, "the Manager has never heard of node 2"
    records.nodes_missing({1}, ZERO + 9.0)
    assert stage() == Account.START, "its Agent is there, and ends its processes"
    assert stage(ZERO + AWAY_S) == Account.NODES
    records.agents[1].reports[f"{vocabulary.STATUS}/{vocabulary.LEAVES}"] = KeptReport(at=ZERO)
    assert stage() == Account.NODES
    records.agents[1].exited = True
    assert stage() == Account.NODES
    records.all_met()
    failures.attempt_begins(ZERO)
    assert stage() == Account.STEPS
    failures.take(ZERO, 0, Fault([1], ZERO), None, rounds=True)
    assert stage() == Account.DECIDED
    failures.answer(ZERO, "all ranks restarted")
    assert stage() == Account.RESTARTED
    for rank in (0, 1):
        records.exit(rank)
    assert stage(supervises=False) is None


def progress(nodes: Nodes, *ranks: int, **more: object) -> None:
    """Agents tell of their ranks."""
    for rank in ranks:
        told = NodeProgress(ranks=2, watched=2, marking=2, **more)  # type: ignore[arg-type]
        extension = {vocabulary.WORKER_STATE: "HEALTHY", vocabulary.PROGRESS: write_progress(told)}
        nodes.scene.report(f"Agent/{rank}", vocabulary.KEEP_ALIVE, 0, **extension)


def test_job_keeps_books_and_tells_the_highest_step_to_processes_that_start() -> None:
    nodes = Nodes()
    nodes.come(0, 1)
    nodes.scene.settle()
    nodes.ready(1, 0, 1)
    nodes.scene.settle()
    assert vocabulary.HIGHEST_STEP not in nodes.scene.transcript()
    nodes.scene.now += 1.0
    progress(nodes, 0, 1, spent={Spent.START: 0.5})
    for number in range(1, 6):
        nodes.scene.tick(1.0)
        spent = {Spent.START: 0.5, Spent.STEPS: float(number)}
        progress(nodes, 0, 1, steps=number, highest=40 + number, of=100, spent=spent)
    nodes.scene.report("Agent/x", vocabulary.KEEP_ALIVE, 0)
    books = nodes.scene.job.state.books
    assert (books.stage, books.done, books.highest, books.of) == ("steps", 5, 45, 100)
    assert nodes.scene.job.state.failures.step == 45
    nodes.scene.lines.clear()
    nodes.fail(3, round((nodes.scene.now - 0.5) * 1e9))
    nodes.scene.tick()
    nodes.scene.tick(1.0)
    said = nodes.scene.transcript()
    assert f'"{vocabulary.HIGHEST_STEP}": "45"' in said and "208" in said
    nodes.ready(2, 0, 1)
    nodes.scene.settle()
    assert nodes.scene.transcript().count(vocabulary.HIGHEST_STEP) == 4, "two 208s and two 305s"
    (failure,) = nodes.scene.job.state.failures.past
    assert nodes.scene.job.state.books.recovers
    found = nodes.scene.job.state.books.seconds_of_recovery(nodes.scene.now, failure.number)
    assert found["noticed"] == pytest.approx(0.5) and found["restarted"] >= 1.0


def test_same_failure_after_a_further_step_does_not_end_the_job() -> None:
    nodes = Nodes()
    nodes.come(0, 1)
    nodes.scene.settle()
    answers = []
    for number, highest in enumerate((40, 41, 41), 1):
        nodes.ready(number, 0, 1)
        nodes.scene.settle()
        progress(nodes, 0, 1, highest=highest, steps=40 * number)
        nodes.fail(3, number * 10**9, BUG)
        answers.append({code for outcome in nodes.scene.settle() for _, code in commands(outcome)})
    assert [vocabulary.EXIT in each for each in answers] == [False, False, True]
    assert nodes.scene.job.state.failures.ended.startswith("the same failure twice in a row")


def test_original_agents_get_no_step() -> None:
    scene = Scene()
    scene.register(0, 1)
    scene.settle()
    scene.report("Agent/0", vocabulary.KEEP_ALIVE, 0, **{vocabulary.PROGRESS: '{"ranks":1,"highest":7,"steps":7}'})
    scene.fault(1, 3)
    scene.settle()
    assert vocabulary.HIGHEST_STEP not in scene.transcript() and "208" in scene.transcript()
    assert scene.job.state.books.highest == 7


def test_stopped_manager_has_spent_the_time_and_a_clock_that_steps_has_not() -> None:
    scene = Scene()
    scene.register(0, 1, process="p")
    scene.settle()
    before = scene.job.state.books.wall
    then = scene.now
    scene.now += 3620.0
    scene.job.step(scene.now, ClockMoved(then, 20.0))
    scene.tick()
    assert scene.job.state.books.wall == before + 20_000_000


SECONDS = st.sampled_from((0.0, 0.1, 0.5, 1.0, 3.0, 40.0))
NODE = st.integers(0, 2)
CLASSES = st.dictionaries(st.sampled_from(list(Spent)), st.sampled_from((0.0, 0.3, 1.0, 7.0, 1e9)), max_size=3)
EVENT = st.one_of(
    st.tuples(st.just("wait"), SECONDS),
    st.tuples(st.just("stage"), st.sampled_from([*Account, None]), st.booleans(), SECONDS),
    st.tuples(st.just("tell"), NODE, CLASSES, st.integers(0, 9), st.booleans(), st.booleans()),
    st.tuples(st.just("beat"), NODE, st.booleans()),
    st.tuples(st.just("fail"), SECONDS, NODE),
    st.tuples(st.just("lose"), NODE),
    st.tuples(st.just("answer"), NODE),
    st.tuples(st.just("attempt")),
    st.tuples(st.just("renew"), NODE),
    st.tuples(st.just("kill"), SECONDS),
    st.tuples(st.just("clock"), SECONDS),
)


@given(st.lists(EVENT, max_size=40))
def test_books_add_up_whatever_happens(events: list[tuple[object, ...]]) -> None:
    run = Run()
    run.look(Account.NODES)
    waited = 0.0
    for kind, *rest in events:
        match kind, rest:
            case "wait", [float(seconds)]:
                run.wait(seconds)
                waited += seconds
            case "stage", [stage, bool(joined), float(hung)]:
                run.look(stage if stage is not None else Account.STEPS, joined=joined, hung=hung)  # type: ignore[arg-type]
            case "tell", [int(node), dict(spent), int(steps), bool(again), bool(marks)]:
                more = {each: seconds for each, seconds in spent.items() if each not in (Spent.STEPS, Spent.AGAIN)}
                run.tell(node, steps=steps, again=again * steps, highest=steps if marks else None, group=steps, **more)
            case "beat", [int(node), bool(runs)]:
                run.beat(node, runs=runs)
            case "fail", [float(ago), int(node)]:
                run.fail(ago, node)
            case "lose", [int(node)]:
                run.failures.loses(run.now, [node])
                run.look(Account.NODES)
            case "answer", [int(node)]:
                run.answer(node)
            case "attempt", []:
                run.attempt()
            case "renew", [int(node)]:
                run.nodes[node] = Told(birth=run.nodes.get(node, Told()).birth + 1)
            case "kill", [float(seconds)]:
                run.books = reread(to_text(run.books))
                run.wait(seconds)
                waited += seconds
            case "clock", [float(by)]:
                run.now, run.zero = run.now + by, run.zero + by
                run.books.clock_moves(by)
    assert run.books.wall == round(waited * 1e6)
    phases = [each.phases for each in run.failures.shown]
    assert all(seconds >= 0.0 for each in phases for seconds in each.values())


@given(st.lists(st.tuples(st.integers(1, 6), st.integers(0, 3), st.booleans()), min_size=1, max_size=6))
def test_steps_done_again_are_exact(attempts: list[tuple[int, int, bool]]) -> None:
    """Each attempt goes back by some steps; Agents tell late, and the one of node 0 may be lost with its last words."""
    run = begun()
    highest, done, again = 10, 10, 0
    for count, back, lost in attempts:
        step = max(0, highest - back)
        run.fail(node=0)
        run.answer(0, 1)
        run.attempt()
        if lost:
            run.nodes[0] = Told(birth=run.nodes[0].birth + 1)
        run.wait(1.0)
        run.tell(0, 1, start=1.0)
        numbers = range(step + 1, step + count + 1)
        for number in numbers:
            run.wait(1.0)
            for node in (0, 1):
                if number != numbers[-1] or node == 1:
                    run.tell(node, steps=1, again=int(number <= highest), highest=number)
        if not lost:
            run.tell(0, steps=1, again=int(numbers[-1] <= highest), highest=numbers[-1])
        done, again = done + count, again + min(count, highest - step)
        highest = max(highest, numbers[-1])
    assert (run.books.done, run.books.redone, run.books.highest) == (done, again, highest)
