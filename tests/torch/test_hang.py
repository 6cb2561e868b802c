"""Real jobs that hang: the Manager finds the rank that holds up the others, and restarts what the settings say."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.torch.cluster import SOON

STEPS = """
import os, signal, time
from pathlib import Path
import torch
import torch.distributed as dist
from taskd_net import train
from taskd_net.torch import rejoin

def steps(epoch=0, reason=""):
    with Path(f"pids-{{dist.get_rank()}}").open("a") as file:
        file.write(f"{{os.getpid()}}\\n")
    for n in range(20):
        dist.all_reduce(torch.ones(8))
        train.step(n, of=19)
        time.sleep(0.1)
        if n == 8 and dist.get_rank() == 1 and not Path("hung").exists():
            Path("hung").touch()
            {hang}

"""
PLAIN = f"{STEPS}dist.init_process_group('gloo')\nsteps()\n"
REJOINS = f"{STEPS}rejoin(steps, backend='gloo')\n"
STOPS = "os.kill(os.getpid(), signal.SIGSTOP)"
LIMIT_S = 4


def events(folder: Path, script: str) -> list[dict[str, Any]]:
    """The log of the Manager of a job whose script goes on at the next start, so that it ends well."""
    (folder / "train.py").write_text(script)
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    variables = {"MASTER_ADDR": f"{host}.1", "TASKD_NET_UPSTREAM": f"{host}.2:9602", "PYTHONWARNINGS": "ignore"}
    flags = [f"--hang-timeout={LIMIT_S}", "--on-hang=guilty", "--nproc-per-node=2", f"--log-dir={folder}"]
    done = subprocess.run(
        [sys.executable, "-m", "taskd_net.cli", "run", "--mgr", *flags, "train.py"],
        cwd=folder,
        env={**os.environ, **variables, "TASKD_LOG_PATH": str(folder / "log")},
        capture_output=True,
        text=True,
        timeout=2 * SOON,
        check=False,
    )
    log = (folder / "log" / "manager.log").read_text()
    assert done.returncode == 0, done.stderr + log
    return [json.loads(line) for line in log.splitlines()]


def of(found: list[dict[str, Any]], event: str) -> dict[str, Any]:
    """The only line of an event."""
    (line,) = [each for each in found if each["event"] == event]
    return line


def pids(folder: Path, rank: int) -> list[str]:
    """The processes of a rank, one for each time that it has begun to train."""
    return (folder / f"pids-{rank}").read_text().split()


@pytest.mark.parametrize(
    ("hang", "words"),
    [(STOPS, "is stopped (SIGSTOP)"), ("time.sleep(600)", "has entered 9 collectives, and others 10")],
    ids=["stopped", "in-its-own-code"],
)
def test_rank_that_holds_up_the_others_is_named_and_all_are_restarted(hang: str, words: str, tmp_path: Path) -> None:
    found = events(tmp_path, PLAIN.format(hang=hang))
    hung = of(found, "hang_found")
    assert (hung["ranks"], hung["reason"]) == ("1", f"rank 1: {words}")
    assert LIMIT_S <= hung["seconds"] <= LIMIT_S + 3
    assert of(found, "failure_answered")["cause"].startswith("rank 1 of node 0: hung: no mark for ")
    assert of(found, "failure_answered")["answer"] == "all ranks restarted: round 2"
    assert len(set(pids(tmp_path, 0))) == len(set(pids(tmp_path, 1))) == 2


def test_rank_of_a_script_that_rejoins_is_restarted_alone(tmp_path: Path) -> None:
    found = events(tmp_path, REJOINS.format(hang=STOPS))
    assert of(found, "hang_found")["ranks"] == "1"
    assert of(found, "failure_answered")["answer"] == "ranks restarted alone: 1"
    kept, renewed = pids(tmp_path, 0), pids(tmp_path, 1)
    assert len(kept) == len(renewed) == 2 and kept[0] == kept[1] and renewed[0] != renewed[1]
