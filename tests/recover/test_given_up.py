"""Orders that nobody carries out, or that fail, against the stand-in's machine: none keeps ClusterD waiting."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import pytest

from taskd_net.job.clusterd.controller import Ranks, Reports, give_up
from taskd_net.job.decide.traffic import Call
from taskd_net_lab.clusterd.messages import Queue, Report
from taskd_net_lab.clusterd.reader import SCENARIOS
from taskd_net_lab.clusterd.table import Event
from tests.lab.clusterd.client import WELL, Played, play, scenario

STRATEGIES: Final = ("retry", "recover", "downgrade", "upgrade", "dump", "continue", "migration")
CALLS: Final = {
    "stop_train": Call("stop_train", text="stop"),
    "pause_train": Call("stop_train", text="pause"),
    "on_global_rank": Call("on_global_rank"),
    "save_and_exit": Call("dump"),
    "new pod running": Call("prepare_action", text="hot switch"),  # the report of the hot switch is read then
    **{name: Call("change_strategy", text=name) for name in STRATEGIES},
}
"""The call behind each order, by the names of `WELL`."""


class Given(Reports):
    """Reports as the machine gets them."""

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def stop_complete(self, code: int, msg: str, ranks: Ranks) -> int:
        self.reports.append(Report(Queue.STOPPED, code))
        return 0

    def strategies(self, ranks: Ranks, strategies: Iterable[str]) -> int:
        self.reports.append(Report(Queue.STRATEGIES, strategies=tuple(strategies)))
        return 0

    def result(self, code: int, msg: str, ranks: Ranks, strategy: str) -> int:
        self.reports.append(Report(Queue.STATUS, code))
        return 0

    def fault_ranks(self, ranks: Ranks, codes: object = None) -> int:
        raise AssertionError("no fault is reported")


def given_up(order: str, *, nobody: bool) -> Report:
    """The report that answers an order."""
    given = Given()
    give_up(CALLS[order], "why", given, nobody=nobody)
    (report,) = given.reports
    return report


def orders(name: str) -> list[str]:
    """The orders of a scenario that a controller has to carry out."""
    return [order for order in dict.fromkeys(play(scenario(name)).orders) if order in CALLS]


SIMPLE: Final = [path.stem for path in sorted(SCENARIOS.glob("*.yaml")) if "when: init" in path.read_text()]
"""Scenarios that end in `init`, whatever is reported."""

EACH: Final = [(name, order) for name in SIMPLE for order in orders(name)]


def times_out(played: Played) -> bool:
    """True where ClusterD has waited for a report to the end."""
    return any(event is Event.REPORT_TIMEOUT for _, event, _ in played.rows)


@pytest.mark.parametrize("nobody", [True, False], ids=["nobody", "fails"])
@pytest.mark.parametrize(("name", "order"), EACH)
def test_order_that_is_given_up_keeps_clusterd_waiting_for_nothing(name: str, order: str, nobody: bool) -> None:
    played = play(scenario(name), {order: [given_up(order, nobody=nobody)]})
    assert not times_out(played)
    assert played.states[-1] == "init"


@pytest.mark.parametrize("order", ["stop_train", "pause_train"])
def test_training_that_nobody_stops_is_ended_before_its_devices_are_touched(order: str) -> None:
    name = "recover" if order == "stop_train" else "stress-test"
    played = play(scenario(name), {order: [given_up(order, nobody=True)]})
    after = played.orders[played.orders.index(order) + 1 :]
    assert set(after) <= {"killMaster", "continueStartAgent"}
    assert "killMaster" in after


def test_every_order_with_a_report_of_the_framework_is_here() -> None:
    assert {order for _, order in EACH} == set(CALLS) == set(WELL) - {"switch", "stress", "fault_nodes_exit"}
