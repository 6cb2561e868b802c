"""Processes that give no sign of life for a while, stopped or with the interpreter held: they keep link and routes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from taskd_net import Code
from tests.faults.conftest import LONG, SHORT, Form, over_links
from tests.faults.isolation import DETECTED_S, Look
from tests.faults.lab import Lab, Member

pytestmark = pytest.mark.timeout(400)

EVERY_FORM = over_links((SHORT, "direct"), (SHORT, "batched"), (LONG, "direct"), (LONG, "batched"))


@pytest.fixture(scope="module")
def lab_settings(links: dict[str, Any]) -> dict[str, Any]:
    """Nodes with each kind of link."""
    return {"settings": links}


def lost(lab: Lab, member: Member) -> int:
    """Links to its parent that a node has lost, by its log."""
    return (lab.folder / f"{member.name}.log").read_text().count("event=upstream_lost")


def is_answered_for(lab: Lab, held: Member, *, over: float) -> None:
    """The parent of a process that is held answers 6001 for it; over a direct link soon at once."""
    parent = lab.parent(held)
    told = parent.ask("until", to=held.position, codes=[Code.NETWORK_ACK_LOST], patience=5.0, timeout=0.5)
    assert told["code"] == Code.NETWORK_ACK_LOST
    took = 20.0 if over_direct(lab) else 0.0
    while took >= 1.0:
        assert time.monotonic() < over, "the process is held no more"
        # A message in flight is answered when it counts as silent, and a later one at once.
        told = parent.ask("send", to=held.position, timeout=20.0)
        assert (told["code"], told["src"]) == (Code.NETWORK_ACK_LOST, held.position)
        took = told["seconds"]


def over_direct(lab: Lab) -> bool:
    """True if its nodes have direct links."""
    return bool(lab.mgr.settings["links"] == "direct")


def seconds_of(form: Form) -> float:
    """The time for which a process is held: longer than until it counts as silent, or almost the promised 30 s."""
    return 29.0 if form.long else 12.0


@EVERY_FORM
def test_interpreter_that_is_held(lab: Lab, form: Form) -> None:
    held, seconds = lab.workers[0], seconds_of(form)
    before = lost(lab, held)
    since = time.monotonic()
    hold = held.process.begin("hold", seconds=seconds)
    is_answered_for(lab, held, over=since + seconds)
    held.process.answer(hold)
    lab.probe(to=[held])
    assert lost(lab, held) == before


@over_links((SHORT, "direct"), (LONG, "direct"))
def test_stopped_process_keeps_its_direct_link(lab: Lab, form: Form) -> None:
    held, seconds = lab.proxies[0], seconds_of(form)
    before = lost(lab, held)
    since = held.stop()
    is_answered_for(lab, held, over=since + seconds)
    time.sleep(max(0.0, since + seconds - time.monotonic()))  # the fault lasts so long
    held.cont()
    lab.probe(to=[held, *lab.below(held)])
    assert lost(lab, held) == before


@over_links((LONG, "batched"))
def test_stopped_process_loses_its_link_over_grpc(lab: Lab, form: Form) -> None:
    """gRPC's pings cannot tell a stopped process from one whose network is cut."""
    held = lab.workers[0]
    before = lost(lab, held)
    since = held.stop()
    assert Look(lab.parent(held), held).detected() - since <= DETECTED_S
    lab.parent(held).ask(
        "until", to=held.position, codes=[Code.NET_STREAM_NOT_INITED], patience=DETECTED_S, timeout=0.5
    )
    held.cont()
    lab.probe(to=[held])
    assert lost(lab, held) == before + 1
