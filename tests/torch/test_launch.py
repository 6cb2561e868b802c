"""`taskd-net run`: its arguments, and the Manager beside it."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch.cluster import PLAIN, SOON


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (
            ["--nnodes=2", "--rdzv-backend=c10d", "train.py"],
            2,
            "--rdzv-backend c10d with 2 nodes gives them other ranks than --node-rank; expected static, the default",
        ),
        (["--nproc-per-node=2"], 2, "the following arguments are required: training_script"),
        (["--run-path", "train.py"], 1, "the Python function run_script_path; expected a command, such as a script"),
    ],
    ids=["rendezvous", "no-script", "function"],
)
def test_arguments_that_are_refused(arguments: list[str], status: int, said: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "taskd_net.cli", "run", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SOON, check=False)
    assert done.returncode == status and said in done.stderr


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
