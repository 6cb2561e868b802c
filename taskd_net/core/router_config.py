"""Settings of a Router."""

from __future__ import annotations

from dataclasses import dataclass

from taskd_net.base import limits
from taskd_net.base.peer_limits import DEFAULT, Limits
from taskd_net.core.topology import ROUTES, ROUTES_SLICE


@dataclass(frozen=True, slots=True)
class RouterConfig:
    """Settings of a Router. Times are in seconds; `limits` and `NodeConfig` give the reasons for the values.

    Attributes:
        inbox: messages that fit into the inbox; 0 for a node without one.
        dedup_window: uuids of other makes that the inbox remembers of each sender.
        inbox_wait: time for which a message waits for room in the inbox.
        ack_timeout: time for which the Mgr awaits a child's answer; each level below waits for less.
        link_messages, link_bytes: bounds on the queue of one link.
        max_children: children at most.
        grace: time for which a child without a stream keeps its place.
        registration_hold: time for which a registration without a stream holds its place.
        job: the job that certificates have to name.
        confirms: the application confirms the messages in its inbox, and senders are answered only then.
        limits: bounds on a peer's fields and its share of the node.
        routes, routes_slice: as in `core.topology`.
    """

    inbox: int = 8
    dedup_window: int = limits.DEDUP_WINDOW
    inbox_wait: float = limits.INBOX_WAIT_S
    ack_timeout: float = limits.ACK_TIMEOUT_S
    link_messages: int = limits.LINK_MESSAGES
    link_bytes: int = limits.LINK_BYTES
    max_children: int = limits.MAX_CHILDREN
    grace: float = limits.GRACE_S
    registration_hold: float = limits.REGISTRATION_HOLD_S
    job: str = ""
    confirms: bool = False
    limits: Limits = DEFAULT
    routes: int = ROUTES
    routes_slice: int = ROUTES_SLICE
