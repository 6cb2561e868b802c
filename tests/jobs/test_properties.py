"""Random reports, signals, losses and restarts of the Manager: rules that hold whatever happens."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from taskd_net.base.position import Position
from taskd_net.job.decide.events import MachineReset, Reported
from taskd_net.job.decide.records import Taken
from taskd_net.job.decide.snapshot import JobConfig
from tests.jobs.device_play import CONFIGS, DEVICE_STEP, DevicePlay
from tests.jobs.play import ORDER, STEP, TELL, BooksPlay, Play
from tests.jobs.scene import CLUSTERD, IN_PLACE, LOCAL
from tests.jobs.test_records import check


@settings(max_examples=200)
@given(st.lists(STEP, max_size=40), st.sampled_from((LOCAL, CLUSTERD, IN_PLACE)), st.booleans())
@example(
    steps=[("together", "new", None), ("wait", 0.01, None), ("fault", 0, True), ("together", "running", None)],
    config=IN_PLACE,
    ours=False,
)
def test_every_stream_is_free_again_once_faults_are_gone(
    steps: list[tuple[str, object, object]], config: JobConfig, ours: bool
) -> None:
    play = Play(config, ours=ours)
    play.run(steps)
    play.assert_rest()


@settings(max_examples=150)
@given(st.lists(st.one_of(ORDER, ORDER, STEP), max_size=40), st.booleans())
def test_the_end_of_clusterds_stream_ends_every_hold(steps: list[tuple[str, object, object]], ours: bool) -> None:
    """ClusterD has forgotten its orders, and sends nothing that would end them. Until then each has a reason.

    Workers end a switch of cards or a test that they have begun.
    """
    play = Play(CLUSTERD, ours=ours)
    for kind, first, second in steps:
        play.step(kind, first, second)
        if play.job.wake <= play.now:
            play.tick()
    play.take(MachineReset())
    play.settle(1.0)
    held = {name for name, stream in play.job.state.streams.items() if stream.owner}
    assert held <= {"OMSwitchNicStream", "OMStressTestStream"}


@settings(max_examples=150)
@given(st.lists(st.one_of(DEVICE_STEP, DEVICE_STEP, STEP), max_size=40), st.sampled_from(CONFIGS), st.booleans())
def test_faults_of_devices_in_any_order_come_to_rest(
    steps: list[tuple[str, object, object]], config: JobConfig, ours: bool
) -> None:
    play = DevicePlay(config, ours=ours)
    play.run(steps)
    play.assert_rest()


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from((201, 202, 0)), st.booleans()), max_size=30))
def test_the_indexes_are_those_of_the_records(reports: list[tuple[int, int, bool]]) -> None:
    play = Play(LOCAL)
    for rank, code, on in reports:
        kind = "REGISTER" if code == 0 else "STATUS"
        message = '{"fault_ranks": [1]}' if code == 202 and on else ""
        report = Reported(Position.agent(rank), kind, code, message, {"Incarnation": "x"} if on else {})
        assert play.job.state.records.take(play.now, report) in (Taken.CHANGED, Taken.NEW_PROCESS, Taken.NOTHING)
        check(play.job.state.records)
        if on:
            play.job.state.records.exit(rank)
            check(play.job.state.records)


@settings(max_examples=100)
@given(st.lists(st.one_of(TELL, TELL, STEP), max_size=40), st.sampled_from((LOCAL, CLUSTERD, IN_PLACE)), st.booleans())
def test_books_of_any_job_add_up(steps: list[tuple[str, object, object]], config: JobConfig, ours: bool) -> None:
    play = BooksPlay(config, ours=ours)
    for kind, first, second in steps:
        play.step(kind, first, second)
        if play.job.wake <= play.now:
            play.tick()
    play.settle()
