"""Calls that wait for a place among the registrations without a stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from taskd_net.base.codes import Code, Refusal
from taskd_net.net.joining.pending import PendingRegistrations
from taskd_net.net.links.remote import Remote
from tests.peers.mesh import soon

HERE = Remote("ipv4", "10.0.0.1", "1")
THERE = Remote("ipv4", "10.0.0.1", "2")


def small(per_connection: int = 1, line: int = 2) -> PendingRegistrations:
    """Few places, and a short line."""
    return PendingRegistrations(lambda: 0, per_connection, 9, line)


async def register(
    pending: PendingRegistrations, remote: Remote, known: int | None = None, new: int | None = None
) -> None:
    """A registration; `new`: the child that it gets a place for."""
    async with pending.place(remote, known) as place:
        if new is not None:
            pending.keep(place, new)


@asynccontextmanager
async def waiting(pending: PendingRegistrations, remote: Remote) -> AsyncIterator[asyncio.Task[None]]:
    """A registration that waits."""
    task = asyncio.create_task(register(pending, remote))
    await asyncio.sleep(0)
    assert not task.done()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_place_is_free_again_unless_a_child_keeps_it() -> None:
    pending = small()
    for _ in range(3):
        await soon(register(pending, HERE))
    await soon(register(pending, HERE, new=1))
    async with waiting(pending, HERE) as task:
        await soon(register(pending, THERE))
        pending.over(1)
        await soon(task)
    pending.over(1)


async def test_child_that_registers_again_has_its_place() -> None:
    pending = small()
    await soon(register(pending, HERE, new=1))
    await soon(register(pending, HERE, known=1, new=1))
    await soon(register(pending, HERE, known=1))
    # Over another connection it takes a place there, and leaves the old one.
    await soon(register(pending, THERE, known=1, new=1))
    await soon(register(pending, HERE, new=2))
    async with waiting(pending, THERE):
        pass


async def test_caller_that_goes_leaves_no_trace() -> None:
    pending = small()
    await soon(register(pending, HERE, new=1))
    async with waiting(pending, HERE) as first, waiting(pending, HERE) as second:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        # It goes in the same moment in which it gets its place.
        pending.over(1)
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
    await soon(register(pending, HERE, new=1))


async def test_line_is_bounded() -> None:
    pending = small()
    await soon(register(pending, HERE, new=1))
    await soon(register(pending, THERE, new=2))
    async with waiting(pending, HERE) as first, waiting(pending, HERE) as second:
        with pytest.raises(Refusal) as refused:
            await soon(register(pending, HERE))
        assert refused.value.code == Code.EXCEED_MAX_REGISTRY_NUM
        async with waiting(pending, THERE) as fair:
            # It is pushed out, and its caller goes in the same moment.
            second.cancel()
            assert isinstance((await asyncio.gather(second, return_exceptions=True))[0], asyncio.CancelledError)
            pending.over(2)
            await soon(fair)
        pending.over(1)
        await soon(first)


async def test_caller_that_goes_and_is_pushed_out_in_the_same_moment() -> None:
    pending = small()
    for child, remote in enumerate((HERE, THERE)):
        await soon(register(pending, remote, new=child))
    async with waiting(pending, HERE), waiting(pending, HERE) as second:
        second.cancel()
        newcomer = asyncio.create_task(register(pending, THERE))
        await asyncio.gather(second, return_exceptions=True)
        assert second.cancelled()
        pending.over(1)
        await soon(newcomer)


async def test_places_that_become_free_together_are_given_together() -> None:
    """Also when one of the callers has gone in between: its place goes on to the next."""
    pending = small(2, 3)
    for child in (1, 2):
        await soon(register(pending, HERE, new=child))
    async with waiting(pending, HERE) as first, waiting(pending, HERE) as second, waiting(pending, HERE) as third:
        pending.over(1)
        pending.over(2)
        first.cancel()
        await soon(asyncio.wait([second, third], return_when=asyncio.FIRST_COMPLETED))
        await soon(asyncio.gather(second, third))
        assert first.cancelled()
