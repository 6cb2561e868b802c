"""The measure `training`: the reading of recoveries. `make torch` has real ones."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from benchmarks.results import Results
from benchmarks.systems import FT_LAUNCHER, OURS, RESTART_ALL, TORCHRUN
from benchmarks.targets import targets_of
from benchmarks.training.launchers import LAUNCHERS
from benchmarks.training.timeline import SEGMENTS, Event, Incomplete, Line, Patterns, events, recovery

PATTERNS = Patterns("rank has failed", "restart")
SAID = (
    Line(1.0, "restart of something before"),
    Line(10.1, "rank has failed"),
    Line(10.15, "rank has failed"),
    Line(10.3, "restart"),
)
KILLED = 10.0


def steps(rank: int, pid: int, **at: float) -> list[Event]:
    """Events of a process, by name."""
    return [Event(name.rstrip("_"), rank, pid, when) for name, when in at.items()]


def before() -> list[Event]:
    """Two ranks that have done a step each."""
    return [
        event
        for rank, pid in ((0, 100), (1, 101))
        for event in steps(rank, pid, process=1.0, called=2.0, joined=3.0, loaded=4.0, step=9.9)
    ]


def all_new() -> list[Event]:
    """Two new processes, the second one later in everything."""
    return [
        *steps(0, 200, process=10.5, called=11.5, joined=12.0, loaded=12.1, step=12.2, step_=12.3),
        *steps(1, 201, process=10.6, called=11.6, joined=12.1, loaded=12.2, step=12.4),
    ]


def one_new() -> list[Event]:
    """Rank 1 is new; rank 0 has finished the step that was under way, and has left its group."""
    return [
        *steps(0, 100, step=10.01, joined=11.65, loaded=11.7, step_=11.8),
        *steps(1, 201, process=10.5, called=11.6, joined=11.66, loaded=11.7, step=11.81),
    ]


def test_parts_end_with_the_last_rank() -> None:
    seen = recovery([*before(), *all_new()], SAID, PATTERNS, 2, KILLED)
    assert list(seen.seconds) == list(SEGMENTS)
    assert [round(each, 3) for each in seen.seconds.values()] == [0.1, 0.2, 0.3, 1.0, 0.5, 0.1, 0.2]
    assert seen.total == pytest.approx(2.4)
    assert (seen.restarted, seen.survivors) == (2, None)


def test_ranks_that_stay_are_no_restart() -> None:
    seen = recovery([*before(), *one_new()], SAID, PATTERNS, 2, KILLED)
    assert seen.restarted == 1
    assert seen.survivors == pytest.approx(0.05)
    assert seen.total == pytest.approx(1.81)
    assert seen.seconds["joined"] == pytest.approx(0.06)


def test_line_that_is_late_makes_no_part_negative() -> None:
    said = (Line(10.7, "rank has failed"), Line(10.65, "restart"))
    seconds = recovery([*before(), *all_new()], said, PATTERNS, 2, KILLED).seconds
    assert seconds["noticed"] == pytest.approx(0.7)
    assert (seconds["decided"], seconds["process there"]) == (0.0, 0.0)
    assert sum(seconds.values()) == pytest.approx(2.4)


@pytest.mark.parametrize(
    ("seen", "said", "lacks"),
    [
        (before(), SAID, "no training process is new"),
        ([*before(), *all_new()[:-1]], SAID, r"ranks \[1\] have not step"),
        ([*before(), *one_new()[:1], *one_new()[4:]], SAID, r"ranks \[0\] have not joined"),
        ([*before(), *one_new()[:3], *one_new()[4:]], SAID, r"ranks \[0\] have not step"),
        ([*before(), *one_new()[:5]], SAID, r"ranks \[1\] have not called"),
        ([*before(), *all_new()], SAID[:1], "has not said rank has failed"),
        ([*before(), *all_new()], SAID[:3], "has not said restart"),
    ],
)
def test_recovery_that_is_not_over_is_incomplete(seen: Sequence[Event], said: Sequence[Line], lacks: str) -> None:
    with pytest.raises(Incomplete, match=lacks):
        recovery(seen, said, PATTERNS, 2, KILLED)


def test_line_that_is_being_written_is_left_for_later() -> None:
    whole = {"event": "step", "rank": 0, "pid": 7, "at": 1.5}
    text = json.dumps(whole) + "\n"
    assert events([text + text[:20], ""]) == [Event("step", 0, 7, 1.5)]


def results(ours: Sequence[float], torchruns: Sequence[float], cpu: float = 0.5) -> Results:
    """A run."""
    made = Results()
    for system, totals, share, memory in ((OURS, ours, cpu, 300.0), (TORCHRUN, torchruns, 0.1, 250.0)):
        for total in totals:
            made.add("training", "kill to first step of all", "ms", system, total)
        made.add("training", "launcher, CPU", "% of a core", system, share)
        made.add("training", "launcher, memory", "MB", system, memory)
    for metric in ("noticed", "decided", "the others joined after the new one called"):
        made.add("training", metric, "ms", OURS, 20.0)
    return made


@pytest.mark.parametrize(
    ("ours", "torchruns", "cpu", "missed"),
    [
        ((1000, 1500, 1100), (3000, 3000, 2200), 0.5, []),
        ((1600, 1500, 1600), (3000, 3000, 2200), 0.5, ["x faster than torchrun"]),
        ((1000, 2300, 1100), (3000, 3000, 2200), 0.5, ["slowest"]),
        ((1000, 1500, 1100), (3000, 3000, 2200), 1.2, ["CPU"]),
    ],
)
def test_targets(ours: Sequence[float], torchruns: Sequence[float], cpu: float, missed: list[str]) -> None:
    reached = list(targets_of(["training"], results(ours, torchruns, cpu)))
    assert all(target.value is not None for target in reached)
    names = [f"{target.unit} {target.name}" for target in reached if not target.met]
    assert len(names) == len(missed) and all(word in name for word, name in zip(missed, names, strict=True)), names


def test_run_without_us_has_no_figures() -> None:
    assert {target.value for target in targets_of(["training"], Results())} == {None}


def test_launchers_have_names_of_their_own() -> None:
    assert [launcher.name for launcher in LAUNCHERS] == [TORCHRUN, FT_LAUNCHER, RESTART_ALL, OURS]
