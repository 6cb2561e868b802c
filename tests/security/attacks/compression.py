"""Compressed messages: some bytes that become many before anybody looks at them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

import grpc.aio
import pytest

from tests.peers.links import LinkChild, LinkParent
from tests.peers.stubs import pb, position
from tests.security.attacks.attack import Attack
from tests.security.attacks.batches import EMPTY_ACCEPTED
from tests.security.bystander.stand import MIB, Stand

BOMB: Final = 60 * MIB
"""Bytes of what a compressed message of some 60 KB becomes."""


async def to_a_call(stand: Stand) -> AsyncGenerator[None, None]:
    """Somebody who has not registered calls with a bomb."""
    data = pb.RegisterReq(uuid="x" * BOMB, pos=position("Worker/80/0")).SerializeToString()
    async with grpc.aio.insecure_channel(stand.address, compression=grpc.Compression.Gzip) as channel:
        call: Any = channel.unary_unary("/TaskNet/Register")
        yield
        while True:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(data, timeout=60.0)
            assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED
            yield


async def to_a_parent(stand: Stand) -> AsyncGenerator[None, None]:
    """A child writes a bomb on its stream."""
    data = EMPTY_ACCEPTED * (BOMB // 2)
    async with LinkChild("Worker/80/0") as child:
        await child.join(stand.address)
        child.compression = grpc.Compression.Gzip
        yield
        while True:
            with contextlib.suppress(grpc.aio.AioRpcError):
                await child.open()
                await child.write(data)
            assert await child.ended() is grpc.StatusCode.UNIMPLEMENTED
            yield


async def to_a_child(stand: Stand) -> AsyncGenerator[None, None]:
    """A parent writes a bomb on the stream of its child, which tries again."""
    data = EMPTY_ACCEPTED * (BOMB // 2)
    parent = await LinkParent().start(stand.parent)
    try:
        await parent.opened()
        yield
        parent.compression = grpc.Compression.Gzip
        parent.end_streams()
        while True:
            await parent.write(await parent.opened(), data)
            yield
    finally:
        await parent.stop()


_SENDS: Final = "a gzipped message of 60 KB, which is 60 MiB,"
ATTACKS: Final[Mapping[str, Attack]] = {
    "compressed-call": Attack(f"{_SENDS} as Register", "UNIMPLEMENTED, unread", to_a_call),
    "compressed-batch": Attack(f"{_SENDS} on the batched link", "the stream ends with UNIMPLEMENTED", to_a_parent),
    "compressed-batch-from-above": Attack(
        f"{_SENDS} on the batched link", "the stream does not open; the child tries again", to_a_child, from_above=True
    ),
}
