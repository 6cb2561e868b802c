"""A Manager, its Agents and Workers against the stand-in for ClusterD, which runs in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest

from taskd_net.job.clusterd.controller import ACTIONS, Handler, HandlerController, Reports
from taskd_net.job.decide.traffic import Call
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net_lab.clusterd.reader import SCENARIOS
from tests.fork_server import ROOT, forked
from tests.manager.cluster import Leaf, agent, leaves, managed, worker
from tests.polling import until
from tests.ports import free_port

END_S: Final = 60.0


@dataclass
class Seen:
    """Calls of the controller, commands of each node, and the states that the stand-in has entered.

    Attributes:
        reports: those of the controller, once it has started.
        slow: the framework takes until the faulty node is back to choose strategies.
        back: it is back.
        held: the call of the controller, or the code of the Workers' command, that is answered once ClusterD is back.
        again: ClusterD was killed, and is back.
        fails: calls that the framework cannot carry out.
        mute: the framework reports no dead process.
    """

    calls: list[str] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    reports: Reports | None = None
    slow: bool = False
    back: threading.Event = field(default_factory=threading.Event)
    held: str = ""
    again: threading.Event = field(default_factory=threading.Event)
    fails: tuple[str, ...] = ()
    mute: bool = False

    @property
    def rests(self) -> bool:
        """True once what is held has come."""
        return self.held in self.calls or any(command.startswith(self.held) for command in self.commands)


class Framework(HandlerController):
    """Handlers, and the reports that they give by themselves."""

    def __init__(self, seen: Seen, handlers: Mapping[str, Handler]) -> None:
        super().__init__(handlers)
        self._seen = seen

    def start(self, reports: Reports) -> None:
        super().start(reports)
        self._seen.reports = reports


def framework(seen: Seen) -> HandlerController:
    """A training framework that carries everything out."""

    def take(call: Call, reports: Reports) -> None:
        name = " ".join(filter(None, (call.name, call.text)))
        seen.calls.append(name)
        if name in seen.fails:
            raise RuntimeError(f"no {name}")
        if name == seen.held:
            assert seen.again.wait(END_S)
        if seen.slow and call.name == "on_global_rank":
            assert seen.back.wait(END_S)
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

    return Framework(seen, dict.fromkeys(ACTIONS, take))


async def live(leaf: Leaf, seen: Seen, faulty: str) -> None:
    """Take commands as an Agent or a Worker, and come back after a 203.

    Args:
        leaf: the Agent or Worker.
        seen: takes the commands.
        faulty: the Worker in which a stress test finds a fault, and which cannot switch its card.
    """
    while True:
        with contextlib.suppress(TimeoutError):
            body = await leaf.command()
            if body.code != 210:
                seen.commands.append(f"{body.code} {leaf.node.position.identity}")
            if str(body.code) == seen.held:
                assert await asyncio.to_thread(seen.again.wait, END_S)
            match body.code:
                case 203:
                    await leaf.fault()
                    await leaf.report("REGISTER", 0, Incarnation=str(uuid4()))
                    await leaf.report("STATUS", 201, leaf.restarts)
                    seen.back.set()
                case 204:
                    done = "switchFail" if str(leaf.node.position.identity) == faulty else "switchOK"
                    await leaf.report("ACTION", 204, done, switchNicUUID=body.extension["switchNicUUID"])
                case 213 if not seen.mute:
                    assert seen.reports is not None
                    ranks = dict.fromkeys(map(int, json.loads(body.message)), 1)
                    await asyncio.to_thread(seen.reports.fault_ranks, ranks)
                case 205:
                    found = str(leaf.node.position.identity) == faulty
                    result = json.dumps({"rankResult": {"0": {"code": "2" if found else "0", "result": "found"}}})
                    await leaf.report("ACTION", 205, result, stressTestUUID=body.extension["stressTestUUID"])


@contextlib.asynccontextmanager
async def job(address: str, seen: Seen, faulty: str, limits: ManagerLimits = ManagerLimits()) -> AsyncIterator[None]:
    """A job of two nodes with a Worker each."""
    config = ManagerConfig(job_id="demo", clusterd_addr=address, fault_recover="on", nodes=2, processes_per_node=2)
    async with (
        managed(config, framework=framework(seen), limits=limits) as (node, _),
        leaves(node, agent(0), agent(1), worker(0, 0), worker(0, 1), worker(1, 2), worker(1, 3)) as nodes,
    ):
        for one in nodes[:2]:
            await one.register()
        for one in nodes[2:]:
            await one.report("REGISTER", 101)
        living = [asyncio.create_task(live(one, seen, faulty)) for one in nodes]
        try:
            yield
        finally:
            for task in living:
                task.cancel()
            await asyncio.wait(living)


@contextlib.asynccontextmanager
async def clusterd(address: str, scenario: Path, *options: str) -> AsyncIterator[Process]:
    """The stand-in in a process of its own, which is killed at the end."""
    command = [sys.executable, "-m", "taskd_net.cli", "clusterd-sim", "--json", "--listen", address, *options]
    env = {"PYTHONPATH": str(ROOT), "PATH": os.environ["PATH"]}
    with forked():
        process = await asyncio.create_subprocess_exec(
            *command, "--scenario", str(scenario), stdout=asyncio.subprocess.PIPE, env=env, cwd=ROOT
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        process._transport.close()  # type: ignore[attr-defined]


async def events(process: Process) -> AsyncIterator[dict[str, Any]]:
    """The events of the stand-in until its end."""
    assert process.stdout is not None
    async for line in process.stdout:
        yield json.loads(line)


async def play(
    name: str,
    faulty: str = "",
    *options: str,
    slow: bool = False,
    mute: bool = False,
    limits: ManagerLimits = ManagerLimits(),
) -> Seen:
    """Play a scenario of the stand-in to its end."""
    seen, address = Seen(slow=slow, mute=mute), f"127.0.0.1:{free_port()}"
    async with (
        clusterd(address, SCENARIOS / f"{name}.yaml", *options) as process,
        asyncio.timeout(END_S),
        job(address, seen, faulty, limits),
    ):
        async for event in events(process):
            if event["event"] == "moved":
                seen.states.append(event["to"])
        assert await process.wait() == 0
    return seen


STOPPED: Final = ["stop_train stop", "on_global_rank"]

RESTARTED: Final = ["203 Agent/1", "208 Agent/0", "208 Agent/1"]

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
    "pre-exit": ([*STOPPED, "change_strategy recover"], ["203 Agent/1", "213 Agent/1"]),
}
LONG_FLOWS: Final = {
    "dump": ([*STOPPED, "change_strategy dump"], RESTARTED),
    "save-and-exit": (["dump"], ["203 Agent/1", "208 Agent/0"]),
    "exit": (STOPPED, RESTARTED),
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
    seen = await play(name, slow=commands is RESTARTED)
    assert seen.calls == calls
    assert sorted(seen.commands) == sorted(commands)
    assert seen.states[-1:] == (["init"] if seen.states else [])
    assert ("notify kill job" in seen.states) == (name == "kill-master")


@pytest.mark.more
async def test_a_device_whose_processes_no_framework_reports_is_recovered() -> None:
    """ClusterD waits for a report after its preExitProcess, without a limit."""
    calls, commands = FLOWS["pre-exit"]
    seen = await play("pre-exit", mute=True)
    assert seen.calls == calls
    assert sorted(seen.commands) == sorted(commands)


@pytest.mark.more
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["retry", "pre-exit", "switch-cards", "hot-switch"])
async def test_flow_whatever_time_the_resets_take(name: str, seed: int) -> None:
    calls, commands = FLOWS[name]
    seen = await play(name, "", "--resets", str(seed))
    assert seen.calls == calls
    assert sorted(seen.commands) == sorted(commands)


@pytest.mark.long
async def test_a_stress_test_that_finds_a_fault_ends_in_a_recovery() -> None:
    seen = await play("stress-test", faulty="Worker/1/3")
    assert seen.calls == ["stop_train pause", *STOPPED, "change_strategy recover"]
    tested = [f"205 {worker}" for worker in ("Worker/0/0", "Worker/0/1", "Worker/1/2", "Worker/1/3")]
    assert sorted(seen.commands) == ["203 Agent/1", *tested]


@pytest.mark.long
async def test_a_manager_asks_again_where_recovery_is_off() -> None:
    seen = await play("switched-on-later", limits=ManagerLimits(off_s=1.0))
    assert seen.calls == [*STOPPED, "change_strategy recover"]
    assert seen.commands == ["203 Agent/1"]


@pytest.mark.long
async def test_each_fault_is_recovered_by_its_own_reports() -> None:
    """A report to an order before ClusterD was killed is none to the same order of the next fault."""
    seen = await play("killed-at-each-stage")
    assert seen.calls[-3:] == [*STOPPED, "change_strategy recover"]
    assert seen.states[-3:] == ["wait report process recover status", "check recover result", "init"]


SWITCH: Final = """
jobs:
  - {id: demo, nodes: 2, processes: 2, strategies: [recover, dump, exit]}
steps:
  - {when: subscribed, switch_cards: {ranks: [0, 1, 2, 3], backup: on}}
"""
NOTHING: Final = """
jobs:
  - {id: demo, nodes: 2, processes: 2, strategies: [recover, dump, exit]}
"""


@pytest.fixture
def scenarios(tmp_path: Path) -> tuple[Path, Path]:
    """A switch of cards; and nothing."""
    first, second = tmp_path / "switch.yaml", tmp_path / "nothing.yaml"
    first.write_text(SWITCH)
    second.write_text(NOTHING)
    return first, second


async def killed(
    scenarios: tuple[Path, Path], seen: Seen, calls: list[str], commands: list[str], faulty: str = ""
) -> None:
    """Kill ClusterD while something is held, and wait for all calls and commands that follow."""
    address = f"127.0.0.1:{free_port()}"
    async with asyncio.timeout(END_S), job(address, seen, faulty):
        async with clusterd(address, scenarios[0]):
            await until(lambda: seen.rests)
        async with clusterd(address, scenarios[1]) as process:
            async for event in events(process):
                if event["event"] == "ready":
                    break
            seen.again.set()
            await until(lambda: len(seen.calls) >= len(calls) and len(seen.commands) >= len(commands))
    assert seen.calls == calls
    assert sorted(seen.commands) == sorted(commands)


SWITCHED: Final = ["204 Worker/0/0", "204 Worker/0/1", "204 Worker/1/2", "204 Worker/1/3"]
ALL_RESTARTED: Final = ["208 Agent/0", "208 Agent/1"]


@pytest.mark.parametrize(
    ("held", "calls", "commands"),
    [
        ("stop_train pause", ["stop_train pause", "change_strategy continue"], []),
        ("204", ["stop_train pause", "change_strategy continue"], SWITCHED),
        # ClusterD's own order, whose result it does not get, and that of the Manager.
        (
            "change_strategy continue",
            ["stop_train pause", "change_strategy continue", "change_strategy continue"],
            SWITCHED,
        ),
    ],
    ids=["pausing", "switching", "continuing"],
)
async def test_a_pause_in_which_clusterd_is_killed_is_ended_by_the_manager(
    scenarios: tuple[Path, Path], held: str, calls: list[str], commands: list[str]
) -> None:
    await killed(scenarios, Seen(held=held), calls, commands)


async def test_a_training_that_does_not_continue_is_restarted(
    scenarios: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen(held="204", fails=("change_strategy continue",))
    calls = ["stop_train pause", "change_strategy continue"]
    await killed(scenarios, seen, calls, SWITCHED + ALL_RESTARTED)
    assert caplog.text.count("stop_forgotten") == 2


async def test_a_stop_without_ranks_in_which_clusterd_is_killed_restarts_everybody(
    scenarios: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    """A switch of cards that has failed: ClusterD stops the training, and recovers nobody."""
    seen = Seen(held="stop_train stop")
    calls = ["stop_train pause", "stop_train stop"]
    await killed(scenarios, seen, calls, SWITCHED + ALL_RESTARTED, faulty="Worker/1/3")
    assert caplog.text.count("stop_forgotten") == 1
