"""Processes that give no sign of life for a while, stopped or with the interpreter held: they keep link and routes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from taskd_net import Code, limits
from tests.faults.conftest import Form
from tests.faults.lab import Lab, Member

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def lab_settings(listening: dict[str, Any]) -> dict[str, Any]:
    """Nodes with each kind of link."""
    return {"settings": listening}


def lost(lab: Lab, member: Member) -> int:
    """Links to its parent that a node has lost, by its log."""
    return (lab.folder / f"{member.name}.log").read_text().count("event=upstream_lost")


def silent_for(lab: Lab, form: Form, held: Member, begin: Callable[[float], object]) -> None:
    """Hold a process. Its parent answers for it meanwhile, and goes on with it afterwards."""
    seconds, parent = 29.0 if form.long else 12.0, lab.parent(held)
    before = lost(lab, held)
    since = time.monotonic()
    begin(seconds)
    told = parent.ask("until", to=held.position, codes=[Code.NETWORK_ACK_LOST], patience=5.0, timeout=0.5)
    assert told["code"] == Code.NETWORK_ACK_LOST
    if lab_is_direct(lab):
        time.sleep(max(0.0, since + limits.NOT_ANSWERING_S + limits.KEEPALIVE_TIMEOUT_S - time.monotonic()))
        told = parent.ask("send", to=held.position, timeout=20.0)
        assert (told["code"], told["src"]) == (Code.NETWORK_ACK_LOST, held.position)
        assert told["seconds"] < 1.0
    time.sleep(max(0.0, since + seconds - time.monotonic()))
    if held.stopped:
        held.cont()
    lab.probe(to=[held, *lab.below(held)])
    assert lost(lab, held) == before


def lab_is_direct(lab: Lab) -> bool:
    """Whether its nodes offer direct links."""
    return "direct_listen" in lab.mgr.settings


def test_interpreter_that_is_held(lab: Lab, form: Form) -> None:
    held = lab.workers[0]
    silent_for(lab, form, held, lambda seconds: held.process.begin("hold", seconds=seconds))


def test_stopped_process_keeps_its_direct_link(lab: Lab, form: Form) -> None:
    if not lab_is_direct(lab):
        pytest.skip("gRPC's pings end the link to a stopped process after 7 s")
    held = lab.proxies[0]
    silent_for(lab, form, held, lambda _: held.stop())
