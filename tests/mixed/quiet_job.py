"""An Agent of any release, with a double of torch's elastic agent: its two ranks mark a step, and then are quiet.

A rank prints a line when it is quiet, and ends when the standard input does. The Agent's process ends with 0 when both
have succeeded.
"""

from __future__ import annotations

import os
import subprocess
import sys
from enum import Enum
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import taskd_net

RANK = """
import sys
try:
    from taskd_net import train
except ImportError:
    pass  # 0.2.0 has no marks
else:
    train.step(0)
    train.step(1)
print("quiet", flush=True)
sys.stdin.read()
"""


class State(Enum):
    """PyTorch's states, as far as they come here."""

    HEALTHY = "HEALTHY"
    SUCCEEDED = "SUCCEEDED"


class Elastic:
    """The double. Where the release has records of ranks, it makes them as `taskd_net.torch` does."""

    def __init__(self) -> None:
        self._worker_group = SimpleNamespace(
            workers=[SimpleNamespace(local_rank=rank, global_rank=rank, id=None) for rank in (0, 1)], spec="spec"
        )
        self._remaining_restarts = 3
        self._processes: list[subprocess.Popen[bytes]] = []
        if find_spec("taskd_net.train") is not None:
            from taskd_net.job.agent.records import Records

            self.records = Records()

    def start_all(self, group: SimpleNamespace) -> None:
        """Start the ranks."""
        records = getattr(self, "records", None)
        variables = {0: {}, 1: {}} if records is None else records.begin_all({0: 0, 1: 1})
        for worker in group.workers:
            environment = {**os.environ, **variables[worker.local_rank]}
            made = subprocess.Popen([sys.executable, "-c", RANK], env=environment)
            self._processes.append(made)
            worker.id = made.pid
            if records is not None:
                records.started(worker.local_rank, made.pid)

    def monitor(self, _: SimpleNamespace) -> SimpleNamespace:
        """Tell the state of the ranks."""
        codes = [process.poll() for process in self._processes]
        state = State.SUCCEEDED if codes == [0, 0] else State.HEALTHY
        return SimpleNamespace(state=state, failures={}, return_values={})

    def stop(self, _: SimpleNamespace) -> None:
        """End the ranks."""
        for process in self._processes:
            process.kill()


def main() -> int:
    """Run the Agent of node 0."""
    elastic = Elastic()
    functions: dict[str, Any] = {"START_ALL_WORKER": elastic.start_all, "MONITOR": elastic.monitor}
    functions |= {"KILL_WORKER": elastic.stop, "RESTART": elastic.stop}
    for name, function in functions.items():
        assert taskd_net.register_func(name, function)
    assert taskd_net.init_taskd_agent({"ServerRank": 0}, elastic)
    return 0 if getattr(taskd_net.start_taskd_agent(), "state", None) is State.SUCCEEDED else 1


if __name__ == "__main__":
    sys.exit(main())
