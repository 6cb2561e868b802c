"""The peers that need the extra `bench`, and the plots."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.histogram import Latencies
from benchmarks.machine import describe
from benchmarks.measures import Bench
from benchmarks.mesh import DOWN, UP
from benchmarks.results import Conditions, Results
from benchmarks.systems import ALL, OURS
from taskd_net_lab.bench import bench as command
from tests.benchmarks.conftest import SHORT, require_sane

pytestmark = pytest.mark.bench


@pytest.fixture(scope="module", autouse=True)
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Every plot, of invented figures. Shared, because matplotlib keeps its font files open."""
    from benchmarks.plots import draw

    results = Results()
    for order, system in enumerate(ALL, 1):
        for direction in (UP, DOWN):
            encoded = Latencies.of(range(100_000 * order, 200_000 * order, 50 * order)).encode()
            results.add_latencies("latency", system, encoded, direction=direction, body=64)
            for count in (1, 64, 512):
                case: Conditions = {"direction": direction, "body": 64, "in_flight": count}
                results.add("rate", "messages/s", "1/s", system, 1000.0 * count / order, **case)
    for count in (8, 64, 512):
        results.add("broadcast", "p50", "µs", OURS, 100.0 * count, workers=count)
        results.add("join", "time to the last", "s", OURS, 0.001 * count, children=count)
        results.add("router", "unicast", "ns", OURS, 3000.0, routes=count)
    return draw(results, describe(), tmp_path_factory.mktemp("plots"))


def test_every_plot_is_drawn_as_svg_and_png(drawn: list[Path]) -> None:
    assert {path.name for path in drawn} == {
        f"{name}.{suffix}" for name in ("latency", "throughput", "children") for suffix in ("svg", "png")
    }
    assert all(path.stat().st_size > 10_000 for path in drawn)


@pytest.mark.parametrize("system", ["nats", "zmq", "sockets"])
def test_a_peer_delivers_both_ways(system: str) -> None:
    bench = Bench(SHORT, lambda _: None, (system,))

    with bench.running():
        bench.latency((64, 1_048_576))
        bench.rate((1, 64))

    results = bench.results
    require_sane(results)
    for direction in (UP, DOWN):
        assert results.value("latency", "p50", system, direction=direction, body=1_048_576)
        assert (results.value("rate", "messages/s", system, direction=direction, body=64, in_flight=64) or 0) > 1


def test_the_command_prints_json_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.command.MEASURES", {"latency": lambda bench: bench.latency((64,))})

    ran = CliRunner().invoke(command, ["latency", "--json", "--turns", "1", "--plots", str(tmp_path)])

    assert ran.exit_code == 0, ran.output
    figures = json.loads(ran.stdout)["results"]
    assert {system for figure in figures for system in figure["systems"]} == set(ALL)
    assert {path.name for path in tmp_path.iterdir()} == {"latency.svg", "latency.png", "results.json", "results.md"}
