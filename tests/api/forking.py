"""A training process that makes children in one way, under traffic: `python -m tests.api.forking WAY COUNT`.

Prints one JSON object: what was wrong with each child, and how many messages went up meanwhile. A forked child has to
find that it has no node, and to end cleanly; any other has to find that it can have one.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from taskd_net import BlockingNode, Node, NodeConfig, NodeForked
from taskd_net.base import fork
from taskd_net.job import api
from taskd_net.job.api import worker
from tests.forked_logs import log_until

CHILD_S = 20.0
EXIT_STATUS = 7


def main(way: str, count: int) -> None:
    """Make the children, one after another."""
    with traffic() as sent:
        troubles = []
        for number in range(count):
            trouble = WAYS[way](number)
            if trouble:
                troubles.append(f"child {number}: {trouble}")
    print(json.dumps({"troubles": troubles, "messages": sent[0], "failed": sent[1]}))


@contextmanager
def traffic(logging_threads: int = 0) -> Iterator[list[int]]:
    """Have a Worker send all the time, and threads log without pause: [messages, failures]."""
    assert api.init_taskd_worker(3) and api.start_taskd_worker()
    assert api.send_to_manager(1, "STATUS")
    sent, over = [0, 0], threading.Event()

    def send() -> None:
        while not over.is_set():
            sent[0] += 1
            sent[1] += not api.send_to_manager(2, "STATUS")

    threads = [threading.Thread(target=send)]
    threads += [threading.Thread(target=log_until, args=(over,)) for _ in range(logging_threads)]
    for thread in threads:
        thread.start()
    try:
        yield sent
    finally:
        if not fork.forked():  # a child may end through here
            over.set()
            for thread in threads:
                thread.join()
            assert api.destroy_taskd_worker()


def without_node() -> None:
    """Check a forked child: every call fails with one log line, and none hangs."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("taskd_net").addHandler(handler)
    calls: tuple[Callable[[], object], ...] = (
        lambda: api.init_taskd_worker(4),
        api.start_taskd_worker,
        api.destroy_taskd_worker,
        lambda: api.send_to_manager(3, "STATUS"),
        lambda: api.register_handler(1, print),
        lambda: api.init_taskd_agent({}),
        api.start_taskd_agent,
        lambda: api.register_func("MONITOR", print),
        lambda: api.init_taskd_proxy({}),
        api.destroy_taskd_proxy,
        lambda: api.init_taskd_manager({}),
        api.start_taskd_manager,
    )
    for number, call in enumerate(calls):
        assert call() is False
        assert len(lines) == number + 1 and fork.REASON in lines[-1], lines
    node = worker.slot.member.node
    for blocking in (lambda: node.send("x", to="Mgr"), node.receive, node.joined, node.routes):
        raises(blocking)
    raises(BlockingNode(node.config).start)
    node.close()
    config = NodeConfig.mgr(listen="127.0.0.1:0")
    raises(lambda: asyncio.run(_send(Node(config))))
    raises(lambda: asyncio.run(Node(config).start()))
    gc.collect()


def raises(call: Callable[[], object]) -> None:
    """Check that a call says that this is a forked child."""
    try:
        call()
    except NodeForked as error:
        if str(error) == fork.REASON:
            return
    raise AssertionError("no NodeForked")


async def _send(node: Node) -> None:
    await node.send("x", to="Mgr")


def with_node(rank: int) -> None:
    """Check any other child: it can have a node of its own."""
    assert api.init_taskd_worker(rank) and api.start_taskd_worker()
    assert api.send_to_manager(4, "STATUS", str(rank))
    assert api.destroy_taskd_worker()


def plain_fork(number: int) -> str:
    """os.fork; every second child goes through the interpreter's whole end."""
    child = os.fork()
    if child == 0:
        try:
            without_node()
        except AssertionError as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        if number % 2:
            sys.exit(EXIT_STATUS)
        os._exit(EXIT_STATUS)
    give_up_at = time.monotonic() + CHILD_S
    while time.monotonic() < give_up_at:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return "" if code == EXIT_STATUS else f"exit code {code}"
        time.sleep(0.005)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return "hangs"


def by_multiprocessing(method: str) -> Callable[[int], str]:
    """multiprocessing with this start method."""

    def way(number: int) -> str:
        context = multiprocessing.get_context(method)
        forks = method == "fork"
        process = context.Process(  # type: ignore[attr-defined]
            target=without_node if forks else with_node, args=() if forks else (100 + number,)
        )
        process.start()
        process.join(CHILD_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            return "hangs"
        return "" if process.exitcode == 0 else f"exit code {process.exitcode}"

    return way


def by_exec(number: int) -> str:
    """subprocess."""
    code = f"from tests.api.forking import with_node; with_node({100 + number})"
    try:
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=CHILD_S, check=False)
    except subprocess.TimeoutExpired:
        return "hangs"
    return "" if (run.returncode, run.stderr) == (0, "") else f"exit code {run.returncode}: {run.stderr}"


WAYS = {
    "fork": plain_fork,
    "exec": by_exec,
    **{f"multiprocessing-{method}": by_multiprocessing(method) for method in ("fork", "forkserver", "spawn")},
}

if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
