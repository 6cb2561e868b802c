"""Stacks that a Manager collects: from real nodes, within its bounds, and into files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from taskd_net import Body, Node, Position
from taskd_net.base import vocabulary
from taskd_net.base.cause import Place
from taskd_net.base.codes import Refusal
from taskd_net.base.logger import get_logger
from taskd_net.base.stacks import StackGroup, write_stacks
from taskd_net.job.agent.messages import WantStacks, read_command, stacks
from taskd_net.job.decide.events import Reported
from taskd_net.job.decide.records import AgentRecord, KeptReport, Records
from taskd_net.job.manager import evidence
from taskd_net.job.manager.evidence import FILES, StackCollector, is_answer
from tests.peers.mesh import Mesh, WatchedNode, soon
from tests.peers.mesh_state import until_joined

STACK = (Place("train.py", 3, "main"),)


def records(nodes: int, local_world: int | None = 2, feature: str = vocabulary.SHOWS_STACKS) -> Records:
    """The records of some Agents."""
    found = {}
    for node in range(nodes):
        reports = {"REGISTER/0": KeptReport("", {vocabulary.FEATURES: f"meets,{feature}"})}
        if local_world is not None:
            reports["STATUS/304"] = KeptReport("1", {vocabulary.LOCAL_WORLD: str(local_world)})
        found[node] = AgentRecord(registered=True, reports=reports)
    return Records(agents=found)


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


@pytest.fixture
async def mgr(mesh: Mesh) -> WatchedNode:
    """The Mgr."""
    return await mesh.mgr()


def kept(path: str) -> tuple[str, int]:
    """The text of a file, and its mode."""
    file = Path(path)
    return file.read_text(), file.stat().st_mode & 0o777


def names(folder: Path) -> set[str]:
    """The names of the files of a folder."""
    return {path.name for path in folder.iterdir()}


def fill(folder: Path) -> None:
    """Have some files of before."""
    for number in range(FILES + 5):
        (folder / f"J-stacks-20200101-0000{number:02}.txt").write_text("old")
    (folder / "K-stacks-20190101-000000.txt").write_text("of another job")


async def answering(mgr: Node, collector: StackCollector, agents: Sequence[Node]) -> Callable[[], None]:
    """Have Agents answer each request with the stack of their first rank."""

    async def answer(agent: Node, number: int) -> None:
        async for message in agent.messages():
            wanted = read_command(Body.parse(message.body))
            assert isinstance(wanted, WantStacks)
            text = write_stacks([StackGroup({2 * number: 100}, stack=STACK, others=(STACK,))])
            assert (await agent.send(stacks(wanted.collection, text).to_json(), to="Mgr")).ok

    async def read() -> None:
        async for message in mgr.messages():
            body = Body.parse(message.body)
            report = Reported(message.src, body.msg_type, body.code, body.message, dict(body.extension))
            assert is_answer(report)
            collector.take(report)

    tasks = [asyncio.create_task(answer(agent, number)) for number, agent in enumerate(agents)]
    tasks.append(asyncio.create_task(read()))

    def stop() -> None:
        for task in tasks:
            task.cancel()

    return stop


async def test_stacks_of_all_nodes_are_put_together_and_kept(mesh: Mesh, mgr: WatchedNode, tmp_path: Path) -> None:
    collector = StackCollector(mgr, tmp_path / "J.sqlite3", get_logger())
    agents = [await mesh.agent(node, mgr) for node in range(2)]
    for node in range(2):
        await until_joined(mgr, f"Agent/{node}")
    stop = await answering(mgr, collector, agents)
    found = await soon(collector.collect(records(2), (), "a test"))
    stop()
    assert [group.pids for group in found.groups] == [{0: 100, 2: 100}] and found.silent == []
    text, mode = kept(found.file)
    assert "UTC: a test\nranks 0,2, the most recent call first:\n  train.py, line 3, in main\n" in text
    assert "another thread of rank 0:\n  train.py, line 3, in main\n" in text
    assert mode == 0o600
    assert await collector.collect(records(2), (), "again") == found, "it is a moment old"
    assert [group.pids for group in (await collector.collect(records(2), (2,), "again")).groups] == [{2: 100}]
    assert (await collector.collect(records(2), (3,), "again")).groups == []


async def test_node_that_does_not_answer_is_named(
    mesh: Mesh, mgr: WatchedNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "COLLECT_S", 0.3)
    collector = StackCollector(mgr, tmp_path / "J.sqlite3", get_logger())
    agents = [await mesh.agent(0, mgr)]
    await until_joined(mgr, "Agent/0")
    stop = await answering(mgr, collector, agents)
    found = await soon(collector.collect(records(3), (), "a test"))
    stop()
    assert (found.silent, [group.ranks for group in found.groups]) == ([1, 2], [[0]])
    assert "no answer came from the Agents of nodes 1,2" in kept(found.file)[0]


async def test_only_nodes_with_the_ranks_are_asked(mgr: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "COLLECT_S", 0.01)
    known = records(3)

    async def asked(of: Records, ranks: tuple[int, ...]) -> list[int]:
        return (await StackCollector(mgr, None, get_logger()).collect(of, ranks, "")).silent

    assert await asked(known, (2, 3)) == [1]
    assert await asked(known, ()) == [0, 1, 2]
    assert await asked(known, (99,)) == []
    assert await asked(records(3, None), (2,)) == [0, 1, 2], "nobody says who has which rank"
    known.agents[1].exited = True
    assert await asked(known, ()) == [0, 2]
    assert await asked(records(2, feature="tells"), ()) == [], "an Agent of another kind knows no such command"


async def test_a_node_is_asked_once_in_a_while(mgr: WatchedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "COLLECT_S", 0.01)
    collector = StackCollector(mgr, None, get_logger())
    assert (await collector.collect(records(2), (0,), "a test")).silent == [0]
    with pytest.raises(Refusal, match=r"^node 0 was asked 0 s ago; a node is asked once in 30 s$"):
        await collector.collect(records(2), (), "again")
    assert (await collector.collect(records(2), (2,), "the other")).silent == [1]
    assert (await collector.collect(records(2), (), "a suspicion", fresh=True)).silent == [0, 1]
    assert (await collector.collect(records(2), (), "another one", fresh=True)).at > 0.0


async def test_answers_to_nothing_are_left_alone(mgr: WatchedNode) -> None:
    collector = StackCollector(mgr, None, get_logger())
    collector.take(Reported(Position.agent(0), "STATUS", vocabulary.STACKS, "x", {vocabulary.STACKS_TEXT: "[]"}))
    collector.take(Reported(Position("Agent", "many"), "STATUS", vocabulary.STACKS, "x"))


async def test_last_files_are_kept(mgr: WatchedNode, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    fill(tmp_path)
    collector = StackCollector(mgr, tmp_path / "J.sqlite3", get_logger())
    found = await collector.collect(Records(), (), "a test")
    assert len(names(tmp_path)) == FILES + 1
    assert {Path(found.file).name, "K-stacks-20190101-000000.txt"} <= names(tmp_path)
    refused = StackCollector(mgr, Path(found.file) / "J.sqlite3", get_logger())
    assert (await refused.collect(Records(), (), "a test")).file == ""
    assert "stacks_not_written" in caplog.text
