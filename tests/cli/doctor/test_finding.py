"""Findings of the doctor."""

from __future__ import annotations

from taskd_net.cli.doctor.finding import Finding, State, ok, skipped, warning, wrong


def test_what_needs_somebody_has_advice() -> None:
    assert ok("port", "free") == Finding("port", State.OK, "free", "")
    assert skipped("tls", "off") == Finding("tls", State.SKIPPED, "off", "")
    assert warning("tls", "soon", "Replace it.") == Finding("tls", State.WARNING, "soon", "Replace it.")
    assert wrong("tls", "over", "Replace it.") == Finding("tls", State.WRONG, "over", "Replace it.")
    assert f"{State.WRONG:8}|" == "wrong   |"
