"""Checks of the files of TLS, so that gRPC gets keys and certificates that a peer accepts.

gRPC says of bad files only that they are bad, or nothing until a handshake fails far away. The checks need the library
`cryptography`, from the extra `tls`.

The chain is followed here and not by `cryptography.x509.verification`, which applies the profile of the web: it refuses
chains that gRPC accepts (a CA without keyUsage, a leaf without alternative names). Its release 42 verifies no clients.
"""

from __future__ import annotations

import contextlib
import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from taskd_net.base import limits
from taskd_net.base.bounded_file import read_file
from taskd_net.base.codes import ConfigError
from taskd_net.core.certificate_name import CertificateName, parse_all
from taskd_net.net.tls.files import Tls

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

MISSING: Final = "tls needs the package {name}, which is not installed; install it with: pip install 'taskd-net[tls]'"

_OWN: Final[Mapping[str, str]] = {}
"""The settings of a node keep their names."""


class Pair(NamedTuple):
    """A key and its certificate, with those of intermediate CAs behind it.

    Args:
        key: PEM.
        crt: PEM.
        end: the first moment at which one of these certificates is not valid any more; UTC.
    """

    key: bytes
    crt: bytes
    end: datetime


@dataclass(frozen=True, slots=True)
class Certificates:
    """The contents of the files when they were read. Equal as long as no file has changed."""

    ca: bytes
    server: Pair | None
    client: Pair | None


def read(tls: Tls, names: Mapping[str, str] = _OWN) -> Certificates:
    """Read the files of a node and check them.

    Args:
        tls: their paths.
        names: of the settings that have the paths, where they are not the node's own, by the node's.

    Raises:
        ConfigError: a file cannot be read or has other contents, a key is open to everybody or does not belong to its
            certificate, a certificate is not valid now, not of the CA or not for this purpose. The text names the file.
    """
    try:
        import cryptography  # noqa: F401 - for the message; its modules are imported where they are used
    except ModuleNotFoundError:
        raise ConfigError(MISSING.format(name="cryptography")) from None
    ca = _File(names.get("ca", "ca"), tls.ca)
    authorities = ca.certificates()
    server = client = None
    if tls.server_key is not None and tls.server_crt is not None:
        server = _pair(_File("server_key", tls.server_key), _File("server_crt", tls.server_crt), ca, authorities)
    if tls.client_key is not None and tls.client_crt is not None:
        key, crt = (names.get(name, name) for name in ("client_key", "client_crt"))
        client = _pair(_File(key, tls.client_key), _File(crt, tls.client_crt), ca, authorities)
    return Certificates(ca.data, server, client)


def client_names(tls: Tls) -> tuple[CertificateName, ...]:
    """The names in the certificate for the parent.

    Raises:
        ConfigError: as `read`.
    """
    pair = read(tls).client
    if pair is None:
        return ()
    from cryptography import x509

    try:
        found = x509.load_pem_x509_certificate(pair.crt).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return parse_all(found.value.get_values_for_type(x509.UniformResourceIdentifier))


class _File:
    """One file: its contents, and the errors about it."""

    def __init__(self, field: str, path: str) -> None:
        self.field = field
        self.path = path
        try:
            self.data, self.mode = read_file(path, limits.CONFIG_BYTES, limits.CONFIG_READ_S)
        except OSError as error:
            raise self.wrong(f"which cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise self.wrong(f"which cannot be read: {error}") from None

    def wrong(self, what: str) -> ConfigError:
        return ConfigError(f"{self.field} is {self.path!r}, {what}")

    def certificates(self) -> list[Certificate]:
        from cryptography import x509

        try:
            return x509.load_pem_x509_certificates(self.data)
        except ValueError as error:
            raise self.wrong(f"which holds no certificate in PEM: {error}") from None


def _pair(key_file: _File, crt_file: _File, ca: _File, authorities: Sequence[Certificate]) -> Pair:
    """Check that a key, its certificate and the CA belong together."""
    leaf, *between = crt_file.certificates()
    end = min(certificate.not_valid_after_utc for certificate in (leaf, *between))
    if _private_key(key_file).public_key() != leaf.public_key():
        raise crt_file.wrong(f"which does not belong to the key in {key_file.path!r}")
    _check_purpose(crt_file, leaf)
    _check_dates(crt_file, leaf)
    # From the leaf up, through the certificates behind it in the file, to one of the CAs.
    issued = leaf
    while (authority := _issuer(issued, authorities)) is None:
        issuer = _issuer(issued, between)
        if issuer is None:
            raise crt_file.wrong(f"which none of the certificates in {ca.path!r} has signed")
        _check_dates(crt_file, issuer)
        between.remove(issuer)
        issued = issuer
    _check_dates(ca, authority)
    return Pair(key_file.data, crt_file.data, end)


def _private_key(file: _File) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    # A group may read it, as in a pod with an fsGroup: that is an administrator's decision.
    if stat.S_ISREG(file.mode) and file.mode & stat.S_IRWXO:
        mode = stat.S_IMODE(file.mode)
        text = f"which everybody on this machine may open (mode {mode:04o}); expected 0640 or less"
        raise file.wrong(f"{text}, in Kubernetes by the volume's defaultMode")
    try:
        return load_pem_private_key(file.data, None)
    except TypeError:
        raise file.wrong("which is protected by a passphrase; expected a key without") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise file.wrong(f"which holds no private key in PEM: {error}") from None


def _check_purpose(file: _File, leaf: Certificate) -> None:
    from cryptography import x509
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    server = file.field == "server_crt"
    wanted = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
    if wanted not in usage and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in usage:
        raise file.wrong(f"which is not for {'servers' if server else 'clients'} (extended key usage)")


def _issuer(certificate: Certificate, candidates: Sequence[Certificate]) -> Certificate | None:
    """The first candidate that has signed a certificate."""
    from cryptography.exceptions import InvalidSignature

    for candidate in candidates:
        with contextlib.suppress(ValueError, TypeError, InvalidSignature):
            certificate.verify_directly_issued_by(candidate)
            return candidate
    return None


def _check_dates(file: _File, certificate: Certificate) -> None:
    now = datetime.now(UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        raise file.wrong(f"which has expired: it was valid until {end:%Y-%m-%d %H:%M:%S} UTC")
    if now < begin:
        raise file.wrong(f"which is not valid before {begin:%Y-%m-%d %H:%M:%S} UTC")
