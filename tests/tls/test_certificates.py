"""The files of TLS: what is refused when a node starts, and in which words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID

from taskd_net import ConfigError, Node, NodeConfig
from taskd_net.cli.authority import Authority, _builder, write
from taskd_net.net.tls.certificates import read
from taskd_net.net.tls.files import Tls
from tests.peers.certificates import DAY, Folder


@pytest.fixture
def files(tmp_path: Path) -> Folder:
    """Files that can be used."""
    return Folder(tmp_path)


def refused(tls: Tls) -> str:
    """The reason for which the files of a node are refused."""
    with pytest.raises(ConfigError) as raised:
        read(tls)
    return str(raised.value)


def _garbage(name: str) -> Callable[[Folder], object]:
    return lambda files: (files.path / name).write_text("-----BEGIN GARBAGE-----")


def _with_passphrase(files: Folder) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    write(Path(files.key), pem, 0o600)


def _other_key(files: Folder) -> None:
    before = Path(files.crt).read_bytes()
    files.issue()
    Path(files.crt).write_bytes(before)


@pytest.mark.parametrize(
    ("spoil", "field", "what"),
    [
        (lambda files: Path(files.key).unlink(), "server_key", "cannot be read: No such file or directory"),
        (lambda files: Path(files.ca).unlink(), "ca", "cannot be read: No such file or directory"),
        (lambda files: Path(files.key).chmod(0o644), "server_key", "everybody on this machine may open (mode 0644)"),
        (_garbage("node.key"), "server_key", "holds no private key in PEM"),
        (_garbage("node.crt"), "server_crt", "holds no certificate in PEM"),
        (_garbage("ca.crt"), "ca", "holds no certificate in PEM"),
        (_with_passphrase, "server_key", "protected by a passphrase"),
        (_other_key, "server_crt", "does not belong to the key in"),
        (lambda files: files.issue(days=(-2, -1)), "server_crt", "which has expired: it was valid until 20"),
        (lambda files: files.issue(days=(1, 2)), "server_crt", "which is not valid before 20"),
        (lambda files: files.trust(Authority.new("other", DAY)), "server_crt", "none of the certificates in"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(
    files: Folder, spoil: Callable[[Folder], object], field: str, what: str
) -> None:
    spoil(files)
    said = refused(files.listening())
    assert said.startswith(f"{field} is '{files.path}/")
    assert what in said
    assert refused(files.connecting()).startswith(field.replace("server", "client"))


async def test_a_node_does_not_start_with_such_files(files: Folder) -> None:
    files.issue(days=(-2, -1))
    with pytest.raises(ConfigError, match=r"server_crt is .* which has expired"):
        await Node(NodeConfig.mgr(listen="127.0.0.1:0", tls=files.listening())).start()


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o640, 0o440])
def test_a_key_may_be_read_by_its_owner_and_a_group(files: Folder, mode: int) -> None:
    Path(files.key).chmod(mode)
    assert read(files.tls()).server is not None


def test_an_authority_that_has_expired(files: Folder) -> None:
    old = Authority.new("old", timedelta(seconds=-1))
    files.trust(old)
    files.issue(authority=old)
    assert refused(files.listening()).startswith(f"ca is '{files.ca}', which has expired")


def _signed(files: Folder, *, usage: x509.ExtendedKeyUsage | None = None, between: bool = False) -> None:
    """Issue a certificate with such a purpose, or with an intermediate authority above it."""
    signer = files.authority
    chain = b""
    if between:
        signer = Authority.new("between", DAY)
        name = signer.certificate.subject
        begin, end = signer.certificate.not_valid_before_utc, signer.certificate.not_valid_after_utc
        middle = _builder(name, signer.key, files.authority.certificate.subject, begin, end)
        middle = middle.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        chain = middle.sign(files.authority.key, hashes.SHA256()).public_bytes(Encoding.PEM)
    files.issue(authority=signer)
    if usage is not None:
        leaf = x509.load_pem_x509_certificate(Path(files.crt).read_bytes())
        built = x509.CertificateBuilder(
            leaf.issuer,
            leaf.subject,
            leaf.public_key(),
            leaf.serial_number,
            leaf.not_valid_before_utc,
            leaf.not_valid_after_utc,
        ).add_extension(usage, critical=False)
        write(Path(files.crt), built.sign(signer.key, hashes.SHA256()).public_bytes(Encoding.PEM), 0o644)
    with Path(files.crt).open("ab") as file:
        file.write(chain)


def test_a_certificate_for_another_purpose(files: Folder) -> None:
    _signed(files, usage=x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]))
    assert read(files.listening()).server is not None
    assert "client_crt" in refused(files.connecting())
    assert "is not for clients" in refused(files.connecting())
    _signed(files, usage=x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]))
    assert "is not for servers" in refused(files.listening())
    _signed(files, usage=x509.ExtendedKeyUsage([ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE]))
    assert read(files.tls()).client is not None


def test_intermediate_authorities_stand_behind_the_certificate(files: Folder) -> None:
    _signed(files, between=True)
    assert read(files.tls()).server is not None
    first, *_ = x509.load_pem_x509_certificates(Path(files.crt).read_bytes())
    Path(files.crt).write_bytes(first.public_bytes(Encoding.PEM))
    assert "none of the certificates in" in refused(files.tls())


def test_without_the_extra(files: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    assert refused(files.tls()).endswith("install it with: pip install 'taskd-net[tls]'")


def test_equal_as_long_as_nothing_has_changed(files: Folder) -> None:
    before = read(files.tls())
    assert read(files.tls()) == before
    files.issue()
    assert read(files.tls()) != before
    assert read(replace(files.tls(), server_key=None, server_crt=None)).server is None


def test_who_does_not_use_tls_does_not_pay_for_it() -> None:
    names = ("cryptography", "watchfiles", "anyio")
    script = f"import sys, taskd_net; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=50)
    assert done.stdout == "[]\n"


def test_paths_that_lead_to_no_file_are_given_up(files: Folder) -> None:
    assert re.search("which cannot be read: .*embedded null", refused(replace(files.tls(), ca="a\0b")))
    fifo = files.path / "fifo"
    os.mkfifo(fifo)
    assert "could not be read to its end within 5 s" in refused(replace(files.tls(), ca=str(fifo)))
    assert "it has more than" in refused(replace(files.tls(), ca="/dev/zero"))
