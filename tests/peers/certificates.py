"""Certificates for tests: a CA of the test's own, and the files of its nodes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding

from taskd_net.cli.authority import Authority, write
from taskd_net.net.tls.files import Tls

DAY = timedelta(days=1)
EVERYBODY = "taskd://*/*/*/*"
HERE = ("localhost", "127.0.0.1", "::1")


class Folder:
    """A folder with the files of one node, or of all nodes of a test.

    Args:
        path: of the folder, created if missing.
        authority: the signer; None makes a new one.
    """

    def __init__(self, path: Path, authority: Authority | None = None) -> None:
        self.path = path
        self.authority = authority or Authority.new("a test's CA", DAY)
        path.mkdir(parents=True, exist_ok=True)
        self.trust(self.authority)
        self.issue()

    def trust(self, *authorities: Authority) -> None:
        """Write the file of CAs."""
        data = b"".join(one.certificate.public_bytes(Encoding.PEM) for one in authorities)
        write(self.path / "ca.crt", data, 0o644)

    def comment(self, text: bytes) -> None:
        """Put a line of text before the CAs in their file."""
        file = self.path / "ca.crt"
        file.write_bytes(b"# " + text + b"\n" + file.read_bytes())

    def issue(
        self,
        *uris: str,
        hosts: tuple[str, ...] = HERE,
        days: tuple[float, float] = (-0.5, 0.5),
        authority: Authority | None = None,
        parent: bool = True,
    ) -> None:
        """Write a key and a certificate, valid between these days from now."""
        begin, end = (timedelta(days=day) for day in days)
        signer = authority or self.authority
        start = datetime.now(UTC) + begin
        key, crt = signer.issue(uris or (EVERYBODY,), hosts, end - begin, start, parent=parent)
        write(self.path / "node.key", key, 0o600)
        write(self.path / "node.crt", crt, 0o644)

    @property
    def key(self) -> str:
        """The path of the key."""
        return str(self.path / "node.key")

    @property
    def crt(self) -> str:
        """The path of the certificate."""
        return str(self.path / "node.crt")

    @property
    def ca(self) -> str:
        """The path of the file of CAs."""
        return str(self.path / "ca.crt")

    def tls(self, server_name: str | None = None) -> Tls:
        """TLS in both directions."""
        return Tls(
            ca=self.ca,
            server_key=self.key,
            server_crt=self.crt,
            client_key=self.key,
            client_crt=self.crt,
            server_name=server_name,
        )

    def listening(self) -> Tls:
        """TLS for children alone."""
        return Tls(ca=self.ca, server_key=self.key, server_crt=self.crt)

    def connecting(self, server_name: str | None = None) -> Tls:
        """TLS for the parent alone."""
        return Tls(ca=self.ca, client_key=self.key, client_crt=self.crt, server_name=server_name)
