"""A Manager that is killed with -9 at a boundary of messages: the next one goes on, and repeats nothing."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from typing import Any

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.jobs.job import Job
from taskd_net.manager.store import Store
from tests.api.conftest import free_port
from tests.jobs.scene import LOCAL
from tests.manager.cluster import SOON, Leaf

POINTS = 36
"""Boundaries that every run of the scene has; one may have more, as reports come together or not."""


async def start(port: int, state: Path, last: int) -> Process:
    """A Manager that dies at a point."""
    arguments = ("-m", "tests.manager.killed", str(port), str(state), str(last))
    return await asyncio.create_subprocess_exec(sys.executable, *arguments, stdout=PIPE)


async def scene(zero: Leaf, one: Leaf) -> dict[str, list[tuple[int, str]]]:
    """A fault of Agent 1, from the start of both to its return. The commands that each Agent got."""
    got: dict[str, list[tuple[int, str]]] = {"0": [], "1": []}

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


def stored(state: Path) -> Any:
    """The records of the last Manager, without times and uuids."""
    store = Store(state, "J")
    parts = store.open()
    store.close()
    left = Job.from_parts(parts, LOCAL).state
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
    }


async def played(tmp_path: Path, last: int) -> tuple[Any, Any, bool]:
    """Play the scene. Returns the commands, the state at the end, and whether the first Manager was killed."""
    port, state = free_port(), tmp_path / f"state-{last}"
    process = await start(port, state, last)
    killed = False

    async def restart() -> None:
        nonlocal process, killed
        if await process.wait() == -signal.SIGKILL:
            killed = True
            process = await start(port, state, 0)
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
            assert (zero.router.door.held, one.router.door.held) == (0, 0), "no command more"
    finally:
        watching.cancel()
        if process.returncode is None:
            process.kill()
            await process.wait()
    return got, await asyncio.to_thread(stored, state), killed


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
