"""All attacks by cost. A module has one kind of attack; `ATTACKS` names each.

`tests/security/test_attacks.py` makes each of them a few times, `python -m tests.security.attacks` for some seconds
with figures in docs/security.md. Whatever one peer sends, the p99 of others grows by less than 50 ms, and memory by
less than the attacker's share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import taskd_net  # noqa: F401 - before any import of grpc, which reads its environment then
from tests.security.attacks import (
    announcements,
    answers,
    batches,
    certificates,
    compression,
    direct,
    frames,
    positions,
    positions_calls,
    questions,
    registrations,
    reports,
    side_ports,
    sizes,
    texts,
    unfinished,
    unread,
)
from tests.security.attacks.attack import Attack

ATTACKS: Final[Mapping[str, Attack]] = {
    **announcements.ATTACKS,
    **answers.ATTACKS,
    **batches.ATTACKS,
    **certificates.ATTACKS,
    **compression.ATTACKS,
    **direct.ATTACKS,
    **frames.ATTACKS,
    **positions.ATTACKS,
    **positions_calls.ATTACKS,
    **questions.ATTACKS,
    **registrations.ATTACKS,
    **reports.ATTACKS,
    **side_ports.ATTACKS,
    **sizes.ATTACKS,
    **texts.ATTACKS,
    **unfinished.ATTACKS,
    **unread.ATTACKS,
}
"""By name: lower case, with hyphens."""
