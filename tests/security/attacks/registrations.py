"""Registrations that are repeated for ever, and whose streams are never opened."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Final

import grpc.aio

from taskd_net.net.joining.pending import PER_CONNECTION
from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import Stand

COUNT: Final = 5000


async def _repeated(stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike is a newcomer that joins meanwhile."""
    places = [f"Worker/70/{rank}" for rank in range(COUNT)]
    requests = [pb.RegisterReq(uuid="u", pos=position(place)).SerializeToString() for place in places]
    async with LinkChild(places[0]) as child:
        await child.join(stand.address)

        async def again(data: bytes) -> None:
            while True:
                try:
                    assert (await child.call("Register", data)).code == 0, "it waits, and is not refused"
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.1)  # gRPC has no stream for it, or its time is over

        calls = [asyncio.create_task(again(data)) for data in requests[1:]]
        try:
            yield
            while True:
                async with LinkChild("Worker/71/0") as newcomer:
                    async with asyncio.timeout(30.0):
                        await newcomer.join(stand.address)
                for call in calls:
                    if call.done():
                        call.result()
                await asyncio.sleep(0.05)
                yield
        finally:
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)


ATTACKS: Final[Mapping[str, Attack]] = {
    "registrations-repeated": Attack(
        f"{COUNT:,} registrations over one connection, without a stream",
        f"{PER_CONNECTION} have a place, the others wait",
        _repeated,
    ),
}
