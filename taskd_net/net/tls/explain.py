"""Explanations of failed connections to a parent.

gRPC passes on the words of its libraries, which vary with their versions. Where the other end has hung up, it says no
more. Known words are explained; the others stay as they are.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from typing import Final

from taskd_net.base.address import Address

PROBE_S: Final = 1.0
"""Seconds for the test whether a parent that hung up speaks TLS."""

_VERIFY: Final = re.compile(r"(?:CERTIFICATE_VERIFY_FAILED|BAD_SIGNATURE)(?:: ([a-z][a-z ]+))?")
_CLEARER: Final = {
    "unsupported certificate purpose": "it is not for servers (extended key usage), as a Worker's is not",
}
_OTHER_NAME: Final = ("Hostname Verification Check failed", "is not in peer certificate")
_UNKNOWN: Final = "the name {0.host} is not known yet"
_UNREACHED: Final = {
    "Connection refused": "nobody listens at {}",
    "No route to host": "there is no way to {}",
    "Network is unreachable": "there is no way to {}",
    "Domain name not found": _UNKNOWN,
    "Name or service not known": _UNKNOWN,
    "No address associated with hostname": _UNKNOWN,
    "DNS resolution failed": "the host of {} cannot be resolved",
    "Failed parsing HTTP/2": "no node listens at {}, but something else",
    "http1.x server": "no node listens at {}, but something else",
    "before receiving SETTINGS": "{} accepts connections, and does not answer",
    "Socket closed": "{} accepts connections, and closes them at once",
    "Connection reset": "{} accepts connections, and closes them at once",
}
_HUNG_UP: Final = ("Socket closed", "Connection reset")
_ALERTED: Final = "TSI_DATA_CORRUPTED"
"""gRPC's word for an alert after the handshake, as a server of Go's sends it for a client's certificate."""


async def explain(details: str, upstream: Address, *, tls: bool, name: str, parent: str = "the parent") -> str:
    """Explain gRPC's details of UNAVAILABLE.

    Args:
        details: the text from gRPC.
        upstream: the parent's address.
        tls: whether this node uses TLS towards the parent.
        name: the name that the parent's certificate must have then.
        parent: the other end in words, where it is no parent.
    """
    if tls:
        if found := _VERIFY.search(details):
            reason = found[1] or "not of our CA, not valid now, or not for servers"
            return f"{parent}'s certificate is refused: {_CLEARER.get(reason, reason)}"
        if any(text in details for text in _OTHER_NAME):
            return f"{parent}'s certificate is refused: it does not name {name!r}; see server_name"
        if "WRONG_VERSION_NUMBER" in details:
            return f"{parent} speaks plain text and this node TLS"
        if any(text in details for text in (*_HUNG_UP, _ALERTED)):
            return f"{parent} hung up: it may not accept the certificate of this node"
    elif any(text in details for text in _HUNG_UP) and await _speaks_tls(upstream):
        return f"{parent} speaks TLS and this node plain text"
    return next((words.format(upstream) for text, words in _UNREACHED.items() if text in details), details)


async def _speaks_tls(address: Address) -> bool:
    # Any certificate will do: nothing is sent.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    try:
        async with asyncio.timeout(PROBE_S):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
    except (OSError, TimeoutError):  # an ssl.SSLError is an OSError
        return False
    writer.transport.abort()
    return True
