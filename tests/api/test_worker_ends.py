"""The end of a Worker: destroyed, by a handler, by a signal, and with its interpreter."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from queue import SimpleQueue

import pytest

from taskd_net import BlockingNode, Code
from taskd_net.base.body import Body
from taskd_net.job import api
from taskd_net.job.api import worker
from taskd_net.job.arguments import UPSTREAM
from taskd_net.job.worker.worker import WorkerTimes
from tests.api.conftest import SOON, Failures, reach, started, take, until

pytestmark = pytest.mark.oldest


@pytest.mark.parametrize("role", ["Worker", "Agent"])
def test_who_has_left_costs_no_broadcast_anything(role: str, mgr: BlockingNode, near: BlockingNode) -> None:
    """Without being told, the Proxy keeps a place for 30 s for who has left, and answers 6002 for it."""
    if role == "Worker":
        assert api.init_taskd_worker(3) and api.start_taskd_worker()
    else:
        port = (near.address or "").rpartition(":")[2]
        assert api.init_taskd_agent({"UpstreamPort": port, "Framework": "MindSpore"})
    everybody = f"{role}/All/All"
    while not mgr.send("", to=everybody, timeout=SOON).ok:
        pass
    assert api.destroy_taskd_worker() if role == "Worker" else api.destroy_taskd_agent()
    assert mgr.send("", to=everybody, timeout=SOON).code == Code.NO_ROUTE


def test_again_after_destroy(mgr: BlockingNode, near: BlockingNode) -> None:
    threads = set(threading.enumerate())
    for _ in range(5):
        started()
        until(lambda: worker.slot.member.node.position in mgr.routes())
        assert api.send_to_manager(1, "STATUS") and take(mgr)[1].code == 1
        assert api.destroy_taskd_worker()
        assert set(threading.enumerate()) == threads
    # Destroyed without a start, too.
    assert api.init_taskd_worker(3) and api.destroy_taskd_worker()


def test_handler_may_destroy_its_worker(mgr: BlockingNode, near: BlockingNode) -> None:
    done: SimpleQueue[bool] = SimpleQueue()
    api.register_handler(1, lambda _: done.put(api.destroy_taskd_worker()))
    started()
    reach(mgr, Body("ACTION", 1))
    assert done.get(timeout=SOON) is True
    until(lambda: not any(thread.name == "taskd_net handlers" for thread in threading.enumerate()))
    started()
    assert api.destroy_taskd_worker()


def test_destroy_does_not_wait_for_a_handler_without_end(
    mgr: BlockingNode, near: BlockingNode, failures: Failures
) -> None:
    go_on, began = threading.Event(), threading.Event()

    def work(_: api.Command) -> None:
        began.set()
        go_on.wait(SOON)

    api.register_handler(1, work)
    started(WorkerTimes(handler=0.05))
    reach(mgr, Body("ACTION", 1))
    assert began.wait(SOON)
    assert api.destroy_taskd_worker() is False
    assert "a handler has not returned within 0.05 s; the node is closed" in failures.only()
    assert api.init_taskd_worker(3) and api.destroy_taskd_worker()
    go_on.set()


def test_signal_handler_may_destroy(mgr: BlockingNode, near: BlockingNode, failures: Failures) -> None:
    """The main thread may be anywhere in the Worker's calls at that moment."""
    results: list[bool] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: results.append(api.destroy_taskd_worker()))
    taking = threading.Thread(target=lambda: list(mgr.messages()))
    taking.start()
    try:
        for turn in range(30):
            started()
            sent = 0
            timer = threading.Timer(0.002 * (turn % 7), signal.raise_signal, (signal.SIGUSR1,))
            timer.start()
            while api.send_to_manager(1, "STATUS"):
                sent += 1
            timer.join()
            until(lambda turn=turn: len(results) > turn)  # type: ignore[misc]
            failures.only()
        assert results == [True] * 30
    finally:
        signal.signal(signal.SIGUSR1, before)
        mgr.close()
        taking.join()


UNTIL_EXIT = """
import sys, taskd_net
def registered(command): pass
assert taskd_net.register_handler(700, registered)
assert taskd_net.init_taskd_worker(3)
assert taskd_net.start_taskd_worker()
if sys.argv[1] == "joined":
    assert taskd_net.send_to_manager(1, "STATUS")
if sys.argv[2] == "raise":
    raise SystemExit(5)
"""


@pytest.mark.parametrize("state", ["joined", "alone"])
@pytest.mark.parametrize(("end", "status"), [("return", 0), ("raise", 5)])
def test_interpreter_ends_promptly_without_destroy(
    state: str, end: str, status: int, mgr: BlockingNode, near: BlockingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TASKD_STD_LOG_LEVEL", "ERROR")
    if state == "alone":
        monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    code = [sys.executable, "-c", UNTIL_EXIT, state, end]
    run = subprocess.run(code, capture_output=True, text=True, timeout=SOON, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (status, "", "")
