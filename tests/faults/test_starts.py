"""Without the Mgr: every node starts before it, and it is away for a long time."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from taskd_net import Code
from tests.faults.conftest import Form
from tests.faults.figures import Figures
from tests.faults.isolation import failures_among, slowest_among
from tests.faults.lab import JOIN_S, Lab

pytestmark = pytest.mark.timeout(400)


def test_any_order(form: Form, figures: Figures, tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab", workers=form.workers)
    try:
        lab.connect()
        below = [*lab.proxies, *lab.workers]
        random.shuffle(below)
        for member in below:
            member.launch()
        for member in below:
            member.start()
        time.sleep(form.late)
        listening = lab.mgr.start()
        joined = lab.together("joined", below, timeout=JOIN_S)
        lab.probe()
        lab.check_links()
        took = max(joined.values()) - listening
        figures.add("any-order", f"all {len(below)} joined in", took, "s", at_most=1.0)
    finally:
        lab.close()


def test_mgr_away(lab: Lab, form: Form, figures: Figures) -> None:
    lab.begin_traffic(patience=2.0)
    time.sleep(0.3)
    since = lab.mgr.kill()
    # Messages under way at its death have other codes, until the Proxies detect the loss.
    gone = [Code.NET_STREAM_NOT_INITED]
    lab.together("until", lab.workers, to="Mgr/0", codes=gone, patience=30.0, timeout=3.0)
    asked: dict[tuple[int, str], list[float]] = {}
    while time.monotonic() - since < form.absence:
        began = time.monotonic()
        for told in lab.together("send", lab.workers, to="Mgr/0", timeout=3.0).values():
            asked.setdefault((told["code"], told["src"]), []).append(told["seconds"])
        time.sleep(max(0.0, 0.5 - (time.monotonic() - began)))
    until = time.monotonic()
    listening = lab.mgr.start()
    again = max(lab.probe().values()) - listening
    lab.quiet()
    for proxy in lab.proxies:
        # The Proxy's own sends to the Mgr are not among these.
        assert not failures_among(lab, [proxy, *lab.below(proxy)], since, until)
    # The Proxy itself answers.
    assert {(code, src[:6]) for code, src in asked} == {(*gone, "Proxy/")}, asked
    near = [lab.proxies[0], *lab.below(lab.proxies[0])]
    figures.add("mgr-away", "failures below one Proxy", 0, at_most=0)
    figures.add("mgr-away", "slowest of these messages", slowest_among(lab, near, since, until), "s")
    slowest = max(seconds for told in asked.values() for seconds in told)
    figures.add("mgr-away", "sends to the Mgr: 6002 after", slowest, "s", at_most=1.0)
    figures.add("mgr-away", "all routable when it is back in", again, "s", at_most=1.0)
