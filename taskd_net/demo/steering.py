"""Requests and answers between the controller and the processes of a demo: JSON, a line each.

A line on a process's stdin is a request `{"id": 1, "do": "send", ...}`; its answer on stdout is
`{"id": 1, "value": ...}` or `{"id": 1, "error": "..."}`. The answer with the id 0 comes unasked, when the Node has
started. A process ends when its stdin does, so it cannot outlive the controller, however that ends.
"""

from __future__ import annotations

from typing import Final, TypedDict

LINE_BYTES: Final = 16 * 1024 * 1024
"""Bytes of one line, either way: far above a list of a thousand uuids."""

CLOSE_S: Final = 5
"""Seconds between the end of stdin and the end of the process, at the latest."""


class Started(TypedDict):
    """The node has started: its address, and the time (`time.monotonic`, which is the same for all processes)."""

    address: str | None
    at: float


class Sent(TypedDict):
    """The answers to messages sent one after another, and the microseconds until each of them."""

    codes: list[int]
    us: list[float]


class Reached(TypedDict):
    """The time of a destination's acknowledgement (`time.monotonic`; None without one), and the last code."""

    at: float | None
    code: int
