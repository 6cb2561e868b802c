"""The watch over hangs in text."""

from __future__ import annotations

import time
from dataclasses import replace

from taskd_net.cli.hang_lines import draw_hang, hang_of, is_stuck
from taskd_net.observe.fields import document_of
from taskd_net.observe.job_view import GuiltyView, HangView, JobView
from tests.observe.jobs import AT, WHOLE


def lines(hang: HangView) -> list[str]:
    """The lines without their styles."""
    return [text for text, _ in draw_hang(document_of(JobView("J", AT, hang=hang)))]


def test_a_hang_names_the_guilty_ranks_and_the_limits() -> None:
    since = time.strftime("%H:%M:%S", time.localtime(AT - 312))
    assert lines(WHOLE.hang) == [
        f"job J: hung, no mark for 5 min, since {since}, limit 5 min",
        "  rank 3 (node 1, pid 4711) is stopped (SIGSTOP)",
        "",
        "LIMITS  section checkpoint 12 min, steps 5 min",
    ]
    gone = replace(WHOLE.hang, state="suspected", guilty=(GuiltyView(3, 1, words="was never started"),), limits={})
    assert lines(gone)[1:] == ["  rank 3 (node 1) was never started"]


def test_a_hang_without_a_name_says_so() -> None:
    found = lines(replace(WHOLE.hang, guilty=(), limits={}))
    assert found[1:] == ["  who holds it up is not known: no rank has marked anything for longer than its limit"]


def test_other_states_have_their_reason() -> None:
    assert lines(HangView()) == ["job J: not watched"]
    assert lines(HangView("unknown", words="the mesh's network")) == ["job J: unknown", "  the mesh's network"]
    assert lines(HangView("goes on", limits={"steps": 300.0})) == ["job J: goes on", "", "LIMITS  steps 5 min"]


def test_the_document_has_the_part_about_hangs() -> None:
    whole = document_of(WHOLE)
    assert hang_of(whole) == {"job": "J", "time": AT, "hang": whole["hang"]}
    assert is_stuck(whole) and not is_stuck(document_of(JobView()))
