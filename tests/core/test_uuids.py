"""The uuids of this package's own messages, and what is read in them."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.core import uuids as module
from taskd_net.core.uuids import Uuids, split
from taskd_net.net.wire.codec import UUID_CHARS
from tests.core.routers import at


def maker(incarnation: str = "0123456789abcdef") -> Uuids:
    """The uuid maker of one life of a node."""
    return Uuids(incarnation, os.urandom)


def test_uuid_says_incarnation_flow_and_number() -> None:
    made = maker()
    uuids = [made.next(at("Worker/0/3")) for _ in range(20)]
    assert [split(uuid) for uuid in uuids] == [("tn1-0123456789abcdef-1", number) for number in range(1, 21)]
    assert uuids[15].startswith("tn1-0123456789abcdef-1-10-")
    assert len(uuids[0]) < UUID_CHARS


def test_every_destination_has_a_flow_and_all_lists_have_one() -> None:
    made = maker()
    texts = ["Mgr", "Worker/All/All", "Worker/0/1,2", "Mgr", "Worker/0/2,3", "Proxy/0,1", "Worker/All/All"]
    flows = [split(made.next(at(text))) for text in texts]
    head = "tn1-0123456789abcdef-"
    assert flows == [
        (head + "1", 1), (head + "2", 1), (head + "3", 1), (head + "1", 2), (head + "3", 2), (head + "3", 3),
        (head + "2", 2),
    ]  # fmt: skip
    assert split(made.next(None)) == (head + "3", 4)


def test_flows_are_bounded_and_never_used_again() -> None:
    made, limit = maker(), module.UUID_FLOWS
    first = made.next(at("Mgr"))
    for rank in range(limit):
        made.next(at(f"Worker/0/{rank}"))
    again = split(made.next(at("Mgr")))
    assert len(made._flows) <= limit
    assert split(first) == ("tn1-0123456789abcdef-1", 1)
    assert again == (f"tn1-0123456789abcdef-{limit + 2:x}", 1)


def test_noise_is_different_each_time() -> None:
    made = maker()
    noise = {made.next(at("Mgr"))[-16:] for _ in range(1000)}
    assert len(noise) == 1000
    drawn: list[int] = []

    def draw(size: int) -> bytes:
        drawn.append(size)
        return os.urandom(size)

    counted = Uuids("0" * 16, draw)
    for _ in range(600):
        counted.next(None)
    assert drawn == [2048] * 3


@given(st.one_of(st.text(max_size=60), st.from_regex(r"tn1-[0-9a-f-]*-[ _+x0-9a-f]{0,8}-.{16}")))
def test_any_text_is_read_without_an_error(text: str) -> None:
    known = split(text)
    assert known is None or (text.startswith(module._MARK) and isinstance(known[1], int))


def test_other_uuids_are_not_taken_for_ours() -> None:
    for uuid in ("", "1", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "tn1-", "tn1-a-b-c", "tn2-a-1-1-0123456789abcdef",
                 "tn1-a-1-x-0123456789abcdef", "tn1-0123456789abcdef"):  # fmt: skip
        assert split(uuid) is None
