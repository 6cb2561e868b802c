from __future__ import annotations

import pytest

from taskd_net_lab.clusterd.desk import CALLS_PER_S, Desk, Rate
from taskd_net_lab.clusterd.messages import Stream
from taskd_net_lab.clusterd.round import Job
from taskd_net_lab.clusterd.table import State


def desk(*jobs: Job, most: int = 10) -> Desk:
    return Desk(jobs, lambda: "uuid", most=most)


def joined(job: Job) -> Desk:
    made = desk(job)
    assert (made.init(job.job_id).code, made.register(job.job_id).code) == (0, 0)
    return made


def test_init_and_register_answer_with_their_codes() -> None:
    job = Job("demo", enabled=False)
    made = desk(job, Job("unknown", known=False), Job("further"), most=1)
    assert made.register("demo").code == 408
    assert made.init("nobody").code == 502
    assert made.init("demo").code == 403
    job.enabled = True
    assert made.init("demo").code == 0
    job.enabled = False
    assert made.init("demo").code == 0  # once is enough
    assert made.register("demo").code == 0
    assert made.register("demo").code == 0
    assert (made.init("unknown").code, made.register("unknown").code) == (0, 402)
    assert (made.init("further").code, made.register("further").code) == (0, 500)
    made.forget()
    assert made.machine("demo") is None
    assert made.init("demo").code == 403


def test_settings_are_those_of_the_first_init_until_a_restart() -> None:
    job = Job("demo", ("recover",))
    made = joined(job)
    job.strategies = ("exit",)
    assert made.init("demo").code == 0
    machine = made.machine("demo")
    assert machine is not None
    assert machine.job.strategies == ("recover",)
    made.forget()
    made.init("demo")
    made.register("demo")
    machine = made.machine("demo")
    assert machine is not None
    assert machine.job.strategies == ("exit",)


def test_a_kill_at_the_end_of_a_round_leaves_the_job_paused() -> None:
    made = joined(Job("demo"))
    machine = made.machine("demo")
    assert machine is not None
    machine.state = State.FAULT_RETRY
    made.forget()
    assert made.init("demo").code == 403


@pytest.mark.parametrize(
    ("cards", "code"),
    [
        ({"node-1": (["0", "1"], [True, False])}, 0),
        ({}, 0),  # it stands for ever
        ({"node-2": (["0"], [True])}, 413),
        ({"node-1": (["2"], [True])}, 413),
        ({"node-1": (["0"], [])}, 413),
        ({"node-1": ([], [])}, 0),
    ],
)
def test_a_switch_of_cards(cards: dict[str, tuple[list[str], list[bool]]], code: int) -> None:
    made = joined(Job("demo", nodes=2, processes=2))
    assert made.switch_cards("demo", cards, 0.0).code == code


@pytest.mark.parametrize(
    ("nodes", "everywhere", "code"),
    [
        ({"node-0": [0, 1]}, [], 0),
        ({}, [0], 0),
        ({}, [], 413),
        ({"node-0": []}, [], 413),
        ({"node-0": [2]}, [], 413),
        ({"node-9": [0]}, [], 413),
        ({"node-0": [0, 0]}, [], 413),
    ],
)
def test_a_stress_test(nodes: dict[str, list[int]], everywhere: list[int], code: int) -> None:
    made = joined(Job("demo", nodes=2, processes=2))
    assert made.stress_test("demo", nodes, everywhere, 0.0).code == 413  # nobody takes tests
    machine = made.machine("demo")
    assert machine is not None
    machine.begin(Stream.STRESS, 0.0)
    assert made.stress_test("demo", nodes, everywhere, 0.0).code == code


def test_a_busy_job_is_411_and_an_unregistered_one_413() -> None:
    made = joined(Job("demo"))
    machine = made.machine("demo")
    assert machine is not None
    for stream in Stream:
        machine.begin(stream, 0.0)
    assert made.stress_test("demo", {}, [0], 0.0).code == 0
    assert machine.state is State.WAIT_REPORT_PAUSE_COMPLETE
    assert made.stress_test("demo", {}, [0], 0.0).code == 411
    assert made.switch_cards("demo", {"node-0": (["0"], [True])}, 0.0).code == 411
    assert made.stress_test("nobody", {}, [0], 0.0).code == 413
    assert made.switch_cards("nobody", {}, 0.0).code == 413


def test_a_thousand_calls_a_second_pass() -> None:
    rate = Rate(CALLS_PER_S)
    assert all(rate.take(7.0) for _ in range(CALLS_PER_S))
    assert not rate.take(7.9)
    assert rate.take(8.0)
