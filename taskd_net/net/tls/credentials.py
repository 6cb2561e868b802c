"""gRPC's credentials for both ends of TLS, and the names in a peer's certificate.

gRPC speaks TLS 1.2 and 1.3. A server asks for its certificates before each handshake; a client has them for the life of
its channel.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import grpc

from taskd_net.core.certificate_name import CertificateName, parse_all
from taskd_net.net.tls.certificates import Certificates, Pair

# gRPC's property with the URIs among a certificate's subject alternative names.
_URIS: Final = "peer_uri"


def peer_names(auth_context: Mapping[str, Iterable[bytes]]) -> tuple[CertificateName, ...]:
    """The names in a peer's certificate, from `context.auth_context()`; none for a peer without TLS."""
    return parse_all(uri.decode(errors="replace") for uri in auth_context.get(_URIS, ()))


class ServerCredentials:
    """Credentials of a server, which can change while it runs. Connections stay.

    Args:
        certificates: those of the server among them.

    Attributes:
        on_handshake: called before each handshake, on gRPC's own threads.
    """

    def __init__(self, certificates: Certificates) -> None:
        # One change at most. gRPC's own threads take it out, in one step.
        self._change: deque[grpc.ServerCertificateConfiguration] = deque(maxlen=1)
        self.on_handshake: Callable[[], None] = lambda: None
        self.credentials = grpc.dynamic_ssl_server_credentials(
            _configuration(certificates),
            self._take_change,  # type: ignore[arg-type]  # the stubs do not know that None means: no change
            require_client_authentication=True,
        )

    def change(self, certificates: Certificates) -> None:
        """Use these certificates from the next handshake on."""
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


def _of(pair: Pair | None) -> tuple[bytes, bytes]:
    assert pair is not None, "there are files for this side"
    return pair.key, pair.crt
