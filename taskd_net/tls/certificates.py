"""The files of TLS, read and checked: what gRPC is given is what a peer will accept.

gRPC says of bad files only that they are bad, or nothing until a handshake fails far away. So keys and certificates are
looked at here, with the library `cryptography` of the extra `tls`.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple

from taskd_net import limits
from taskd_net.bounded_file import read_file
from taskd_net.codes import ConfigError
from taskd_net.tls.files import Tls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.x509 import Certificate

MISSING: Final = "tls needs the package {name}, which is not installed; install it with: pip install 'taskd-net[tls]'"


class Pair(NamedTuple):
    """A key and its certificate, with those of intermediate CAs behind it; PEM."""

    key: bytes
    crt: bytes


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the files held when they were read. Equal when nothing has changed."""

    ca: bytes
    server: Pair | None
    client: Pair | None


def read(tls: Tls) -> Certificates:
    """Read the files of a node and check them.

    Raises:
        ConfigError: a file cannot be read or is not what it should be, a key may be read by everybody or does not
            belong to its certificate, a certificate is not valid now, not of the CA or not for this purpose; names the
            file.
    """
    try:
        import cryptography  # noqa: F401 - imported for real where it is used; here for a message of one line
    except ModuleNotFoundError:
        raise ConfigError(MISSING.format(name="cryptography")) from None
    ca = _File("ca", tls.ca)
    authorities = ca.certificates()
    server = client = None
    if tls.server_key is not None and tls.server_crt is not None:
        server = _pair(_File("server_key", tls.server_key), _File("server_crt", tls.server_crt), ca, authorities)
    if tls.client_key is not None and tls.client_crt is not None:
        client = _pair(_File("client_key", tls.client_key), _File("client_crt", tls.client_crt), ca, authorities)
    return Certificates(ca.data, server, client)


class _File:
    """One file: what is in it, and how to say what is wrong with it."""

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
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID

    # Not more than that: where a group is to read it, as in a pod with an fsGroup, that is somebody's decision.
    if stat.S_ISREG(key_file.mode) and key_file.mode & stat.S_IRWXO:
        mode = stat.S_IMODE(key_file.mode)
        text = f"which everybody on this machine may open (mode {mode:04o}); expected 0640 or less"
        raise key_file.wrong(f"{text}, in Kubernetes by the volume's defaultMode")
    try:
        key = load_pem_private_key(key_file.data, None)
    except TypeError:
        raise key_file.wrong("which is protected by a passphrase; expected a key without") from None
    except (ValueError, UnsupportedAlgorithm) as error:
        raise key_file.wrong(f"which holds no private key in PEM: {error}") from None
    chain = crt_file.certificates()
    leaf = chain[0]
    if key.public_key() != leaf.public_key():
        raise crt_file.wrong(f"which does not belong to the key in {key_file.path!r}")
    try:
        usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        pass
    else:
        server = crt_file.field == "server_crt"
        wanted = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        if wanted not in usage and ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE not in usage:
            raise crt_file.wrong(f"which is not for {'servers' if server else 'clients'} (extended key usage)")
    _check_dates(crt_file, leaf)
    # From the leaf up, through whatever the file has behind it, to one of the CAs.
    issued, between = leaf, chain[1:]
    while True:
        authority = next((one for one in authorities if _issued(issued, one)), None)
        if authority is not None:
            _check_dates(ca, authority)
            return Pair(key_file.data, crt_file.data)
        issuer = next((one for one in between if _issued(issued, one)), None)
        if issuer is None:
            raise crt_file.wrong(f"which none of the certificates in {ca.path!r} has signed")
        _check_dates(crt_file, issuer)
        between.remove(issuer)
        issued = issuer


def _issued(certificate: Certificate, issuer: Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _check_dates(file: _File, certificate: Certificate) -> None:
    now = datetime.now(UTC)
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        raise file.wrong(f"which has expired: it was valid until {end:%Y-%m-%d %H:%M:%S} UTC")
    if now < begin:
        raise file.wrong(f"which is not valid before {begin:%Y-%m-%d %H:%M:%S} UTC")
