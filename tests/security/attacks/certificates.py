"""Certificates that are refused: a child's of another CA, and a leaf's in the place of a parent's."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from taskd_net.net.tls.certificates import read
from taskd_net.net.tls.credentials import ServerCredentials
from tests.peers.certificates import Folder
from tests.peers.links import LinkParent
from tests.security.attacks.attack import Attack
from tests.security.bystander.stand import Stand

TOGETHER: Final = 8


async def _strangers(stand: Stand) -> AsyncGenerator[None, None]:
    """Handshakes with a certificate of another CA."""
    assert stand.certificates is not None
    other = Folder(stand.certificates.path.parent / "other")
    context = ssl.create_default_context(cafile=stand.certificates.ca)
    context.load_cert_chain(other.crt, other.key)
    context.set_alpn_protocols(["h2"])
    host, _, port = stand.address.rpartition(":")

    async def refused() -> None:
        try:
            reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
            # With TLS 1.3 a client learns of its refusal after the handshake.
            said = await reader.read(1)
            writer.transport.abort()
        except (ssl.SSLError, ConnectionError):
            return
        assert not said, "the parent has accepted a foreign certificate"

    yield
    while True:
        await asyncio.gather(*(refused() for _ in range(TOGETHER)))
        yield


def _refuses(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Let a child connect, and see it end the handshake."""
    plain = listening.accept()[0]
    plain.settimeout(60.0)
    with plain, contextlib.suppress(ssl.SSLError, ConnectionError), context.wrap_socket(plain, server_side=True) as end:
        assert not end.recv(1), "the child has accepted a leaf as its parent"


async def _leaf_as_parent(stand: Stand) -> AsyncGenerator[None, None]:
    """The place of a parent is taken by the holder of a Worker's certificate."""
    assert stand.certificates is not None
    honest = LinkParent()
    await honest.start(stand.parent, ServerCredentials(read(stand.certificates.listening())).credentials)
    try:
        await honest.opened()
        yield
    finally:
        await honest.stop()
    leaf = Folder(stand.certificates.path.parent / "leaf", stand.certificates.authority)
    leaf.issue(parent=False)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(leaf.crt, leaf.key)
    context.set_alpn_protocols(["h2"])
    host, _, port = stand.parent.rpartition(":")
    with socket.create_server((host, int(port))) as listening:
        listening.settimeout(60.0)
        while True:
            await asyncio.to_thread(_refuses, listening, context)
            yield


ATTACKS: Final[Mapping[str, Attack]] = {
    "foreign-certificates": Attack(
        f"{TOGETHER} handshakes at a time with a certificate of another CA", "refused", _strangers, secure=True
    ),
    "leaf-as-parent": Attack(
        "a Worker's certificate in the place of the parent's",
        "the child does not join it, and tries again",
        _leaf_as_parent,
        from_above=True,
        secure=True,
    ),
}
