"""Findings of the doctor's checks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: the subject, in a word.
        state: the result.
        text: the finding.
        advice: a remedy; empty where none is needed.
    """

    check: str
    state: Verdict
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """A check without a finding to act on."""
    return Finding(check, Verdict.OK, text)


def warning(check: str, text: str, advice: str) -> Finding:
    """A fault that may not prevent operation."""
    return Finding(check, Verdict.WARNING, text, advice)


def wrong(check: str, text: str, advice: str) -> Finding:
    """A fault that prevents operation."""
    return Finding(check, Verdict.WRONG, text, advice)


def skipped(check: str, text: str) -> Finding:
    """A check that could not be made, or had no subject."""
    return Finding(check, Verdict.SKIPPED, text)
