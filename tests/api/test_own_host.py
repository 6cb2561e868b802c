"""The name of this host: a pod has its domain in its own file of hosts, and no name server is asked."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from taskd_net.job import own_host

POD = """# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
10.1.2.3\ttrain-0.train.default.svc.cluster.local\ttrain-0  # this pod
"""


@pytest.mark.parametrize(
    ("name", "hosts", "expected"),
    [
        ("train-0", POD, "train-0.train.default.svc.cluster.local"),
        ("train-1", POD, "train-1"),
        ("train-0", "10.1.2.3 train-0\n", "train-0"),
        ("a", "10.1.2.3 a\n# 10.1.2.4 a a.b\n10.1.2.5 ab.c a a.d\n", "a.d"),
        ("a", "\n10.1.2.3\n", "a"),
    ],
)
def test_domain_of_the_own_name_is_that_of_the_file(name: str, hosts: str, expected: str) -> None:
    assert own_host.full_name(name, hosts) == expected


def test_name_stays_without_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(own_host, "HOSTS", tmp_path / "none")
    assert own_host.own_name() == socket.gethostname()
    (tmp_path / "hosts").write_bytes(b"\xff")
    monkeypatch.setattr(own_host, "HOSTS", tmp_path / "hosts")
    assert own_host.own_name() == socket.gethostname()
    (tmp_path / "hosts").write_text(f"10.0.0.1 {socket.gethostname()}.example {socket.gethostname()}\n")
    assert own_host.own_name() == f"{socket.gethostname()}.example"
