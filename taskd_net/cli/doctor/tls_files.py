"""Checks of the files of TLS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from taskd_net import ConfigError
from taskd_net.cli.doctor.finding import Finding, ok, skipped, warning, wrong
from taskd_net.net.tls.certificates import read
from taskd_net.net.tls.files import Tls

if TYPE_CHECKING:
    from taskd_net.net.tls.certificates import Pair

SOON: Final = timedelta(days=7)
"""Time before the end of a certificate to replace it: a working week, for replacement by hand."""


def check(tls: Tls | None) -> list[Finding]:
    """Read the files as the node would."""
    if tls is None:
        return [skipped("tls", "this node is configured for plain text")]
    try:
        certificates = read(tls)
    except ConfigError as error:
        return [
            wrong(
                "tls", str(error), "Correct the setting or replace the file; `taskd-net certs` makes some for trying."
            )
        ]
    pairs = (("server_crt", certificates.server), ("client_crt", certificates.client))
    return [_dates(field, pair) for field, pair in pairs if pair is not None]


def _dates(field: str, pair: Pair) -> Finding:
    text = f"{field} is valid until {pair.end:%Y-%m-%d %H:%M} UTC"
    if pair.end - datetime.now(UTC) < SOON:
        return warning("tls", text, "Replace it soon: a running node takes in new files by itself.")
    return ok("tls", f"{text}, belongs to its key, and ca has signed it")
