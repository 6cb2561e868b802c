"""Agents of the original below our Manager: they die of commands that they do not know, and need each command once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from taskd_net import BlockingNode, Node, NodeConfig
from taskd_net.job.decide.events import Event, Signal
from taskd_net.job.decide.snapshot import JobTimes
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.limits import ManagerLimits
from tests.api.conftest import SOON, until
from tests.peers.original.applications import OriginalAgent, Stage

REFUSED = """
from taskd_net.job.decide.plugins import Plugin, Progress

class Careless(Plugin[None]):
    name = "Careless"
    streams = {"Own": None}

    def __init__(self):
        super().__init__(None)

    def wants(self, snapshot):
        return self.streams if snapshot.records.agents else ()

    def step(self, stream, snapshot):
        self.send("Agent/0", {CODE}, {MESSAGE}, {"FaultRanks": '{"3": 1}'})
        return Progress.FINAL
"""


class Job:
    """A Mgr with its Manager, and ClusterD's side of its signals."""

    def __init__(self, node: BlockingNode, manager: Manager, signals: asyncio.Queue[Event]) -> None:
        self.node = node
        self.manager = manager
        self._signals = signals

    def signal(self, *actions: str, uuid: str, kind: str, strategy: str = "", nodes: tuple[int, ...] = ()) -> None:
        """Send a signal about a fault of rank 3."""

        async def put(_: Node) -> None:
            self._signals.put_nowait(Signal(uuid, kind, actions, {3: 1}, strategy, node_rank_ids=nodes))

        self.node.run(put)


@contextmanager
def deciding(
    config: ManagerConfig, listen: str = "127.0.0.1:0", limits: ManagerLimits = ManagerLimits()
) -> Iterator[Job]:
    """A job whose Manager runs."""
    with BlockingNode(NodeConfig.mgr(listen=listen, confirms=True)) as node:

        async def start(inner: Node) -> Job:
            signals = asyncio.Queue[Event]()
            manager = Manager(inner, config, signals=signals if config.clusterd else None, limits=limits)
            return Job(node, await manager.start(), signals)

        job = node.run(start)
        try:
            yield job
        finally:
            node.run(lambda _: job.manager.close())


Others = Callable[[Job, int], Stage[OriginalAgent]]


@pytest.fixture
def others() -> Iterator[Others]:
    """Start an Agent of the original; the test fails if it dies."""
    with ExitStack() as ending:

        def started(job: Job, rank: int) -> Stage[OriginalAgent]:
            config = NodeConfig.agent(server_rank=rank, upstream=job.node.address or "")
            node = ending.enter_context(BlockingNode(config))
            node.joined(SOON)
            return ending.enter_context(Stage(node, OriginalAgent(rank)))

        yield started


def test_a_fault_is_one_round(others: Others) -> None:
    with deciding(ManagerConfig(job_id="J")) as job:
        zero, one, two = (others(job, rank) for rank in range(3))
        for each in (zero, one, two):
            until(lambda each=each: each.application.calls == [("start", 3)])  # type: ignore[misc]
        one.do(lambda agent: agent.fail(3))
        one.wait()
        one.node.close()
        assert (one.application.calls[1:], one.application.status) == ([("kill",)], 1)
        for each in (zero, two):
            until(lambda each=each: each.application.calls[1:] == [("restart", 2)])  # type: ignore[misc]
        again = others(job, 1).application
        until(lambda: again.calls == [("start", 2)])


def test_an_agent_that_says_nothing_after_an_absence_of_the_manager_is_silent(
    others: Others, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = ManagerLimits(job=JobTimes(silent=2.0))
    config = ManagerConfig(job_id="J", state=str(tmp_path / "state"))
    with deciding(config, limits=limits) as job:
        zero, one = (others(job, rank) for rank in range(2))
        for each in (zero, one):
            until(lambda each=each: each.application.calls == [("start", 3)])  # type: ignore[misc]
        address = job.node.address or ""
        assert job.manager.view().agents_silent == 0
    monkeypatch.setattr(one.application, "tick", list)
    with deciding(config, address, limits) as job:

        def silent() -> bool:
            view = job.manager.view()
            return view.agents_silent == 1 and [bool(each.silent_since) for each in view.agents] == [False, True]

        until(silent)
        monkeypatch.undo()
        until(lambda: job.manager.view().agents_silent == 0)


def test_orders_of_clusterd_keep_agents_alive(others: Others) -> None:
    with deciding(ManagerConfig(job_id="J", fault_recover="on", clusterd=True)) as job:
        zero, one = others(job, 0), others(job, 1)
        for each in (zero, one):
            until(lambda each=each: each.application.calls == [("start", 3)])  # type: ignore[misc]
        done = one.application.calls
        one.do(lambda agent: agent.fail(3))
        job.signal("pre exit process", uuid="a", kind="preExitProcess", nodes=(1,))
        until(lambda: done[1:] == [("stop ranks", ["3"])])
        job.signal("stop_train", uuid="b", kind="stopTrain")
        job.signal("on_global_rank", "fault_nodes_restart", uuid="c", kind="globalFault", nodes=(1,))
        until(lambda: done[2:] == [("restart ranks", ["3"])])
        job.signal(uuid="d", kind="changeStrategy", strategy="exit", nodes=(1,))
        one.wait()
        assert done[3:] == [("kill",)] and one.application.status == 1
        until(lambda: zero.application.calls[1:] == [("restart", 2)])


@pytest.mark.parametrize(
    ("code", "message"), [(700, ""), (209, ""), (209, "[3]"), (213, "3"), (208, ""), (210, "many"), (208, '["3"]')]
)
def test_a_plugin_cannot_kill_an_agent(code: int, message: str, others: Others, tmp_path: Path) -> None:
    text = REFUSED.replace("{CODE}", str(code)).replace("{MESSAGE}", repr(message))
    tmp_path.joinpath("careless.py").write_text(text)
    with deciding(ManagerConfig(job_id="J", plugins=str(tmp_path))) as job:
        zero = others(job, 0).application
        until(lambda: zero.calls == [("start", 3)])
        until(lambda: "Careless" in job.manager.view().counters.plugin_failures)
        others(job, 1).do(lambda agent: agent.fail(3))
        until(lambda: zero.calls[1:] == [("restart", 2)])
