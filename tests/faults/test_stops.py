"""Stopped and resumed processes, under steady traffic."""

from __future__ import annotations

import time

import pytest

from tests.faults.conftest import LONG, Form
from tests.faults.figures import Figures
from tests.faults.isolation import DETECTED_S, Look, failures_among, slowest_among
from tests.faults.lab import Lab

pytestmark = pytest.mark.timeout(400)


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
    took = Look(lab.proxies[0], stopped).detected() - since
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
    looks = [Look(lab.mgr, stopped), Look(lab.workers[0], lab.mgr)]
    above, below = [look.detected() - since for look in looks]
    time.sleep(max(0.0, form.stop - (time.monotonic() - since)))
    resumed = stopped.cont()
    again = lab.probe(to=[stopped, *lab.below(stopped)])
    lab.quiet()
    assert not failures_among(lab, others, since, resumed)
    figures.add("stop-proxy", "detected by the Mgr after", above, "s", at_most=DETECTED_S)
    figures.add("stop-proxy", "by a Worker after", below, "s", at_most=DETECTED_S)
    figures.add("stop-proxy", "failures among the others", 0)
    figures.add("stop-proxy", "slowest of their messages", slowest_among(lab, others, since, resumed), "s")
    figures.add("stop-proxy", "it and its Workers routable after SIGCONT in", max(again.values()) - resumed, "s")
