"""10,000 nodes report through a tree of ledgers: whatever is lost on the way, the Mgr knows the truth in the end."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest

from taskd_net import Position
from taskd_net.base.states import State
from taskd_net.observe import status_codec as wire
from taskd_net.observe import view
from taskd_net.observe.document import document, healthy
from taskd_net.observe.ledger import Ledger, Record, Report
from taskd_net.observe.records import Mesh, NodeStatus, OwnFigures

GROUPS, PROXIES, BELOW = 10, 111, 8
"""Proxies below the Mgr, Proxies below each of those, Workers below each of these."""


class Teller:
    """One node of the tree, as far as reports are concerned.

    Attributes:
        ledger: what it knows.
        sent: reports that it has sent, and the nodes in them.
    """

    def __init__(self, position: Position, parent: Teller | None) -> None:
        self.position = position
        self.parent = parent
        self.ledger = Ledger(view.NODES, wire.REPORT_NODES)
        self.sent = self.nodes = 0
        if parent is not None:
            self.ledger.begin()

    def see(self, node: Position, state: State, step: int) -> None:
        """Note how a child of its own stands."""
        status = NodeStatus(
            self.position, state, float(step), "taskd_net", own=OwnFigures(delivered=step), at=float(step)
        )
        self.ledger.put(Record(str(node), wire.write_node(status), away=state is not State.JOINED))

    def tell(self, chance: random.Random, lossy: float) -> None:
        """Report what there is to report; some reports, or their answers, are lost."""
        assert self.parent is not None
        for _ in range(self.ledger.reports):
            report = self.ledger.next_report()
            assert len(report.records) + len(report.gone) <= wire.REPORT_NODES
            self.sent += 1
            self.nodes += len(report.records)
            lost = chance.random() < lossy
            if not lost or chance.random() < 0.5:
                self.parent.ledger.told(str(self.position), _over_the_wire(report))
            if lost:
                self.ledger.begin()
                return


def _over_the_wire(report: Report) -> Report:
    return wire.read_report(wire.write_report(report))


def _nodes(parent: Teller, ranks: Iterator[int], count: int) -> list[Teller]:
    """Proxies below a node."""
    made = []
    for _ in range(count):
        made.append(Teller(Position.proxy(next(ranks)), parent))
        parent.see(made[-1].position, State.JOINED, 0)
    return made


def _known(root: Teller) -> dict[str, NodeStatus]:
    return {str(position): status for position, status in wire.read_records(root.ledger)}


@pytest.mark.timeout(120)
def test_ten_thousand_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(11)
    ranks = iter(range(1_000_000))
    mgr = Teller(Position.mgr(), None)
    groups = _nodes(mgr, ranks, GROUPS)
    proxies = [proxy for group in groups for proxy in _nodes(group, ranks, PROXIES)]
    workers = {
        Position.worker(proxy.position.server_rank, int(proxy.position.server_rank) * BELOW + number): proxy
        for proxy in proxies
        for number in range(BELOW)
    }
    truth: dict[str, tuple[State, int]] = {str(p.position): (State.JOINED, 0) for p in (*groups, *proxies)}
    for worker, proxy in workers.items():
        proxy.see(worker, State.JOINED, 0)
        truth[str(worker)] = (State.JOINED, 0)

    def round_of_reports(lossy: float) -> float:
        began = time.process_time()
        for teller in (*proxies, *groups):
            teller.tell(chance, lossy)
        return time.process_time() - began

    first = round_of_reports(0.0)
    assert {p: (s.state, int(s.at)) for p, s in _known(mgr).items()} == truth
    assert len(truth) == GROUPS * (1 + PROXIES * (1 + BELOW)) == 10_000
    sent = sum(group.sent for group in groups)
    round_of_reports(0.0)
    assert sum(group.sent for group in groups) == sent, "nothing has changed, so nothing is told"

    # Some come and go and are forgotten, while a tenth of the reports is lost.
    everybody = list(workers)
    for step in range(1, 21):
        for worker in chance.sample(everybody, 300):
            if chance.random() < 0.2:
                workers[worker].ledger.drop(str(worker))
                truth.pop(str(worker), None)
            else:
                state = chance.choice([State.JOINED, State.LOST, State.GONE])
                workers[worker].see(worker, state, step)
                truth[str(worker)] = (state, step)
        round_of_reports(0.1)
    for _ in range(2):
        round_of_reports(0.0)
    assert {p: (s.state, int(s.at)) for p, s in _known(mgr).items()} == truth

    # One change costs one record on each level.
    before = sum(teller.nodes for teller in (*proxies, *groups))
    workers[everybody[0]].see(everybody[0], State.LOST, 99)
    round_of_reports(0.0)
    assert sum(teller.nodes for teller in (*proxies, *groups)) == before + 2

    began = time.process_time()
    nodes = [(Position.mgr(), NodeStatus(None, State.JOINED, 0.0, "taskd_net")), *wire.read_records(mgr.ledger)]
    shown = document(Mesh(Position.mgr(), 100.0, f"{GROUPS * (PROXIES + 1)}x{BELOW}", nodes))
    took = time.process_time() - began
    away = {str(worker) for worker in everybody if truth.get(str(worker), (State.GONE, 0))[0] is not State.JOINED}
    away.add(str(everybody[0]))
    # The Proxies of the first level have no Workers, but are counted as nodes that should.
    for group in groups:
        rank = int(group.position.server_rank)
        away |= {str(Position.worker(rank, number)) for number in range(rank * BELOW, (rank + 1) * BELOW)}
    assert {entry["position"] for entry in shown["missing"]} == away
    assert not healthy(shown)
    with capsys.disabled():
        print(f"\n  status of 10,000 nodes: all told once {first:.2f} s, the document {took:.2f} s of CPU")


def test_a_missing_rank_among_ten_thousand_is_named() -> None:
    joined = NodeStatus(Position.mgr(), State.JOINED, 0.0, "taskd_net")
    nodes = {Position.proxy(node): joined for node in range(1250)}
    for rank in range(10_000):
        nodes[Position.worker(rank // 8, rank)] = NodeStatus(Position.proxy(rank // 8), State.JOINED, 0.0, "taskd_net")
    del nodes[Position.worker(771, 6170)]
    shown = document(Mesh(Position.mgr(), 1.0, "1250x8", list(nodes.items())))
    assert shown["missing"] == [{"position": "Worker/771/6170", "why": "never_seen", "since": None}]
