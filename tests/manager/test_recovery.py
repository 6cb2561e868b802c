"""A Manager, its Agents and Workers against the stand-in for ClusterD, which runs in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import pytest

import taskd_net
from taskd_net.jobs.traffic import Call
from taskd_net.manager import ManagerConfig
from taskd_net.recover.controller import ACTIONS, HandlerController, Reports
from tests.manager.cluster import Leaf, agent, leaves, managed, worker
from tests.peers.clusterd import free_port

SCENARIOS: Final = Path(taskd_net.__file__).parent / "sim" / "clusterd" / "scenarios"
END_S: Final = 60.0


@dataclass
class Seen:
    """Calls of the controller, commands of each node, and the states that the stand-in has entered."""

    calls: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)


def framework(seen: Seen) -> HandlerController:
    """A training framework that carries everything out."""

    def take(call: Call, reports: Reports) -> None:
        seen.calls.append(" ".join(filter(None, (call.name, call.text))))
        match call.name:
            case "stop_train":
                reports.stop_complete(0, "", call.ranks)
            case "on_global_rank":
                reports.strategies(call.ranks, ["retry", "recover", "downgrade", "dump", "exit"])
            case "prepare_action" if call.text == "hot switch":
                reports.strategies(call.ranks, ["migration"])
            case "change_strategy" if call.text == "downgrade":
                reports.result(201, "", {2: 1, 3: 1}, call.text)
                reports.result(0, "", {}, call.text)
            case "change_strategy" if call.text != "exit":
                reports.result(0, "", {}, call.text)
            case "dump":
                reports.result(0, "", {}, "dump")

    return HandlerController(dict.fromkeys(ACTIONS, take))


async def live(leaf: Leaf, seen: Seen) -> None:
    """Take commands as an Agent or a Worker, and come back after a 203."""
    while True:
        with contextlib.suppress(TimeoutError):
            body = await leaf.command()
            if body.code != 210:
                seen.commands.append(f"{body.code} {leaf.node.position.identity}")
            match body.code:
                case 203:
                    await leaf.fault()
                    await leaf.report("REGISTER", 0, Incarnation=str(uuid4()))
                    await leaf.report("STATUS", 201, leaf.restarts)
                case 204:
                    await leaf.report("ACTION", 204, "switchOK", switchNicUUID=body.extension["switchNicUUID"])
                case 205:
                    result = json.dumps({"rankResult": {"0": {"code": "0", "result": "OK"}}})
                    await leaf.report("ACTION", 205, result, stressTestUUID=body.extension["stressTestUUID"])


@contextlib.asynccontextmanager
async def job(address: str, seen: Seen) -> AsyncIterator[None]:
    """A job of two nodes with a Worker each."""
    config = ManagerConfig(job_id="demo", clusterd_addr=address, fault_recover="on", nodes=2, processes_per_node=2)
    async with (
        managed(config, framework=framework(seen)) as (node, _),
        leaves(node, agent(0), agent(1), worker(0, 0), worker(0, 1), worker(1, 2), worker(1, 3)) as nodes,
    ):
        for one in nodes[:2]:
            await one.register()
        for one in nodes[2:]:
            await one.report("REGISTER", 101)
        living = [asyncio.create_task(live(one, seen)) for one in nodes]
        try:
            yield
        finally:
            for task in living:
                task.cancel()
            await asyncio.wait(living)


async def play(name: str) -> Seen:
    """Play a scenario of the stand-in to its end."""
    seen, address = Seen(), f"127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "taskd_net.cli", "clusterd-sim", "--json", "--listen", address]
    process = await asyncio.create_subprocess_exec(
        *command, "--scenario", str(SCENARIOS / f"{name}.yaml"), stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(END_S), job(address, seen):
            async for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "moved":
                    seen.states.append(event["to"])
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]
    return seen


STOPPED: Final = ["stop_train stop", "on_global_rank"]

FLOWS: Final = {
    "retry": ([*STOPPED, "change_strategy retry"], []),
    "recover": ([*STOPPED, "change_strategy recover"], ["203 Agent/1"]),
    "recover-in-place": ([*STOPPED, "change_strategy recover"], ["209 Agent/1"]),
    "switch-cards": (
        ["stop_train pause", "change_strategy continue"],
        ["204 Worker/0/0", "204 Worker/0/1", "204 Worker/1/2", "204 Worker/1/3"],
    ),
    "hot-switch": (["prepare_action hot switch", "change_strategy migration"], []),
    "kill-master": (["stop_train stop"], ["203 Agent/0"]),
}
LONG_FLOWS: Final = {
    "dump": ([*STOPPED, "change_strategy dump"], ["203 Agent/1", "208 Agent/0"]),
    "save-and-exit": (["dump"], ["203 Agent/1", "208 Agent/0"]),
    "exit": (STOPPED, ["203 Agent/1", "208 Agent/0"]),
    "downgrade-upgrade": ([*STOPPED, "change_strategy downgrade", "change_strategy upgrade"], ["203 Agent/1"]),
    "stress-test": (
        ["stop_train pause", "change_strategy continue"],
        ["205 Worker/0/0", "205 Worker/0/1", "205 Worker/1/2", "205 Worker/1/3"],
    ),
    "hot-switch-timeout": (["prepare_action hot switch", "prepare_action stop switch"], []),
    "pause-start-agent": ([], []),
}


@pytest.mark.parametrize("name", [*FLOWS, *(pytest.param(name, marks=pytest.mark.long) for name in LONG_FLOWS)])
async def test_flow(name: str) -> None:
    calls, commands = (FLOWS | LONG_FLOWS)[name]
    seen = await play(name)
    assert seen.calls == calls
    assert sorted(set(seen.commands)) == sorted(commands)
    assert seen.states[-1:] == (["init"] if seen.states else [])
    assert ("notify kill job" in seen.states) == (name == "kill-master")


@pytest.mark.long
async def test_each_fault_is_recovered_by_its_own_reports() -> None:
    """A report to an order before ClusterD was killed is none to the same order of the next fault."""
    seen = await play("killed-at-each-stage")
    assert seen.calls[-3:] == [*STOPPED, "change_strategy recover"]
    assert seen.states[-3:] == ["wait report process recover status", "check recover result", "init"]
