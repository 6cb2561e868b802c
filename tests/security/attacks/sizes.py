"""Messages beyond every limit of size, and the largest ones that are read."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from functools import partial
from itertools import count
from typing import Final

from taskd_net.base.limits import RECEIVE_BYTES
from tests.peers.links import LinkChild, LinkParent
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import MIB, Stand

HUGE: Final = 256 * MIB


async def from_above(kind: str, size: int, stand: Stand) -> AsyncGenerator[None, None]:
    """A parent writes one item of this size, and the child joins again."""
    data = bytes(size)
    parent = await LinkParent(kind).start(stand.parent)
    try:
        stream = await parent.opened()
        yield
        while True:
            await parent.write(stream, data)
            stream = await parent.opened()
            yield
    finally:
        await parent.stop()


async def from_below(kind: str, size: int, stand: Stand) -> AsyncGenerator[None, None]:
    """A child writes one item of this size, and its stream ends. It comes back in another place."""
    data = bytes(size)
    for rank in count():
        async with LinkChild(f"Worker/80/{rank}", kind) as child:
            await child.join(stand.address)
            if not rank:
                yield
            await child.write(data)
            await child.ended()
            yield


def _attacks(kind: str) -> dict[str, Attack]:
    huge = f"{HUGE // MIB} MiB in one item of a {kind} stream"
    down, up = partial(from_above, kind, HUGE), partial(from_below, kind, HUGE)
    return {
        f"huge-{kind}-from-above": Attack(
            f"{huge}, downwards", "the child leaves, and joins again", down, from_above=True
        ),
        f"huge-{kind}": Attack(f"{huge}, upwards", "the stream ends with RESOURCE_EXHAUSTED", up),
    }


ATTACKS: Final[Mapping[str, Attack]] = {
    **_attacks("batched"),
    **_attacks("tasknet"),
    "zeros-batched-from-above": Attack(
        "zeros up to the limit of one item, downwards",
        "the child leaves, and joins again",
        partial(from_above, "batched", RECEIVE_BYTES),
        from_above=True,
    ),
    "zeros-batched": Attack(
        "zeros up to the limit of one item, upwards",
        "the stream ends, one line",
        partial(from_below, "batched", RECEIVE_BYTES),
    ),
}
