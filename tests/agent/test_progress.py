"""Progress of a node from the records of its ranks: honest ones, and those of a rank that lies."""

from __future__ import annotations

import math
from binascii import crc32
from dataclasses import dataclass, field, replace
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base import rank_record
from taskd_net.base.progress import SLOWEST, STEP_MOST, Seen, Spent, read_progress, write_progress
from taskd_net.job.agent.progress import HOLDS_NS, NodeLedger, Sight

S: Final = 1_000_000_000
BEGUN: Final = 100 * S
PID: Final = 4711
CLASSES: Final = tuple(Spent)


@dataclass(frozen=True, kw_only=True)
class Said:
    """The fields of a record, of a process that began at `BEGUN`; times are in seconds after it."""

    turn: int = 1
    pid: int = PID
    at: float = 10.0
    step: int = -1
    of: int = -1
    steps: int = 0
    again: int = 0
    samples: int = 0
    loss: float = math.nan
    running: int = 0
    marked: int = 1
    waits: int = 0
    name: bytes = b""
    length: int | None = None
    spent: dict[Spent, float] = field(default_factory=dict)
    beat: int | None = None
    beat_at: float = 9.0
    group: int = -1
    beats: int = 1

    @property
    def record(self) -> bytes:
        """The bytes of it."""
        script = rank_record.SCRIPT.pack(
            *(self.turn, self.pid, BEGUN + int(self.at * S), self.step, self.of),
            *(self.steps, self.again, self.samples, self.loss, self.running, self.marked, self.waits),
            *(len(self.name) if self.length is None else self.length, self.name),
            *(int(self.spent.get(each, 0) * S) for each in CLASSES),
        )
        written = bytearray(rank_record.BYTES)
        put(written, script, rank_record.SCRIPT_AT[self.turn % 2])
        if self.beat is not None:
            beat = rank_record.BEAT.pack(self.beat, self.pid, BEGUN + int(self.beat_at * S), self.group, self.beats)
            put(written, beat, rank_record.BEAT_AT[self.beat % 2])
        return bytes(written)


def put(record: bytearray, data: bytes, at: int) -> None:
    """Write a slot."""
    slot = data + rank_record.CHECK.pack(crc32(data))
    record[at : at + len(slot)] = slot


def sight(said: Said | None, rank: int = 0, *, seen: Seen = Seen.RUNS, pid: int = PID, image: int = 0) -> Sight:
    return Sight(rank, BEGUN, pid, seen, b"" if said is None else said.record, image)


def after(seconds: float) -> int:
    return BEGUN + int(seconds * S)


def test_classes_are_those_that_travel() -> None:
    assert tuple(rank_record.CLASSES) == tuple(each.value for each in Spent)
    for form, places in (
        (rank_record.SCRIPT, rank_record.SCRIPT_AT),
        (rank_record.BEAT, rank_record.BEAT_AT),
    ):
        size = form.size + rank_record.CHECK.size
        assert places[0] >= rank_record.HEAD.size and places[0] + size <= places[1]
        assert places[1] + size <= rank_record.BYTES
    assert rank_record.SCRIPT_AT[1] + rank_record.SCRIPT.size + 4 <= rank_record.BEAT_AT[0]


def test_node_without_records_says_how_many_ranks_it_has() -> None:
    found = NodeLedger().look([sight(None, 0), sight(None, 1, seen=Seen.ABSENT, pid=0)], after(1))
    assert (found.ranks, found.watched, found.marking, found.slowest, found.spent) == (2, 0, 0, (), {})
    assert NodeLedger().look([], after(1)).ranks == 0


def test_newer_whole_slot_counts() -> None:
    ledger = NodeLedger()
    record = bytearray(Said(turn=2, step=2, steps=2).record)
    torn = bytearray(Said(turn=3, step=3, steps=3).record)
    torn[rank_record.SCRIPT_AT[1] + 40] ^= 1  # a kill in the middle of the write
    at = rank_record.SCRIPT_AT[1]
    record[at : at + 400] = torn[at : at + 400]
    assert ledger.look([Sight(0, BEGUN, PID, record=bytes(record))], after(11)).highest == 2
    for cut in (0, rank_record.SCRIPT_AT[0] + 9):
        assert NodeLedger().look([Sight(0, BEGUN, PID, record=bytes(record[:cut]))], after(11)).marking == 0


def test_slowest_ranks_come_first() -> None:
    saids = {
        0: Said(step=41, beat=1, group=8),
        1: Said(step=41, beat=1, group=7),
        2: Said(step=40, beat=1, group=8),
        3: Said(step=41, at=9, beat=1, group=8),
        4: Said(step=41, beat=1, group=8),
        5: None,
    }
    found = NodeLedger().look([sight(said, rank) for rank, said in saids.items()], after(12))
    assert [each.rank for each in found.slowest] == [2, 1, 3, 5] and len(found.slowest) == SLOWEST
    assert (found.lowest, found.highest, found.low_group, found.high_group) == (40, 41, 7, 8)
    assert (found.watched, found.marking, found.marked) == (5, 5, 2.0)
    assert found.slowest[2].marked == 3.0


def test_rank_without_marks_is_watched_by_its_collectives() -> None:
    ledger = NodeLedger()
    said = Said(marked=0, beat=1, group=3)
    found = ledger.look([sight(said)], after(10))
    assert (found.watched, found.marking, found.low_group, found.marked) == (1, 0, 3, None)
    assert found.slowest[0].moved == 0.0
    assert ledger.look([sight(replace(said, beat=2))], after(11)).slowest[0].moved == 1.0
    assert ledger.look([sight(replace(said, beat=3, group=4))], after(12)).slowest[0].moved == 0.0
    lost = ledger.look([sight(replace(said, beat=4, group=-1))], after(13))
    assert (lost.watched, lost.slowest) == (0, ())


def test_process_whose_beat_stands_still_holds_the_interpreter() -> None:
    ledger = NodeLedger()
    said = Said(step=1, beat=7)

    def seen(seconds: float, now: Said = said, state: Seen = Seen.RUNS) -> Seen:
        return ledger.look([sight(now, seen=state)], after(seconds)).slowest[0].seen

    still = HOLDS_NS / S
    assert [seen(10), seen(10 + still), seen(10.1 + still)] == [Seen.RUNS, Seen.RUNS, Seen.HOLDS]
    assert seen(15, replace(said, beat=8)) is Seen.RUNS
    assert seen(20, replace(said, beat=8), Seen.STOPPED) is Seen.STOPPED
    assert seen(21, replace(said, beat=8)) is Seen.RUNS  # it had no time for a beat
    assert seen(21.1 + still, replace(said, beat=8)) is Seen.HOLDS
    over = replace(said, beat=9, beats=0)  # the interpreter ends
    assert [seen(30, over), seen(40, over)] == [Seen.RUNS, Seen.RUNS]
    assert [seen(50, Said(step=1)), seen(60, Said(step=1))] == [Seen.RUNS, Seen.RUNS]


def test_process_after_an_exec_holds_nothing() -> None:
    """Its thread has ended with the program before."""
    ledger = NodeLedger()
    said = Said(step=1, beat=7)
    looks = [(10, 1), (15, 2), (20, 2)]
    assert [ledger.look([sight(said, image=image)], after(at)).slowest[0].seen for at, image in looks] == [
        Seen.RUNS
    ] * 3


def test_time_is_that_of_the_rank_with_the_most_of_each_look() -> None:
    ledger = NodeLedger()
    start, data, save = Spent.START, CLASSES.index(Spent.DATA), CLASSES.index(Spent.SAVE)
    ledger.look([sight(Said(spent={start: 10.0})), sight(Said(spent={start: 9.0}), 1)], after(10))
    both = [sight(Said(turn=2, spent={start: 10.0}, running=data)), sight(Said(turn=2, at=10.5, running=save), 1)]
    found = ledger.look(both, after(11))
    assert found.spent == {start: 10.0, Spent.DATA: 1.0, Spent.SAVE: 0.5}
    ended = [replace(each, seen=Seen.ENDED) for each in both]
    assert ledger.look(ended, after(20)).spent == found.spent


def test_what_was_booked_stays_where_a_step_was_another_one() -> None:
    ledger = NodeLedger()
    steps, again = CLASSES.index(Spent.STEPS), Spent.AGAIN
    ledger.look([sight(Said(running=steps, spent={Spent.START: 10}))], after(12))
    said = Said(turn=2, at=12, step=3, steps=1, again=1, running=steps, spent={Spent.START: 10, again: 2})
    found = ledger.look([sight(said)], after(13))
    assert found.spent == {Spent.START: 10.0, Spent.STEPS: 2.0, again: 1.0}


def test_counts_go_on_over_processes_and_ranks_that_move() -> None:
    ledger = NodeLedger()
    first = Said(step=5, steps=5, again=2, samples=50, loss=0.5, of=9, spent={Spent.STEPS: 5})
    ledger.look([sight(first), sight(replace(first, steps=4), 1)], after(10))
    ledger.last(sight(replace(first, turn=2, steps=6, step=6, samples=60), seen=Seen.ENDED), after(11))
    begun = BEGUN + 20 * S
    new = Sight(0, begun, 5000, record=Said(pid=5000, at=25, step=4, steps=1, again=1, samples=10).record)
    found = ledger.look([new, sight(replace(first, steps=4), 1)], after(26))
    assert (found.steps, found.again, found.samples) == (7, 3, 120)
    assert (found.lowest, found.highest, found.of, found.loss) == (4, 5, 9, 0.5)
    assert found.spent[Spent.STEPS] == 5.0


def test_what_a_rank_cannot_have_done_counts_as_not_said() -> None:
    lies = [
        Said(step=7, pid=PID + 1),
        Said(step=7, at=-1),
        Said(step=7, at=12),
        Said(step=7, running=len(CLASSES)),
        Said(step=7, spent={Spent.STEPS: 10.5}),
        Said(step=7, spent=dict.fromkeys(CLASSES, 2.0)),
        Said(step=7, steps=2**60),
    ]
    for lie in lies:
        assert NodeLedger().look([sight(lie)], after(11)).watched == 0, lie
    said = Said(step=-7, of=2**62, samples=2**60, loss=math.inf, steps=3, again=9, name=b"\xff\xfe")
    found = NodeLedger().look([sight(said)], after(11))
    assert (found.watched, found.marking, found.of, found.samples, found.loss) == (1, 0, None, 0, None)
    assert (found.steps, found.again, found.slowest[0].section) == (3, 3, "")
    long = Said(name=b"s" * 128, length=255, step=STEP_MOST + 1)
    assert NodeLedger().look([sight(long)], after(11)).slowest[0].section == "s" * 32
    for beat in (Said(beat=1, group=2**62), Said(beat=1, group=3, beat_at=99)):
        assert NodeLedger().look([sight(beat)], after(11)).low_group is None


def test_what_falls_is_not_believed() -> None:
    ledger = NodeLedger()
    ledger.look([sight(Said(turn=9, step=9, steps=9, again=3, samples=90, spent={Spent.STEPS: 9}))], after(11))
    older = ledger.look([sight(Said(turn=8, step=99, steps=99))], after(12))
    assert (older.highest, older.steps) == (9, 9)
    fewer = ledger.look([sight(Said(turn=10, step=2, steps=2, samples=1, spent={Spent.STEPS: 1}))], after(13))
    assert (fewer.highest, fewer.steps, fewer.again, fewer.samples, fewer.spent[Spent.STEPS]) == (2, 9, 3, 90, 9.0)
    assert ledger.look([sight(None)], after(14)).highest == 2  # the last one is kept


lying = st.builds(
    Said,
    turn=st.integers(0, 9) | st.integers(0, 2**64 - 1),
    pid=st.sampled_from([PID, 1]),
    at=st.floats(-1, 30),
    **dict.fromkeys(("step", "of", "group"), st.integers(-(2**63), 2**63 - 1) | st.integers(-1, 9)),
    **dict.fromkeys(("steps", "again", "samples"), st.integers(0, 2**64 - 1) | st.integers(0, 9)),
    loss=st.floats(),
    **dict.fromkeys(("running", "marked", "waits", "length", "beats"), st.integers(0, 255) | st.integers(0, 8)),
    name=st.binary(max_size=128),
    spent=st.dictionaries(st.sampled_from(CLASSES), st.floats(0, 30) | st.floats(0, 1e9), max_size=9),
    beat=st.none() | st.integers(0, 9) | st.integers(0, 2**64 - 1),
    beat_at=st.floats(-1, 30),
)


@given(st.lists(st.tuples(st.integers(0, 2), lying, st.sampled_from(Seen), st.floats(0, 5)), max_size=12))
def test_no_lie_breaks_a_bound(looks: list[tuple[int, Said, Seen, float]]) -> None:
    ledger, now = NodeLedger(), 10.0
    steps = again = samples = 0
    spent: dict[Spent, float] = {}
    for rank, said, seen, seconds in looks:
        now += seconds
        found = ledger.look([sight(said, rank, seen=seen)], after(now))
        assert read_progress(write_progress(found)) is not None
        again_said = read_progress(write_progress(found))
        assert again_said is not None and again_said.steps == found.steps and again_said.lowest == found.lowest
        assert (found.steps >= steps, found.again >= again, found.samples >= samples) == (True, True, True)
        assert found.again <= found.steps <= now * S
        assert all(found.spent.get(each, 0.0) >= before for each, before in spent.items())
        assert sum(found.spent.values()) <= 3 * now + 0.001
        steps, again, samples, spent = found.steps, found.again, found.samples, dict(found.spent)
