"""`taskd-net run`: the part that needs no torch."""

from __future__ import annotations

import sys

import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have torch not installed."""
    for name in [
        name for name in sys.modules if name.partition(".")[0] == "torch" or name.startswith("taskd_net.torch")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)


@pytest.mark.usefixtures("without_torch")
@pytest.mark.parametrize("command", [["run", "--nnodes", "2", "train.py", "--lr", "1"], ["run"]])
def test_torch_is_missing(command: list[str]) -> None:
    done = CliRunner().invoke(group, command)
    assert done.exit_code == 1
    assert done.output == "taskd-net run needs torch, which is not installed: pip install 'taskd-net[torch]'\n"


def test_help_needs_no_torch() -> None:
    done = CliRunner().invoke(group, ["run", "--help"])
    assert done.exit_code == 0
    assert "arguments of torchrun. Node 0 starts the Manager" in " ".join(done.output.split())
