"""Epochs: reports of Workers, and their order."""

from __future__ import annotations

import pytest

from taskd_net.base import vocabulary
from taskd_net.job.decide.epochs import CALLED, FINISHED, LEFT, NEW, RUNNING, Epochs, Part, read_part
from taskd_net.job.decide.records import WorkerRecord


def test_a_part_is_read_as_it_is_reported() -> None:
    body = Part(RUNNING, 3, 4, 2).report("rank 1 failed")
    assert (body.msg_type, body.code, body.extension["Reason"]) == ("STATUS", vocabulary.EPOCH_STATE, "rank 1 failed")
    assert read_part(body.message, dict(body.extension)) == Part(RUNNING, 3, 4, 2)


@pytest.mark.parametrize(
    ("phase", "numbers"),
    [
        *(("called", "1 2 2"), ("", "1 2 2"), (RUNNING, "x 2 2"), (RUNNING, "1 0 2"), (RUNNING, "1 2 0")),
        *((RUNNING, "-1 2 2"), (RUNNING, "1 99999999999 2")),
    ],
)
def test_rubbish_is_no_part(phase: str, numbers: str) -> None:
    extension = dict(zip(("Epoch", "World", "LocalWorld"), numbers.split(), strict=True))
    assert read_part(phase, extension) is None
    assert read_part(RUNNING, {}) is None


def test_phases_are_counted() -> None:
    epochs, members = Epochs(), [WorkerRecord(), WorkerRecord()]
    for member in members:
        epochs.take(member, Part(NEW, 0, 2, 1))
    assert epochs.all_in(NEW) and epochs.all_in(NEW, LEFT) and not epochs.all_in(LEFT)
    epochs.begin(1, members)
    assert epochs.phases == {CALLED: 2}
    epochs.take(members[0], Part(RUNNING, 1, 2, 1))
    epochs.take(members[0], Part(FINISHED, 1, 2, 1))
    assert epochs.phases == {CALLED: 1, FINISHED: 1}
    epochs.end_all(members)
    assert epochs.phases == {} and epochs.over == 1


def test_a_report_from_before_the_call_says_nothing() -> None:
    epochs, member = Epochs(), WorkerRecord()
    epochs.take(member, Part(LEFT, 4, 1, 1))
    epochs.begin(5, [member])
    for late in (Part(NEW, 0, 1, 1), Part(LEFT, 4, 1, 1), Part(RUNNING, 4, 1, 1)):
        epochs.take(member, late)
        assert (member.phase, member.epoch) == (CALLED, 5)


def test_a_report_of_an_epoch_that_is_over_says_nothing() -> None:
    epochs, member = Epochs(), WorkerRecord()
    epochs.begin(5, [member])
    epochs.end_all([member])
    epochs.take(member, Part(LEFT, 5, 1, 1))
    assert member.phase == ""
    epochs.take(member, Part(NEW, 0, 1, 1))
    assert epochs.all_in(NEW)


def test_no_epoch_is_whole_before_the_size_is_known() -> None:
    assert not Epochs().all_in(NEW)
