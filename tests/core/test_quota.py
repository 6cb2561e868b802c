"""Messages in flight of one child and of all together, to the last message and byte."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.peer_limits import Limits
from taskd_net.core.quota import Quota

LIMITS = Limits(child_messages=3, child_bytes=100, total_messages=4, total_bytes=250)


def test_room_is_the_childs_or_what_is_left_of_the_whole() -> None:
    whole = Quota(LIMITS)
    one, two = Quota(LIMITS, whole), Quota(LIMITS, whole)
    assert (whole.room, one.room, two.room) == (4, 3, 3)
    one.add(2, 0)
    assert (whole.room, one.room, two.room) == (2, 1, 2)
    one.add(-1, 0)
    assert (whole.messages, one.room, two.room) == (1, 2, 3)


def test_bytes_fit_to_the_last_one() -> None:
    whole = Quota(LIMITS)
    one, two = Quota(LIMITS, whole), Quota(LIMITS, whole)
    assert one.fits(100)
    assert not one.fits(101)
    one.add(1, 90)
    assert one.fits(10)
    assert not one.fits(11)
    assert two.fits(80), "as many as are left then"
    assert not two.fits(81)


def test_whole_counts_by_itself() -> None:
    whole = Quota(LIMITS)
    whole.add(2, 30)
    assert (whole.messages, whole.size) == (2, 30)


@pytest.mark.parametrize(("messages", "size", "asked"), [(3, 0, 0), (1, 95, 6)])
def test_beyond_it_is_5001(messages: int, size: int, asked: int) -> None:
    quota = Quota(LIMITS, Quota(LIMITS))
    quota.require(100)
    quota.add(messages, size)
    with pytest.raises(Refusal) as refused:
        quota.require(asked)
    assert refused.value.code == Code.RECV_BUF_BUSY
    quota.add(-messages, -size)
    quota.require(asked)
