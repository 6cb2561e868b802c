"""One process of a job that is made of the documented calls: `python -m tests.api.role ROLE ...`, asked over stdin."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace

from taskd_net.job import api
from taskd_net.job.agent import agent as shell
from taskd_net.job.agent.supervision import AgentTimes
from taskd_net.job.api import agent
from taskd_net.job.api import worker as worker_calls
from taskd_net.job.worker.worker import WorkerTimes

OFTEN_S = 0.2
"""Seconds between two registrations of a node."""


def often() -> AgentTimes:
    """The times of an Agent that repeats what it says."""
    return replace(shell.times_of_environment(), repeat=OFTEN_S)


def manager() -> None:
    """Answers each line with the reports by node, and ends by SIGTERM."""
    assert api.init_taskd_manager({"job_id": "job", "node_nums": 1})

    def answer() -> None:
        for _ in sys.stdin:
            reports = {str(node): sorted({kind for kind, _ in kinds}) for node, kinds in api.last_reports().items()}
            print(json.dumps(reports), flush=True)

    threading.Thread(target=answer, daemon=True).start()
    assert api.start_taskd_manager()


def node(mgr: str, port: str) -> None:
    """The Proxy and the Agent of a node, in one process; says which of its functions are called."""
    assert api.init_taskd_proxy({"ListenPort": port, "UpstreamAddr": mgr})

    def say(name: str) -> Callable[..., object]:
        return lambda *arguments: print(name, *arguments, flush=True)

    for operator in ("KILL_WORKER", "START_ALL_WORKER", "START_WORKER_LIST"):
        api.register_func(operator, say(operator))
    api.register_func("MONITOR", lambda _: {0: {"pid": 300, "status": None, "global_rank": 3}})
    assert agent.initialise({"UpstreamPort": port, "Framework": "MindSpore"}, times=often())
    threading.Thread(target=lambda: (sys.stdin.read(), api.destroy_taskd_agent()), daemon=True).start()
    assert api.start_taskd_agent()
    assert api.destroy_taskd_proxy()


def launcher(port: str) -> None:
    """The Agent of a node whose workers are processes, as msrun uses it; says the pids of its workers.

    The variable `SIGCHLD` is what the application does with that signal: `blocked`, `ignored`, or nothing.
    """
    from tests.api.frameworks import Msrun

    if (wish := os.environ.get("SIGCHLD")) == "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    elif wish == "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    framework = Msrun()
    framework.register()
    api.register_func("START_ALL_WORKER", lambda: started(framework.start_all()))

    def started(answer: int) -> int:
        print(*[worker.pid for worker in framework.processes], flush=True)
        return answer

    assert agent.initialise({"Framework": "MindSpore", "UpstreamPort": port}, times=often())
    api.start_taskd_agent()  # leaves with SystemExit


def worker(rank: str) -> None:
    """A training process: a report for each line."""
    assert worker_calls.initialise(int(rank), times=WorkerTimes(repeat=OFTEN_S)) and api.start_taskd_worker()
    for line in sys.stdin:
        print(api.send_to_manager(1410, "STATUS", line.strip(), timeout=10.0), flush=True)
    assert api.destroy_taskd_worker()


if __name__ == "__main__":
    roles: dict[str, Callable[..., None]] = {"manager": manager, "node": node, "launcher": launcher, "worker": worker}
    roles[sys.argv[1]](*sys.argv[2:])
