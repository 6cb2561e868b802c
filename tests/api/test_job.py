"""A whole job in processes of their own, made of nothing but the documented calls."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from tests.api.conftest import OWN_IP, free_port, until
from tests.api.processes import Role

pytestmark = pytest.mark.compat


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
