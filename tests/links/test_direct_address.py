"""Sockets of direct links: nothing waits for an acknowledgement, and a cancelled one leaves nothing open."""

from __future__ import annotations

import asyncio
import os
import socket

import pytest

from taskd_net.net.links.direct_address import Where, connected, handed_over, listening
from tests.peers.mesh import soon
from tests.polling import until

pytestmark = [pytest.mark.timeout(60), pytest.mark.both_loops]


async def test_both_ends_send_at_once() -> None:
    """Without the option a small frame waits up to 40 ms for the acknowledgement of the one before."""
    with listening(Where(socket.AF_INET, ("127.0.0.1", 0))) as listener:
        loop = asyncio.get_running_loop()
        near = await connected(Where(socket.AF_INET, listener.getsockname()), 5.0)
        far, _ = await soon(loop.sock_accept(listener))
        transports = [
            (await loop.create_connection(asyncio.Protocol, sock=near))[0],
            (await loop.connect_accepted_socket(asyncio.Protocol, far))[0],
        ]
        for transport in transports:
            assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            transport.abort()


@pytest.mark.parametrize("turns", [0, 1, 2])
async def test_transport_that_is_cancelled_as_it_begins(turns: int) -> None:
    with listening(Where(socket.AF_INET, ("127.0.0.1", 0))) as listener:
        loop = asyncio.get_running_loop()
        connection = await connected(Where(socket.AF_INET, listener.getsockname()), 5.0)
        descriptor = connection.fileno()

        async def begin() -> None:
            with handed_over(connection):
                transport, _ = await loop.create_connection(asyncio.Protocol, sock=connection)
            transport.abort()

        task = asyncio.create_task(begin())
        await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await until(lambda: connection.fileno() == -1)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
