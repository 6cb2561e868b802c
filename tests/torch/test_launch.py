"""`taskd-net run`: its arguments, and the Manager beside it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from taskd_net.cli.group import group
from tests.torch.cluster import PLAIN, SOON


def test_other_rendezvous_with_several_nodes_is_refused() -> None:
    done = CliRunner().invoke(group, ["run", "--nnodes=2", "--rdzv-backend=c10d", "train.py"])
    assert done.exit_code == 2
    assert "--rdzv-backend c10d with 2 nodes gives them other ranks than --node-rank; expected static" in done.output


def test_arguments_of_torchrun_are_checked_by_torchrun() -> None:
    done = CliRunner().invoke(group, ["run", "--nproc-per-node=2"])
    assert done.exit_code == 2
    assert "the following arguments are required: training_script" in done.output


@pytest.mark.parametrize(("status", "expected"), [("0", 0), ("3", 1)])
def test_manager_beside_one_node(status: str, expected: int, tmp_path: Path) -> None:
    """A failed worker of node 0 ends the job, as TaskD's Manager decides."""
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    for rank in (0, 1):
        (tmp_path / f"end-{rank}").write_text(f"{status}\n")
    variables = {"MASTER_ADDR": f"{host}.1", "TASKD_NET_UPSTREAM": f"{host}.2:9602", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "taskd_net.cli", "run", "--mgr", "--nproc-per-node=2", f"--log-dir={tmp_path}"]
    done = subprocess.run(
        [*command, str(PLAIN)],
        cwd=tmp_path,
        env={**os.environ, **variables, "TASKD_LOG_PATH": str(tmp_path / "log")},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    assert done.returncode == expected, done.stderr
    assert (tmp_path / "log" / "manager.log").read_text().count("manager_started") == 1
