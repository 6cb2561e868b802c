"""The dashboard: every query reads an exported metric."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests.deploy.artefacts import DEPLOY
from tests.deploy.queries import NAMES, unknown
from tests.metrics import exported

DASHBOARD = json.loads((DEPLOY / "grafana" / "taskd-net.json").read_text())


def queries() -> Iterator[tuple[str, str]]:
    """The queries, with the titles of their panels."""
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"]
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], variable["query"]["query"]


async def test_every_query_asks_for_what_is_exported() -> None:
    known = await exported()
    asked = list(queries())
    assert len(asked) > 20
    for title, query in asked:
        assert not unknown(query, known), (title, query)
        assert re.findall(NAMES, query), (title, query)


@pytest.mark.parametrize(
    "query",
    [
        "rate(taskd_net_late_ack_total[5m])",
        'taskd_net_mesh_nodes{state="dead"}',
        'taskd_net_mesh_nodes{state=~"lost|dead"}',
        'taskd_net_joined{way="up"}',
        "sum by (code) (taskd_net_joined)",
    ],
)
async def test_a_query_for_something_else_is_found(query: str) -> None:
    assert unknown(query, await exported())


async def test_every_metric_of_ours_is_on_the_dashboard() -> None:
    shown = {name for _, query in queries() for name in re.findall(r"\btaskd_net_\w+", query)}
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in await exported() if name.startswith("taskd_net_")}
    assert families - {re.sub(r"_(bucket|count|sum)$", "", name) for name in shown} == {"taskd_net_sent_total"}


def test_every_panel_says_what_it_shows() -> None:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    assert len(panels) > 30
    assert [panel["title"] for panel in panels if len(panel.get("description", "")) < 20] == []


def test_panels_have_places_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert max(x for x, _ in cells) < 24 and not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
