"""Children of a process that has a Worker, made in every way that there is, while messages go through a real mesh."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest

from taskd_net import BlockingNode, Retry
from taskd_net.base.body import Body
from tests.api.conftest import SOON

ROOT = Path(__file__).parents[2]


def run(
    module: str, *arguments: str, mgr: BlockingNode, near: BlockingNode, timeout: float
) -> tuple[dict[str, object], Counter[int]]:
    """Run the training process below a Mgr and a Proxy in this one. Returns what it says and what came up, by code."""
    codes: Counter[int] = Counter()

    def count() -> None:
        for message in mgr.messages():
            if message.src == near.position:
                return
            codes[Body.parse(message.body).code] += 1

    counting = threading.Thread(target=count)
    counting.start()
    try:
        command = [sys.executable, "-m", module, *arguments]
        training = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)
    finally:
        # Behind all messages of the training process. `close` would take the inbox from its reader.
        marked = near.send("", to="Mgr", timeout=SOON, retry=Retry())
        counting.join(SOON)
    assert marked.ok and not counting.is_alive()
    assert training.returncode == 0, training.stderr
    said: dict[str, object] = json.loads(training.stdout.splitlines()[-1])
    return said, codes


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No lines on the standard output but the result."""
    monkeypatch.setenv("TASKD_LOG_STDOUT", "False")


CHILDREN = {
    "fork": 40,
    "multiprocessing-fork": 20,
    "multiprocessing-forkserver": 5,
    "multiprocessing-spawn": 3,
    "exec": 3,
}
"""Children by way of a start, in `make matrix`; otherwise an eighth: a fault that strikes by chance shows in many."""


@pytest.mark.oldest
@pytest.mark.parametrize(
    ("way", "children"),
    [
        *((way, max(2, children // 8)) for way, children in CHILDREN.items()),
        *(pytest.param(way, children, marks=pytest.mark.matrix) for way, children in CHILDREN.items()),
    ],
)
def test_children_under_traffic(way: str, children: int, mgr: BlockingNode, near: BlockingNode) -> None:
    said, came = run("tests.api.forking", way, str(children), mgr=mgr, near=near, timeout=50)
    assert said["troubles"] == []
    assert said["failed"] == 0
    # The parent's messages all arrived, no forked child has sent one, every other child has sent its own.
    assert came[2] == said["messages"] and came[2] > children
    assert came[3] == 0 and came[4] == (0 if way.endswith("fork") else children)


def test_child_that_was_forked_before_there_was_a_node(near: BlockingNode) -> None:
    code = (
        "import os; from tests.api.forking import with_node; child = os.fork(); with_node(100 if child else 101);"
        "assert not child or os.waitpid(child, 0)[1] == 0"
    )
    training = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=SOON, check=False)
    assert (training.returncode, training.stderr) == (0, b"")


WHILE_A_NODE_IS_MADE = """
import os, signal, threading
from taskd_net import BlockingNode
from taskd_net.job import api
begun, over, start = threading.Event(), threading.Event(), BlockingNode.start
def slow(node):
    begun.set()
    over.wait()
    return start(node)
BlockingNode.start = slow
making = threading.Thread(target=api.init_taskd_worker, args=(3,))
making.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(20)
    over.set()
    assert api.destroy_taskd_worker() is False
    assert api.init_taskd_worker(3) and api.start_taskd_worker()
    assert api.send_to_manager(1, "STATUS")
    assert api.destroy_taskd_worker()
    os._exit(7)
# Only then may the parent's own Worker join: it would take the place of the child's, which has the same rank.
ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
over.set()
making.join()
assert ended == 7
assert api.destroy_taskd_worker()
"""


def test_child_that_was_forked_while_another_thread_made_a_node(near: BlockingNode) -> None:
    """It has no node of its parent's, and no lock of that thread's either."""
    # Python 3.12 and later warn of a fork beside threads, which is the subject here.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", WHILE_A_NODE_IS_MADE]
    training = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert training.returncode == 0, training.stdout + training.stderr
    assert training.stderr == ""


@pytest.mark.torch
@pytest.mark.timeout(280)
def test_data_loader_under_traffic(mgr: BlockingNode, near: BlockingNode) -> None:
    pytest.importorskip("torch")
    said, came = run("tests.api.loading", "50", mgr=mgr, near=near, timeout=270)
    assert said["troubles"] == []
    assert said["failed"] == 0
    assert came[2] == said["messages"] and came[3] == 0
    print(f"200 forked workers of a data loader, {came[2]} messages of the parent's meanwhile")


@pytest.mark.torch
@pytest.mark.timeout(580)
def test_data_loader_beside_threads_that_log(mgr: BlockingNode, near: BlockingNode) -> None:
    """And beside two busy processes: its items log, too, and a worker that hangs in that stops the training."""
    pytest.importorskip("torch")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        said, came = run("tests.api.loading", "50", "2", mgr=mgr, near=near, timeout=570)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert said["troubles"] == []
    print(f"200 forked workers of a data loader beside threads that log, {came[2]} messages of the parent's meanwhile")
