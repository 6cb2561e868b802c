from __future__ import annotations

import pytest

from taskd_net.base.position import Position
from taskd_net.job.decide.events import CallEnded, DecidesAgain, MachineReset, Reported, Signal, Tick
from taskd_net.job.decide.job import PAUSE_STARTS_S, Job
from taskd_net.job.decide.orders import ORDERS_KEPT, Orders
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.decide.traffic import Call

pytestmark = pytest.mark.oldest


def test_each_action_is_taken_once() -> None:
    orders = Orders()
    first = Signal("u", "stopTrain", ("stop_train", "x"))
    assert orders.fresh(first) == first
    assert orders.fresh(first) is None
    again = Signal("u", "stopTrain", ("x", "y"))
    assert orders.fresh(again) == Signal("u", "stopTrain", ("y",))


def test_signals_of_one_fault_may_share_a_uuid() -> None:
    orders = Orders()
    signals = [
        Signal("u", "stopTrain", ("stop_train",)),
        Signal("u", "globalFault", ("on_global_rank", "fault_nodes_exit")),
        Signal("u", "changeStrategy", ("change_strategy", "fault_nodes_exit"), change_strategy="recover"),
        Signal("u", "changeStrategy", ("change_strategy",), change_strategy="dump"),
        Signal("u", "stopTrain"),
    ]
    assert [orders.fresh(each) for each in signals] == signals
    assert [orders.fresh(each) for each in signals] == [None] * 5


def test_second_global_fault_of_a_uuid_is_taken_after_a_retry_has_failed() -> None:
    orders = Orders()
    older = Signal("t", "globalFault", ("on_global_rank",))
    first = Signal("u", "globalFault", ("on_global_rank",))
    retry = Signal("u", "changeStrategy", ("change_strategy",), change_strategy="retry")
    second = Signal("u", "globalFault", ("on_global_rank", "fault_nodes_exit"))
    for signal in (older, first, retry):
        orders.fresh(signal)
    orders.changed = False
    orders.decide_again()
    assert orders.changed
    assert [orders.fresh(each) for each in (older, retry, second, second)] == [None, None, second, None]


def test_to_decide_again_without_a_global_fault_changes_no_order() -> None:
    orders, signal = Orders(), Signal("u", "stopTrain", ("stop_train",))
    orders.fresh(signal)
    orders.decide_again()
    assert orders.fresh(signal) is None


def test_job_takes_a_second_global_fault_after_a_retry_has_failed() -> None:
    job = Job(JobConfig(fault_recover="on", clusterd=True), "s")
    signals = [
        Signal("u", "globalFault", ("on_global_rank",), {3: 2}),
        Signal("u", "changeStrategy", ("change_strategy",), {3: 2}, "retry"),
        Signal("u", "globalFault", ("on_global_rank", "fault_nodes_exit"), {3: 1}, node_rank_ids=(1,)),
    ]
    calls = []
    for now, signal in enumerate(signals):
        if now == 2:
            assert job.step(2.0, DecidesAgain()).taken
        assert job.step(float(now), signal).taken
        calls.append([call.name for call in job.step(float(now), Tick()).calls])
    assert calls == [["on_global_rank"], ["change_strategy"], ["on_global_rank"]]


def test_memory_is_bounded() -> None:
    orders = Orders()
    for number in range(ORDERS_KEPT + 1):
        assert orders.fresh(Signal(str(number), "stopTrain")) is not None
    assert len(orders.taken) == ORDERS_KEPT
    assert orders.fresh(Signal(str(ORDERS_KEPT), "stopTrain")) is None
    assert orders.fresh(Signal("0", "stopTrain")) is not None


def test_job_takes_an_order_once_also_when_it_goes_on_from_its_parts() -> None:
    config = JobConfig(fault_recover="on", clusterd=True)
    job, parts = Job(config, "s"), dict[str, str]()
    signal = Signal("u", "stopTrain", ("stop_train",), {3: 1})
    assert job.step(1.0, signal).taken
    assert [call.name for call in job.step(1.0, Tick()).calls] == ["stop_train"]
    assert not job.step(2.0, signal).taken
    parts |= {name: text for name, text in job.unsaved().items() if text is not None}
    assert "orders" in parts and "orders" not in job.unsaved()
    resumed = Job.from_parts(parts, config)
    assert not resumed.step(3.0, signal).taken
    assert Job.from_json(job.to_json(), config).step(3.0, signal).taken is False


def test_calls_are_kept_until_their_report_has_gone() -> None:
    config = JobConfig(fault_recover="on", clusterd=True)
    job = Job(config, "s")
    job.step(1.0, Signal("u", "stopTrain", ("stop_train",), {3: 1}))
    job.step(1.0, Tick())
    parts = {name: text for name, text in job.unsaved().items() if text is not None}
    resumed = Job.from_parts(parts, config)
    assert resumed.state.calls == {"stop_train": Call("stop_train", {3: 1}, "stop")}
    changed = []
    for names in (("change_strategy",), ("stop_train", "dump")):
        assert resumed.step(2.0, CallEnded(names)).taken
        changed.append(resumed.state.dirty)
    assert changed == [False, True]
    assert not resumed.state.calls


def test_one_faults_signals_run_through_with_one_uuid() -> None:
    job = Job(JobConfig(fault_recover="on", clusterd=True), "s")
    job.step(0.0, Reported(Position.agent(1), "REGISTER", 0))
    done: list[str] = []
    for now, signal in enumerate(
        (
            Signal("u", "stopTrain", ("stop_train",), {3: 1}),
            Signal("u", "globalFault", ("on_global_rank", "fault_nodes_exit"), {3: 1}, node_rank_ids=(1,)),
            Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "downgrade", node_rank_ids=(1,)),
            Signal("u", "faultNodesExit", ("fault_nodes_exit",), {3: 1}, node_rank_ids=(2,)),
            Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "upgrade"),
            Signal("u", "changeStrategy", ("change_strategy",), {3: 1}, "dump"),
        ),
        1,
    ):
        assert job.step(now / 10, signal).taken
        outcome = job.step(now / 10, Tick())
        done += [f"{call.name} {call.text}".strip() for call in outcome.calls]
        done += [f"{command.code} {command.to}" for command in outcome.commands]
    assert done == [
        "stop_train stop",
        "on_global_rank",
        "203 Agent/1",
        "change_strategy downgrade",
        "203 Agent/2",
        "change_strategy upgrade",
        "change_strategy dump",
    ]


CLUSTERD = JobConfig(fault_recover="on", clusterd=True)


def paused() -> Job:
    """A job whose starts are held back since time 0; an Agent asks."""
    job = Job(CLUSTERD, "s")
    job.step(0.0, Signal("u", "pauseStartAgent"))
    job.step(0.0, Reported(Position.agent(1), "REGISTER", 0))
    job.step(0.0, Reported(Position.agent(1), "STATUS", 201, "3"))
    assert job.step(0.0, Tick()).commands == []
    return job


def test_a_reset_of_the_machine_ends_a_pause_of_starts() -> None:
    job = paused()
    assert job.step(1.0, MachineReset()).taken
    assert job.state.dirty
    assert [command.code for command in job.step(1.0, Tick()).commands] == [210]
    assert job.step(2.0, MachineReset()).taken
    assert not job.state.dirty, "nothing was open"


def test_a_pause_of_starts_has_a_bound_also_where_clusterd_stands() -> None:
    job, bound = paused(), PAUSE_STARTS_S
    assert job.state.again == bound
    assert job.step(bound - 0.1, Tick()).commands == []
    outcome = job.step(bound, Tick())
    assert [command.code for command in outcome.commands] == [210]
    assert [notice.event for notice in outcome.notices] == ["pause_overdue"]
    assert not job.state.paused
    job.step(bound, Signal("v", "pauseStartAgent"))
    assert job.state.paused_until == 2 * bound, "each pause has its own"
