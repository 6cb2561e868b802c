"""A real job that hangs: the Manager finds the rank that holds it up, and restarts what the settings say."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.torch.cluster import SOON

TRAIN = """
import os, signal, time
from pathlib import Path
import torch
import torch.distributed as dist
from taskd_net import train

dist.init_process_group("gloo")
for n in range(20):
    dist.all_reduce(torch.ones(8))
    train.step(n, of=19)
    time.sleep(0.1)
    if n == 8 and dist.get_rank() == 1 and not Path("hung").exists():
        Path("hung").touch()
        {hang}
"""
LIMIT_S = 4


@pytest.mark.parametrize(
    ("hang", "words"),
    [
        ("os.kill(os.getpid(), signal.SIGSTOP)", "is stopped (SIGSTOP)"),
        ("time.sleep(600)", "it has entered 9 collectives, and others 10"),
    ],
    ids=["stopped", "in-its-own-code"],
)
def test_rank_that_holds_up_the_others_is_named_and_restarted(hang: str, words: str, tmp_path: Path) -> None:
    """Its script goes on at the next start, so the job ends well."""
    (tmp_path / "train.py").write_text(TRAIN.format(hang=hang))
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    variables = {"MASTER_ADDR": f"{host}.1", "TASKD_NET_UPSTREAM": f"{host}.2:9602", "PYTHONWARNINGS": "ignore"}
    flags = [f"--hang-timeout={LIMIT_S}", "--on-hang=guilty", "--nproc-per-node=2", f"--log-dir={tmp_path}"]
    done = subprocess.run(
        [sys.executable, "-m", "taskd_net.cli", "run", "--mgr", *flags, "train.py"],
        cwd=tmp_path,
        env={**os.environ, **variables, "TASKD_LOG_PATH": str(tmp_path / "log")},
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )
    log = (tmp_path / "log" / "manager.log").read_text()
    assert done.returncode == 0, done.stderr + log
    events = [json.loads(line) for line in log.splitlines()]
    (found,) = [each for each in events if each["event"] == "hang_found"]
    assert found["ranks"] == "1", log
    assert found["reason"] == f"rank 1: {words}", log
    assert LIMIT_S <= found["seconds"] <= LIMIT_S + 3, log
    assert "hung: no mark for" in log and log.count("hang_over") == 1, log
