"""Our Agent under the original's Mgr, which forgets an Agent's reports with each REGISTER: one round for each fault."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

import pytest

from taskd_net import BlockingNode, NodeConfig
from taskd_net.job import api
from taskd_net.job.agent import agent as shell
from taskd_net.job.api import agent
from taskd_net.job.frameworks.mindspore import settings as msrun_settings
from tests.api.conftest import QUICK, SOON, until
from tests.api.frameworks import Msrun
from tests.peers.original.applications import OriginalAgent, OriginalManager, Stage, body
from tests.peers.original.forms import Died

Serve = Callable[[int, Msrun], Future[object]]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Agent ends at once after its workers."""
    monkeypatch.setenv(msrun_settings.FINISH_PAUSE, "0")


@pytest.fixture
def near(mgr: BlockingNode) -> Iterator[BlockingNode]:
    """The Proxy of our Agent's node."""
    with BlockingNode(NodeConfig.proxy(server_rank=2, listen="127.0.0.1:0", upstream=mgr.address or "")) as node:
        yield node


@pytest.fixture
def serve(near: BlockingNode, threads: ThreadPoolExecutor) -> Iterator[Serve]:
    """Start our Agent with msrun's double."""
    begun: list[tuple[Msrun, Future[object]]] = []

    def served(rank: int, framework: Msrun) -> Future[object]:
        framework.register()
        host, port = (near.address or "").split(":")
        config = {"Framework": "MindSpore", "UpstreamAddr": host, "UpstreamPort": port, "ServerRank": rank}
        # Repeated reports come all the time.
        times = replace(shell.times_of_environment(), repeat=0.1)
        assert agent.initialise(config, times=times, look=QUICK, retry=0.05)
        begun.append((framework, threads.submit(api.start_taskd_agent)))
        return begun[-1][1]

    yield served
    if agent.slot._member is not None:
        assert api.destroy_taskd_agent()
    for framework, result in begun:
        result.exception(SOON)
        framework.end()


@pytest.fixture
def others(mgr: BlockingNode, ending: ExitStack) -> Callable[[int], Stage[OriginalAgent]]:
    """Start an Agent of the original."""

    def started(rank: int) -> Stage[OriginalAgent]:
        node = ending.enter_context(BlockingNode(NodeConfig.agent(server_rank=rank, upstream=mgr.address or "")))
        node.joined(SOON)
        return ending.enter_context(Stage(node, OriginalAgent(rank)))

    return started


@pytest.fixture
def manager(mgr: BlockingNode, ending: ExitStack) -> OriginalManager:
    """The Mgr's application."""
    return ending.enter_context(Stage(mgr, OriginalManager())).application


def exit_status(result: Future[object]) -> object:
    """The status with which our Agent leaves."""
    error = result.exception(SOON)
    assert isinstance(error, SystemExit), error
    return error.code


def repeated(manager: OriginalManager, src: str) -> None:
    """Wait until an Agent has registered three times more: as long as a second round would take to begin."""
    before = manager.said.count((src, "REGISTER", 0))
    until(lambda: manager.said.count((src, "REGISTER", 0)) >= before + 3)


def test_fault_of_our_agent_is_one_round(
    serve: Serve, others: Callable[[int], Stage[OriginalAgent]], manager: OriginalManager
) -> None:
    first = others(0).application
    until(lambda: first.calls == [("start", 3)])
    for number, left in ((1, 2), (2, 1)):
        framework = Msrun()
        result = serve(2, framework)
        assert framework.called() == ("START_ALL_WORKER",)
        repeated(manager, "Agent/2")
        os.kill(framework.processes[1].pid, signal.SIGKILL)
        assert framework.called() == ("KILL_WORKER", [-1])
        assert exit_status(result) == 1
        until(lambda left=left: first.calls[-1] == ("restart", left))  # type: ignore[misc]
        assert manager.rounds == [("Agent/2",)] * number
    framework = Msrun()
    serve(2, framework)
    assert framework.called() == ("START_ALL_WORKER",)
    repeated(manager, "Agent/2")
    assert len(manager.rounds) == 2 and first.calls == [("start", 3), ("restart", 2), ("restart", 1)]


def test_fault_of_another_agent_restarts_ours_once(
    serve: Serve, others: Callable[[int], Stage[OriginalAgent]], manager: OriginalManager, mgr: BlockingNode
) -> None:
    others(0)
    faulty = others(1)
    framework = Msrun()
    serve(2, framework)
    assert framework.called() == ("START_ALL_WORKER",)
    until(lambda: bool(faulty.application.calls))
    faulty.do(lambda agent: agent.fail(3))
    assert framework.called() == ("KILL_WORKER", [-1])
    assert framework.called() == ("START_ALL_WORKER",)
    faulty.wait()
    assert faulty.application.status == 1
    others(1)
    repeated(manager, "Agent/2")
    assert manager.rounds == [("Agent/1",)] and framework.calls.empty()


def test_fault_of_the_first_agent_ends_it(serve: Serve, manager: OriginalManager) -> None:
    framework = Msrun()
    result = serve(0, framework)
    framework.called()
    os.kill(framework.processes[0].pid, signal.SIGKILL)
    assert framework.called() == ("KILL_WORKER", [-1])
    assert exit_status(result) == 1
    assert manager.rounds == [("Agent/0",)]


def test_restart_in_place_without_a_message(serve: Serve, mgr: BlockingNode, ending: ExitStack) -> None:
    stage = ending.enter_context(Stage(mgr, OriginalManager()))
    framework = Msrun()
    serve(2, framework)
    framework.called()
    stage.do(lambda manager: manager.in_place("Agent/2", 3, 9))
    assert framework.called() == ("KILL_WORKER", ["pid of 1"])
    assert framework.called() == ("START_WORKER_LIST", [1])


def test_mgr_that_has_restarted_learns_of_the_fault_and_decides_once(
    serve: Serve, mgr: BlockingNode, ending: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes reports of registered Agents alone, so the 202 comes after a REGISTER."""
    framework = Msrun()
    result = serve(2, framework)
    silent = OriginalManager()
    monkeypatch.setattr(silent, "tick", list)  # it leaves the decision to ClusterD
    with Stage(mgr, silent):
        framework.called()
        os.kill(framework.processes[0].pid, signal.SIGKILL)
        until(lambda: ("Agent/2", "STATUS", 202) in silent.said)
        said = len(silent.said)
        framework.looked()
        framework.looked()
        assert silent.said[said:] == []
    address = mgr.address or ""
    mgr.close()
    second = ending.enter_context(BlockingNode(NodeConfig.mgr(listen=address)))
    manager = ending.enter_context(Stage(second, OriginalManager())).application
    assert framework.called() == ("KILL_WORKER", [-1])
    assert exit_status(result) == 1
    assert manager.rounds == [("Agent/2",)]
    assert manager.said[:2] == [("Agent/2", "REGISTER", 0), ("Agent/2", "STATUS", 202)]


@pytest.mark.parametrize(
    "command", [body("ACTION", 204), body("GRACE_EXIT", 0), body("ACTION", 209, ""), body("ACTION", 213, "[3]")]
)
def test_original_agent_dies_of_what_it_does_not_know(command: str) -> None:
    with pytest.raises(Died):
        OriginalAgent(0).take("Mgr/0", command, "DEFAULT")


def test_original_mgr_forgets_a_fault_with_each_registration() -> None:
    """The peculiarity that these tests are about, in the double."""
    manager = OriginalManager()
    agent = OriginalAgent(1)
    for letter in [*agent.start(), *agent.fail(3), *agent.start()]:
        manager.take(agent.position, letter.body, letter.mtype)
    assert manager.tick() == [] and manager.rounds == []
    for letter in agent.fail(3, 4):
        manager.take(agent.position, letter.body, letter.mtype)
    assert [letter.to for letter in manager.tick()] == ["Agent/1"]
    assert manager.tick() == []
    for letter in agent.start():
        manager.take(agent.position, letter.body, letter.mtype)
    assert manager.tick() == [] and manager.rounds == [("Agent/1",)]
