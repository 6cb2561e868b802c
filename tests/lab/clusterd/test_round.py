from __future__ import annotations

import pytest

from taskd_net_lab.clusterd.round import STRATEGIES, Job, Round

ALL = ("retry", "recover", "downgrade", "dump", "exit")


def round_of(faults: dict[int, int], *strategies: str, in_place: bool = False, offered: tuple[str, ...] = ALL) -> Round:
    return Round(Job("demo", strategies, 2, 2), "uuid", faults, in_place, offered=offered)


@pytest.mark.parametrize(
    ("round_", "strategy"),
    [
        (round_of({3: 0}, *STRATEGIES), "retry"),
        (round_of({3: 2}, *STRATEGIES), "retry"),
        (round_of({3: 1}, *STRATEGIES), "recover"),
        (round_of({3: 0, 2: 2}, *STRATEGIES), "recover"),
        (round_of({3: 1}, *STRATEGIES, in_place=True), "recover-in-place"),
        (round_of({3: 0}, "recover", "dump"), "recover"),
        (round_of({3: 0}, *STRATEGIES, offered=("dump",)), "dump"),
        (round_of({3: 0}, *STRATEGIES, offered=("recover", "exit")), "exit"),  # a retry that is not offered
        (round_of({3: 1}, "downgrade"), "downgrade"),
        (round_of({3: 1}, "dump", offered=()), "exit"),
        (round_of({3: 1}), "exit"),
    ],
)
def test_the_first_strategy_that_job_and_client_have_is_chosen(round_: Round, strategy: str) -> None:
    assert round_.choose() == strategy


def test_strategies_that_were_decided_or_struck_are_not_chosen_again() -> None:
    round_ = round_of({3: 0}, *STRATEGIES)
    round_.decided.append("retry")
    assert round_.choose() == "recover"
    round_.strike("recover", "downgrade")
    assert round_.choose() == "dump"
    round_.decided.append("dump")
    assert round_.choose() == "exit"


def test_the_whole_node_is_lost_where_its_pod_is_replaced() -> None:
    assert round_of({3: 1}, "recover").ranks_lost == {2: 1, 3: 1}
    assert round_of({3: 1}, "recover-in-place", in_place=True).ranks_lost == {3: 1}
    assert round_of({3: 0}, "retry").ranks_lost == {3: 0}
