"""`taskd-net run` on nodes of this machine, and a Mgr whose inbox the test reads."""

from __future__ import annotations

import itertools
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from taskd_net import BlockingNode, Body, NodeConfig
from tests.ports import free_port

SOON: Final = 60.0
"""Seconds for one step: an import of torch takes many on a busy machine."""

PLAIN: Final = Path(__file__).with_name("plain.py")
"""A worker that needs no torch; see there."""

FAILING: Final = Path(__file__).with_name("failing.py")
"""A worker that needs no torch, and fails as a test says; see there."""


@dataclass
class Node:
    """`taskd-net run` on one node.

    Args:
        process: the launcher, which is the Agent and the Proxy.
        folder: of its log files.
        rank: of the node.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    rank: int

    def file(self, name: str) -> Path:
        """A log file of the run, such as `attempt_0/0/stdout.log`, when it is there."""
        give_up_at = time.monotonic() + SOON
        while not (found := list(self.folder.glob(f"*/{name}"))):
            self.check(give_up_at, name)
            select.select([], [], [], 0.02)
        return found[0]

    def line(self, name: str, number: int = 0) -> str:
        """A line of a log file, when it is there."""
        give_up_at = time.monotonic() + SOON
        while len(lines := self.file(name).read_text().splitlines(keepends=True)) <= number or lines[-1][-1] != "\n":
            self.check(give_up_at, f"line {number} of {name}")
            select.select([], [], [], 0.02)
        return lines[number].rstrip("\n")

    def pid(self, local_rank: int, name: str = "attempt_0/{}/stdout.log") -> int:
        """The process of a worker that has begun."""
        return int(self.line(name.format(local_rank)).split()[0])

    def check(self, give_up_at: float, what: str) -> None:
        """Fail where something does not come."""
        assert time.monotonic() < give_up_at, f"{what} of node {self.rank}: {self.said()}"

    def status(self) -> int:
        """The exit status of the launcher."""
        return self.process.wait(SOON)

    def log(self) -> str:
        """The log of the Agent."""
        return "".join(path.read_text() for path in (self.folder / "log").glob("*.log"))

    def said(self) -> str:
        """Its standard error."""
        return (self.folder / "stderr").read_text()


@dataclass
class Cluster:
    """Nodes with addresses of their own, below one Mgr.

    Args:
        folder: of the test.
    """

    folder: Path
    host: str = field(default_factory=lambda: ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))]))
    nodes: list[Node] = field(default_factory=list)
    proxies: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.mgr = BlockingNode(NodeConfig.mgr(listen=f"{self.host}.1:9601")).start()
        self.port = free_port(f"{self.host}.1")
        self._numbers = itertools.count()

    def run(self, *script: str, node: int = 0, nodes: int = 1, workers: int = 2, **variables: str) -> Node:
        """Start the launcher of a node."""
        folder = self.folder / f"node-{node}-{next(self._numbers)}"
        folder.mkdir()
        command = [sys.executable, "-m", "taskd_net.cli", "run", f"--nnodes={nodes}", f"--node-rank={node}"]
        command += [f"--master-addr={self.host}.1", f"--master-port={self.port}", f"--nproc-per-node={workers}"]
        command += [f"--log-dir={folder}", "--redirects=3", "--monitor-interval=0.1", *script]
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TASKD_", "RANK", "MASTER_"))},
            "TASKD_NET_UPSTREAM": f"{self.host}.{10 + node}:9602",
            "TASKD_LOG_PATH": str(folder / "log"),
            "TASKD_STD_LOG_LEVEL": "INFO",
            "PYTHONWARNINGS": "ignore",
            **variables,
        }
        with (folder / "stderr").open("w") as stderr:
            process = subprocess.Popen(command, env=environment, stderr=stderr, stdout=stderr, cwd=folder)
        self.nodes.append(Node(process, folder, node))
        return self.nodes[-1]

    def proxy(self, server_rank: int, node: int = 0) -> None:
        """Start a Proxy in a process of its own, at the address of a node's."""
        addresses = [f"--listen={self.host}.{10 + node}:9602", f"--upstream={self.host}.1:9601"]
        command = [sys.executable, "-m", "taskd_net.cli", "proxy", f"--server-rank={server_rank}", *addresses]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        self.proxies.append(process)
        assert process.stdout is not None and process.stdout.readline()

    def command(self, code: int, message: str = "", node: int = 0, msg_type: str = "ACTION") -> None:
        """Have the Mgr command something."""
        ack = self.mgr.send(Body(msg_type, code, message).to_json(), to=f"Agent/{node}", timeout=SOON)
        assert ack.ok, ack

    def report(self, code: int, node: int = 0) -> Body:
        """The next report of this code by the Agent of a node; all others before it are dropped."""
        while True:
            message = self.mgr.receive(SOON)
            body = Body.parse(message.body)
            if body.code == code and body.msg_type == "STATUS" and str(message.src) == f"Agent/{node}":
                return body

    def start(self, *script: str, restarts: str = "32767", **more: object) -> Node:
        """Start a job of one node, until its workers have begun."""
        node = self.run(*script, **more)  # type: ignore[arg-type]
        self.report(201)
        self.command(210, restarts)
        for local_rank in range(2):
            node.pid(local_rank)
        return node

    def close(self) -> None:
        """End everything."""
        for node in self.nodes:
            node.process.kill()
            node.process.wait()
        for proxy in self.proxies:
            proxy.kill()
            proxy.communicate()
        self.mgr.close()


def launched(folder: Path, *arguments: str, workers: int = 1, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """`taskd-net run --mgr` of one node, to its end."""
    host = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(2))])
    variables = {"MASTER_ADDR": f"{host}.1", "TASKD_NET_UPSTREAM": f"{host}.2:9602", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "taskd_net.cli", "run", "--mgr", f"--nproc-per-node={workers}"]
    return subprocess.run(
        [*command, f"--log-dir={folder / 'logs'}", *arguments],
        cwd=folder,
        env={**os.environ, **variables, "TASKD_LOG_PATH": str(folder / "log")},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=SOON,
        check=False,
    )


def children(pid: int) -> Iterator[int]:
    """The processes below another one."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            yield child
            yield from children(child)


def await_end(*pids: int, seconds: float = SOON) -> None:
    """Wait until processes are gone, or nobody's but init's to bury."""
    give_up_at = time.monotonic() + seconds
    for pid in pids:
        while lives(pid):
            assert time.monotonic() < give_up_at, f"{pid} runs"
            select.select([], [], [], 0.02)


def lives(pid: int) -> bool:
    """True while a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def kill(pid: int) -> None:
    """End a process as a crash does."""
    os.kill(pid, signal.SIGKILL)
