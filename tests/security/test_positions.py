"""Many positions of one process: the turns of their parent's loop stay short, and others are served.

`make attacks` has a thousand of them, with the latency of others. The bound here is on the processor time of one turn,
which a busy machine does not change.
"""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from tests.security.attacks import ATTACKS
from tests.security.attacks.attack import ALL_BYTES
from tests.security.bystander.stand import Stand

pytestmark = pytest.mark.timeout(180)

COUNT = 200

TURN_S = 0.3
"""Seconds of one turn of the loop; with a turn of each link's own 0.8 s and more."""


@pytest.mark.parametrize("name", ["positions-messages", "positions-answers", "positions-batched-messages-64"])
async def test_flood_of_every_position_leaves_others_their_turns(tmp_path: Path, name: str) -> None:
    async with Stand(tmp_path, metered=True, one_session=True) as stand:
        async with aclosing(ATTACKS[name].strikes(stand, count=COUNT)) as strikes:  # type: ignore[call-arg]
            await anext(strikes)
            await stand.joined()
            stand.reset_peak()
            await stand.longest_turn()
            for _ in range(5):
                await anext(strikes)
            assert await stand.longest_turn() < TURN_S
        assert not (await stand.offer(0.1)).failed
        assert stand.growth() < ALL_BYTES
        assert "Traceback" not in stand.log()
