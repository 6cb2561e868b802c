"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How it stands."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report.

    Attributes:
        check: what was looked at, in a word.
        state: how it stands.
        text: what was found.
        advice: what to do; empty where nothing has to be done.
    """

    check: str
    state: State
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, State.OK, text)


def warning(check: str, text: str, advice: str) -> Finding:
    """It works, or may work, and somebody should know."""
    return Finding(check, State.WARNING, text, advice)


def wrong(check: str, text: str, advice: str) -> Finding:
    """It does not work like this."""
    return Finding(check, State.WRONG, text, advice)


def skipped(check: str, text: str) -> Finding:
    """It could not be looked at, or there is nothing to look at."""
    return Finding(check, State.SKIPPED, text)
