"""Times of a node's links that its tests shorten."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from taskd_net.base import limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTimes:
    """Times of one node, in seconds. They are no settings: other values break what documents promise.

    Args:
        backoff_initial, backoff_max: as `limits.BACKOFF_INITIAL_S`, `limits.BACKOFF_MAX_S`.
        registration_hold: as `limits.REGISTRATION_HOLD_S`.
        connect: as `limits.CONNECT_S`.
        greeting: for TLS and the greeting of whoever connects to the port of direct links.
        keepalive, keepalive_timeout: as `limits.KEEPALIVE_TIME_S`, `limits.KEEPALIVE_TIMEOUT_S`.
        not_answering, silent: as `limits.NOT_ANSWERING_S`, `limits.SILENT_S`.
        position_taken: as `limits.POSITION_TAKEN_PAUSE_S`.
        upstream_look: for the look at all addresses after a loss. Longer finds a slow parent; shorter wastes less where
            none is.
        not_joined_log: as `limits.NOT_JOINED_LOG_S`.
        certificates_look: as `limits.CERTIFICATES_LOOK_S`.
        renewal, renewal_spread: as `limits.RENEWAL_S`, `limits.RENEWAL_SPREAD_S`.
        renewal_retry: before a move to a new connection that failed is tried again; the old connection does its work.
        better_link: between two looks at whether a port that did not answer does so now.
        figures: as `limits.STATUS_FIGURES_S`.
        strangers_look: between two looks at the system's table of connections, which takes 10 ms with 5,000 of them.
        strangers_heard: as `limits.STRANGERS_HEARD_S`.
    """

    backoff_initial: float = limits.BACKOFF_INITIAL_S
    backoff_max: float = limits.BACKOFF_MAX_S
    registration_hold: float = limits.REGISTRATION_HOLD_S
    connect: float = limits.CONNECT_S
    greeting: float = 2.0
    keepalive: float = limits.KEEPALIVE_TIME_S
    keepalive_timeout: float = limits.KEEPALIVE_TIMEOUT_S
    not_answering: float = limits.NOT_ANSWERING_S
    silent: float = limits.SILENT_S
    position_taken: float = limits.POSITION_TAKEN_PAUSE_S
    upstream_look: float = 0.5
    not_joined_log: float = limits.NOT_JOINED_LOG_S
    certificates_look: float = limits.CERTIFICATES_LOOK_S
    renewal: float = limits.RENEWAL_S
    renewal_spread: float = limits.RENEWAL_SPREAD_S
    renewal_retry: float = 5.0
    better_link: float = 60.0
    figures: float = limits.STATUS_FIGURES_S
    strangers_look: float = 1.0
    strangers_heard: float = limits.STRANGERS_HEARD_S


TIMES: Final = LinkTimes()
"""Times of every node outside of tests."""
