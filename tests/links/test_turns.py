"""Turns of the event loop: a bounded amount in each, in the order of asking, and others in between."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.net.links.turns import Turns
from tests.peers.mesh import soon


def turns_of_ten() -> Turns:
    """Ten at a time, and one turn for others in between."""
    return Turns(10, turns=1)


def turn_of_loop() -> list[int]:
    """A list with the number of the loop's turn, which goes on by itself."""
    turn = [0]

    def count() -> None:
        turn[0] += 1
        asyncio.get_running_loop().call_soon(count)

    count()
    return turn


async def test_what_fits_into_a_turn_goes_at_once_and_the_rest_in_order() -> None:
    turns, turn, taken = turns_of_ten(), turn_of_loop(), list[tuple[str, int]]()

    async def take(name: str, amount: int) -> None:
        await turns.take(amount)
        taken.append((name, turn[0]))

    await asyncio.sleep(0)
    begun = turn[0] + 1
    async with asyncio.TaskGroup() as group:
        for name, amount in (("a", 6), ("b", 4), ("c", 1), ("d", 9), ("e", 25), ("f", 1)):
            group.create_task(take(name, amount))
    assert [name for name, _ in taken] == list("abcdef")
    at = {name: number - begun for name, number in taken}
    assert at["a"] == at["b"]
    assert at["b"] < at["c"] == at["d"] < at["e"] < at["f"]
    assert all(later - earlier > 1 for earlier, later in ((at["b"], at["c"]), (at["d"], at["e"]), (at["e"], at["f"])))


async def test_nobody_waits_in_the_next_turn() -> None:
    turns = turns_of_ten()
    for _ in range(3):
        waiting = asyncio.ensure_future(turns.take(10))
        await asyncio.sleep(0)
        assert waiting.done()
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_who_goes_leaves_the_line() -> None:
    turns = turns_of_ten()
    first, gone, stays = (asyncio.ensure_future(turns.take(10)) for _ in range(3))
    await asyncio.sleep(0)
    assert first.done()
    gone.cancel()
    await soon(stays)
    assert gone.cancelled()


PIECES = st.lists(st.tuples(st.integers(1, 25), st.none() | st.integers(0, 12)), max_size=12)


@given(pieces=PIECES)
def test_who_goes_at_any_moment_holds_up_nobody(pieces: list[tuple[int, int | None]]) -> None:
    """`pieces`: amounts, and the turns of the loop after which the taker is cancelled."""

    async def play() -> None:
        turns, taken = turns_of_ten(), list[int]()

        async def take(number: int, amount: int) -> None:
            await turns.take(amount)
            taken.append(number)

        takers = [asyncio.create_task(take(number, amount)) for number, (amount, _) in enumerate(pieces)]
        for moment in range(13):
            for taker, (_, goes) in zip(takers, pieces, strict=True):
                if goes == moment:
                    taker.cancel()
            await asyncio.sleep(0)
        for taker, (_, goes) in zip(takers, pieces, strict=True):
            if goes is None:
                await soon(taker)
        await asyncio.gather(*takers, return_exceptions=True)
        assert taken == sorted(taken)
        await soon(turns.take(10))

    asyncio.run(play())
