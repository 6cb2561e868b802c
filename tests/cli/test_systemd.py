"""Notifications to the service manager. `test_serve` has their use by the daemons."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from taskd_net.cli import systemd


def test_without_a_service_manager_nothing_is_sent() -> None:
    assert systemd.notify("READY=1") is None
    assert systemd.watchdog_period() is None


def test_lines_go_into_one_datagram(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        assert systemd.notify("READY=1", "STATUS=é") is None
        assert manager.recv(4096).decode() == "READY=1\nSTATUS=é"


def test_manager_that_is_stopped_does_not_hold_up_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        troubles = [systemd.notify("STATUS=" + "x" * 10_000) for _ in range(1000)]
    assert troubles[0] is None
    assert troubles[-1] is not None and "unavailable" in troubles[-1]


@pytest.mark.parametrize("address", ["/no/such/socket", "/" + "x" * 200, "not-a-path"])
def test_what_went_wrong_is_said(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    trouble = systemd.notify("READY=1")
    assert trouble is not None and trouble.startswith(f"NOTIFY_SOCKET is '{address}': ")


@pytest.mark.parametrize(
    ("allowed", "pid", "period"),
    [
        ("30000000", "", 15.0),
        pytest.param("30000000", str(os.getpid()), 15.0, id="own-pid"),
        ("30000000", "1", None),
        ("0", "", None),
        ("soon", "", None),
        ("²", "", None),
        ("٣", "", None),
        ("9" * 5000, "", None),
    ],
)
def test_watchdog_is_fed_at_twice_the_rate(
    monkeypatch: pytest.MonkeyPatch, allowed: str, pid: str, period: float | None
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", allowed)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    assert systemd.watchdog_period() == period
