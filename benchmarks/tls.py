"""The cost of TLS: a chain with it and one without, in turns."""

from __future__ import annotations

import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import Encoding

from benchmarks.measures import SMALL, Bench
from benchmarks.mesh import UP, Chain
from benchmarks.processes import Process, closing
from benchmarks.systems import DIRECT, OURS
from taskd_net.cli.authority import Authority, write

BODIES: Final = (SMALL, 65_536)
PLAIN, TLS = "plain text", "TLS"


def tls(bench: Bench) -> None:
    """Two hops up over mutual TLS, and over plain text: one message in flight, and 64 with small and large bodies."""
    names = [name for name in (OURS, DIRECT, "nats") if name in bench.names]
    processes: list[Process] = []
    with tempfile.TemporaryDirectory() as folder, closing(processes):
        _issue(Path(folder))
        chains = []
        for name in names:
            secure = Chain(name, processes, certificates=folder)
            secure.ready()
            chains.append((bench.chain(name), secure))
        for turn in bench._turns("TLS"):
            for plain, secure in chains:
                with bench._turn(f"TLS, turn {turn}", plain.system):
                    _turn(bench, plain, secure)


def _turn(bench: Bench, plain: Chain, secure: Chain) -> None:
    add, system = bench.results.add, plain.system
    for over, chain in ((PLAIN, plain), (TLS, secure)):
        one = bench._load(chain, UP, SMALL, 1, bench.effort.latency_seconds, latencies=True)
        bench.results.add_latencies("tls", system, one.latencies, over=over)
    for body in BODIES:
        rates = []
        for over, chain in ((PLAIN, plain), (TLS, secure)):
            many = bench._load(chain, UP, body, 64, bench.effort.seconds)
            rates.append(many.count / many.seconds)
            add("tls", "messages/s", "1/s", system, rates[-1], over=over, body=body, in_flight=64)
        add("tls", "messages/s, TLS against plain text", "x", system, rates[1] / rates[0], body=body, in_flight=64)
    # The percentiles of this turn were recorded last.
    took = [bench.results.last("tls", "p50", system, over=over) for over in (PLAIN, TLS)]
    add("tls", "p50, TLS against plain text", "x", system, took[1] / took[0])


def _issue(folder: Path) -> None:
    """Write the files of one CA and of one certificate for all."""
    authority = Authority.new("benchmark", timedelta(hours=1))
    key, crt = authority.issue(["taskd://*/*/*/*"], ["127.0.0.1"], timedelta(hours=1))
    write(folder / "ca.crt", authority.certificate.public_bytes(Encoding.PEM), 0o644)
    write(folder / "node.key", key, 0o600)
    write(folder / "node.crt", crt, 0o644)
