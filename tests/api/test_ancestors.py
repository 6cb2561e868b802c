"""The names of the programs above a process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskd_net.job import ancestors

SHOWS = "from taskd_net.job import ancestors; print(*ancestors.names(), sep='\\n')"


def own_name() -> str:
    return Path("/proc/self/comm").read_text().strip()


def test_names_begin_with_the_nearest_program() -> None:
    shell = ["sh", "-c", f'"$0" -c "{SHOWS}"; exit', sys.executable]
    found = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.splitlines()
    assert found[:2] == ["sh", own_name()]
    assert len(found) >= 2


def test_names_end_where_nothing_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ancestors, "PROCESSES", tmp_path)
    assert ancestors.names() == ()
    pid = os.getppid()
    for number, text in ((pid, f"{pid} (a) b) S 7 1 1"), (7, "7 (c (d) R 9 1 1")):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "stat").write_text(text)
    assert ancestors.names() == ("a) b", "c (d")
    (tmp_path / "7" / "stat").write_text(f"7 (c) R {pid} 1 1")
    assert len(ancestors.names()) == ancestors.MOST
