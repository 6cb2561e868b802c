"""docs/tutorial.md: its commands in their order, with other addresses, lead to what it says."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli import processes
from tests.documents.pages import ROOT, Command, commands
from tests.polling import asked_until, until

pytestmark = [pytest.mark.torch, pytest.mark.timeout(300)]

OWN_IP: Final = f"127.{os.getpid() >> 16 & 127}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"
"""A loopback address for each run, because the Manager's port is fixed."""
PATIENCE_S: Final = 100.0
"""Seconds for a step: torch is imported, and a process restarted."""


def steps() -> list[Command]:
    """The commands of ours in the tutorial."""
    return [one for one in commands() if one.page == "docs/tutorial.md" and one.shown and one.words[0] == "taskd-net"]


def last(path: Path) -> dict[str, Any]:
    """The last whole line of a rank; empty without one."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole: list[str] = [line for line in lines if line.endswith("\n")]
    found: dict[str, Any] = json.loads(whole[-1]) if whole else {}
    return found


async def test_a_killed_process_comes_back_alone(tmp_path: Path) -> None:
    mgr, training, tree, job, job_again = steps()
    assert [step.words[1] for step in (mgr, training, tree, job, job_again)] == ["mgr", "run", "tree", "job", "job"]
    script = tmp_path / "taskd_net" / "torch" / "small_training.py"
    script.parent.mkdir(parents=True)
    shutil.copy(ROOT / "taskd_net" / "torch" / "small_training.py", script)
    env = {
        "HOME": str(tmp_path),
        "TASKD_LOG_PATH": str(tmp_path / "logs"),
        "POD_IP": OWN_IP,
        "MASTER_ADDR": OWN_IP,
        "TASKD_NET_AT": f"{OWN_IP}:9601",
        "TASKD_NET_UPSTREAM": f"{OWN_IP}:9602",
    }
    zero, one = tmp_path / "steps-0", tmp_path / "steps-1"
    async with AsyncExitStack() as running:
        root = await running.enter_async_context(processes.Command(*mgr.words[1:], env=env, cwd=tmp_path))
        assert " ready, " in await root.line(), root.errors
        node = await running.enter_async_context(processes.Command(*training.words[1:], env=env, cwd=tmp_path))

        await until(lambda: last(zero).get("step", 0) > 2 and last(one).get("step", 0) > 2, PATIENCE_S, pause=0.05)

        async def whole() -> bool:
            code, output, _ = await processes.run(*tree.words[1:], env=env)
            return code == 0 and "missing of 1x2: none" in output and "Agent/0" in output

        assert await asked_until(whole, PATIENCE_S)
        assert (await processes.run(*job.words[1:], env=env))[0] == 0
        kept, killed = last(zero), last(one)
        os.kill(killed["pid"], signal.SIGKILL)
        await until(lambda: last(one)["pid"] != killed["pid"], PATIENCE_S, pause=0.05)
        await until(lambda: last(zero)["epoch"] == last(one)["epoch"], PATIENCE_S, pause=0.05)
        assert last(zero)["pid"] == kept["pid"]
        assert last(one)["epoch"] > killed["epoch"]
        assert last(one)["step"] >= killed["step"]

        async def decided() -> bool:
            return "209" in (await processes.run(*job_again.words[1:], env=env))[1]

        assert await asked_until(decided, PATIENCE_S)
        node.signal(signal.SIGINT)
        await node.exit_code()
        node.errors = ""  # Python's own words for Ctrl-C
