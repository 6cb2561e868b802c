"""TLS as gRPC does it: credentials for both ends, and what a certificate says about a peer.

gRPC speaks TLS 1.2 and 1.3, and nothing older. Servers and clients differ in how they change certificates: a server
asks for them before each handshake, a client has them for as long as its channel lives.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import grpc

from taskd_net.core.names import SCHEME, CertificateName
from taskd_net.tls.certificates import Certificates, Pair

# The URIs among a certificate's subject alternative names, apart from its other names.
_URIS: Final = "peer_uri"


def peer_names(auth_context: Mapping[str, Iterable[bytes]]) -> tuple[CertificateName, ...]:
    """The names in a peer's certificate, from `context.auth_context()`; none for a peer without TLS.

    URIs of another scheme are for others. One of ours that cannot be read entitles to nothing.
    """
    names = []
    for uri in auth_context.get(_URIS, ()):
        text = uri.decode(errors="replace")
        if text.startswith(SCHEME):
            try:
                names.append(CertificateName.parse(text))
            except ValueError:
                continue
    return tuple(names)


class ServerCredentials:
    """Credentials of a server that can be changed while it runs; those who are connected stay so.

    Args:
        certificates: with those of a server.
    """

    def __init__(self, certificates: Certificates) -> None:
        # At most one change waits. gRPC's own threads take it out, so taking has to be one step.
        self._change: deque[grpc.ServerCertificateConfiguration] = deque(maxlen=1)
        # Called before each handshake, on gRPC's own threads.
        self.on_handshake: Callable[[], None] = lambda: None
        self.credentials = grpc.dynamic_ssl_server_credentials(
            _configuration(certificates),
            self._take_change,  # type: ignore[arg-type]  # the stubs do not know that None means: no change
            require_client_authentication=True,
        )

    def change(self, certificates: Certificates) -> None:
        """Use others from the next handshake on."""
        self._change.append(_configuration(certificates))

    def _take_change(self) -> grpc.ServerCertificateConfiguration | None:
        self.on_handshake()
        try:
            return self._change.popleft()
        except IndexError:
            return None


def channel_credentials(certificates: Certificates) -> grpc.ChannelCredentials:
    """Credentials of a client's channel."""
    key, crt = _of(certificates.client)
    return grpc.ssl_channel_credentials(certificates.ca, key, crt)


def _configuration(certificates: Certificates) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([_of(certificates.server)], certificates.ca)


def _of(pair: Pair | None) -> Pair:
    assert pair is not None, "there are files for this side"
    return pair
