"""Contexts of TLS for sockets that are not gRPC's: the same files, TLS 1.3 alone, a certificate from both ends."""

from __future__ import annotations

import ssl
from typing import Any

from taskd_net.core.certificate_name import CertificateName
from taskd_net.net.tls.certificates import Certificates
from taskd_net.net.tls.credentials import peer_names
from taskd_net.net.tls.files import Tls


def server_context(tls: Tls, certificates: Certificates) -> ssl.SSLContext:
    """For connections of children.

    Raises:
        OSError: a file has changed and cannot be used; an `ssl.SSLError` is one.
    """
    assert tls.server_crt is not None
    context = _context(ssl.PROTOCOL_TLS_SERVER, certificates)
    context.load_cert_chain(tls.server_crt, tls.server_key)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: Tls, certificates: Certificates) -> ssl.SSLContext:
    """For connections to the parent.

    Raises:
        OSError: as in `server_context`.
    """
    assert tls.client_crt is not None
    context = _context(ssl.PROTOCOL_TLS_CLIENT, certificates)
    context.load_cert_chain(tls.client_crt, tls.client_key)
    return context


def names_of(connection: ssl.SSLObject) -> frozenset[CertificateName]:
    """The names in the certificate of the other end."""
    certificate: dict[str, Any] = connection.getpeercert() or {}
    uris = [value.encode() for kind, value in certificate.get("subjectAltName", ()) if kind == "URI"]
    return frozenset(peer_names({"peer_uri": uris}))


def _context(purpose: ssl._SSLMethod, certificates: Certificates) -> ssl.SSLContext:
    # The package is an extra, and nodes without TLS import this module too.
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import load_pem_x509_certificates

    context = ssl.SSLContext(purpose)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # An intermediate CA in the file is trusted, as by gRPC.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    # The text between the certificates may be of any bytes; `ssl` takes a text of ASCII alone.
    authorities = (each.public_bytes(Encoding.DER) for each in load_pem_x509_certificates(certificates.ca))
    context.load_verify_locations(cadata=b"".join(authorities))
    return context
