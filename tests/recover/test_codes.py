from __future__ import annotations

import re
from pathlib import Path

import pytest

from taskd_net.job.clusterd.codes import Code, SeenIn, describe

pytestmark = pytest.mark.oldest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "recovery.md"
DOCUMENTED = {
    *(0, 400, 401, 402, 403, 404, 405, 406, 407, 408, 499),
    *(500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 599),
}
FURTHER = {201, 409, 410, 411, 413, 429, 510}


def test_documented_codes_and_the_further_ones_are_told_apart() -> None:
    assert {int(code) for code in Code if code.documented} == DOCUMENTED
    assert {int(code) for code in Code if not code.documented} == FURTHER
    assert len(DOCUMENTED) == 22


def test_each_code_is_seen_where_clusterd_and_its_clients_use_it() -> None:
    by_place = {place: {int(code) for code in Code if place in code.seen} for place in SeenIn}
    assert by_place[SeenIn.ANSWER] == {0, 400, 402, 403, 408, 411, 413, 500, 502, 599}
    assert by_place[SeenIn.REPORT] == {0, 201, 404, 405, 406, 407, 499}
    assert by_place[SeenIn.INSIDE] == {401, 409, 410, 429, 501, *range(503, 511)}


def test_every_code_has_a_meaning() -> None:
    assert all(describe(code) == code.meaning != "" for code in Code)
    assert len({code.name for code in Code}) == 29
    assert describe(777) == "unknown to this release"


SECTIONS = {
    SeenIn.ANSWER: "Answers of ClusterD",
    SeenIn.REPORT: "Codes in reports",
    SeenIn.INSIDE: "Codes in ClusterD's log alone",
}


@pytest.mark.skipif(not DOCUMENT.exists(), reason="the documents are part of a checkout")
@pytest.mark.parametrize("place", SeenIn)
def test_document_lists_every_code_where_it_is_seen(place: SeenIn) -> None:
    _, _, text = DOCUMENT.read_text(encoding="utf-8").partition(f"### {SECTIONS[place]}\n")
    rows = [line.split(" | ") for line in text.partition("###")[0].splitlines() if re.match(r"\| \d+ \|", line)]
    assert [(row[0], *row[1:3], row[-1]) for row in rows] == [
        (f"| {int(code)}", f"`{code.name}`", code.meaning, f"{'yes' if code.documented else 'no'} |")
        for code in sorted(Code)
        if place in code.seen
    ]
