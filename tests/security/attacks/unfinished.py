"""Messages over gRPC that never come whole, of peers that have not registered."""

from __future__ import annotations

import itertools
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

from taskd_net.base import limits
from taskd_net.net.links.grpc_calls import SERVICE, STATUS_SERVICE
from tests.security.attacks.attack import ALL_BYTES, Attack
from tests.security.bystander.stand import Stand
from tests.security.http2 import Http2

HEAD: Final = b"\x00" + limits.MESSAGE_BYTES.to_bytes(4)
CALLS: Final = 400
PART_BYTES: Final = 1_000_000
CONNECTIONS: Final = 40
NEARLY_BYTES: Final = limits.MESSAGE_BYTES - 1

METHODS: Final = (
    f"/{SERVICE}/TransferMessage",
    f"/{SERVICE}/Register",
    f"/{STATUS_SERVICE}/Tell",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)


async def _begun(connections: int, calls: int, size: int, stand: Stand) -> AsyncGenerator[None, None]:
    """Each strike begins so many calls over each connection, with a part of the message of each."""
    part, methods = HEAD + bytes(size), itertools.cycle(METHODS)
    async with AsyncExitStack() as stack:
        standing = [await stack.enter_async_context(Http2(stand.address)) for _ in range(connections)]
        for connection in standing:
            await connection.greet()
        yield
        while True:
            for connection in standing:
                for _ in range(calls):
                    await connection.send(connection.open(next(methods)), part)
                    await connection.taken()
            yield


ATTACKS: Final[Mapping[str, Attack]] = {
    "unfinished-calls": Attack(
        f"{CALLS} calls over one connection, with 1 MB of the 8 MiB of each message",
        "UNAVAILABLE beyond 6 of a connection",
        partial(_begun, 1, CALLS, PART_BYTES),
        share=ALL_BYTES,
    ),
    "unfinished-calls-of-many": Attack(
        f"a call over each of {CONNECTIONS} connections, with all but the last byte of 8 MiB",
        "UNAVAILABLE beyond the bytes of all",
        partial(_begun, CONNECTIONS, 1, NEARLY_BYTES),
        share=ALL_BYTES,
    ),
}
