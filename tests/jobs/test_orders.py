from __future__ import annotations

import pytest

from taskd_net import job_limits
from taskd_net.jobs.events import Signal
from taskd_net.jobs.orders import Orders

pytestmark = pytest.mark.compat


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
        Signal("u", "killMaster"),
    ]
    assert [orders.fresh(each) for each in signals] == signals
    assert [orders.fresh(each) for each in signals] == [None] * 5


def test_signal_without_a_uuid_is_always_new() -> None:
    orders, signal = Orders(), Signal("", "stopTrain", ("stop_train",))
    assert [orders.fresh(signal), orders.fresh(signal)] == [signal, signal]
    assert not orders.taken


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_limits, "CLUSTERD_ORDERS", 3)
    orders = Orders()
    for uuid in "abcd":
        assert orders.fresh(Signal(uuid, "killMaster")) is not None
    assert len(orders.taken) == 3
    assert orders.fresh(Signal("d", "killMaster")) is None
    assert orders.fresh(Signal("a", "killMaster")) is not None
