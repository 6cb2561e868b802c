"""The callbacks, in msrun: its double in every run of the tests, mindspore's own in `make mindspore`."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager
from importlib.util import find_spec
from pathlib import Path

import pytest

from taskd_net import BlockingNode, NodeConfig, Position
from taskd_net_lab.demos.mindspore import names
from taskd_net_lab.demos.mindspore.stage import DOUBLE, REAL
from tests.mindspore.cluster import Launched, launched, there

pytestmark = pytest.mark.timeout(300)

WITHOUT = pytest.mark.skipif(
    find_spec("mindspore") is None, reason="mindspore is not installed; make mindspore does so"
)


class Start:
    """Starts one of the two launchers."""

    def __init__(self, module: str, folder: Path) -> None:
        self._module = module
        self._folder = folder

    def __call__(self, *modules: str, scheduler: bool = False, **variables: str) -> AbstractContextManager[Launched]:
        return launched(self._module, self._folder, *modules, scheduler=scheduler, **variables)


@pytest.fixture(params=[DOUBLE, pytest.param(REAL, marks=[pytest.mark.mindspore, WITHOUT])], ids=["double", "msrun"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """The double, or the real one."""
    return Start(request.param, tmp_path)


def begun(node: Launched) -> None:
    """Let the workers start."""
    assert node.report(201).message == "1"
    node.command(210, "1")
    node.began(2)
    node.began(3)


def finish(node: Launched) -> None:
    """Let the workers finish, and see msrun's end."""
    for rank in (2, 3):
        os.kill(node.pids(rank)[-1], signal.SIGUSR1)
    assert node.exit_status() == 0, node.output()
    node.until(lambda: not node.left(), "nothing is left")


def test_job_to_its_end(start: Start) -> None:
    """The Proxy of the node is in msrun's process."""
    with start(names.AGENT) as node:
        begun(node)
        assert there(node.mgr, Position.proxy(1), Position.agent(1))
        finish(node)


def test_worker_that_fails_and_is_restarted_alone(start: Start) -> None:
    with start(names.AGENT) as node:
        begun(node)
        os.kill(node.began(3), signal.SIGUSR2)
        assert node.failed() == [3]
        node.command(209, '["3", "9"]')
        node.began(3, lives=2)
        assert node.report("KEEP_ALIVE").code == 0
        os.kill(node.began(3, lives=2), signal.SIGKILL)
        assert node.failed() == [3], "it has failed again"
        node.command(209, "")
        node.command(209, '["3"]')
        node.began(3, lives=3)
        assert len(node.pids(2)) == 1
        finish(node)


def test_all_are_restarted(start: Start) -> None:
    with start(names.AGENT) as node:
        begun(node)
        node.command(208, "0")
        node.began(2, lives=2)
        node.began(3, lives=2)
        finish(node)
        assert len(node.pids(2)) == len(node.pids(3)) == 2


def test_node_that_is_sent_away_leaves_nothing(start: Start) -> None:
    """Its scheduler neither, which msrun itself never ends."""
    with start(names.AGENT, scheduler=True) as node:
        begun(node)
        (scheduler,) = node.pids(0, "MS_SCHED")
        assert scheduler in node.left()
        node.command(203)
        assert node.exit_status() == 1, node.output()
        node.until(lambda: not node.left(), "nothing is left")


def test_manager_that_is_away(start: Start) -> None:
    with start(names.AGENT) as node:
        begun(node)
        address = node.mgr.address or ""
        node.mgr.close()
        os.kill(node.began(3), signal.SIGUSR2)
        with BlockingNode(NodeConfig.mgr(listen=address)) as second:
            node.mgr = second
            assert node.failed() == [3]
            node.command(209, '["3"]')
            node.began(3, lives=2)
            finish(node)


def test_names_of_the_distribution(start: Start) -> None:
    """msrun finds the Agent where all of TaskD's paths are there."""
    with start() as node:
        begun(node)
        finish(node)


def test_plugin_where_the_job_has_no_manager(start: Start) -> None:
    """The Agent steps back: msrun would take it, and it would wait for a Manager in vain."""
    with start(TASKD_NET_MSRUN="plugin") as node:
        workers = {node.began(2), node.began(3)}
        node.write_reset(RetryTime=1)
        node.began(2, lives=2)
        node.began(3, lives=2)
        assert not workers & set(node.left())
        finish(node)


def test_plugin_and_a_fault(start: Start) -> None:
    """msrun takes MSRunPlugin where it finds no Agent."""
    with start(names.PLUGIN, scheduler=True) as node:
        node.began(2)
        node.began(3)
        node.write_reset((1, "fault"))
        node.write_reset((3, "fault"), RestartFaultProcess=True)
        assert node.exit_status() == 1, node.output()
        node.until(lambda: not node.left(), "nothing is left")


def test_plugin_and_a_rank_that_is_restarted_alone(start: Start) -> None:
    with start(names.PLUGIN, ENABLE_RESTART_FAULT_PROCESS="on") as node:
        node.began(2)
        os.kill(node.began(3), signal.SIGUSR2)
        node.write_reset((3, "fault"), RestartFaultProcess=True)
        node.began(3, lives=2)
        assert len(node.pids(2)) == 1
        finish(node)


def test_plugin_and_a_reset(start: Start) -> None:
    with start(names.PLUGIN) as node:
        workers = {node.began(2), node.began(3)}
        node.write_reset((0, "unrecovered"))
        node.until(lambda: not workers & set(node.left()), "the workers have ended")
        node.write_reset((0, "recovered"))
        node.began(2, lives=2)
        node.began(3, lives=2)
        node.write_reset(RetryTime=1)
        node.began(2, lives=3)
        node.began(3, lives=3)
        finish(node)


def test_plugin_and_a_graceful_exit(start: Start) -> None:
    with start(names.PLUGIN) as node:
        node.began(2)
        node.began(3)
        node.write_reset(GracefulExit=1)
        assert node.exit_status() == 0, node.output()
        assert len(list(node.folder.glob("asked-*"))) == 2


def test_plugin_and_a_worker_that_fails(start: Start) -> None:
    with start(names.PLUGIN) as node:
        node.began(2)
        os.kill(node.began(3), signal.SIGUSR2)
        assert node.exit_status() == 1, node.output()
        node.until(lambda: not node.left(), "nothing is left")
