"""The program of a node's launcher: its Proxy, its Agent, and training processes in the manner of PyTorch.

`ElasticAgent` has the functions of torch's elastic agent, as TaskD registers them. The launcher leaves with the exit
status that the Agent asks for.
"""

from __future__ import annotations

import argparse
import logging
import os
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field

from taskd_net.base import limits
from taskd_net.job import api
from taskd_net_lab.demos.job.terms import BEGAN, COMMAND, LOCAL, PARENT, RESTARTS
from taskd_net_lab.demos.job.witness import Witness, program


@dataclass(eq=False)
class Worker:
    """A training process of the node.

    Attributes:
        global_rank: its rank in the job.
        id: its pid.
        process: the process.
    """

    global_rank: int
    id: int | None = None
    process: subprocess.Popen[bytes] | None = None


@dataclass
class WorkerGroup:
    """Training processes."""

    workers: list[Worker]


@dataclass
class RunResult:
    """A look at the training processes, in torch's form."""

    state: str
    failures: dict[int, int] = field(default_factory=dict)


class ElasticAgent:
    """A double of torch's elastic agent.

    Args:
        node: rank of the node.
        restarts: restarts that remain.
    """

    def __init__(self, node: int, restarts: int) -> None:
        self._worker_group = WorkerGroup([Worker(node * LOCAL + local) for local in range(LOCAL)])
        self._remaining_restarts = restarts

    def start(self, group: WorkerGroup) -> None:
        """START_ALL_WORKER."""
        restarts, parent = str(self._remaining_restarts), str(os.getpid())
        environment = {**os.environ, RESTARTS: restarts, PARENT: parent, "LOCAL_WORLD_SIZE": str(LOCAL)}
        for worker in group.workers:
            rank = str(worker.global_rank)
            command = program("taskd_net_lab.demos.job.trainee", rank)
            worker.process = subprocess.Popen(command, env={**environment, "RANK": rank})  # noqa: S603 - ours
            worker.id = worker.process.pid

    def stop(self, group: WorkerGroup) -> None:
        """KILL_WORKER."""
        for worker in group.workers:
            if worker.process is not None:
                worker.process.kill()
                with suppress(subprocess.TimeoutExpired):
                    worker.process.wait(limits.KILLED_S)

    def restart(self, group: WorkerGroup) -> None:
        """RESTART."""
        self.stop(group)
        self.start(group)

    def monitor(self, group: WorkerGroup) -> RunResult:
        """MONITOR."""
        codes = {worker.global_rank: worker.process.poll() for worker in group.workers if worker.process is not None}
        failures = {rank: code for rank, code in codes.items() if code}
        return RunResult("FAILED" if failures else "HEALTHY", failures)


class Commands(logging.Handler):
    """Tells the controller each command that the Agent gets, as the Agent logs it.

    Args:
        witness: the connection to the controller.
    """

    def __init__(self, witness: Witness) -> None:
        super().__init__(logging.INFO)
        self._witness = witness

    def emit(self, record: logging.LogRecord) -> None:
        """Handle a log line."""
        event = record.msg
        if isinstance(event, dict) and event.get("event") == "command":
            self._witness.say(COMMAND, event["code"], event["message"])


def main() -> None:
    """Run the launcher of one node until its Agent leaves."""
    parser = argparse.ArgumentParser(prog="python -m taskd_net_lab.demos.job.launcher", description=main.__doc__)
    parser.add_argument("node", type=int, help="rank of the node")
    parser.add_argument("--upstream", required=True, help="host:port of the Mgr")
    parser.add_argument("--listen", required=True, help="host:port of the node's Proxy")
    parser.add_argument("--restarts", type=int, required=True, help="restarts that remain")
    args = parser.parse_args()
    witness = Witness(f"Agent/{args.node}")
    logger = logging.getLogger("taskd_net")
    logger.setLevel(logging.INFO)
    logger.addHandler(Commands(witness))
    witness.say(BEGAN)
    (host, port), (above, above_port) = (each.rsplit(":", 1) for each in (args.listen, args.upstream))
    listens = {"ListenAddr": host, "ListenPort": port, "UpstreamAddr": above, "UpstreamPort": above_port}
    elastic = ElasticAgent(args.node, args.restarts)
    for operator, function in (
        ("START_ALL_WORKER", elastic.start),
        ("KILL_WORKER", elastic.stop),
        ("RESTART", elastic.restart),
        ("MONITOR", elastic.monitor),
    ):
        api.register_func(operator, function)
    devices = [f"Ascend910-{local}" for local in range(LOCAL)]
    agent = {"Framework": "PyTorch", "UpstreamAddr": host, "UpstreamPort": port, "ServerRank": args.node}
    agent["Devices"] = devices
    if not (api.init_taskd_proxy({**listens, "ServerRank": args.node}) and api.init_taskd_agent(agent, cls=elastic)):
        sys.exit("the Proxy or the Agent could not be started")
    api.start_taskd_agent()


if __name__ == "__main__":
    main()
