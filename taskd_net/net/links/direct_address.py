"""Sockets of direct links by address: one that listens, and one that is connected."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from typing import Final, NamedTuple

from taskd_net.base import limits, threads
from taskd_net.base.address import Address
from taskd_net.base.codes import NodeError

_RESOLVERS: Final = 4
"""Threads of libuv, which it starts with the first look-up. It ends the process if it cannot."""


class Where(NamedTuple):
    """An address for the kernel."""

    family: socket.AddressFamily
    name: tuple[object, ...]


async def resolve(address: Address) -> Where:
    """Look an address up. A numeric host needs no thread.

    Raises:
        OSError: there is no such host; the text says which.
    """
    found: list[tuple[socket.AddressFamily, int, int, str, tuple[object, ...]]] = []
    with contextlib.suppress(socket.gaierror):
        numeric = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        found += socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=numeric)
    if not found:
        loop = asyncio.get_running_loop()
        try:
            threads.require_room(_RESOLVERS)
            found += await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
        except (OSError, NodeError) as error:
            raise OSError(f"{address.host} is no host: {error}") from error
    family, _, _, _, name = found[0]
    return Where(family, name)


def listening(where: Where) -> socket.socket:
    """A socket that listens.

    Raises:
        OSError: the address cannot be bound.
    """
    listener = socket.socket(where.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setblocking(False)
        listener.bind(where.name)
        listener.listen(limits.MAX_CHILDREN)
    except OSError:
        listener.close()
        raise
    return listener


async def connected(where: Where, seconds: float) -> socket.socket:
    """A socket that is connected.

    Raises:
        OSError: nobody answers in time, then without `errno`, or the kernel says why not.
    """
    connection = socket.socket(where.family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    connection.setblocking(False)
    try:
        try:
            async with asyncio.timeout(seconds):
                await _connect(connection, where.name)
        except TimeoutError as late:
            # Not where this process was busy meanwhile, and the kernel was not.
            try:
                connection.getpeername()
            except OSError:
                raise TimeoutError from late
    except BaseException:
        connection.close()
        raise
    return connection


@contextlib.contextmanager
def handed_over(connection: socket.socket) -> Iterator[None]:
    """Around the call that makes a transport of a socket.

    Where that fails or is cancelled, asyncio closes the socket. uvloop closes the descriptor, which this end must not
    close again: it may be another file's by then.
    """
    try:
        yield
    except BaseException:
        if not isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
            connection.detach()
        raise


async def _connect(connection: socket.socket, name: tuple[object, ...]) -> None:
    """Connect without the loop's own call: uvloop's resolves numeric addresses in four threads of libuv, which stay.

    A forked child of the process then crashes at its end, when libuv joins threads that the child does not have.
    """
    error = connection.connect_ex(name)
    if error == errno.EINPROGRESS:
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        loop.add_writer(connection.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_writer(connection.fileno())
        error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if error:
        raise OSError(error, os.strerror(error))
