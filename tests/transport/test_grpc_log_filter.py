"""Log lines of gRPC that a peer can cause."""

import logging

import pytest

from taskd_net.net.joining.grpc_log_filter import _RateLimit


def record(text: str) -> logging.LogRecord:
    """An error of gRPC's, with a traceback."""
    error = ValueError("x")
    return logging.LogRecord("grpc", logging.ERROR, "f", 1, text, (b"k",), (ValueError, error, None))


def test_metadata_that_is_no_text_is_told_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    seldom = _RateLimit()
    passed = []
    for second in (0.0, 0.1, 59.9, 60.0, 61.0):
        clock[0] = 1000.0 + second
        made = record("Invalid encoding on %s")
        passed.append(seldom.filter(made))
        if passed[-1]:
            assert (made.levelno, made.exc_info) == (logging.WARNING, None)
    assert passed == [True, False, False, True, False]


def test_other_lines_are_as_they_were() -> None:
    made = record("something else")
    assert _RateLimit().filter(made)
    assert made.levelno == logging.ERROR and made.exc_info is not None
