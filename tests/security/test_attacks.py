"""Every attack by cost, a few times: it is refused, its bystanders reach each other, and memory stays within its share.

Where answers pile up, the turns of the node's loop stay short, in processor time. Latencies are measured by `make
attacks`: those of a busy machine say nothing of the attack.
"""

from __future__ import annotations

from contextlib import aclosing
from pathlib import Path

import pytest

from tests.security.attacks import ATTACKS, answers, batches, positions, positions_calls

pytestmark = pytest.mark.timeout(180)

STRIKES = 2
FROM_ABOVE = 1
"""Strikes of a parent: its child waits 5 s before it joins again."""

TURN_S = 0.020
"""Seconds of processor time of one turn, in which no other message passes: up to 8 ms, and without slices 30 ms."""


# A batch of any kind of link, and from either end, is read by the same code: direct links from below have all, one of
# each is enough for the others. `make matrix` has them.
ONE = "empty-messages"
OTHERS = batches.BATCHES.keys() - {ONE}
LATER = {form.format(name) for name in OTHERS for form in ("{}", "{}-from-above", "direct-{}-from-above")}


def marks(name: str) -> list[pytest.MarkDecorator]:
    """The target of an attack: strikes of a parent wait for its child, for 5 s each, announcements are large, and
    many positions join slowly."""
    if name in LATER:
        return [pytest.mark.matrix]
    long = (
        ATTACKS[name].from_above
        or "announcements" in name
        or name in positions.ATTACKS
        or name in positions_calls.ATTACKS
    )
    return [pytest.mark.more] if long else []


@pytest.mark.parametrize("name", [pytest.param(name, marks=marks(name)) for name in ATTACKS])
async def test_attack(tmp_path: Path, name: str) -> None:
    attack = ATTACKS[name]
    async with attack.stand(tmp_path, metered=name in answers.ATTACKS) as stand:
        async with aclosing(attack.strikes(stand)) as strikes:
            await anext(strikes)
            await stand.joined()
            assert not (await stand.offer(0.1)).failed
            stand.reset_peak()
            if stand.metered:
                await stand.longest_turn()
            for _ in range(FROM_ABOVE if attack.from_above else STRIKES):
                await anext(strikes)
        assert not (await stand.offer(0.1)).failed
        assert stand.growth() < attack.share
        assert "Traceback" not in stand.log()
        if stand.metered:
            assert await stand.longest_turn() < TURN_S
