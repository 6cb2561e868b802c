"""A mesh around the documented calls, and a process that every test leaves as it found it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import pytest

from taskd_net import BlockingNode, Code, Message, NodeConfig, Position
from taskd_net.base import logs
from taskd_net.base.body import Body
from taskd_net.base.log_budget import LogBudget
from taskd_net.base.states import State
from taskd_net.job import api, member, profiling_switch
from taskd_net.job.agent import agent as shell
from taskd_net.job.api import agent, manager, proxy, worker
from taskd_net.job.arguments import UPSTREAM
from taskd_net.job.frameworks.mindspore import settings as msrun_settings
from taskd_net.job.frameworks.pytorch.workers import RESTARTED
from taskd_net.job.worker import disk
from taskd_net.job.worker.worker import WorkerTimes
from tests.api.frameworks import Double, Msrun, SimpleElasticAgent

SOON = 10.0
AGENT = "Agent/2"
WORKER = "Worker/0/3"
VARIABLES = (
    *("PROCESS_RECOVER", "TASKD_PROCESS_ENABLE", "TASKD_PROCESS_INTERVAL", "MINDX_TASK_ID"),
    *("RANK", "LOCAL_WORLD_SIZE", "MS_NODE_RANK", "POD_IP", "LOCAL_PROXY_ENABLE", UPSTREAM, disk.PATH),
    *("LOCAL_RANK", "MASTER_ADDR", "MS_SCHED_HOST", profiling_switch.PATH),
    *(shell.FAULT_TIMEOUT, msrun_settings.RESTART_PAUSE, msrun_settings.FINISH_PAUSE, msrun_settings.MSRUN),
    *(logs.FILE_LEVEL, logs.STD_LEVEL, logs.STDOUT),
)
# The Mgr's port is fixed, so each run of the tests has a loopback address of its own.
OWN_IP = f"127.{os.getpid() >> 16 & 127}.{os.getpid() >> 8 & 255}.{os.getpid() & 255 or 1}"


@pytest.fixture(autouse=True)
def nothing_left(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No variable is set but the log folder, and every role is empty afterwards."""
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(logs.PATH, str(tmp_path / "log"))
    monkeypatch.setattr(member.log, "_budget", LogBudget())  # a whole one
    yield
    for slot in (worker.slot, agent.slot, proxy.slot, manager.slot):
        if slot._member is not None:
            slot.clear()
    assert member._log_file._users == 0 and not logs.started()
    worker._handlers._by_kind.clear()
    worker._handlers._missing.clear()
    agent._operators._functions.clear()


class Failures(logging.Handler):
    """The lines of level ERROR of the package."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "taskd_net":
            self.lines.append(record.getMessage())

    def only(self) -> str:
        """The one line that there is; taken out."""
        assert len(self.lines) == 1, self.lines
        return self.lines.pop()


@pytest.fixture
def failures() -> Iterator[Failures]:
    """Log entries at level ERROR; entries left by a test fail it."""
    handler = Failures()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)
    assert handler.lines == []


@pytest.fixture
def mgr() -> Iterator[BlockingNode]:
    """A Mgr made of the mesh alone, whose inbox the test reads."""
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        yield node


@pytest.fixture
def near(mgr: BlockingNode, monkeypatch: pytest.MonkeyPatch) -> Iterator[BlockingNode]:
    """A Proxy of node 0, to which a Worker of these tests connects; the environment is that of rank 3 of 8."""
    config = NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=mgr.address or "")
    with BlockingNode(config) as node:
        node.joined(SOON)
        monkeypatch.setenv(UPSTREAM, node.address or "")
        rank_3_of_8(monkeypatch)
        yield node


def state_of(node: BlockingNode, position: str) -> State:
    """The state in which a node shows another one, as soon as it is not connected any more."""
    give_up_at = time.monotonic() + SOON
    while (state := dict(node.mesh().nodes)[Position.parse(position)].state) is State.JOINED:
        assert time.monotonic() < give_up_at, position
    return state


def rank_3_of_8(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of torchrun."""
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")


def started(times: WorkerTimes = WorkerTimes()) -> None:
    """Make the Worker of these tests."""
    assert worker.initialise(3, times=times) and api.start_taskd_worker()


def reach(mgr: BlockingNode, body: Body, *, uuid: str | None = None) -> None:
    """Send a command to the Worker as soon as it is there."""
    while not (ack := mgr.send(body.to_json(), to=WORKER, timeout=SOON, uuid=uuid)).ok:
        assert ack.code in (Code.NO_ROUTE, Code.NET_STREAM_NOT_INITED, Code.RECV_BUF_BUSY), ack


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that call."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def ending() -> Iterator[ExitStack]:
    """End every process of the test."""
    with ExitStack() as stack:
        yield stack


def take(node: BlockingNode) -> tuple[Message, Body]:
    """The next message of a node that is no registration and no KEEP_ALIVE."""
    while True:
        message = node.receive(SOON)
        body = Body.parse(message.body)
        if body.msg_type not in ("REGISTER", "KEEP_ALIVE"):
            return message, body


def until(holds: Callable[[], bool]) -> None:
    """Wait for what no event tells of: looks every few milliseconds."""
    pause = threading.Event()
    for _ in range(int(SOON / 0.01)):
        if holds():
            return
        pause.wait(0.01)
    raise AssertionError("it does not come to hold")


QUICK: Final = 0.05
"""Seconds that a second of an Agent takes."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """An Agent ends at once after its workers."""
    monkeypatch.setenv(msrun_settings.FINISH_PAUSE, "0")


@pytest.fixture
def frameworks() -> Iterator[list[Double]]:
    """The doubles of a test; their workers end after the Agent."""
    made: list[Double] = []
    yield made
    for each in made:
        each.end()
    os.environ.pop(RESTARTED, None)


@pytest.fixture
def msrun(frameworks: list[Double]) -> Msrun:
    """A registered msrun."""
    made = Msrun()
    made.register()
    frameworks.append(made)
    return made


@pytest.fixture
def elastic(frameworks: list[Double]) -> SimpleElasticAgent:
    """A registered elastic agent."""
    made = SimpleElasticAgent()
    made.register()
    frameworks.append(made)
    return made


@dataclass
class Running:
    """An Agent that serves in a thread, its Proxy, and its Mgr."""

    mgr: BlockingNode
    proxy: BlockingNode
    result: Future[object]

    def command(self, code: int, message: str = "", msg_type: str = "ACTION") -> None:
        """Have the Mgr command something."""
        assert self.mgr.send(Body(msg_type, code, message).to_json(), to=AGENT).ok

    def report(self, code: int | str) -> Body:
        """The next report of this code or msg_type; the others before it are dropped."""
        while True:
            message = self.mgr.receive(SOON)
            body = Body.parse(message.body)
            assert (str(message.src), message.mtype) == (AGENT, "DEFAULT")
            if code in (body.code, body.msg_type):
                return body

    def exit_status(self) -> object:
        """The status with which the Agent leaves."""
        error = self.result.exception(SOON)
        assert isinstance(error, SystemExit), error
        assert agent.slot._member is None
        return error.code


class Start(Protocol):
    """Starts an Agent with further arguments, up to its 201."""

    def __call__(self, framework: Double, **more: Any) -> Running:
        """Start it."""


@pytest.fixture
def start(mgr: BlockingNode, threads: ThreadPoolExecutor, frameworks: list[Double]) -> Iterator[Start]:
    """Start an Agent, up to its 201."""
    begun: list[Running] = []
    config = NodeConfig.proxy(server_rank=2, listen="127.0.0.1:0", upstream=mgr.address or "")
    with BlockingNode(config) as near:

        def started(framework: Double, **more: Any) -> Running:
            assert init(near, framework, **more)
            running = Running(mgr, near, threads.submit(api.start_taskd_agent))
            begun.append(running)
            assert running.report("REGISTER").extension["Incarnation"]
            return running

        yield started
        for running in begun:
            if agent.slot._member is not None:
                assert api.destroy_taskd_agent()
            running.result.exception(SOON)


def init(near: BlockingNode, framework: Double, **more: Any) -> bool:
    """Initialise an Agent below a node."""
    host, port = (near.address or "").split(":")
    upstream: dict[str, object] = {"UpstreamAddr": host, "UpstreamPort": int(port), "ServerRank": "2"}
    more = {"look": QUICK} | more
    if isinstance(framework, SimpleElasticAgent):
        return agent.initialise(upstream, framework, **more) is not None
    return agent.initialise({**upstream, "Framework": "MindSpore"}, **more) is not None
