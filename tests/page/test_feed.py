"""Updates for a browser: everything once, then the changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.faces.page.feed import REMOVED, Feed
from taskd_net.faces.page.panel import panel
from taskd_net.observe import history
from taskd_net.observe.document import document
from taskd_net.observe.job_view import JobView
from taskd_net.observe.ledger import Record
from taskd_net.observe.records import Mesh
from taskd_net.observe.status_codec import read_node, read_records, write_node
from tests.observe.jobs import WHOLE
from tests.page.meshes import Made, of_size
from tests.test_untrusted import HOSTILE

Told = dict[str, Any]


class Browser:
    """Holds what it was told, as the page does."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.token = ""
        self.nodes: dict[str, Any] = {}
        self.missing: Any = None
        self.job: Any = None
        self.strained: Any = None

    def ask(self) -> Told:
        """Ask once, and take in the answer."""
        told: Told = json.loads(self._feed.answer(self.token))
        if told["whole"]:
            self.nodes = {}
        for position in told["removed"]:
            del self.nodes[position]
        self.nodes |= {node["position"]: node for node in told["nodes"]}
        if told["missing"] is not None:
            self.missing = told["missing"]
        if told["job"] is not None or told["whole"]:
            self.job = told["job"]
        if told["strained"] is not None:
            self.strained = told["strained"]
        self.token = told["token"]
        return told


def look(feed: Feed, made: Made, job: JobView | None = None) -> int:
    """Look at a mesh; how many slices it took."""
    return sum(1 for _ in feed.look(made.now, made.entries(), job))


def feed_of(made: Made, expected: str = "", life: str = "life", removed: int = REMOVED) -> Feed:
    """A feed that has looked once."""
    feed = Feed(Position.mgr(), expected, life, removed)
    look(feed, made)
    return feed


def test_a_browser_holds_the_document() -> None:
    made, expected = of_size(240)
    feed = feed_of(made, expected)
    browser = Browser(feed)
    changes: list[Callable[[], object]] = [
        lambda: made.go_on(2.0),
        lambda: made.lose(["Proxy/1"]),
        lambda: made.leave_out(["Agent/3"]),
    ]
    for change in changes:
        nodes = read_records(Record(*entry) for entry in made.entries())
        whole = document(Mesh(Position.mgr(), made.now, expected, nodes))
        told = browser.ask()
        assert browser.nodes == {node["position"]: node for node in whole["nodes"]}
        assert browser.missing == whole["missing"] != []
        assert {key: told[key] for key in ("node", "time", "expected", "summary")} == {
            key: whole[key] for key in ("node", "time", "expected", "summary")
        }
        change()
        look(feed, made)


def test_only_what_has_changed_is_told() -> None:
    made = Made(3)
    feed = feed_of(made, "3x8")
    browser = Browser(feed)
    assert browser.ask()["whole"]
    assert (look(feed, made) > 0, browser.ask()["nodes"]) == (True, [])
    made.lose(["Worker/1/9"])
    look(feed, made)
    told = browser.ask()
    assert [(node["position"], node["state"]) for node in told["nodes"]] == [("Worker/1/9", "lost")]
    assert [entry["position"] for entry in told["missing"]] == ["Worker/1/9"]
    assert not told["whole"]
    again = browser.ask()
    assert (again["nodes"], again["missing"], again["removed"]) == ([], None, [])


def test_strained_nodes_are_told_when_they_change() -> None:
    made = Made(1)
    feed = feed_of(made)
    browser, later = Browser(feed), Browser(feed)
    browser.ask()
    assert browser.strained == {}
    for strained, told in (({"Worker/0/3": 5.0}, True), ({"Worker/0/3": 5.0}, False), ({}, True)):
        for _ in feed.look(made.now, made.entries(), None, strained):
            pass
        assert (browser.ask()["strained"] is not None) == told
        later.token = ""
        later.ask()
        assert browser.strained == later.strained == strained


def test_a_lost_proxy_changes_those_below_it_whose_records_are_the_same() -> None:
    made = Made(2)
    feed = feed_of(made)
    browser = Browser(feed)
    browser.ask()
    made.lose(["Proxy/1"])
    look(feed, made)
    states = {node["position"]: node["state"] for node in browser.ask()["nodes"]}
    assert states == {
        "Proxy/1": "lost",
        **dict.fromkeys(["Agent/1", *(f"Worker/1/{n}" for n in range(8, 16))], "cut_off"),
    }


def test_who_has_left_is_told_and_who_came_back_is_not_removed() -> None:
    made = Made(1)
    feed = feed_of(made)
    browser = Browser(feed)
    browser.ask()
    kept = made.nodes[Position.worker(0, 3)]
    made.leave_out(["Worker/0/3", "Worker/0/4"])
    look(feed, made)
    made.nodes[Position.worker(0, 3)] = kept
    look(feed, made)
    told = browser.ask()
    assert (told["removed"], [node["position"] for node in told["nodes"]]) == (["Worker/0/4"], ["Worker/0/3"])
    assert set(browser.nodes) == {str(position) for position in made.nodes}


def test_a_job_is_told_when_something_was_decided() -> None:
    made = Made(1)
    feed = feed_of(made)
    early = Browser(feed)
    assert early.ask()["job"] is None
    look(feed, made, WHOLE)
    assert early.ask()["job"]["job"] == "J" and early.job == panel(WHOLE)
    beat = tuple(replace(agent, heartbeat=agent.heartbeat + 1.0) for agent in WHOLE.agents)
    look(feed, made, replace(WHOLE, at=WHOLE.at + 1.0, agents=beat, counters=replace(WHOLE.counters, reports=999)))
    assert early.ask()["job"] is None, "a heartbeat is no news"
    look(feed, made, replace(WHOLE, restarts_left=1))
    told = early.ask()
    assert (told["job"]["restarts_left"], told["nodes"], told["whole"]) == (1, [], False)
    late = Browser(feed)
    assert late.ask()["job"] == early.job


@pytest.mark.parametrize("since", ["", "life", "life-", "life-x", "life-99", "other-1", "life--1", "life-²"])
def test_who_knows_nothing_of_this_life_gets_everything(since: str) -> None:
    told = json.loads(feed_of(Made(1)).answer(since))
    assert (told["whole"], len(told["nodes"]), told["missing"]) == (True, 11, [])


def test_who_has_missed_more_than_is_kept_gets_everything() -> None:
    made = Made(1)
    feed = feed_of(made, removed=2)
    early, late = Browser(feed), Browser(feed)
    early.ask()
    for rank in range(4):
        late.ask()
        made.leave_out([f"Worker/0/{rank}"])
        look(feed, made)
    assert (early.ask()["whole"], late.ask()["whole"]) == (True, False)
    assert early.nodes == late.nodes


def test_a_record_that_is_none_is_left_out() -> None:
    feed = Feed(Position.mgr(), "", "life")
    entries = [*Made(1, workers=1).entries(), ("Worker/0/7", b"\xff\xff"), ("Worker/All/7", b"")]
    for _ in feed.look(0.0, entries):
        pass
    told = json.loads(feed.answer(""))
    assert {node["position"] for node in told["nodes"]} == {"Mgr/0", "Proxy/0", "Agent/0", "Worker/0/0"}


def test_others_have_their_turn_during_a_look_and_see_nothing_of_it() -> None:
    made = Made(200)
    feed = feed_of(made)
    before = feed.answer("life-1")
    made.go_on(2.0)
    looking = feed.look(made.now, made.entries())
    slices = 0
    for _ in looking:
        slices += 1
        assert feed.answer("life-1") == before
    assert slices >= 2 * len(made.nodes) // history.SLICE
    assert len(json.loads(feed.answer("life-1"))["nodes"]) == len(made.nodes) - 1


def test_states_that_only_who_sees_the_tree_can_say_count_for_the_missing() -> None:
    made = Made(2).lose(["Proxy/1"], State.GONE)
    told = json.loads(feed_of(made, "2x8").answer(""))
    assert {entry["why"] for entry in told["missing"]} == {"gone", "cut_off"}
    made.nodes[Position.proxy(1)] = made.nodes[Position.proxy(1)]._replace(state=State.JOINED)
    assert json.loads(feed_of(made, "2x8").answer(""))["missing"] == []


def test_text_of_a_node_is_printable() -> None:
    made = Made(1)
    text = HOSTILE.replace("\ud800", "")  # the wire refuses a lone surrogate
    entries = [
        (position, write_node(read_node(node)._replace(version=text, address=text, link=text)))
        for position, node in made.entries()
    ]
    feed = feed_of(made)
    for _ in feed.look(made.now, entries):
        pass
    answer = feed.answer("")
    assert answer.isprintable()
    assert {node["link"] for node in json.loads(answer)["nodes"]} == {text}
