"""Certificates for an etcd and its users, whose names etcd reads in the CN."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from taskd_net.cli.authority import Authority, pem_of_key, write
from tests.peers.certificates import DAY


class Pems:
    """The files of one holder: `ca.crt`, `holder.key`, `holder.crt`.

    Args:
        folder: for them.
        authority: signs the certificate.
        holder: the CN.
        trusted: sign those of the other side; none for the same authority.
    """

    def __init__(self, folder: Path, authority: Authority, holder: str, trusted: Sequence[Authority] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        key = ec.generate_private_key(ec.SECP256R1())
        now, subject = datetime.now(UTC), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, holder)])
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        here = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority.certificate.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
            .add_extension(x509.SubjectAlternativeName([here]), critical=False)
            .sign(authority.key, hashes.SHA256())
        )
        self.key, self.crt, self.ca = (str(folder / name) for name in ("holder.key", "holder.crt", "ca.crt"))
        write(Path(self.key), pem_of_key(key), 0o600)
        write(Path(self.crt), certificate.public_bytes(Encoding.PEM), 0o644)
        authorities = (each.certificate.public_bytes(Encoding.PEM) for each in trusted or (authority,))
        write(Path(self.ca), b"".join(authorities), 0o644)
