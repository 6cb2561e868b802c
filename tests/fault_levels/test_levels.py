"""taskd_net.job.faults.levels: the table of the documents, cell by cell."""

from __future__ import annotations

import pytest

from taskd_net.job.faults.levels import TYPES, FaultType, GraceTimes, JobKind, Mode, SubHealth, steps

TIMES = GraceTimes(90.0, 60.0)
ISOLATE = "isolate_and_reschedule"
RESET = "stop_processes (90 s), reset_device (60 s), run_again"


@pytest.mark.parametrize(
    ("word", "level", "rescheduling", "grace", "grace_inference"),
    [
        ("NotHandleFault", "L1", "", "", ""),
        ("RestartRequest", "L2", ISOLATE, "run_again", "run_request_again"),
        ("RestartBusiness", "L3", ISOLATE, "run_again", "run_again"),
        ("FreeRestartNPU", "L4", ISOLATE, f"wait_until_idle, {RESET}", f"wait_until_idle, {RESET}"),
        ("RestartNPU", "L5", ISOLATE, RESET, RESET),
        ("SeparateNPU", "L6", ISOLATE, ISOLATE, ISOLATE),
        ("PreSeparateNPU", "-", "no_new_job", "no_new_job", "no_new_job"),
        ("ManuallySeparateNPU", "-", ISOLATE, ISOLATE, ISOLATE),
        ("SubHealthFault", "-", "", "", ""),
    ],
)
def test_the_steps_of_each_level_are_those_of_the_documents(
    word: str, level: str, rescheduling: str, grace: str, grace_inference: str
) -> None:
    fault_type = TYPES[word]

    def text(mode: Mode, kind: JobKind) -> str:
        return ", ".join(map(str, steps(fault_type, mode, kind, TIMES)))

    assert (fault_type.word, fault_type.level) == (word, level)
    assert text(Mode.RESCHEDULING, JobKind.TRAINING) == text(Mode.RESCHEDULING, JobKind.INFERENCE) == rescheduling
    assert text(Mode.GRACE, JobKind.TRAINING) == grace
    assert text(Mode.GRACE, JobKind.INFERENCE) == grace_inference


def test_a_fault_that_slows_a_device_down_is_answered_by_the_setting() -> None:
    found = {
        each.value: " ".join(map(str, steps(FaultType.SUB_HEALTH, Mode.GRACE, JobKind.TRAINING, TIMES, each)))
        for each in SubHealth
    }
    assert found == {"ignore": "", "graceExit": "exit_gracefully", "hotSwitch": "hot_switch"}


def test_with_a_time_for_healing_level_3_waits_for_it_first() -> None:
    found = steps(FaultType.RESTART_BUSINESS, Mode.GRACE, JobKind.TRAINING, GraceTimes(30.0, 150.0, 15.0))
    assert list(map(str, found)) == ["wait_for_recovery (15 s)"]


def test_the_order_of_seriousness() -> None:
    assert [each.word for each in sorted(FaultType, reverse=True)] == [
        "ManuallySeparateNPU",
        "SeparateNPU",
        "PreSeparateNPU",
        "RestartNPU",
        "FreeRestartNPU",
        "RestartBusiness",
        "RestartRequest",
        "SubHealthFault",
        "NotHandleFault",
    ]
