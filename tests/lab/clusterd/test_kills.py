"""ClusterD and the Manager killed at every point of every flow: the next fault has its whole recovery, each step once.

The processes themselves are killed at each stage in `tests/lab/demos/recovery`.
"""

from __future__ import annotations

import pytest

from taskd_net_lab.clusterd.reader import SCENARIOS
from tests.lab.clusterd.client import scenario
from tests.lab.clusterd.pair import CLUSTERD, MANAGER, Pair, Seen

FLOWS = sorted(
    path.stem for path in SCENARIOS.glob("*.yaml") if path.stem not in ("killed-at-each-stage", "kill-master")
)
"""All but `kill-master`, which ends the job by a forced outcome of one visit."""
EMPTY = ("pause-start-agent", "switched-on-later")
KILLS = [
    pytest.param(name, victim, marks=[pytest.mark.more] if (number + turn) % 2 else [])
    for number, name in enumerate(name for name in FLOWS if name not in EMPTY)
    for turn, victim in enumerate((CLUSTERD, MANAGER))
]
"""Each flow has one victim in `make test`, the other one in `make more`."""


def whole(pair: Pair) -> Seen:
    """A fault, and all that follows."""
    pair.seen = Seen()
    pair.fault()
    pair.settle()
    return pair.seen


def is_part(part: list[str], of: list[str]) -> bool:
    """True where each is in the other as often at least."""
    return all(part.count(each) <= of.count(each) for each in part)


@pytest.mark.parametrize("name", [name for name in FLOWS if name not in EMPTY])
def test_a_flow_without_kills_is_a_whole_one(name: str) -> None:
    seen = whole(Pair(scenario(name)))
    assert seen.calls
    assert seen.reports


@pytest.mark.parametrize(("name", "victim"), KILLS)
def test_a_kill_at_any_point_is_followed_by_a_whole_flow(name: str, victim: str) -> None:
    expected = whole(Pair(scenario(name)))
    for point in range(1, 200):
        pair = Pair(scenario(name))
        pair.fault()
        if pair.points(point) < point:
            break
        pair.kill(victim)
        pair.settle()
        before = pair.seen
        # The Manager ends a pause that ClusterD has forgotten.
        own = ["change_strategy continue"] if "change_strategy continue" in expected.calls else []
        assert is_part(before.calls, expected.calls + own), point
        assert not before.calls.count("stop_train pause") or own[0] in before.calls, point
        assert is_part(before.commands, [*expected.commands, "210 Agent/1", "210 Agent/0"]), point
        after = whole(pair)
        assert after.calls == expected.calls, point
        assert after.reports == expected.reports, point
        assert sorted(after.commands) == sorted(expected.commands), point
        assert pair.machine.state == "init"
        assert not pair.job.state.paused
        assert not pair.job.state.calls
    else:
        raise AssertionError("the flow has no end")
    assert point > 5
