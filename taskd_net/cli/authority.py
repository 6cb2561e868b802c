"""A certificate authority in a folder, for development: its key, its certificate, and the certificates it issues."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from taskd_net import ConfigError

CRT: Final = "ca.crt"
KEY: Final = "ca.key"

SKEW: Final = timedelta(minutes=5)
"""Bound on the lag of a node's clock behind the issuer's."""


@dataclass(frozen=True)
class Authority:
    """A signing key and its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def new(cls, name: str, lifetime: timedelta) -> Authority:
        """Make one.

        Args:
            name: for people; its common name begins with it.
            lifetime: from now on.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        # A node may trust two authorities during a rotation, so their names differ.
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} {os.urandom(4).hex()}")])
        begin = datetime.now(UTC)
        certificate = (
            _builder(subject, key, subject, begin - SKEW, begin + lifetime)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    @classmethod
    def load(cls, folder: Path) -> Authority:
        """Read the authority in a folder.

        Raises:
            ConfigError: there is none.
        """
        try:
            key = load_pem_private_key((folder / KEY).read_bytes(), None)
            certificate = x509.load_pem_x509_certificate((folder / CRT).read_bytes())
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(f"folder is '{folder}'; expected one with {CRT} and {KEY}: {error}") from None
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ConfigError(f"folder is '{folder}'; expected a {KEY} of `taskd-net certs init`")
        return cls(key, certificate)

    def save(self, folder: Path) -> None:
        """Write it into a folder, which is made if it is missing.

        Raises:
            ConfigError: there is one already.
        """
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / KEY).exists() or (folder / CRT).exists():
            raise ConfigError(f"folder is '{folder}'; expected one without {CRT} and {KEY}, as others rely on those")
        write(folder / KEY, pem_of_key(self.key), 0o600)
        write(folder / CRT, self.certificate.public_bytes(Encoding.PEM), 0o644)

    def issue(
        self,
        uris: Sequence[str],
        hosts: Sequence[str],
        lifetime: timedelta,
        begin: datetime | None = None,
        *,
        parent: bool = True,
    ) -> tuple[bytes, bytes]:
        """Issue a certificate for a node.

        Args:
            uris: the names of the node.
            hosts: names and IP addresses where it listens.
            lifetime: from `begin` on.
            begin: None: now.
            parent: for both ends of a link; False: for a child's end alone, so that no child accepts it from a parent.

        Returns:
            Its key and itself, in PEM.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        begin = begin or datetime.now(UTC) - SKEW
        names = [x509.UniformResourceIdentifier(uri) for uri in uris]
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if parent else [])]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "taskd-net node")])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        certificate = (
            _builder(subject, key, self.certificate.subject, begin, begin + lifetime)
            .add_extension(issuer, critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName([*names, *map(_host, hosts)]), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return pem_of_key(key), certificate.public_bytes(Encoding.PEM)


def write(path: Path, data: bytes, mode: int) -> None:
    """Write a file atomically, with its mode from the beginning."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(data)
    part.replace(path)


def pem_of_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A key as the bytes of its file."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, issuer: x509.Name, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _host(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        return x509.DNSName(text)
