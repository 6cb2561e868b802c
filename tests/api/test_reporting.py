"""Reports of a training script: none holds it up for longer than it said, whatever becomes of the Mgr."""

from __future__ import annotations

import os
import signal
import time
from contextlib import ExitStack

import pytest

from taskd_net import BlockingNode
from taskd_net.base import limits
from taskd_net.base.body import Body
from taskd_net.job import api
from taskd_net.job.api import worker
from taskd_net.job.arguments import UPSTREAM
from taskd_net.job.worker.reporting import REPORTS_WAITING
from taskd_net.job.worker.worker import WorkerTimes
from tests.api.conftest import OWN_IP, SOON, Failures, rank_3_of_8, take, until
from tests.api.processes import Role
from tests.freezing import freeze
from tests.ports import free_port

pytestmark = pytest.mark.oldest

TIMEOUT_S = 1.5
# Seconds that a busy machine may add.
SLACK_S = 1.0


@pytest.mark.parametrize("fault", ["mgr stopped", "mgr gone", "proxy stopped", "proxy gone"])
def test_dead_mgr_costs_one_call_its_timeout(
    fault: str, ending: ExitStack, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In processes of their own. Before the fault and after it, reports arrive."""
    port = str(free_port())
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, f"127.0.0.1:{port}")

    def begun(*arguments: str) -> Role:
        role = Role(*arguments)
        ending.callback(role.kill)
        return role

    mgr, node = begun("manager"), begun("node", OWN_IP, port)
    assert api.init_taskd_worker(3)
    assert api.send_to_manager(1, "BEFORE", timeout=3 * SOON)
    of, what = fault.split()
    broken = mgr if of == "mgr" else node
    if what == "stopped":
        freeze(broken.process.pid)
    else:
        broken.kill()
    began = time.monotonic()
    assert api.send_to_manager(2, "STATUS", timeout=TIMEOUT_S) is False
    assert time.monotonic() - began < TIMEOUT_S + SLACK_S
    assert "the Mgr has not got it: 6" in failures.only()
    began = time.monotonic()
    for number in range(20):
        assert api.send_to_manager(3, "STATUS", str(number)) is False
        assert "this one was not tried" in failures.only()
        assert api.send_to_manager(4, "LATER", str(number), timeout=60, wait=False)
    assert time.monotonic() - began < limits.ACK_TIMEOUT_S
    if what == "stopped":
        os.kill(broken.process.pid, signal.SIGCONT)
    elif broken is mgr:
        mgr = begun("manager")
    else:
        begun("node", OWN_IP, port)
    until(lambda: api.send_to_manager(5, "AFTER"))
    failures.lines.clear()
    until(lambda: {"AFTER", "LATER"} <= set(mgr.reports().get("Worker/0/3", ())))
    assert api.destroy_taskd_worker()


def test_destroy_is_bounded_with_a_stopped_proxy(ending: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    port = str(free_port())
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, f"127.0.0.1:{port}")
    mgr, node = Role("manager"), Role("node", OWN_IP, port)
    ending.callback(mgr.kill)
    ending.callback(node.kill)
    assert api.init_taskd_worker(3) and api.start_taskd_worker()
    assert api.send_to_manager(1, "STATUS", timeout=3 * SOON)
    freeze(node.process.pid)
    assert api.send_to_manager(2, "STATUS", timeout=60, wait=False)
    began = time.monotonic()
    assert api.destroy_taskd_worker()
    # Waiting reports, the withdrawal, the last answers: each has a grace time.
    assert time.monotonic() - began < 3 * limits.CLOSE_GRACE_S + SLACK_S


def test_reports_that_nobody_waits_for_arrive_in_order(mgr: BlockingNode, near: BlockingNode) -> None:
    # The number of reports sent in one second depends on the machine.
    assert worker.initialise(3, times=WorkerTimes(close=SOON))
    for code in range(200):
        assert api.send_to_manager(code, "STEP", wait=False, timeout=SOON)
    # The last ones leave when it is destroyed.
    assert api.destroy_taskd_worker()
    assert [take(mgr)[1] for _ in range(200)] == [Body("STEP", code) for code in range(200)]


def test_reports_that_wait_are_bounded_in_number_and_time(
    monkeypatch: pytest.MonkeyPatch, failures: Failures, caplog: pytest.LogCaptureFixture
) -> None:
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    assert api.init_taskd_worker(3)
    for _ in range(REPORTS_WAITING):
        assert api.send_to_manager(1, "STEP", wait=False, timeout=0.1)
    assert api.send_to_manager(1, "STEP", wait=False) is False
    assert f"{REPORTS_WAITING} reports wait for the Mgr already" in failures.only()
    until(lambda: not worker.slot.member.reports._waiting)
    assert caplog.text.count("report_not_taken") == 1
    assert api.send_to_manager(1, "STEP", wait=False, timeout=60)
    assert api.destroy_taskd_worker()
    assert f"reports_lost node=Worker/0/3 count={REPORTS_WAITING + 1}" in caplog.text


def test_wrong_report_says_nothing_of_the_mgr(mgr: BlockingNode, near: BlockingNode, failures: Failures) -> None:
    assert api.init_taskd_worker(3)
    assert api.send_to_manager(1, "STATUS")
    assert api.send_to_manager(2, "STATUS", "x" * 9_000_000) is False
    assert "the Mgr has not got it: 4999" in failures.only()
    assert api.send_to_manager(3, "STATUS", "x" * 9_000_000, wait=False)
    assert api.send_to_manager(4, "STATUS")
    assert [take(mgr)[1].code for _ in range(2)] == [1, 4]


@pytest.mark.parametrize(
    ("timeout", "reason"),
    [
        (0, "timeout is 0; expected a number of seconds above 0"),
        (-1.0, "timeout is -1.0;"),
        ("3", "timeout is not a number of seconds, but '3'"),
        (None, "timeout is not a number of seconds, but None"),
        (True, "timeout is not a number of seconds, but True"),
    ],
)
def test_timeout_that_is_none(timeout: object, reason: str, failures: Failures) -> None:
    assert api.send_to_manager(1, "STATUS", timeout=timeout) is False  # type: ignore[arg-type]
    assert reason in failures.only()
