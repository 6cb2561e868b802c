"""`taskd-net job` as a process, asking Managers at work."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from taskd_net import Node, NodeConfig
from taskd_net.base.cause import Place
from taskd_net.base.progress import NodeProgress, RankProgress, Seen, write_progress
from taskd_net.base.stacks import StackGroup, write_stacks
from taskd_net.base.vocabulary import KEEP_ALIVE, PROGRESS
from taskd_net.job.agent.messages import WantStacks, read_command, stacks
from taskd_net.job.manager import ManagerConfig
from taskd_net.observe.document import Document
from taskd_net.observe.job_codec import Stacks, write_stacks_answer
from tests.cli.processes import PATIENCE_S, Command, Daemon, run
from tests.manager.cluster import Leaf, agent, leaves, managed
from tests.peers.parent import RawParent
from tests.polling import until

pytestmark = pytest.mark.timeout(120)


async def test_a_round_is_shown_while_it_lasts_and_afterwards() -> None:
    config = ManagerConfig(job_id="J", nodes=2, processes_per_node=1)
    async with managed(config) as (node, manager), leaves(node, agent(0), agent(1)) as (zero, one):
        for each in (zero, one):
            await each.register()
            await each.command()
        await until(lambda: all(each.acknowledged for each in manager.view().decisions))
        code, output, errors = await run("job", "--at", node.address)
        assert (code, errors) == (0, "")
        assert output.startswith("job J of 2x1, decides on reports, restarts: platform, restarts left: 3\n")
        assert "  Agent/0    running\n" in output and "210 start (3) to Agent 0: acknowledged\n" in output

        await one.fault(1)
        await one.command(), await zero.command()
        await until(lambda: manager.view().decisions[-1].acknowledged == 2)
        code, output, errors = await run("job", "--at", node.address, "--json")
        assert (code, errors) == (1, "")
        found = json.loads(output)
        assert (found["restarts_left"], found["trouble"]) == (2, ["Agents in trouble: 1 of 2"])
        assert [each["state"] for each in found["agents"]] == ["running", "exited"]
        owners = {stream["name"]: stream["owner"] for stream in found["streams"]}
        assert owners["ResumeTrainingAfterFaultStream"] == "PodReschedulingPlugin"
        round_ = found["decisions"][-1]
        assert round_["cause"].startswith("Agent/1 STATUS 202") and round_["restarts_left"] == 2
        assert {(each["to"], each["code"], each["answer"]) for each in round_["messages"]} == {
            ("Agent/1", 203, 0), ("Agent/0", 208, 0),
        }  # fmt: skip

        code, output, errors = await run("job", "why", "--at", node.address)
        assert (code, errors) == (0, "")
        first, _, failure, *_, answer, recovery = output.splitlines()
        assert first == "job J has not been ended by its Manager"
        assert failure.startswith("FAILURE 1  rank 1 failed first: its Agent does not say how (node 1), at ")
        assert answer.endswith("  all ranks restarted: round 1") and recovery.startswith("  recovery: noticed ")
        code, output, errors = await run("job", "why", "--at", node.address, "--json")
        assert (code, errors) == (0, "")
        (now,), (before,) = json.loads(output)["failures"], found["failures"]
        assert now == before | {"phases": now["phases"]}, "the recovery goes on"
        code, output, errors = await run("job", "--at", node.address, "why")
        assert (code, output) == (2, "") and errors.endswith("--at stands before why; expected it behind\n")

        await one.register()
        await one.command()
        code, output, _ = await run("job", "--at", node.address)
        assert code == 0 and "restarts left: 2\n" in output


async def test_a_manager_that_was_killed_shows_what_it_had_decided(tmp_path: Path) -> None:
    state = tmp_path / "j.sqlite3"
    arguments = ("--job-id", "J", "--expect", "1x1", "--state", state)
    async with Daemon("mgr", *arguments, logs=tmp_path) as mgr:
        async with Node(agent(0)(mgr.address)) as node:
            await node.joined(PATIENCE_S)
            zero = Leaf(node)
            await zero.register()
            await zero.command()
            before = await shown(mgr, lambda found: found["counters"]["acknowledged"] == 1)
        assert before["state"] == {"file": str(state), "durable": True, "failures": 0} and before["trouble"] == []
        mgr.signal(signal.SIGKILL)
        await mgr.exit_code()
    async with Daemon("mgr", *arguments, logs=tmp_path) as mgr:
        after = await shown(mgr, lambda _: True)
        assert after["restarts_left"] == 3
        assert after["decisions"] == before["decisions"] and len(after["decisions"]) == 1
        assert (await run("doctor", "mgr", "--listen", mgr.address))[0] == 0


async def shown(mgr: Daemon, holds: Callable[[Document], bool]) -> Document:
    """The document, once it is as expected."""
    while True:
        code, output, errors = await run("job", "--at", mgr.address, "--json")
        assert (code, errors) == (0, "")
        found: Document = json.loads(output)
        if holds(found):
            return found


async def test_a_hang_is_told_with_its_exit_status() -> None:
    """Rank 1 is stopped after its step, and rank 0 waits for it in a collective that both have entered."""
    config = ManagerConfig(job_id="J", nodes=1, processes_per_node=2, restarts="job", hang_timeout=2.0)

    async def tell(leaf: Leaf, age: float, state: Seen = Seen.STOPPED) -> None:
        ranks = (RankProgress(1, 77, state, 3, 3, marked=age), RankProgress(0, 76, step=3, group=3, marked=age))
        told = NodeProgress(2, 2, 2, 3, 3, 3, 3, age, ranks)
        await leaf.report(KEEP_ALIVE, 0, **{PROGRESS: write_progress(told)})

    async with managed(config) as (node, manager), leaves(node, agent(0)) as (leaf,):
        await leaf.register()
        await leaf.command()
        code, output, _ = await run("job", "hang", "--at", node.address)
        assert (code, output) == (0, "job J: not watched\n\nLIMITS  steps 2 s\n")
        began = time.monotonic()
        while manager.view().hang.state != "hung":
            assert time.monotonic() < began + PATIENCE_S
            await tell(leaf, time.monotonic() - began)
            await asyncio.sleep(0.1)
        code, output, errors = await run("job", "hang", "--at", node.address)
        first, second, *_ = output.splitlines()
        assert (code, errors) == (1, "") and first.startswith("job J: hung, no mark for ")
        assert second == "  rank 1 (node 0, pid 77) is stopped (SIGSTOP)"
        code, output, _ = await run("job", "hang", "--at", node.address, "--json")
        found = json.loads(output)
        assert code == 1 and found["hang"]["guilty"][0]["seen"] == "stopped" and found["hang"]["limit"] == 2.0
        code, output, _ = await run("job", "--at", node.address)
        assert code == 1 and output.startswith("HUNG, no mark for ")
        await tell(leaf, 0.0, Seen.RUNS)
        await until(lambda: manager.view().hang.state == "goes on")
        code, _, _ = await run("job", "hang", "--at", node.address)
        assert code == 0


async def test_it_is_shown_again_until_a_signal() -> None:
    async with (
        managed(ManagerConfig(job_id="J")) as (node, _),
        leaves(node, agent(0)) as (zero,),
        Command("job", "--at", node.address, "--watch", "--json") as watch,
    ):
        assert json.loads(await watch.line())["agents"] == []
        await zero.register()
        while not (found := json.loads(await watch.line()))["agents"]:
            pass
        assert found["agents"][0]["rank"] == 0
        watch.signal(signal.SIGTERM)
        await watch.rest()
        assert await watch.exit_code() == -signal.SIGTERM


async def test_nodes_without_a_manager_say_so() -> None:
    async with (
        Node(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr,
        Node(NodeConfig.proxy(server_rank=3, listen="127.0.0.1:0", upstream=str(mgr.address))) as proxy,
        RawParent() as foreign,
    ):
        for address, text in (
            (mgr.address, "Error: Mgr/0 decides nothing: it has no --job-id, or its Manager has not begun"),
            (proxy.address, "Error: Proxy/3 has no Manager: ask the Mgr"),
            (foreign.address, "is not a node of taskd_net, or one too old to be asked"),
        ):
            code, output, errors = await run("job", "--at", address)
            assert (code, output) == (3, "")
            assert text in errors and errors.count("\n") == 1


async def test_stacks_of_all_ranks(tmp_path: Path) -> None:
    config = ManagerConfig(job_id="J", nodes=2, processes_per_node=1, state=str(tmp_path / "state.sqlite3"))
    async with managed(config) as (node, _), leaves(node, agent(0), agent(1)) as (zero, one):
        for each in (zero, one):
            await each.register(Incarnation=str(id(each)), Features="stacks")
            await each.command()
        command = asyncio.create_task(run("job", "stacks", "--at", node.address, "--ranks", "0,1"))
        wanted = read_command(await zero.command())
        assert isinstance(wanted, WantStacks) and wanted.ranks == {0, 1}
        await one.command()
        stack = (Place("train.py", 7, "load\x1b[2J"),)
        told = stacks(wanted.collection, write_stacks([StackGroup({0: 5}, Seen.RUNS, "futex_wait", stack)]))
        assert (await zero.report(told.msg_type, told.code, told.message, **told.extension)).ok
        code, output, errors = await command
        assert (code, errors) == (1, "")
        lines = output.splitlines()
        assert lines[:3] == [
            "rank 0, in the kernel's futex_wait, the most recent call first:",
            r"  train.py, line 7, in load\u001b[2J",
            "no answer from the Agents of nodes 1",
        ]
        assert lines[3].startswith(f"kept at the Manager in {tmp_path}/state-stacks-")
        code, output, errors = await run("job", "stacks", "--at", node.address)
        assert (code, output) == (3, "") and "; a node is asked once in 30 s" in errors


async def test_stacks_of_a_job_whose_agents_have_none() -> None:
    async with managed(ManagerConfig(job_id="J")) as (node, _):
        code, output, errors = await run("job", "stacks", "--at", node.address, "--json")
        assert (code, errors) == (0, "")
        found = json.loads(output)
        assert (found["groups"], found["silent"]) == ([], [])
        code, output, _ = await run("job", "stacks", "--at", node.address)
        assert output.startswith("no rank has a stack: no launcher of this package runs one\n")
        code, _, errors = await run("job", "stacks", "--at", node.address, "--ranks", "1,-2")
        assert code == 2 and "'1,-2'; expected global ranks, e.g. 3,5" in errors


async def test_stacks_of_a_while_ago_have_their_age() -> None:
    async def collect(_: Collection[int], __: str) -> bytes:
        return write_stacks_answer(Stacks([StackGroup({0: 5}, why="there is no process")], (), "", 12.0))

    async with managed(ManagerConfig(job_id="J")) as (node, _):
        node.driver.job_stacks = collect
        code, output, errors = await run("job", "stacks", "--at", node.address)
        assert (code, output, errors) == (0, "collected 12 s ago\nrank 0: there is no process\n", "")
        assert json.loads((await run("job", "stacks", "--at", node.address, "--json"))[1])["age"] == 12.0
