"""The cost of the four calls: the measurement works; its result is not checked."""

from pathlib import Path

import pytest

from benchmarks import calls, migration
from benchmarks.mesh import DOWN, MGR, PROXY, ROLES, UP
from benchmarks.processes import ROOT

pytestmark = pytest.mark.more


@pytest.mark.parametrize(("to", "against"), [(MGR, ROOT), (PROXY, None)])
def test_calls_are_measured_beside_a_handler_alone(to: str, against: Path | None) -> None:
    servers = calls.measure(to, 2, 0.05, against)

    assert [server.name for server in servers] == [calls.BARE, calls.OURS, calls.BEFORE][: 2 if against is None else 3]
    for server in servers:
        assert len(server.rate) == len(server.cpu) == 2
        assert min(*server.rate, *server.cpu) > 1.0
    assert calls.ratio(servers[0].rate, servers[0].rate) == 1.0


def test_each_step_of_a_migration_is_measured_both_ways() -> None:
    steps = migration.measure(1, 0.05)

    assert list(steps) == list(migration.STEPS)
    for step in steps.values():
        for way in (UP, DOWN):
            assert step.rate[way][0] > 1.0
            assert all(step.cpu[way, role][0] > 0.0 for role in ROLES)
