"""gRPC's messages about an unreachable parent, by version, and our explanations."""

from __future__ import annotations

import asyncio

import pytest

from taskd_net.base.address import Address
from taskd_net.net.tls.explain import explain

NOWHERE = Address("127.0.0.1", 1)


@pytest.mark.parametrize(
    ("details", "words"),
    [
        # grpcio 1.85
        (
            "Tls handshake failed: OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: certificate has expired: OK",
            "the parent's certificate is refused: certificate has expired",
        ),
        (
            "Tls handshake failed: OPENSSL_internal:CERTIFICATE_VERIFY_FAILED: unsupported certificate purpose: OK",
            "the parent's certificate is refused: it is not for servers (extended key usage), as a Worker's is not",
        ),
        (
            "SSL_ERROR_SSL: ECDSA routines:OPENSSL_internal:BAD_SIGNATURE: certificate signature failure: OK",
            "the parent's certificate is refused: certificate signature failure",
        ),
        (
            "Custom verification check failed with error: UNAUTHENTICATED: Hostname Verification Check failed.",
            "the parent's certificate is refused: it does not name 'mgr'; see server_name",
        ),
        (
            "SSL routines:OPENSSL_internal:WRONG_VERSION_NUMBER: Invalid certificate verification context: OK",
            "the parent speaks plain text and this node TLS",
        ),
        (
            "UNAVAILABLE: ipv4:127.0.0.1:43341: Secure read failed (Socket closed)",
            "the parent hung up: it may not accept the certificate of this node",
        ),
        (
            "UNAVAILABLE: ipv4:127.0.0.1:36521: Secure read failed (Unwrap failed (TSI_DATA_CORRUPTED))",
            "the parent hung up: it may not accept the certificate of this node",
        ),
        # grpcio 1.62
        (
            "Ssl handshake failed: SSL_ERROR_SSL: SSL routines:OPENSSL_internal:CERTIFICATE_VERIFY_FAILED",
            "the parent's certificate is refused: not of our CA, not valid now, or not for servers",
        ),
        (
            "Peer name mgr is not in peer certificate",
            "the parent's certificate is refused: it does not name 'mgr'; see server_name",
        ),
        # none has to do with certificates
        (
            "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Connection refused (111)",
            f"nobody listens at {NOWHERE}",
        ),
        ("connect: No route to host (113)", f"there is no way to {NOWHERE}"),
        ("connect: Network is unreachable (101)", f"there is no way to {NOWHERE}"),
        (
            "DNS resolution failed for x:1: C-ares status is not ARES_SUCCESS",
            f"the host of {NOWHERE} cannot be resolved",
        ),
        (
            "DNS resolution failed for x:1: C-ares status is not ARES_SUCCESS qtype=A: Domain name not found",
            f"the name {NOWHERE.host} is not known yet",
        ),
        ("DNS resolution failed for x:1: Name or service not known", f"the name {NOWHERE.host} is not known yet"),
        (
            "last error: INTERNAL: ipv4:127.0.0.1:1: Failed parsing HTTP/2 (Expected SETTINGS frame first)",
            f"no node listens at {NOWHERE}, but something else",
        ),
        (
            "last error: INTERNAL: ipv4:127.0.0.1:1: Trying to connect an http1.x server",  # grpcio 1.62
            f"no node listens at {NOWHERE}, but something else",
        ),
        (
            "UNKNOWN: ipv4:127.0.0.1:1: connection attempt timed out before receiving SETTINGS frame",
            f"{NOWHERE} accepts connections, and does not answer",
        ),
        ("something new", "something new"),
    ],
)
async def test_words(details: str, words: str) -> None:
    assert await explain(details, NOWHERE, tls=True, name="mgr") == words
    if str(NOWHERE) in words:
        assert await explain(details, NOWHERE, tls=False, name="") == words


async def test_who_hangs_up_on_plain_text_and_speaks_no_tls_is_only_said_to_hang_up() -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    async with server:
        address = Address("127.0.0.1", server.sockets[0].getsockname()[1])
        for details in ("Socket closed", "recvmsg:Connection reset by peer"):
            words = await explain(details, address, tls=False, name="")
            assert words == f"{address} accepts connections, and closes them at once"
