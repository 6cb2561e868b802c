"""The ledger finds each broken promise, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.faults.ledger import Ledger, Recorder

SENDER, RECEIVER, SECOND = "worker0.1", "worker1.1", "worker1.2"


def sent(uuid: str, code: int | None, at: float = 1.0, *, ended: float = 2.0, kind: str = "sent") -> list[list[Any]]:
    """A sender's records of one message."""
    begin = ["begin", uuid, "Worker/0/1", at, kind]
    if kind == "posted":
        return [begin, ["handed", uuid, code]]
    return [begin] if code is None else [begin, ["tried", uuid, code, "", at, ended], ["end", uuid, code]]


def got(uuid: str, at: float = 1.5, *, taken: bool = True) -> list[list[Any]]:
    """A receiver's records of one message."""
    return [["in", uuid, at], *([["took", uuid]] if taken else [])]


def ledger(killed: dict[str, float] | None = None, **lives: list[list[Any]]) -> Ledger:
    """A ledger of these lives; `worker0_1` stands for `worker0.1`."""
    made = Ledger(killed)
    for life, records in lives.items():
        made.add(life.replace("_", "."), records)
    return made


def test_all_is_well() -> None:
    audit = ledger(worker0_1=sent("a", 0) + sent("b", 6001), worker1_1=got("a")).audit()
    assert (audit.sent, audit.acked, audit.delivered, audit.broken) == (2, 1, 1, {})
    assert audit.codes == {0: 1, 6001: 1}


def test_failed_message_may_have_been_delivered() -> None:
    assert not ledger(worker0_1=sent("a", 6001), worker1_1=got("a")).audit().broken


@pytest.mark.parametrize("arrived", [[], got("a", taken=False)], ids=["in no inbox", "never taken out"])
def test_lost(arrived: list[list[Any]]) -> None:
    assert ledger(worker0_1=sent("a", 0), worker1_1=arrived).audit().broken == {"lost": ["a"]}


def test_inbox_of_a_killed_receiver() -> None:
    audit = ledger({RECEIVER: 3.0}, worker0_1=sent("a", 0), worker1_1=got("a", taken=False)).audit()
    assert audit.in_killed_inbox == ["a"] and not audit.broken


def test_duplicate_in_one_life() -> None:
    audit = ledger({RECEIVER: 9.0}, worker0_1=sent("a", 0), worker1_1=got("a") + got("a", 1.7)).audit()
    assert audit.broken == {"duplicated": ["a"]}


@pytest.mark.parametrize(
    ("killed", "answered", "duplicated"),
    [
        pytest.param(1.6, 2.0, False, id="killed before the answer"),
        pytest.param(None, 2.0, True, id="both live"),
        pytest.param(1.8, 2.0, True, id="the first died after the second had it"),
        pytest.param(1.6, 1.55, True, id="acknowledged before it was killed"),
    ],
)
def test_two_lives(killed: float | None, answered: float, duplicated: bool) -> None:
    lives = {"worker1_1": got("a", 1.5), "worker1_2": got("a", 1.7)}
    audit = ledger({RECEIVER: killed} if killed else {}, worker0_1=sent("a", 0, ended=answered), **lives).audit()
    assert (audit.duplicated, audit.in_two_lives) == ((["a"], []) if duplicated else ([], ["a"]))


def test_no_code() -> None:
    assert ledger(worker0_1=sent("a", None)).audit().broken == {"vanished": ["a"]}
    audit = ledger({SENDER: 2.0}, worker0_1=sent("a", None)).audit()
    assert audit.orphaned == ["a"] and not audit.broken


@pytest.mark.parametrize("code", [5001, 6000, 6002])
def test_denied(code: int) -> None:
    assert ledger(worker0_1=sent("a", code), worker1_1=got("a")).audit().broken == {"delivered_though_refused": ["a"]}


def test_refused_and_resent() -> None:
    """The second attempt is answered 0, but it was the first one that arrived."""
    first, second = ["tried", "a", 6000, "", 1.0, 2.0], ["tried", "a", 0, "", 3.0, 4.0]
    records = [*sent("a", None), first, second, ["end", "a", 0]]
    assert ledger(worker0_1=records, worker1_1=got("a", 1.5)).audit().broken == {"delivered_though_refused": ["a"]}
    assert not ledger(worker0_1=records, worker1_1=got("a", 3.5)).audit().broken


def test_posts_may_be_lost_but_not_doubled() -> None:
    records = sent("a", 0, kind="posted") + sent("b", 0, kind="posted") + sent("c", 6001, kind="posted")
    audit = ledger(worker0_1=records, worker1_1=got("b")).audit()
    assert (audit.posted, audit.arrived, audit.sent, audit.broken) == (2, 1, 0, {})
    assert ledger(worker0_1=records, worker1_1=got("b") + got("b", 1.6)).audit().duplicated == ["b"]


def test_nobody_sent_it() -> None:
    assert ledger(worker1_1=got("a")).audit().broken == {"stray": ["a"]}


def test_order() -> None:
    records = sent("a", 0, 1.0) + sent("b", 0, 2.0) + sent("c", 0, 3.0)
    audit = ledger(worker0_1=records, worker1_1=got("b", 2.5) + got("a", 2.6) + got("c", 3.5)).audit()
    assert audit.broken == {"out_of_order": ["b"]}
    # A message that was given up has no place in the order.
    given_up = sent("a", 6001, 1.0) + records[3:]
    assert not ledger(worker0_1=given_up, worker1_1=got("b", 2.5) + got("a", 2.6)).audit().out_of_order
    # Another life of the receiver has its own order.
    lives = {"worker1_1": got("b", 2.5), "worker1_2": got("a", 2.6)}
    assert not ledger({RECEIVER: 2.55}, worker0_1=records[:6], **lives).audit().out_of_order


def test_files(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "worker0.1.records")
    for what, *fields in sent("a", None):
        recorder.note(what, *fields)
    recorder.close()
    read = Ledger.read(tmp_path, {})
    assert read.audit().vanished == ["a"] and read.letters["a"].sender == SENDER


def test_attempts() -> None:
    made = ledger(worker0_1=sent("a", 0, 1.0, ended=2.0))
    assert [letter.uuid for letter, _ in made.attempts(1.5, 1.6)] == ["a"]
    assert not list(made.attempts(2.1, 3.0))
