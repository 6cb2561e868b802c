"""An environment without the variables of a platform, and msrun's double, whose workers are processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from taskd_net.base import logs
from taskd_net.base.log_budget import LogBudget
from taskd_net.job import member
from tests.api.conftest import VARIABLES
from tests.api.frameworks import Double

OURS = ("TASKD_NET_RESET_FILE", "TASKD_NET_RANK_TABLE_VERSION", "TASKD_NET_START_WAIT", "TASKD_NET_REPLACE_WAIT")
OTHERS = ("TASKD_NET_FAILURE_PAUSE", "TASKD_NET_EXIT_WAIT", "ENABLE_RESTART_FAULT_PROCESS", "MS_LOCAL_WORKER")
CLUSTERD = ("MINDX_SERVER_IP", "MINDX_SERVER_DOMAIN", "ELASTIC_PROCESS_RECOVER_ENABLE", "MS_ENABLE_TFT")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable is set but the log folder."""
    for variable in (*VARIABLES, *OURS, *OTHERS, *CLUSTERD):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(logs.PATH, str(tmp_path / "log"))
    monkeypatch.setattr(member.log, "_budget", LogBudget())  # a whole one


@pytest.fixture
def frameworks() -> Iterator[list[Double]]:
    """The doubles of a test; their workers end after the launcher."""
    made: list[Double] = []
    yield made
    for each in made:
        each.end()
