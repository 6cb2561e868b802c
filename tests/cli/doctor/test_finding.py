"""Findings of the doctor."""

from __future__ import annotations

from taskd_net.cli.doctor.finding import Finding, Verdict, ok, skipped, warning, wrong


def test_what_needs_somebody_has_advice() -> None:
    assert ok("port", "free") == Finding("port", Verdict.OK, "free", "")
    assert skipped("tls", "off") == Finding("tls", Verdict.SKIPPED, "off", "")
    assert warning("tls", "soon", "Replace it.") == Finding("tls", Verdict.WARNING, "soon", "Replace it.")
    assert wrong("tls", "over", "Replace it.") == Finding("tls", Verdict.WRONG, "over", "Replace it.")
    assert f"{Verdict.WRONG:8}|" == "wrong   |"
