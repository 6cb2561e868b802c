"""Stopped and resumed processes, under steady traffic."""

from __future__ import annotations

import time

import pytest

from taskd_net import Code
from tests.faults.conftest import LONG, Form
from tests.faults.figures import Figures
from tests.faults.isolation import failures_among, slowest_among
from tests.faults.lab import Lab, Member

pytestmark = pytest.mark.timeout(400)

DETECTED_S = 8.0
"""The promise. A test waits longer, because the machine is busy."""


def detected(lab: Lab, by: Member, to: Member, since: float) -> float:
    """Seconds until `by` answers for `to` at once, because its stream is gone."""
    told = by.ask("until", to=to.position, codes=[Code.NET_STREAM_NOT_INITED], patience=40.0, timeout=0.25)
    assert told["code"] == Code.NET_STREAM_NOT_INITED, told
    return float(told["at"]) - since


# The short form of the Proxy shows the same.
@pytest.mark.parametrize(
    "form", [pytest.param(LONG, id="long", marks=[pytest.mark.long])], indirect=True, scope="module"
)
def test_worker(lab: Lab, form: Form, figures: Figures) -> None:
    lab.begin_traffic()
    stopped = lab.workers[0]
    others = [member for member in lab.members if member is not stopped]
    time.sleep(0.3)
    since = stopped.stop()
    took = detected(lab, lab.proxies[0], stopped, since)
    time.sleep(max(0.0, form.stop - (time.monotonic() - since)))
    resumed = stopped.cont()
    again = lab.probe(to=[stopped])[stopped.name]
    lab.quiet()
    assert not failures_among(lab, others, since, resumed)
    figures.add("stop-worker", "detected after", took, "s", at_most=DETECTED_S)
    figures.add("stop-worker", "failures among the others", 0)
    figures.add("stop-worker", "slowest of their messages", slowest_among(lab, others, since, resumed), "s")
    figures.add("stop-worker", "routable after SIGCONT in", again - resumed, "s")


def test_proxy(lab: Lab, form: Form, figures: Figures) -> None:
    lab.begin_traffic()
    stopped, other = lab.proxies
    others = [lab.mgr, other, *lab.below(other)]
    time.sleep(0.3)
    since = stopped.stop()
    above = lab.mgr.process.begin(
        "until", to=stopped.position, codes=[Code.NET_STREAM_NOT_INITED], patience=40.0, timeout=0.25
    )
    below = detected(lab, lab.workers[0], lab.mgr, since)
    told = lab.mgr.process.answer(above)
    assert told["code"] == Code.NET_STREAM_NOT_INITED, told
    time.sleep(max(0.0, form.stop - (time.monotonic() - since)))
    resumed = stopped.cont()
    again = lab.probe(to=[stopped, *lab.below(stopped)])
    lab.quiet()
    assert not failures_among(lab, others, since, resumed)
    figures.add("stop-proxy", "detected by the Mgr after", told["at"] - since, "s", at_most=DETECTED_S)
    figures.add("stop-proxy", "by a Worker after", below, "s", at_most=DETECTED_S)
    figures.add("stop-proxy", "failures among the others", 0)
    figures.add("stop-proxy", "slowest of their messages", slowest_among(lab, others, since, resumed), "s")
    figures.add("stop-proxy", "it and its Workers routable after SIGCONT in", max(again.values()) - resumed, "s")
