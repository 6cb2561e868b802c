"""A Manager whose clock steps while it runs, or between two of its lives."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.job.manager import ManagerConfig
from tests.fork_server import ROOT, forked
from tests.manager.cluster import Leaf, agent, leaves, managed
from tests.ports import free_port

HOUR_S: Final = 3600
DAY_S: Final = 24 * HOUR_S


@asynccontextmanager
async def manager(port: int, state: Path, shift: int) -> AsyncIterator[Process]:
    """A Manager in a process of its own, whose host's clock differs by `shift` seconds."""
    arguments = ("-m", "tests.manager.killed", str(port), str(state), "0", "{}")
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"], "CLOCK_SHIFT_S": str(shift)}
    with forked():
        process = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdout=PIPE, stderr=PIPE, env=env, cwd=ROOT
        )
    try:
        assert process.stdout is not None and await process.stdout.readline() == b"ready\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.mark.parametrize("shift", [HOUR_S, 3650 * DAY_S, -DAY_S])
async def test_a_manager_of_another_clock_goes_on(tmp_path: Path, shift: int) -> None:
    """The first Manager's clock differs; the second one answers at once, and one line says that the clock went back."""
    port, state = free_port(), tmp_path / "state"
    async with Node(NodeConfig.agent(server_rank=0, upstream=f"127.0.0.1:{port}")) as node:
        leaf = Leaf(node)
        async with manager(port, state, shift):
            await leaf.register(Incarnation="one")
            assert (await leaf.command()).code == 210
        async with manager(port, state, 0) as second:
            await leaf.register(Incarnation="two")
            assert (await leaf.command()).code == 210
            second.send_signal(signal.SIGTERM)
            _, errors = await second.communicate()
    assert errors.decode().count("clock_went_back") == (shift > 0), errors.decode()


async def test_the_clock_steps_while_a_manager_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are shown by the new clock, nothing is in the future, and the Manager answers."""
    real, shift = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + shift)
    config = ManagerConfig(job_id="J", state=str(tmp_path / "state"))
    async with managed(config) as (node, made), leaves(node, agent(0)) as (zero,):
        await zero.register(Incarnation="1")
        assert (await zero.command()).code == 210
        for number, step in enumerate((HOUR_S, -DAY_S, 10 * DAY_S), 2):
            shift = step
            view = made.view()
            assert abs(view.at - time.time()) < HOUR_S / 2
            assert all(each.at <= view.at for each in view.decisions)
            await zero.register(Incarnation=str(number))
            assert (await zero.command()).code == 210
            assert made.view().decisions[-1].at <= time.time()


async def test_nobody_is_silent_while_the_manager_is_stopped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Both clocks go on, as over SIGSTOP, and the heartbeats of that time are not read yet."""
    real, steady, stopped = time.time, time.monotonic, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + stopped)
    async with managed(ManagerConfig(job_id="J")) as (node, made), leaves(node, agent(0)) as (zero,):
        monkeypatch.setattr(made._clock, "_steady", lambda: steady() + stopped)
        await zero.register()
        assert (await zero.command()).code == 210
        stopped = HOUR_S
        (shown,) = made.view().agents
        assert shown.silent_since == 0.0
        assert caplog.text.count("event=manager_was_stopped") == 1 and "clock_stepped" not in caplog.text


async def test_a_state_file_that_has_failed_is_tried_again_after_a_step_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, shift = time.time, 0.0
    monkeypatch.setattr(time, "time", lambda: real() + shift)
    config = ManagerConfig(job_id="J", state=str(tmp_path / "state"))
    async with managed(config) as (_, made):
        made._keeping.again = made._now() + 1.0
        shift = -DAY_S
        made.view()
        assert made._keeping.again < made._now() + 2.0
