"""Records of the nodes below, and the pending reports on them."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.states import State
from taskd_net.observe.ledger import OWN, Ledger, Record, Report


def ledger(nodes: int = 100, report: int = 100) -> Ledger:
    """An empty one, with a parent that wants to be told."""
    made = Ledger(nodes, report)
    made.begin()
    return made


def records(*names: str, node: bytes = b"1", away: bool = False) -> list[Record]:
    """A record of each of these nodes."""
    return [Record(name, node, away) for name in names]


def known(of: Ledger) -> dict[str, bytes]:
    """The records by position."""
    return {record.position: record.node for record in of}


def told(of: Ledger) -> Report:
    """One report to the parent."""
    assert of.reports == 1
    return of.next_report()


def test_only_what_has_changed_is_told() -> None:
    here = ledger()
    for record in records("a", "b"):
        here.put(record)
    assert told(here) == Report(records("a", "b"), [], first=True, complete=True, urgent=True)
    assert (here.reports, len(here)) == (0, 2)
    here.put(Record("a", b"1"))
    assert here.reports == 0
    for node in (b"2", b"3"):
        here.put(Record("a", node))
    here.drop("b")
    assert told(here) == Report(records("a", node=b"3"), ["b"])
    here.put(Record("a", b"4"))
    assert here.next_report(urgent=True) == Report(records("a", node=b"4"), [], urgent=True)


def test_a_parent_without_anything_to_know_is_told_that() -> None:
    assert told(ledger()) == Report([], [], first=True, complete=True, urgent=True)


def test_without_a_parent_nothing_is_noted() -> None:
    root = Ledger(10, 10)
    for number in range(10_000):
        root.put(Record(f"Agent/{number}", b""))
        root.drop(f"Agent/{number}")
    assert (root.reports, len(root), len(root._untold)) == (0, 0, 0)
    root.begin()
    root.put(Record("a", b""))
    root.end()
    assert root.reports == 0


def test_reports_are_bounded_and_the_last_of_the_first_says_that_it_is_complete() -> None:
    here = ledger(report=2)
    for record in records(*"abcde"):
        here.put(record)
    here.begin()
    assert here.reports == 3
    reports = [here.next_report() for _ in range(3)]
    assert [[record.position for record in report.records] for report in reports] == [["a", "b"], ["c", "d"], ["e"]]
    assert [(report.first, report.complete) for report in reports] == [(True, False), (False, False), (False, True)]


def test_what_comes_during_the_first_telling_does_not_hold_up_its_end() -> None:
    here = ledger(report=1)
    here.put(Record("a", b"1"))
    here.begin()
    here.put(Record("b", b"1"))
    assert here.next_report().complete
    later = here.next_report()
    assert (later.records, later.complete) == (records("b"), False)


def test_what_is_dropped_before_it_was_told_is_told_as_gone() -> None:
    here = ledger()
    here.put(Record("a", b"1"))
    here.begin()
    here.drop("a")
    assert told(here) == Report([], ["a"], first=True, complete=True, urgent=True)


def test_what_a_child_does_not_tell_again_after_a_new_join_is_gone() -> None:
    here = ledger()
    here.told("P", Report(records("a", "b"), first=True, complete=True))
    here.told("Q", Report(records("c"), first=True, complete=True))
    told(here)
    here.told("P", Report(records("b"), first=True))
    assert set(known(here)) == {"a", "b", "c"}
    here.told("P", Report(records("d"), complete=True))
    assert set(known(here)) == {"b", "c", "d"}
    assert told(here) == Report(records("d"), ["a"])


def test_the_newest_telling_counts() -> None:
    here = ledger()
    here.told("P", Report(records("w")))
    here.told("Q", Report(records("w", node=b"2")))
    assert known(here) == {"w": b"2"}
    here.told("P", Report(gone=["w"]))
    here.told("P", Report(first=True, complete=True))
    here.drop_source("P")
    assert known(here) == {"w": b"2"}
    here.drop_source("Q")
    assert known(here) == {}


@pytest.mark.parametrize("source", [OWN, "P"])
def test_that_a_node_is_away_says_nothing_against_another_that_has_it(source: str) -> None:
    here = ledger()
    here.put(Record("w", b"1"), source)
    here.told("Q", Report(records("w", node=b"2")))
    here.put(Record("w", b"lost", True), source)
    here.drop("w", source)
    assert known(here) == {"w": b"2"}
    # After its owner has lost the node, the last report counts again.
    here.told("Q", Report(records("w", node=b"3", away=True)))
    here.put(Record("w", b"gone", True), source)
    assert known(here) == {"w": b"gone"}


def test_more_nodes_than_there_is_room_for_are_counted_and_not_kept() -> None:
    here = ledger(nodes=2)
    here.told("P", Report(records("a", "b", "c")))
    assert (set(known(here)), here.refused) == ({"a", "b"}, 1)
    here.put(Record("a", b"2"))
    assert known(here)["a"] == b"2"


def test_reporter_with_less_than_its_share_takes_the_newest_place_of_the_largest() -> None:
    here = ledger(nodes=6)
    here.told("P", Report(records("a", "b", "c", "d", "e")))
    here.put(Record("own", b"1"))
    for _ in range(2):
        here.told("Q", Report(records("q", "r", "s")))
    assert set(known(here)) == {"a", "b", "c", "own", "q", "r"}
    assert here.refused == 2, "two are the share of each"
    here.told("P", Report(records("d")))
    assert here.refused == 3
    here.drop_source("P")
    assert set(known(here)) == {"own", "q", "r"}


def ended(name: str, node: bytes = b"end", state: State = State.FINISHED) -> Record:
    """A node that has left in good order."""
    return Record(name, node, away=True, ended=state)


def test_who_has_left_in_good_order_is_remembered_when_the_child_that_told_it_is_not() -> None:
    here = ledger()
    here.told("P", Report([ended("w"), *records("v")], first=True, complete=True))
    assert here.has_ended("w") and not here.has_ended("v")
    # The child was started again, and knows of nobody.
    here.told("P", Report(first=True, complete=True))
    assert known(here) == {"w": b"end"}
    here.drop_source("P")
    assert known(here) == {"w": b"end"} and here.find("w") == ended("w") and here.find("v") is None
    # It is nobody's but this node's now.
    here.told("P", Report(gone=["w"]))
    assert set(known(here)) == {"w"}


def test_who_told_that_a_node_has_left_may_take_it_back() -> None:
    here = ledger()
    here.told("P", Report([ended("w")]))
    here.told("P", Report(gone=["w"]))
    assert known(here) == {} and not here.has_ended("w")


def test_who_comes_back_has_not_left() -> None:
    here = ledger()
    here.put(ended("w"))
    here.told("P", Report(records("w")))
    assert known(here) == {"w": b"1"} and not here.has_ended("w")
    # Its end at the old place does not end it at the new one.
    here.put(ended("w"))
    assert known(here) == {"w": b"1"}


def test_a_parent_that_does_not_take_it_hears_that_a_leaf_is_gone_and_that_a_proxy_is_away() -> None:
    here = ledger()
    here.begin(ends=False)
    stopped = ended("Proxy/0", state=State.STOPPED)
    here.put(ended("Worker/0/0"))
    here.put(stopped)
    report = told(here)
    assert (list(report.records), list(report.gone)) == ([stopped], ["Worker/0/0"])
    here.begin()
    assert list(told(here).records) == [ended("Worker/0/0"), stopped]


def test_only_so_many_that_have_left_are_remembered() -> None:
    here = Ledger(100, 100, ended=2)
    for name in "abcb":
        here.put(ended(name, name.encode()))
    here.put(ended("b", b"again"))
    assert set(known(here)) == {"b", "c"}
    here.put(ended("d"))
    assert set(known(here)) == {"b", "d"}


def test_a_node_that_joins_takes_the_place_of_one_that_has_left() -> None:
    here = ledger(nodes=2)
    here.told("P", Report([ended("a"), ended("b"), *records("c", "d", "e")]))
    assert (set(known(here)), here.refused) == ({"c", "d"}, 1)


def test_who_is_to_be_forgotten_stays_so_until_it_joins() -> None:
    here = ledger()
    here.told("P", Report([ended("w"), Record("v", b"", away=True)]))
    here.begin()
    told(here)
    for name in ("w", "v", "nobody"):
        here.forget(name)
    assert list(told(here).gone) == ["w", "v"]
    # Its first reporter sends it again, in a complete report.
    here.told("P", Report([ended("w"), Record("v", b"2", away=True)], first=True, complete=True))
    assert known(here) == {}
    here.told("P", Report(records("w")))
    here.told("P", Report([ended("w")]))
    assert set(known(here)) == {"w"}


def test_only_so_many_that_are_to_be_forgotten_are_noted() -> None:
    here = Ledger(100, 100, ended=2)
    for name in "abc":
        here.forget(name)
    for name in "abc":
        here.put(ended(name))
    assert set(known(here)) == {"a"}


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_a_parent_comes_to_know_the_same_whatever_is_lost(seed: int, bound: int) -> None:
    chance = random.Random(seed)
    child, parent = Ledger(100, bound), Ledger(100, bound)
    child.begin()
    for step in range(60):
        name = chance.choice("abcdefgh")
        if chance.random() < 0.7:
            child.put(Record(name, bytes([step])))
        else:
            child.drop(name)
        if chance.random() < 0.3 and child.reports:
            report = child.next_report()
            if chance.random() < 0.7:
                parent.told("P", report)
            else:
                # Lost on the way there, or its answer on the way back.
                if chance.random() < 0.5:
                    parent.told("P", report)
                child.begin()
    while child.reports:
        parent.told("P", child.next_report())
    assert known(parent) == known(child)


def test_reporter_of_a_node() -> None:
    here = ledger()
    here.told("P", Report(records("w")))
    assert (here.source("w"), here.source("v")) == ("P", None)
