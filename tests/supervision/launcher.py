"""The launcher of a node as `taskd-net run` is one, for ranks without torch: its Manager, its Proxy and its Agent.

Its last argument is a script, which it does not look at.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from taskd_net import TaskdNetError
from taskd_net.base import logs
from taskd_net.base.address import Address
from taskd_net.base.limits import NODE_S
from taskd_net.cli import first_process
from taskd_net.job import api
from taskd_net.job.agent.agent import Told
from taskd_net.job.agent.messages import Meeting
from taskd_net.job.agent.workers import KILL_WORKER, MONITOR, RESTART, START_ALL_WORKER, Operators
from taskd_net.job.api.agent import initialise, run
from taskd_net.job.arguments import JOB_ID, MGR_PORT_SET, NODE_TIMEOUT, UPSTREAM
from taskd_net.job.launcher_signals import LauncherSignals
from taskd_net.job.manager_place import is_taken, listen_host
from taskd_net.job.own_host import own_name
from taskd_net.job.own_manager import own_manager

RANK: Final = Path(__file__).with_name("rank.py")
KILLED_S: Final = 5.0


class Signalled(Exception):
    """A signal ends this launcher.

    Args:
        sigval: it.
    """

    def __init__(self, sigval: signal.Signals) -> None:
        super().__init__(sigval.name)
        self.sigval = sigval


class Collective:
    """The place where the ranks of a start meet: a byte of each is answered when all have sent one.

    Args:
        host: of node 0, by which the ranks reach it.
    """

    def __init__(self, host: str) -> None:
        self._server = socket.create_server((listen_host(host, own_name(), is_placed=False), 0))
        self.port: int = self._server.getsockname()[1]
        self._barrier: threading.Barrier | None = None
        self._making = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            peer, _ = self._server.accept()
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, suppress(threading.BrokenBarrierError, ConnectionError, IndexError):
            world = peer.recv(1)[0]
            with self._making:
                self._barrier = barrier = self._barrier or threading.Barrier(world)
            try:
                while peer.recv(1):
                    barrier.wait()
                    peer.sendall(b".")
            finally:
                barrier.abort()


@dataclass(eq=False)
class Worker:
    """A rank of the node."""

    global_rank: int = -1
    id: int | None = None
    process: subprocess.Popen[bytes] | None = None


@dataclass
class Group:
    """The ranks of the node."""

    workers: list[Worker]


@dataclass
class Result:
    """A look at them, in torch's form."""

    state: str
    failures: dict[int, int] = field(default_factory=dict)


class Elastic:
    """A double of torch's elastic agent.

    Args:
        node: rank of the node.
        processes: number of its ranks.
        host: address of node 0.
        restarts: budget of failures.
    """

    def __init__(self, node: int, processes: int, host: str, restarts: int) -> None:
        self._worker_group = Group([Worker() for _ in range(processes)])
        self._remaining_restarts = restarts
        self._node = node
        self._host = host
        self._meeting: Meeting | None = None

    def offer(self) -> tuple[str, int]:
        """Make a place for the ranks of the next start, on node 0."""
        place = "" if self._node else f"{self._host}:{Collective(self._host).port}"
        return place, len(self._worker_group.workers)

    def meet(self, meeting: Meeting | None) -> None:
        """Take the outcome of a meeting."""
        self._meeting = meeting

    def start(self, group: Group) -> None:
        """START_ALL_WORKER."""
        assert self._meeting is not None, "the Manager lets the nodes meet"
        host, _, port = self._meeting.store.rpartition(":")
        worlds = self._meeting.local_worlds
        for number, worker in enumerate(group.workers):
            worker.global_rank = sum(worlds[: self._node]) + number
            place = {"MASTER_ADDR": host, "MASTER_PORT": port, "WORLD_SIZE": str(sum(worlds))}
            environment = {**os.environ, **place, "RANK": str(worker.global_rank)}
            worker.process = subprocess.Popen([sys.executable, RANK], env=environment)
            worker.id = worker.process.pid

    def stop(self, group: Group) -> None:
        """KILL_WORKER."""
        for worker in group.workers:
            if worker.process is not None:
                worker.process.kill()
                worker.process.wait(KILLED_S)

    def restart(self, group: Group) -> None:
        """RESTART: ranks that rejoin alone are started so."""
        raise AssertionError("no rank rejoins")

    def monitor(self, group: Group) -> Result:
        """MONITOR."""
        codes = {worker.global_rank: worker.process.poll() for worker in group.workers if worker.process is not None}
        if failures := {rank: code for rank, code in codes.items() if code}:
            return Result("FAILED", failures)
        return Result("SUCCEEDED" if codes and set(codes.values()) == {0} else "HEALTHY")


def main() -> None:
    """Run the ranks of a node to their end."""
    if os.getpid() == 1:
        first_process.live()
    parser = argparse.ArgumentParser()
    for name in ("node", "nodes", "processes", "mgr", "restarts"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("host", "name"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("script")
    args = parser.parse_args()
    os.environ |= {"MASTER_ADDR": args.host, MGR_PORT_SET: str(args.mgr), JOB_ID: args.name}
    logs.start(None, stdout=True)
    listen = listen_host(args.host, own_name(), is_placed=False, nodes=args.nodes)
    elastic = Elastic(args.node, args.processes, args.host, args.restarts)
    operators = Operators()
    for operator, function in (
        (START_ALL_WORKER, elastic.start),
        (KILL_WORKER, elastic.stop),
        (RESTART, elastic.restart),
        (MONITOR, elastic.monitor),
    ):
        operators.register(operator, function)
    host, _, port = os.environ[UPSTREAM].rpartition(":")
    proxy = {"ListenAddr": host, "ListenPort": port, "UpstreamAddr": args.host, "UpstreamPort": str(args.mgr)}
    agent = {"Framework": "PyTorch", "ServerRank": args.node}
    try:
        with ExitStack() as stack:
            stack.enter_context(LauncherSignals(Signalled, {signal.SIGTERM}))
            if not args.node:
                size = f"{args.nodes}x{args.processes}"
                stack.enter_context(own_manager(size, args.name, restarts_itself=True, host=listen))
            own_proxy = not is_taken(Address.parse(os.environ[UPSTREAM]))
            if own_proxy and not api.init_taskd_proxy({**proxy, "ServerRank": args.node}):
                sys.exit("the Proxy could not be started")
            patience = float(os.environ.get(NODE_TIMEOUT, NODE_S))
            told = Told(args.restarts, "--max-restarts", job=True, patience=patience)
            made = initialise(agent, elastic, operators, told=told)
            assert made is not None
            run(made)
    except TaskdNetError as error:
        sys.exit(f"launcher: {error}")
    except Signalled as error:
        sys.exit(128 + error.sigval)
    finally:
        elastic.stop(elastic._worker_group)
        logs.stop()


if __name__ == "__main__":
    main()
