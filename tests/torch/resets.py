"""torch's own LocalElasticAgent with two workers, whose `_invoke_run` is that of `taskd_net.mindspore`.

    python -m tests.torch.resets FOLDER PORT

The folder has the reset file and, of each start of the workers, `begun` with a line of their pids. They are those of
`plain.py`. The result of torch is a line in JSON: its state, and the exit codes of failures by rank. torch leaves files
open in its process, so it is not that of a test.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch.distributed.run  # noqa: F401 - its parts import each other in a circle
from torch.distributed.elastic.agent.server import RunResult, WorkerSpec
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, Std
from torch.distributed.elastic.rendezvous import RendezvousParameters, registry

from taskd_net.mindspore import Paths, Times, invoke_run
from tests.torch.cluster import PLAIN

TIMES = Times(look=0.05, gate_look=0.05, gate=60.0, restart=0.1, replace=60.0, failed=0.1, finish=0.1, grace=60.0)


class Agent(LocalElasticAgent):
    """The agent of a node, in a folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        rendezvous = RendezvousParameters("static", f"127.0.0.1:{port}", "run", 1, 1, rank=0)
        spec = WorkerSpec(
            role="default",
            local_world_size=2,
            rdzv_handler=registry.get_rendezvous_handler(rendezvous),
            entrypoint=sys.executable,
            args=("-S", str(PLAIN)),
            max_restarts=0,
            master_addr="127.0.0.1",
            master_port=port,
        )
        super().__init__(spec, DefaultLogsSpecs(log_dir=str(folder / "out"), redirects=Std.ALL))

    def _invoke_run(self, role: str = "default") -> RunResult:
        paths = Paths(self._folder / "reset.json", self._folder / "version")
        result: RunResult = invoke_run(self, role, paths=paths, times=TIMES)
        return result

    def _initialize_workers(self, worker_group: object) -> None:
        super()._initialize_workers(worker_group)
        with (self._folder / "begun").open("a") as file:
            print(*(worker.id for worker in self._worker_group.workers), file=file)


def main() -> None:
    """Run the workers to their end."""
    result = Agent(Path(sys.argv[1]), int(sys.argv[2])).run()
    failures = {rank: failure.exitcode for rank, failure in result.failures.items()}
    print(json.dumps({"state": result.state.name, "failures": failures}))


if __name__ == "__main__":
    main()
