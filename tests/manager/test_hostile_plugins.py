"""Users' plugins whose code hangs, ends the thread, forks or returns nonsense: each loses its own stream alone."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from taskd_net import Node
from taskd_net.job.decide.plugins import Progress
from taskd_net.job.decide.snapshot import Snapshot
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.guarded import FAILURES
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.job.manager.threads import OwnThread
from tests.cli.processes import Command, Daemon
from tests.manager.cluster import Leaf, agent, leaves, managed
from tests.polling import until

SOURCE = """
import os, sys, threading, time
from dataclasses import dataclass, field
from taskd_net.job.decide import traffic
from taskd_net.job.decide.plugins import Plugin, Progress

made = [0]
forever = threading.Event()

@dataclass
class Seen:
    calls: list[int] = field(default_factory=list)
    {STATE}

class Hostile(Plugin[Seen]):
    name = "{NAME}"
    streams = {STREAMS}

    def __init__(self):
        made[0] += 1
        super().__init__(Seen())
        {INIT}

    def wants(self, snapshot):
        {WANTS}
        return self.streams if snapshot.records.agents else ()

    def step(self, stream, snapshot):
        {STEP}
        return Progress.HOLD

    def deadline(self, snapshot):
        {DEADLINE}
        return float("inf")

    def release(self, stream):
        {RELEASE}
"""

REFUSED: dict[str, tuple[dict[str, str], str]] = {
    "SurrogateName": ({"NAME": "\\ud800"}, r"name is '.*'; expected a printable text"),
    "SurrogateStream": ({"STREAMS": "{'\\ud800': None}"}, "a stream is .*; expected a printable text"),
    "NoPriority": ({"STREAMS": "{'Own': float('nan')}"}, "the priority of 'Own' is nan"),
    "SignalHandler": ({"INIT": "import signal; signal.signal(15, signal.SIG_IGN)"}, "only works in main thread"),
    "StateOfNoPlainData": ({"INIT": "self.state.calls = ['x']"}, "state.calls is 'x'; expected int"),
}
"""Plugins that are refused when they are loaded, with the reason."""

OFF: dict[str, tuple[dict[str, str], str]] = {
    "HangsWhenMadeAgain": ({"INIT": "made[0] > 1 and forever.wait()", "STEP": "raise KeyError"}, "has not returned"),
    "RaisesWhenMadeAgain": ({"INIT": "made[0] < 2 or sys.exit(3)", "STEP": "raise KeyError"}, "SystemExit: 3"),
    "Spins": ({"STEP": "while True: pass"}, "has not returned within"),
    "Cancels": ({"WANTS": "import asyncio; raise asyncio.CancelledError"}, "it has raised CancelledError"),
    "ClosesItself": ({"STEP": "raise GeneratorExit"}, "it has raised GeneratorExit"),
    "WantsText": ({"WANTS": "return 'HoldsOn'"}, "wants has returned 'HoldsOn'; expected streams out of"),
    "WantsNothing": ({"WANTS": "return None"}, "wants has returned None; expected streams out of"),
    "WantsWithoutEnd": ({"WANTS": "return iter(int, 1)"}, "wants has returned .*; expected streams out of"),
    "NoProgress": ({"STEP": "return None"}, "None is not a valid Progress"),
    "NoDeadline": ({"DEADLINE": "return float('nan')"}, "deadline has returned nan; expected seconds"),
    "LateDeadline": ({"DEADLINE": "raise KeyboardInterrupt"}, "it has raised KeyboardInterrupt"),
    "FailsInRelease": ({"RELEASE": "sys.exit()", "STEP": "return Progress.FINAL"}, "it has raised SystemExit"),
    "DecidesNonsense": ({"STEP": "self.decide(5)"}, "a decision is 5; expected one of Command, Call"),
    "Resets": ({"STEP": "self.decide(traffic.Reset('npu-9'))"}, "a decision is Reset.*; expected one of"),
    "ReportsNonsense": ({"STEP": "self.decide(traffic.ReportFaults('x'))"}, "ReportFaults.ranks is 'x'"),
    "RepliesNonsense": ({"STEP": "self.reply(5, 'true')"}, "Reply.rpc is 5; expected str"),
    "CallsNonsense": ({"STEP": "self.call('dump', {'a': 1})"}, "Call.ranks is 'a'; expected a number as key"),
    "SendsNoText": ({"STEP": "self.send('Worker/All/All', 9001, 5)"}, "Command.message is 5; expected str"),
    "SendsNoNumber": ({"STEP": "self.send('Worker/All/All', '1')"}, "Command.code is '1'; expected int"),
    "SendsWithoutMeasure": ({"STEP": "self._items = [1] * 70000"}, "a step has 70000 decisions; expected 65536"),
    "GrowsItsState": ({"STEP": "self.state.calls = [1] * 200000"}, "state has 400011 characters as JSON; expected"),
    "ChangesItsState": ({"STEP": "self.state = 5"}, "state is 5; expected Seen"),
}
"""Plugins that are off after their failures, with the last reason."""

ON: dict[str, dict[str, str]] = {
    "CopiesNever": {"STATE": "def __deepcopy__(self, memo): raise KeyboardInterrupt"},
    "ComparesNever": {"STATE": "def __eq__(self, other): forever.wait()", "STEP": "self.state.calls.append(1)"},
    "NamesItself": {"INIT": "self.name = []"},
    "ForksOn": {"STEP": "os.fork()"},
    "ForksAndExits": {"STEP": "if os.fork() == 0: sys.exit(3)"},
    "ForksAndRaises": {"STEP": "if os.fork() == 0: raise KeyError(5)"},
}
"""Plugins that go on."""


def source(name: str, parts: dict[str, str]) -> str:
    """A plugin with a stream of its own."""
    given = {"NAME": name, "STREAMS": f"{{'Of{name}': None}}", "STATE": "", **parts}
    text = SOURCE
    for part in re.findall(r"\{([A-Z]+)\}", SOURCE):
        text = text.replace(f"{{{part}}}", given.get(part, "pass"))
    return text


def children(pid: int) -> list[int]:
    """The living children of a process."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            number, _, rest = status.read_text().partition(" (")
        except OSError:
            continue
        state, parent = rest.rpartition(") ")[2].split()[:2]
        if int(parent) == pid and state != "Z":
            found.append(int(number))
    return found


def woken(manager: Manager) -> bool:
    """Have a tick, as a report that changes something does."""
    manager._wake()
    return True


GROUP = 3
"""Plugins of one Mgr: its log has a budget for equal events."""


def groups() -> list[list[str]]:
    """The names of all plugins, some of each kind together."""
    names = [*OFF, *ON, *REFUSED]
    count = -(-len(names) // GROUP)
    return [names[first::count] for first in range(count)]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("names", groups(), ids=lambda names: names[0])
async def test_each_hostile_plugin_loses_its_own_stream_with_one_line(tmp_path: Path, names: list[str]) -> None:
    folder, log = tmp_path / "plugins", tmp_path / "log"
    folder.mkdir()
    for name in names:
        parts = ON[name] if name in ON else (REFUSED | OFF)[name][0]
        folder.joinpath(f"{name}.py").write_text(source(name, parts))
    arguments = ("--job-id", "J", "--plugins", folder, "--plugin-timeout", "2", "--state", tmp_path / "state")
    async with Daemon("mgr", *arguments, logs=log, env={"TASKD_LOG_STDOUT": "off"}, executed=True) as mgr:

        def lines(event: str) -> list[dict[str, str]]:
            text = log.joinpath("manager.log").read_text()
            whole = (json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n"))
            return [line for line in whole if line["event"] == event]

        refused = {Path(line["place"]).stem: line["reason"] for line in lines("plugin_refused")}
        assert refused.keys() == REFUSED.keys() & set(names)
        for name, reason in refused.items():
            assert re.search(REFUSED[name][1], reason)
        off = OFF.keys() & set(names)
        async with Node(agent(0)(mgr.address)) as node:
            leaf = Leaf(node)
            for _ in range(2):
                await leaf.register()
                assert (await leaf.command()).code == 210
                await until(lambda: len(lines("plugin_off")) == len(off), 60)
        assert not lines("manager_failed")
        failed = lines("plugin_failed")
        for name in off:
            reasons = [line["reason"] for line in failed if line["plugin"] == name]
            assert len(reasons) == FAILURES and re.search(OFF[name][1], reasons[-1]), (name, reasons)
        assert {line["plugin"] for line in lines("plugin_off")} == off
        assert {line["plugin"] for line in failed} == off
        await until(lambda: not children(mgr.pid), 30)
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0


async def test_call_that_computes_without_end_is_interrupted() -> None:
    """The thread would take the interpreter from the event loop for as long as the process lives."""
    thread = OwnThread("test", application=True)
    begun, ended = threading.Event(), threading.Event()

    def spin() -> None:
        begun.set()
        try:
            while True:
                pass
        finally:
            ended.set()

    with pytest.raises(TimeoutError):
        await thread.call(spin, 0.1)
    await until(begun.is_set)
    thread.abandon()
    await until(ended.is_set)


@pytest.mark.parametrize("place", ["import", "init"])
async def test_plugin_that_hangs_when_it_is_loaded_is_refused_and_the_others_are_there(
    tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release: list[Any] = []
    monkeypatch.setattr("builtins._hangs_for_a_test", release, raising=False)
    hang = "import builtins, threading\ngate = threading.Event()\nbuiltins._hangs_for_a_test.append(gate)\n"
    wait = hang + "gate.wait()\n"
    text = wait + source("Hangs", {}) if place == "import" else hang + source("Hangs", {"INIT": "gate.wait()"})
    tmp_path.joinpath("a.py").write_text(text)
    tmp_path.joinpath("b.py").write_text(source("Good", {"STEP": "self.state.calls.append(1)"}))
    async with (
        managed(ManagerConfig(job_id="J", plugins=str(tmp_path)), limits=ManagerLimits(load_s=5.0)) as (node, manager),
        leaves(node, agent(0)) as (zero,),
    ):
        assert [plugin.name for plugin in manager.job.plugins][-1] == "Good"
        await zero.register()
        assert (await zero.command()).code == 210
        await until(lambda: manager.job.state.streams["OfGood"].owner == "Good")
    for gate in release:
        gate.set()
    (line,) = (record.getMessage() for record in caplog.records if "event=plugin_refused " in record.getMessage())
    assert "it has not been loaded within 5 s: " in line and "gate.wait()" in line


async def test_mgr_ends_while_a_plugin_hangs_when_it_is_loaded(tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    hang = f"import pathlib, threading\npathlib.Path({str(begun)!r}).touch()\nthreading.Event().wait()\n"
    tmp_path.joinpath("a.py").write_text(hang)
    arguments = (
        "mgr",
        "--listen",
        "127.0.0.1:0",
        "--log-path",
        tmp_path / "log",
        "--job-id",
        "J",
        "--plugins",
        tmp_path,
    )
    async with Command(*arguments, executed=True) as mgr:
        await until(begun.exists, 60)
        mgr.signal(signal.SIGTERM)
        assert await mgr.exit_code() == 0


async def test_step_counts_for_its_own_stream(tmp_path: Path) -> None:
    """The answer about one stream of a plugin may come while the Manager asks about its other one."""
    streams = "{'A': None, 'B': None}"
    step = "return Progress.FINAL if stream == 'B' else Progress.HOLD"
    tmp_path.joinpath("two.py").write_text(source("Two", {"STREAMS": streams, "STEP": step}))
    config = ManagerConfig(job_id="J", plugins=str(tmp_path), process_interval=100)
    async with managed(config) as (node, manager), leaves(node, agent(0)) as (zero,):
        await zero.register()
        assert (await zero.command()).code == 210
        await until(lambda: manager.job.state.streams["A"].owner == "Two")
        two = manager.job.plugins[-1]
        given: list[tuple[str, Progress]] = []
        step_of = two.step

        def noted(stream: str, snapshot: Snapshot) -> Progress:
            progress = step_of(stream, snapshot)
            given.append((stream, progress))
            return progress

        two.step = noted  # type: ignore[method-assign]
        await until(lambda: woken(manager) and given.count(("B", Progress.FINAL)) >= 3)
        assert ("A", Progress.FINAL) not in given


async def test_plugin_whose_stream_is_seized_is_released(tmp_path: Path) -> None:
    """JobReschedulingPlugin takes the recovery at a killMaster, whichever plugin has it."""
    parts = {"STREAMS": "{'Common': None}", "STEP": "self.state.calls.append(1)", "RELEASE": "self.state.calls = [7]"}
    tmp_path.joinpath("a.py").write_text(source("Owner", parts))
    async with (
        managed(ManagerConfig(job_id="J", plugins=str(tmp_path))) as (node, manager),
        leaves(node, agent(0)) as (zero,),
    ):
        await zero.register()
        owner = manager.job.plugins[-1]
        await until(lambda: bool(owner.state["calls"]))
        owner.release("Common")  # as the streams do for a plugin that seizes one
        await until(lambda: woken(manager) and owner.state["calls"][:2] == [7, 1])


async def test_stored_state_that_its_plugin_cannot_read_costs_the_job_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin, state = tmp_path / "a.py", tmp_path / "state"
    plugin.write_text(source("Changed", {"STEP": "self.state.calls.append(1)"}))
    config = ManagerConfig(job_id="J", plugins=str(tmp_path), state=str(state))
    async with managed(config) as (node, manager), leaves(node, agent(0)) as (zero,):
        await zero.register()
        await until(lambda: bool(manager.job.plugins[-1].state["calls"]))
    plugin.write_text(source("Changed", {}).replace("calls: list[int]", "calls: list[str]"))
    async with managed(config) as (node, manager), leaves(node, agent(0)) as (zero,):
        assert manager.job.state.records.agents.keys() == {0}
        await until(lambda: woken(manager) and manager.view().plugins_off == ("Changed",))
        assert manager.job.plugins[-1].state["calls"]
    assert "state_damaged" not in caplog.text
    assert "state.calls is 1; expected str" in caplog.text


async def test_forked_child_of_a_call_ends_with_it() -> None:
    """A child that went on as the Manager would hold its port."""
    thread = OwnThread("test", application=True)

    def fork() -> int:
        child = os.fork()
        if child == 0:
            return 0
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert await thread.call(fork, 30) == 0
    thread.stop()
