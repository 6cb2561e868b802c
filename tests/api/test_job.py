"""A whole job in processes of their own, made of nothing but the documented calls."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import psutil
import pytest

from taskd_net import BlockingNode
from taskd_net.base.body import Body
from tests.api.conftest import OWN_IP, SOON, until
from tests.api.processes import Role
from tests.ports import free_port

pytestmark = pytest.mark.oldest


def test_job_whose_processes_start_in_any_order_and_whose_manager_is_killed(ending: ExitStack) -> None:
    port = str(free_port())
    settings = {"RANK": "3", "LOCAL_WORLD_SIZE": "8", "TASKD_NET_UPSTREAM": f"127.0.0.1:{port}"}
    worker = Role("worker", "3", **settings)
    ending.callback(worker.kill)
    node = Role("node", OWN_IP, port)
    ending.callback(node.kill)
    first = Role("manager")
    ending.callback(first.kill)

    assert node.line() == "START_ALL_WORKER"
    assert worker.ask("one") == "True"
    everybody = {"Agent/0": ["KEEP_ALIVE", "REGISTER", "STATUS"], "Worker/0/3": ["REGISTER", "STATUS"]}
    until(lambda: first.reports() == everybody)

    first.kill()
    second = Role("manager")
    ending.callback(second.kill)
    until(lambda: set(second.reports()) == set(everybody))
    assert worker.ask("two") == "True"
    until(lambda: second.reports()["Worker/0/3"] == ["REGISTER", "STATUS"])

    assert worker.end() == (0, "")
    assert node.end() == (0, "")
    second.process.terminate()
    assert second.end() == (0, "")


@pytest.mark.parametrize(("command", "status"), [(Body("ACTION", 203), 1), (Body("GRACE_EXIT", 0), 143)])
def test_process_of_an_agent_leaves_with_a_status(
    command: Body, status: int, mgr: BlockingNode, ending: ExitStack
) -> None:
    """Its workers have ended then, and the Mgr has its last report."""
    launcher = Role("launcher", (mgr.address or "").rpartition(":")[2])
    ending.callback(launcher.kill)

    def report(code: int) -> Body:
        while (body := Body.parse(mgr.receive(SOON).body)).code != code:
            pass
        return body

    assert report(201) == Body("STATUS", 201, "1")
    assert mgr.send(Body("ACTION", 210, "1").to_json(), to="Agent/0").ok
    pids = [int(pid) for pid in launcher.line().split()]
    os.kill(pids[1], signal.SIGKILL)
    assert report(202).message == '{"fault_ranks": [9], "restart_times": -1}'
    assert mgr.send(command.to_json(), to="Agent/0").ok
    if status == 1:
        assert report(202).message == '{"fault_ranks": [], "restart_times": -1}'
    assert launcher.end() == (status, "")
    assert len(pids) == 2 and not any(psutil.pid_exists(pid) for pid in pids)


@pytest.mark.parametrize("wish", ["blocked", "ignored"])
def test_launcher_that_blocks_or_ignores_sigchld_runs_its_workers(
    wish: str, mgr: BlockingNode, ending: ExitStack
) -> None:
    """The Agent starts them, waits for them and stops them without that signal."""
    launcher = Role("launcher", (mgr.address or "").rpartition(":")[2], SIGCHLD=wish)
    ending.callback(launcher.kill)

    def report(code: int) -> Body:
        while (body := Body.parse(mgr.receive(SOON).body)).code != code:
            pass
        return body

    report(201)
    assert mgr.send(Body("ACTION", 210, "1").to_json(), to="Agent/0").ok
    pids = [int(pid) for pid in launcher.line().split()]
    if wish == "blocked":  # with SIGCHLD ignored the system keeps no exit status, for any launcher
        os.kill(pids[1], signal.SIGKILL)
        assert report(202).message == '{"fault_ranks": [9], "restart_times": -1}'
    assert mgr.send(Body("ACTION", 203).to_json(), to="Agent/0").ok
    assert report(202).message == '{"fault_ranks": [], "restart_times": -1}'
    assert launcher.end() == (1, "")
    assert len(pids) == 2 and not any(psutil.pid_exists(pid) for pid in pids)
