"""Schedule: each part is looked at by its deadline, and the earliest look is the wake-up."""

from __future__ import annotations

from taskd_net.core.schedule import Schedule

INF = float("inf")


class Part:
    """A part of a Router that has deadlines; the schedule is told them, and does not ask."""

    def next_deadline(self) -> float:
        raise AssertionError("the Router asks, when the look is due")


def test_empty_schedule_never_wakes() -> None:
    schedule, part = Schedule(), Part()
    assert (schedule.wake, schedule.planned(part), schedule.due(1e9)) == (INF, INF, set())
    schedule.look(part, INF)
    assert (schedule.wake, schedule.due(1e9)) == (INF, set())


def test_look_moves_forward_and_never_back() -> None:
    schedule, part = Schedule(), Part()
    planned = []
    for deadline in (5.0, 7.0, 3.0, 3.0, 4.0):
        schedule.look(part, deadline)
        planned.append((schedule.planned(part), schedule.wake))
    assert planned == [(5.0, 5.0), (5.0, 5.0), (3.0, 3.0), (3.0, 3.0), (3.0, 3.0)]


def test_wake_is_the_earliest_look_of_any_part() -> None:
    schedule, parts = Schedule(), [Part() for _ in range(3)]
    wakes = []
    for part, deadline in zip(parts, (2.0, 3.0, 1.0), strict=True):
        schedule.look(part, deadline)
        wakes.append(schedule.wake)
    assert wakes == [2.0, 2.0, 1.0]
    assert [schedule.planned(part) for part in parts] == [2.0, 3.0, 1.0]


def test_due_parts_are_taken_out_and_the_rest_stay() -> None:
    schedule, (one, two, three) = Schedule(), [Part() for _ in range(3)]
    for part, deadline in ((one, 1.0), (two, 2.0), (three, 3.0)):
        schedule.look(part, deadline)
    assert schedule.due(0.999) == set()
    assert schedule.due(2.0) == {one, two}, "a deadline counts as due at its very time"
    assert (schedule.wake, schedule.planned(one), schedule.planned(three)) == (3.0, INF, 3.0)
    # A part that has been looked at may be planned for any time.
    schedule.look(one, 9.0)
    assert (schedule.planned(one), schedule.wake) == (9.0, 3.0)
    assert schedule.due(1e9) == {one, three}
    assert schedule.wake == INF
