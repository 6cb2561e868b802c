"""Children that never read what others send to them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from typing import Final
from uuid import uuid4

import grpc.aio

from taskd_net.base.limits import MESSAGE_BYTES
from tests.peers.links import LinkChild
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import ALL_BYTES, Attack, Strikes
from tests.security.bystander.stand import Stand

CHILDREN: Final = 48


def multicasts(child_at: type[LinkChild] = LinkChild) -> Strikes:
    """Multicasts to children of this kind."""

    async def strikes(stand: Stand) -> AsyncGenerator[None, None]:
        async with AsyncExitStack() as stack:
            for rank in range(CHILDREN):
                child = await stack.enter_async_context(child_at(f"Worker/60/{rank}"))
                await child.join(stand.address)
            sender = await stack.enter_async_context(LinkChild("Worker/61/0"))
            await sender.join(stand.address)
            body = "x" * (MESSAGE_BYTES - 200)
            yield
            while True:
                header = pb.MessageHeader(
                    uuid=str(uuid4()), sync=False, src=position("Worker/61/0"), dst=position("Worker/60/All")
                )
                try:
                    ack = await sender.call("TransferMessage", pb.Message(header=header, body=body).SerializeToString())
                    assert ack.code == 5001, ack
                except grpc.aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNKNOWN:
                        raise
                yield

    return strikes


ATTACKS: Final[Mapping[str, Attack]] = {
    "multicasts-unread": Attack(
        f"multicasts of 8 MiB to {CHILDREN} children that never read",
        "5001 beyond the share of one sender in all queues",
        multicasts(),
        share=ALL_BYTES,
    ),
}
