"""`kill -9`: of the Mgr, of a Proxy, of a Worker, each with a restart, under steady traffic."""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from taskd_net import Code
from tests.faults.conftest import EACH_KIND, Form
from tests.faults.figures import Figures
from tests.faults.isolation import failures_among, slowest_among
from tests.faults.lab import Lab, Member

pytestmark = [pytest.mark.timeout(400), EACH_KIND]

NOT_THERE = (Code.NETWORK_ACK_LOST, Code.NET_STREAM_NOT_INITED)


@pytest.fixture(scope="module")
def lab_settings(form: Form, links: dict[str, Any]) -> dict[str, Any]:
    """A grace time short enough for a test."""
    return {"settings": {"grace": form.grace, **links}}


def lives(lab: Lab, *, but: Member) -> dict[str, int]:
    """The processes of all other members."""
    return {member.name: member.process.pid for member in lab.members if member is not but}


def test_mgr(lab: Lab, form: Form, figures: Figures) -> None:
    lab.begin_traffic()
    others = lives(lab, but=lab.mgr)
    took = []
    for _ in range(form.rounds):
        lab.mgr.kill()
        time.sleep(form.away)
        listening = lab.mgr.start()
        took.append(max(lab.probe().values()) - listening)
    assert lives(lab, but=lab.mgr) == others
    figures.add("kill-mgr", f"all routable, worst of {form.rounds}:", max(took), "s", at_most=1.0)


def test_proxy(lab: Lab, form: Form, figures: Figures) -> None:
    lab.begin_traffic()
    killed, other = lab.proxies
    others = lives(lab, but=killed)
    took = []
    began = time.monotonic()
    for _ in range(form.rounds):
        killed.kill()
        time.sleep(form.away)
        listening = killed.start()
        took.append(max(lab.probe(to=[killed, *lab.below(killed)]).values()) - listening)
    ended = time.monotonic()
    lab.quiet()
    assert lives(lab, but=killed) == others
    undisturbed = [lab.mgr, other, *lab.below(other)]
    assert not failures_among(lab, undisturbed, began, ended)
    figures.add("kill-proxy", f"its Workers routable, worst of {form.rounds}:", max(took), "s", at_most=1.0)
    figures.add("kill-proxy", "failures of the other Proxy's traffic", 0)
    figures.add("kill-proxy", "slowest of its messages", slowest_among(lab, undisturbed, began, ended), "s")


def test_worker(lab: Lab, form: Form, figures: Figures) -> None:
    lab.begin_traffic()
    killed, brother, far = lab.workers[0], lab.workers[1], lab.workers[-1]
    senders = [lab.mgr, lab.proxies[0], lab.proxies[1], brother, far]

    # Messages under way at its death. It is stopped first, so that it answers none.
    killed.stop()
    asked = [(sender, sender.process.begin("send", to=killed.position, timeout=20.0)) for sender in senders]
    time.sleep(0.2)
    died = killed.kill()
    under_way = [sender.process.answer(number) for sender, number in asked]
    # 6000: only a few batches are written ahead of a process that takes none, and this one was not.
    assert {told["code"] for told in under_way} <= {Code.NETWORK_SEND_LOST, *NOT_THERE}, under_way
    figures.add("kill-worker", "under way:", max(told["at"] for told in under_way) - died, "s", at_most=1.0)

    # Later messages.
    afterwards = lab.together("send", senders, to=killed.position, timeout=20.0).values()
    assert {told["code"] for told in afterwards} <= set(NOT_THERE), afterwards
    figures.add("kill-worker", "sent later:", max(told["seconds"] for told in afterwards), "s", at_most=1.0)

    # It restarts at once.
    listening = killed.start()
    figures.add("kill-worker", "the same rank again routable:", lab.probe(to=[killed])[killed.name] - listening, "s")

    # Its rank restarts at once on the other node, with a position of that node.
    killed.kill()
    upstream = lab.proxies[1].settings["listen"]
    moved = lab.add("moved", "Worker/1/0", "worker", {"server_rank": 1, "rank": 0, "upstream": upstream})
    listening = moved.start()
    figures.add("kill-worker", "on another node:", lab.probe(to=[moved])[moved.name] - listening, "s")
    # And with the very same position.
    same = lab.add("same", killed.position, "worker", {"server_rank": 0, "rank": 0, "upstream": upstream})
    listening = same.start()
    figures.add("kill-worker", "as the same position:", lab.probe(to=[same])[same.name] - listening, "s")
    left = time.monotonic()
    same.end()
    moved.end()

    # After the grace time it is forgotten, and its place is free.
    proxy = lab.proxies[0]
    places = proxy.ask("usage")["children"]
    told = lab.mgr.ask(
        "until", to=killed.position, codes=[Code.NO_ROUTE], patience=form.grace + 30.0, timeout=1.0, within=120.0
    )
    assert told["code"] == Code.NO_ROUTE
    assert proxy.ask("usage")["children"] <= places
    assert proxy.ask("usage")["children"] == len(lab.below(proxy)) - 1
    figures.add("kill-worker", f"place free after a grace time of {form.grace:g} s:", told["at"] - left, "s")


def test_stopped_worker_dies_without_a_sign(lab: Lab) -> None:
    """A stopped process handles SIGTERM only after SIGCONT, so it must end by force."""
    worker = lab.workers[0]
    worker.stop()
    told = lab.mgr.ask("send", to=worker.position, timeout=0.5)
    assert told["code"] == Code.NETWORK_ACK_LOST and told["seconds"] < 10.0
    worker.process.signal(signal.SIGTERM)
    worker.kill()
