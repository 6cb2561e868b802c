"""Every measure, with the systems of this package alone."""

import pytest

from benchmarks.measures import Bench
from benchmarks.mesh import DOWN, UP
from benchmarks.tls import tls
from benchmarks.worker import worker
from tests.benchmarks.conftest import OWN, Measure, Take

pytestmark = pytest.mark.more


def test_latency_is_measured_for_each_system_direction_and_body(take: Take) -> None:
    results = take(lambda bench: bench.latency((64, 4096)))

    for body in (64, 4096):
        for direction in (UP, DOWN):
            for system in OWN if direction == DOWN else OWN[:3]:
                p50 = results.value("latency", "p50", system, direction=direction, body=body)
                p99 = results.value("latency", "p99", system, direction=direction, body=body)
                assert p50 is not None and p99 is not None
                assert 1.0 < p50 <= p99
                latencies = results.distribution("latency", system, direction=direction, body=body)
                assert latencies is not None and latencies.count > 0


def test_rate_counts_messages_and_the_time_of_each_process(take: Take) -> None:
    results = take(lambda bench: bench.rate((1, 16)))

    for system in OWN:
        assert (results.value("rate", "messages/s", system, direction=DOWN, body=64, in_flight=16) or 0) > 1
        for role in ("Worker", "Proxy", "Mgr"):
            assert (results.value("cpu", role, system, direction=DOWN, body=64, in_flight=1) or 0) > 0
    assert results.ratio("rate", "messages/s", "taskd_net", "unary", direction=UP, body=64, in_flight=16)
    assert [at for at, _ in results.curve("rate", "messages/s", "unary", "in_flight", direction=UP, body=64)] == [1, 16]


def test_large_bodies_are_delivered(take: Take) -> None:
    results = take(lambda bench: bench.bodies((65_536, 1_048_576)))

    assert (results.value("rate", "messages/s", "taskd_net", direction=UP, body=1_048_576, in_flight=8) or 0) > 0


def test_open_loop_leaves_out_who_cannot_keep_up(take: Take) -> None:
    results = take(lambda bench: bench.open_loop((100, 100_000_000)))

    assert results.value("open-loop", "p50", "taskd_net", rate=100)
    assert results.value("open-loop", "p50", "taskd_net", rate=100_000_000) is None


def test_four_hops_are_measured_beside_two(take: Take) -> None:
    results = take(Bench.four_hops)

    for system in ("taskd_net", "unary"):
        assert results.value("four-hops", "p50", system, hops=4)
        assert results.value("four-hops", "p50", system, hops=2)


def test_a_broadcast_crosses_each_link_once(take: Take) -> None:
    results = take(lambda bench: bench.broadcast((8,), ("taskd_net",)))

    assert results.value("broadcast", "p50", "taskd_net", workers=8)
    assert results.value("broadcast", "copies per link", "taskd_net", workers=8) == 1.0


def test_children_join_all_at_once(take: Take) -> None:
    results = take(lambda bench: bench.join((8,)))

    assert results.value("join", "time to the last", "taskd_net", children=8)


def test_children_come_back_to_a_new_parent_at_the_old_address(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.measures.REST_FROM", 8)

    results = take(lambda bench: bench.join((8,)))

    assert 0 < (results.value("join", "killed parent: all are back", "direct", children=8) or 0) < 60


@pytest.mark.parametrize("measure", [Bench.idle, Bench.blocking, Bench.busy, tls, worker])
def test_what_a_node_costs_beside_something_else(take: Take, measure: Measure) -> None:
    results = take(measure)

    assert results.figures


def test_the_router_alone(take: Take, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.measures.ROUTES", (100, 1000))
    monkeypatch.setattr("benchmarks.measures.LINKS", (10, 100))

    results = take(Bench.router)

    assert results.value("router", "unicast", "taskd_net", routes=1000)
    assert results.value("router", "broadcast", "taskd_net", links=100)
