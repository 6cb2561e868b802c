"""Files of TLS, read as a node would."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from taskd_net.cli.authority import Authority, write
from taskd_net.cli.doctor.finding import Verdict
from taskd_net.cli.doctor.tls_files import SOON, check
from taskd_net.net.tls.files import Tls

DAY = timedelta(days=1)


def issued(folder: Path, lifetime: timedelta) -> Tls:
    """Files of a certificate that ends so long from now."""
    authority = Authority.new("tests", timedelta(days=365))
    authority.save(folder)
    key, crt = authority.issue(["taskd://*/*/*/*"], ["localhost"], lifetime + DAY, datetime.now(UTC) - DAY)
    write(folder / "node.key", key, 0o600)
    write(folder / "node.crt", crt, 0o644)
    return Tls(ca=f"{folder}/ca.crt", client_key=f"{folder}/node.key", client_crt=f"{folder}/node.crt")


def test_without_tls_there_is_nothing_to_read() -> None:
    assert [found.state for found in check(None)] == [Verdict.SKIPPED]


@pytest.mark.parametrize(("left", "state"), [(SOON + DAY, Verdict.OK), (SOON - DAY, Verdict.WARNING)])
def test_a_certificate_near_its_end_is_a_warning(tmp_path: Path, left: timedelta, state: Verdict) -> None:
    (found,) = check(issued(tmp_path, left))
    assert found.state is state and "client_crt is valid until" in found.text


def test_a_file_that_is_missing_is_wrong(tmp_path: Path) -> None:
    tls = issued(tmp_path, DAY)
    (tmp_path / "node.key").unlink()
    (found,) = check(tls)
    assert found.state is Verdict.WRONG and "client_key" in found.text and found.advice
