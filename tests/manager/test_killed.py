"""A Manager that is killed with -9 at a boundary of messages: the next one goes on, and repeats nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.job.decide.device_state import FaultConfig
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.snapshot import JobConfig
from taskd_net.job.faults.levels import Mode
from taskd_net.job.manager.keeping import Store
from tests.fork_server import ROOT, forked
from tests.jobs.scene import LOCAL
from tests.manager.cluster import SOON, Leaf
from tests.ports import free_port

POINTS = 36
"""Boundaries that every run of the scene has; one may have more, as reports come together or not."""


Commands = dict[str, list[tuple[int, str]]]
"""The commands that each Agent got, by its rank."""


async def start(port: int, state: Path, last: int, settings: Mapping[str, object]) -> Process:
    """A Manager that dies at a point."""
    arguments = ("-m", "tests.manager.killed", str(port), str(state), str(last), json.dumps(settings))
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    with forked():
        return await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE, env=env, cwd=ROOT)


async def scene(zero: Leaf, one: Leaf) -> Commands:
    """A fault of Agent 1, from the start of both to its return."""
    got: Commands = {"0": [], "1": []}

    async def take(leaf: Leaf, name: str) -> None:
        body = await leaf.command()
        got[name].append((body.code, body.message))

    for leaf, name in ((zero, "0"), (one, "1")):
        await leaf.register(Incarnation=f"process {name}")
        await take(leaf, name)
    await one.fault(3)
    await take(one, "1")
    await take(zero, "0")
    await one.register(Incarnation="process 2")
    await take(one, "1")
    return got


def stored(state: Path, config: JobConfig) -> Any:
    """The records of the last Manager, without times and uuids."""
    store = Store(state, "J")
    parts = store.open()
    store.close()
    job = Job.from_parts(parts, config)
    left = job.state
    records = left.records
    decisions = [json.loads(text) for name, text in sorted(parts.items()) if name.startswith("decision/")]
    return {
        "uuids": left.numbered,
        "restarts": records.restarts,
        "births": records.births,
        "faulty": (records.faulty, records.exited, records.asking),
        "owners": {name: stream.owner for name, stream in left.streams.items()},
        "on the way": list(left.outbox.sending),
        "decisions": [(each["plugin"], each["sent"], each["acknowledged"] + each["lost"]) for each in decisions],
        "tasks": left.devices.tasks,
        "isolated": [each.device for each in job.devices.isolated()],
    }


async def played(
    tmp_path: Path,
    last: int,
    scene: Callable[[Leaf, Leaf], Awaitable[Commands]] = scene,
    config: JobConfig = LOCAL,
    **settings: object,
) -> tuple[Any, Any, bool]:
    """Play the scene. Returns the commands, the state at the end, and whether the first Manager was killed."""
    port, state = free_port(), tmp_path / f"state-{last}"
    process = await start(port, state, last, settings)
    killed = False

    async def restart() -> None:
        nonlocal process, killed
        if await process.wait() == -signal.SIGKILL:
            killed = True
            process = await start(port, state, 0, settings)
            assert process.stdout is not None
            await process.stdout.readline()

    watching = asyncio.create_task(restart())
    upstream = f"127.0.0.1:{port}"
    try:
        async with (
            Node(NodeConfig.agent(server_rank=0, upstream=upstream)) as zero,
            Node(NodeConfig.agent(server_rank=1, upstream=upstream)) as one,
        ):
            for node in (zero, one):
                await node.joined(SOON)
            got = await scene(Leaf(zero), Leaf(one))
            # A KEEP_ALIVE is answered after what was sent before it.
            await Leaf(zero).report("KEEP_ALIVE", 0)
            if not killed:
                process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(SOON):
                await watching
            if killed:
                process.send_signal(signal.SIGTERM)
            out, _ = await process.communicate()
            assert process.returncode == 0 and out
            assert (zero.driver.router.gate.held, one.driver.router.gate.held) == (0, 0), "no command more"
    finally:
        watching.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    return got, await asyncio.to_thread(stored, state, config), killed


EXPECTED = {"0": [(210, "3"), (208, "2")], "1": [(210, "3"), (203, ""), (210, "2")]}


async def check(tmp_path: Path, last: int) -> bool:
    """A killed Manager leaves what one leaves that lives. True if it was killed."""
    got, left, killed = await played(tmp_path, last)
    assert got == EXPECTED
    assert left == {
        "uuids": 5,
        "restarts": 2,
        "births": 3,
        "faulty": (set(), set(), set()),
        "owners": dict.fromkeys(left["owners"], ""),
        "on the way": [],
        "decisions": [("", 1, 1), ("", 1, 1), ("PodReschedulingPlugin", 2, 2), ("", 1, 1)],
        "tasks": {},
        "isolated": [],
    }
    return killed


@pytest.mark.parametrize("last", [0, 3, 11, 17, 19, 23, 29])
async def test_manager_that_is_killed_repeats_nothing(tmp_path: Path, last: int) -> None:
    assert await check(tmp_path, last) == (last > 0)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_manager_that_is_killed_anywhere_repeats_nothing(tmp_path: Path) -> None:
    last = 1
    while await check(tmp_path, last):
        last += 1
    assert last > POINTS


LEVEL_5 = "8C000005"
DEVICE = "1/npu-1"
DEVICES = JobConfig(nodes=2, processes_per_node=2, faults=FaultConfig(mode=Mode.GRACE, resets=True, answers=True))
RUN_AGAIN: Commands = {"0": [(210, "3"), (208, "2")], "1": [(210, "3"), (213, '["3"]'), (208, "2")]}
REPLACED: Commands = {"0": [(210, "3"), (208, "2")], "1": [(210, "3"), (213, '["3"]'), (203, ""), (210, "2")]}


async def device_scene(zero: Leaf, one: Leaf) -> Commands:
    """A fault of level 5 of a device of rank 3: its process is stopped, it is reset, and all run again."""
    got: Commands = {"0": [], "1": []}

    async def take(leaf: Leaf, name: str) -> int:
        body = await leaf.command()
        got[name].append((body.code, body.message))
        return body.code

    for leaf, name in ((zero, "0"), (one, "1")):
        await leaf.register(Incarnation=f"process {name}", Devices='["npu-0", "npu-1"]')
        await take(leaf, name)
    await one.report("FAULT", 1, LEVEL_5, Device=DEVICE, At="1700000000.0")
    await take(one, "1")
    await one.fault(3)
    if await take(one, "1") == 203:
        await one.register(Incarnation="process 2", Devices='["npu-0", "npu-1"]')
        await take(one, "1")
    await take(zero, "0")
    return got


async def check_device(tmp_path: Path, last: int) -> tuple[bool, bool]:
    """A killed Manager does everything once. Returns whether it was killed, and whether the device is isolated.

    A Manager that ends during a reset does not know what became of it, so the next one isolates the device.
    """
    files, resets = tmp_path / "files", tmp_path / f"resets-{last}"
    files.mkdir(exist_ok=True)
    (files / "faultCode.json").write_text(json.dumps({"RestartNPUCodes": [LEVEL_5]}))
    hook = tmp_path / f"hook-{last}"
    hook.write_text(f'#!/bin/sh\necho "$1/$2 $TASKD_NET_RESET_RANKS" >> {resets}\n')
    hook.chmod(0o755)
    settings = {"fault_config": str(files), "fault_mode": "grace", "fault_on_reset": str(hook)}
    size = {"nodes": 2, "processes_per_node": 2}
    got, left, killed = await played(tmp_path, last, device_scene, DEVICES, **settings, **size)
    isolated = got == REPLACED
    assert isolated or got == RUN_AGAIN
    done = resets.read_text().splitlines() if resets.exists() else []
    assert done == [f"{DEVICE} 3"] or (isolated and not done), "reset once, and never when it is unclear"
    round_by = "PodReschedulingPlugin" if isolated else "FaultLevelPlugin"
    begun, ended = ([("FaultLevelPlugin", 1, 1)], [("", 1, 1)] if isolated else [])
    commands = [each for each in left.pop("decisions") if each[1]]
    assert commands == [("", 1, 1), ("", 1, 1), *begun, (round_by, 2, 2), *ended]
    assert left == {
        "uuids": left["uuids"],
        "restarts": 2,
        "births": 3 if isolated else 2,
        "faulty": (set(), set(), set()),
        "owners": dict.fromkeys(left["owners"], ""),
        "on the way": [],
        "tasks": {},
        "isolated": [DEVICE] if isolated else [],
    }
    return killed, isolated


@pytest.mark.parametrize("last", [0, 15, 22, 27, 33, 39, 44, 46])
async def test_manager_that_is_killed_stops_and_resets_a_device_once(tmp_path: Path, last: int) -> None:
    killed, isolated = await check_device(tmp_path, last)
    assert killed == (last > 0) and (killed or not isolated)


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_manager_that_is_killed_anywhere_stops_and_resets_a_device_once(tmp_path: Path) -> None:
    outcomes: list[bool] = []
    while True:
        killed, isolated = await check_device(tmp_path, len(outcomes) + 1)
        if not killed:
            break
        outcomes.append(isolated)
    assert len(outcomes) > POINTS
    assert 0 < sum(outcomes) < 10, "only between the order of the reset and the commit of its end"
