"""Requests and answers of the demo's processes."""

from __future__ import annotations

from uuid import uuid4

from taskd_net import limits
from taskd_net.demo.steering import CLOSE_S, LINE_BYTES
from taskd_net.demo.tour import UNICAST_SENDS


def test_a_line_has_room_for_every_uuid_of_a_request() -> None:
    assert len(str(uuid4())) * max(UNICAST_SENDS, limits.INBOX["Worker"]) * 100 < LINE_BYTES


def test_a_process_ends_before_its_controller_gives_it_up() -> None:
    assert limits.BACKOFF_MAX_S < CLOSE_S < 10
