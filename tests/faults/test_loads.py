"""Overload: a receiver that does not read, a flood, very large messages among small ones, a bad network."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psutil
import pytest

from taskd_net import Code
from tests.faults.conftest import Form
from tests.faults.figures import Figures
from tests.faults.lab import Lab, Member

pytestmark = [pytest.mark.timeout(600), pytest.mark.more]

MIB = 1 << 20

IN_FLIGHT_OF_A_LINK = 4096
LARGEST_BODY = 8_388_608 - 256

MEMORY_MIB = 256
"""Greatest growth of a node's memory: the bounds of its links, a few times over."""


@pytest.fixture(scope="module")
def lab_settings() -> dict[str, Any]:
    """Both Proxies reach the Mgr through relays."""
    return {"relayed": ["proxy0", "proxy1"]}


class Peak:
    """Peak memory of some members, sampled from outside."""

    def __init__(self, members: list[Member]) -> None:
        self._processes = {member.name: psutil.Process(member.process.pid) for member in members}
        self.before = {name: process.memory_info().rss for name, process in self._processes.items()}
        self.most = dict(self.before)
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._end.wait(0.1):
            for name, process in self._processes.items():
                self.most[name] = max(self.most[name], process.memory_info().rss)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def report(self, figures: Figures, row: str) -> None:
        """Report each member's growth."""
        for name, most in self.most.items():
            grown = (most - self.before[name]) / MIB
            assert grown < MEMORY_MIB, f"{name} grew by {grown:.0f} MiB"
            figures.add(row, f"{name} grew by", grown, "MiB", at_most=MEMORY_MIB)


def total(floods: list[dict[str, Any]]) -> Counter[int]:
    """The codes of several floods."""
    codes: Counter[int] = Counter()
    for told in floods:
        codes.update({int(code): number for code, number in told["codes"].items()})
    return codes


def in_words(codes: Counter[int]) -> str:
    """The codes with their counts."""
    return ", ".join(f"{number:,} × {code}" for code, number in sorted(codes.items()))


def together(lab: Lab, floods: list[tuple[Member, dict[str, Any]]], seconds: float) -> list[dict[str, Any]]:
    """Floods of several members at once."""
    begun = [(member, member.process.begin("flood", seconds=seconds, **flood)) for member, flood in floods]
    return [member.process.answer(number, seconds + 120.0) for member, number in begun]


@contextlib.contextmanager
def not_reading(member: Member) -> Iterator[None]:
    """Pause the reading of an inbox."""
    member.ask("inbox", reads=False)
    try:
        yield
    finally:
        member.ask("inbox", reads=True)


def test_worker_that_does_not_read(lab: Lab, form: Form, figures: Figures) -> None:
    deaf, *others = lab.workers
    seconds, turns = (2.0, 12) if form.long else (0.5, 1)
    # Each other Worker sends to its neighbour, and now and then to the one that does not read.
    floods: list[tuple[Member, dict[str, Any]]] = [
        (sender, {"to": receiver.position, "in_flight": 4}) for sender, receiver in pairwise(others)
    ]
    for sender in others:
        sender.begin(to=[deaf.position], interval=0.05, timeout=1.0, patience=0.0)

    def rate() -> float:
        told = together(lab, floods, seconds)
        assert all(list(one["codes"]) == ["0"] for one in told), told
        return sum(float(one["rate"]) for one in told)

    before, meanwhile = [], []
    codes: set[int] = set()

    def fill() -> None:
        # Fill the inbox, then more, with both kinds of messages.
        for sender in (lab.mgr, others[0]):
            told = sender.ask("flood", to=deaf.position, seconds=0.3, in_flight=64, size=4096)
            codes.update(int(code) for code in told["codes"])
        others[0].ask("flood", to=deaf.position, seconds=0.3, in_flight=64, size=16_384, sync=False)

    with Peak([lab.mgr, *lab.proxies]) as peak:
        rate()
        # In alternating order, because of other load on the machine.
        for turn in range(turns):
            for reads in (True, False) if turn % 2 else (False, True):
                if reads:
                    before.append(rate())
                else:
                    with not_reading(deaf):
                        fill()
                        meanwhile.append(rate())
    for sender in others:
        sender.forget_traffic()
    lab.quiet()
    assert codes <= {Code.OK, Code.RECV_BUF_BUSY} and Code.RECV_BUF_BUSY in codes, codes
    ratio = statistics.mean(meanwhile) / statistics.mean(before)
    figures.add("deaf", "throughput of the others, of that before:", 100.0 * ratio, "%", at_least=90.0)
    figures.add("deaf", "that is, messages/s:", statistics.mean(meanwhile))
    peak.report(figures, "deaf")
    # Posted messages are still there, and it works again.
    lab.probe(to=[deaf])


def test_slow_receiver_loses_nothing(lab: Lab) -> None:
    """The audit waits for messages that are acknowledged, and not yet taken."""
    slow = lab.workers[0]
    slow.ask("inbox", reads=True, pause=0.5)
    lab.mgr.begin(to=[slow.position], interval=0.001)
    while lab.ledger().audit().acked < 4:
        time.sleep(0.01)
    lab.quiet()
    assert lab.ledger().audit().lost
    assert not lab.audit().broken
    slow.ask("inbox", reads=True)


def test_flood(lab: Lab, form: Form, figures: Figures) -> None:
    """Ten times the receiver's rate, from all Workers."""
    lab.mgr.ask("inbox", reads=True, pause=0.001)
    seconds = 3.0 if form.long else 0.5
    received = int(lab.mgr.ask("usage")["received"])
    together(lab, [(worker, {"to": "Mgr/0", "in_flight": 8}) for worker in lab.workers], seconds)
    before = int(lab.mgr.ask("usage")["received"])
    carried = (before - received) / seconds
    with Peak([lab.mgr, *lab.proxies]) as peak:
        begun = [
            (
                w,
                w.process.begin(
                    "offer", to="Mgr/0", seconds=form.flood, rate=10.0 * carried / len(lab.workers), size=1024
                ),
            )
            for w in lab.workers
        ]
        codes = total([worker.process.answer(number, form.flood + 60.0) for worker, number in begun])
        meanwhile = (int(lab.mgr.ask("usage")["received"]) - before) / form.flood
        recovered = recover(lab)
    lab.mgr.ask("inbox", reads=True)
    assert set(codes) <= {Code.OK, Code.RECV_BUF_BUSY, Code.NETWORK_ACK_LOST}, codes
    assert codes[Code.OK] and codes[Code.RECV_BUF_BUSY]
    figures.add("flood", "the Mgr takes, messages/s:", carried)
    figures.add("flood", "is sent, messages/s:", sum(codes.values()) / form.flood)
    figures.add("flood", "takes then, messages/s:", meanwhile)
    figures.note("flood", in_words(codes))
    figures.add("flood", "recovered in", recovered, "s", at_most=1.0)
    peak.report(figures, "flood")


def test_flood_of_everything_that_links_hold(lab: Lab, form: Form, figures: Figures) -> None:
    """Ten times the messages in flight of a link to the Mgr at once; each refused one is replaced at once."""
    each = 10 * IN_FLIGHT_OF_A_LINK * len(lab.proxies) // len(lab.workers)
    floods: list[tuple[Member, dict[str, Any]]] = [
        (worker, {"to": "Mgr/0", "in_flight": each, "size": 1024}) for worker in lab.workers
    ]
    with Peak([lab.mgr, *lab.proxies]) as peak:
        codes = total(together(lab, floods, max(1.0, form.flood / 4)))
        recovered = recover(lab)
    assert set(codes) <= {Code.OK, Code.RECV_BUF_BUSY, Code.NETWORK_ACK_LOST}, codes
    assert codes[Code.RECV_BUF_BUSY]
    figures.add("flood-at-once", "at a time:", each * len(lab.workers))
    figures.note("flood-at-once", in_words(codes))
    figures.add("flood-at-once", "recovered in", recovered, "s", at_most=1.0)
    peak.report(figures, "flood-at-once")


def recover(lab: Lab) -> float:
    """Seconds until a message passes from the Mgr to every member and from each Worker to the Mgr."""
    ended = time.monotonic()
    lab.probe()
    back = lab.together("until", lab.workers, to="Mgr/0", codes=[0], patience=30.0, timeout=1.0)
    assert {one["code"] for one in back.values()} == {0}
    return max(float(one["at"]) for one in back.values()) - ended


def test_large_among_small(lab: Lab, form: Form, figures: Figures) -> None:
    seconds = 20.0 if form.long else 1.0
    large, small = lab.below(lab.proxies[0])[:2]
    receiver = lab.below(lab.proxies[1])[0]
    quick: dict[str, Any] = {"to": receiver.position, "in_flight": 1}
    (alone,) = together(lab, [(small, quick)], seconds)
    slow: dict[str, Any] = {"to": receiver.position, "in_flight": 1, "size": LARGEST_BODY}
    with Peak([lab.mgr, *lab.proxies]) as peak:
        heavy, light = together(lab, [(large, slow), (small, quick)], seconds)
    # On a slow machine some of either may time out.
    for told in (light, heavy):
        codes = total([told])
        assert set(codes) <= {Code.OK, Code.NETWORK_ACK_LOST} and 2 * codes[Code.OK] > codes.total(), told
    figures.add("large", "8 MiB messages a second:", heavy["rate"])
    figures.add("large", "small ones a second:", light["rate"])
    figures.add("large", "p99 of the small ones", 1000.0 * light["p99"], "ms")
    figures.add("large", "alone", 1000.0 * alone["p99"], "ms")
    peak.report(figures, "large")


def test_bad_network(lab: Lab, form: Form, figures: Figures) -> None:
    far, near = lab.workers[-1], lab.workers[0]
    lost = {member.name: member.log().count("_lost") for member in lab.members}
    for proxy in lab.proxies:
        lab.shape(proxy, delay=0.1, loss=0.02)
    lab.begin_traffic(interval=0.2, timeout=3.0)
    up: dict[str, Any] = {"to": "Mgr/0", "in_flight": 64}
    across: dict[str, Any] = {"to": near.position, "in_flight": 16}
    to_mgr, to_worker = together(lab, [(far, up), (lab.workers[-2], across)], form.lossy)
    lab.quiet()
    for proxy in lab.proxies:
        lab.heal(proxy)
    assert {member.name: member.log().count("_lost") for member in lab.members} == lost
    assert list(to_mgr["codes"]) == ["0"] and list(to_worker["codes"]) == ["0"], (to_mgr, to_worker)
    audit = lab.audit()
    assert set(audit.codes) == {0}, audit.codes
    figures.add("lossy", "connections lost:", 0, at_most=0)
    figures.add("lossy", "messages/s to the Mgr, 64 in flight:", to_mgr["rate"])
    figures.add("lossy", "p50", 1000.0 * to_mgr["p50"], "ms")
    figures.add("lossy", "Worker to Worker of the other node, 16 in flight:", to_worker["rate"])
    figures.add("lossy", "p50", 1000.0 * to_worker["p50"], "ms")
