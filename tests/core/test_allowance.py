"""Allowances: so much a second, and some of it at once."""

from __future__ import annotations

from taskd_net.core.allowance import Allowance


def test_what_is_not_left_is_not_spent() -> None:
    allowance = Allowance(8.0, 4.0)
    assert [allowance.spend(100.0) for _ in range(5)] == [True, True, True, True, False]
    assert not allowance.spend(100.0625), "half of one is back"
    assert allowance.spend(100.125)
    assert [allowance.spend(900.0) for _ in range(5)].count(True) == 4, "a pause gives no more than may go at once"


def test_what_is_borrowed_is_paid_back_by_the_next() -> None:
    allowance = Allowance(10.0, 4.0)
    assert allowance.borrow(100.0, 4.0) == 0.0
    assert allowance.borrow(100.0, 20.0) == 0.0, "nothing was owed before"
    assert allowance.borrow(100.0, 1.0) == 2.0
    assert allowance.borrow(101.0, 1.0) == 1.1
    assert not allowance.spend(102.0)
    assert allowance.borrow(103.0, 1.0) == 0.0


def test_peer_that_never_paused_may_spend_all_at_its_first_time() -> None:
    allowance = Allowance(1.0, 3.0)
    assert allowance.borrow(0.0, 3.0) == allowance.borrow(0.0, 1.0) == 0.0
    assert allowance.borrow(0.0, 1.0) == 1.0
