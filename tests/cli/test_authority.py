"""A certificate authority in a folder: its files, and its certificates."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from taskd_net import ConfigError
from taskd_net.cli.authority import CRT, KEY, Authority, pem_of_key, write

DAY = timedelta(days=1)


def test_an_authority_is_saved_and_loaded(tmp_path: Path) -> None:
    made = Authority.new("tests", DAY)
    folder = tmp_path / "new" / "folder"
    made.save(folder)
    assert stat.S_IMODE((folder / KEY).stat().st_mode) == 0o600
    loaded = Authority.load(folder)
    assert loaded.certificate == made.certificate and pem_of_key(loaded.key) == pem_of_key(made.key)
    with pytest.raises(ConfigError, match=rf"expected one without {CRT} and {KEY}"):
        Authority.new("tests", DAY).save(folder)


@pytest.mark.parametrize("missing", [CRT, KEY])
def test_a_folder_without_an_authority_is_named(tmp_path: Path, missing: str) -> None:
    Authority.new("tests", DAY).save(tmp_path)
    (tmp_path / missing).write_bytes(b"")
    with pytest.raises(ConfigError, match=str(tmp_path)):
        Authority.load(tmp_path)


def test_a_certificate_names_the_node_and_its_hosts_and_is_signed() -> None:
    authority = Authority.new("tests", DAY)
    _, pem = authority.issue(["taskd://job/Mgr/0"], ["node-0", "10.0.0.7", "[::1]"], DAY)
    certificate = x509.load_pem_x509_certificate(pem)
    certificate.verify_directly_issued_by(authority.certificate)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.UniformResourceIdentifier) == ["taskd://job/Mgr/0"]
    assert names.get_values_for_type(x509.DNSName) == ["node-0"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["10.0.0.7", "::1"]
    assert certificate.not_valid_before_utc <= datetime.now(UTC) - timedelta(minutes=4)
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc == DAY


def test_two_authorities_have_two_names() -> None:
    one, other = (Authority.new("tests", DAY).certificate.subject for _ in range(2))
    assert one != other


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"old", b"new"):
        write(path, data, 0o640)
    assert path.read_bytes() == b"new" and stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]
