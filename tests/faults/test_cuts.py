"""A network cut between two nodes: both ways and one way, by a relay and between namespaces."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskd_net.base import limits
from tests.faults.conftest import EACH_KIND, SHORT, Form, over_links
from tests.faults.figures import Figures
from tests.faults.isolation import DETECTED_S, Look, failures_among
from tests.faults.lab import Lab
from tests.faults.network import Machines, why_not
from tests.faults.relay import DOWN, UP

pytestmark = pytest.mark.timeout(400)

REJOINED_S = 2.0
# From here on a cut lasts longer than its detection.
NOTICED_S = 9.0
# A dead network with data under way: 2 s without an acknowledgement, and the kernel's own timers.
UNDER_WAY_S = 3.0


@pytest.fixture(scope="module")
def lab_settings() -> dict[str, Any]:
    """Both Proxies reach the Mgr through relays."""
    return {"relayed": ["proxy0", "proxy1"]}


def cut_for(
    lab: Lab,
    form: Form,
    figures: Figures,
    row: str,
    begin: Callable[[], object],
    end: Callable[[], object],
    ways: Collection[str] = (UP, DOWN),
    detected: float = DETECTED_S,
) -> None:
    """Cut off the last node for a while. The others notice nothing, and all recover.

    Whoever hears nothing any more detects it.

    Args:
        lab, form, figures: of the test.
        row: the row of the figures.
        begin, end: cut and heal.
        ways: the directions in which nothing arrives.
        detected: seconds promised until the detection.
    """
    away, others = lab.proxies[1], [lab.mgr, lab.proxies[0], *lab.below(lab.proxies[0])]
    below = lab.below(away)
    lab.begin_traffic()
    time.sleep(0.3)
    since = time.monotonic()
    begin()
    try:
        if form.cut >= NOTICED_S:
            ends = ((UP, "the Mgr", lab.mgr, away), (DOWN, "the Proxy", away, lab.mgr))
            looks = [(name, Look(by, to)) for way, name, by, to in ends if way in ways]
            for name, look in looks:
                figures.add(row, f"detected by {name} after", look.detected() - since, "s", at_most=detected)
        time.sleep(max(0.0, form.cut - (time.monotonic() - since)))
    finally:
        # Also after a failure: the next test begins with a network.
        healing = time.monotonic()
        end()
    again = lab.probe(to=[away, *below])
    lab.quiet()
    assert not failures_among(lab, others, since, healing)
    assert not lab.audit().broken
    figures.add(row, "rejoined in", max(again.values()) - healing, "s", at_most=REJOINED_S)


@pytest.mark.parametrize(("row", "ways"), [("cut-both", ["up", "down"]), ("cut-up", ["up"]), ("cut-down", ["down"])])
def test_relay(lab: Lab, form: Form, figures: Figures, row: str, ways: list[str]) -> None:
    away = lab.proxies[1]
    cut_for(lab, form, figures, row, lambda: lab.shape(away, cut=ways), lambda: lab.heal(away), ways)


@pytest.fixture(scope="module")
def machines(form: Form) -> Iterator[Machines]:
    """Two machines with a link between them."""
    if reason := why_not():
        pytest.skip(reason)
    with Machines() as machines:
        yield machines


@pytest.fixture(scope="module")
def far_lab(
    form: Form, machines: Machines, links: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A mesh on both of them."""
    folder: Path = tmp_path_factory.mktemp("lab", numbered=True)
    with Lab(folder, workers=form.workers, machines=machines, settings=links) as lab:
        yield lab


@EACH_KIND
def test_link_down(far_lab: Lab, machines: Machines, form: Form, figures: Figures) -> None:
    cut_for(
        far_lab,
        form,
        figures,
        "link-down",
        lambda: machines.link(up=False),
        lambda: machines.link(up=True),
        detected=UNDER_WAY_S,
    )


@over_links((SHORT, "direct"), (SHORT, "batched"))
def test_dead_network_with_data_under_way_is_detected_before_a_ping(far_lab: Lab, machines: Machines) -> None:
    mgr, away = far_lab.mgr, far_lab.proxies[1]
    machines.link(up=False)
    since = time.monotonic()
    try:
        ends = [Look(mgr, away), Look(away, mgr)]
        detected = [look.detected() - since for look in ends]
    finally:
        machines.link(up=True)
        far_lab.probe()
    assert max(detected) < limits.KEEPALIVE_TIME_S, detected


@EACH_KIND
@pytest.mark.parametrize("machine", [0, 1], ids=["from the Mgr", "towards the Mgr"])
def test_packets_lost_one_way(far_lab: Lab, machines: Machines, form: Form, figures: Figures, machine: int) -> None:
    cut_for(
        far_lab,
        form,
        figures,
        "link-one-way",
        lambda: machines.drop_packets(machine),
        lambda: machines.pass_packets(machine),
        detected=UNDER_WAY_S,
    )
