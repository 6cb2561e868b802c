"""The guardian, seen from its Agent."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from taskd_net.torch.guardian import Guardian, ended


def test_a_guardian_whose_input_stays_open_is_killed() -> None:
    """A child of the Agent that was forked without exec has the other end of its pipe."""
    guardian = Guardian(grace=0.1, killed=0.1)
    assert guardian._process.stdin is not None
    held = os.dup(guardian._process.stdin.fileno())
    try:
        guardian.close()
    finally:
        os.close(held)
    assert guardian._process.wait(10.0) in (-signal.SIGKILL, 0)


def test_a_process_that_outlives_sigkill_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the state D, in which a driver holds it."""
    process = subprocess.Popen(["sleep", "600"])
    real = process.kill
    monkeypatch.setattr(process, "kill", lambda: None)
    assert not ended(process, 0.1, killed=0.1)
    real()
    assert ended(process, 10.0)
