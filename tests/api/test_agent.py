"""The Agent: what the Mgr commands, and which of the framework's functions that means."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import SimpleQueue

import pytest

from taskd_net import BlockingNode, Code, NodeConfig, api, limits
from taskd_net.api import agent
from taskd_net.api.body import Body
from tests.api.conftest import SOON, Failures, until

AGENT = "Agent/2"


@dataclass
class Framework:
    """A training framework with three workers, ranks 8 to 10, as MindSpore's answers show them."""

    calls: SimpleQueue[tuple[object, ...]] = field(default_factory=SimpleQueue)
    status: int | None = None
    pids: dict[int, int] = field(default_factory=lambda: {0: 100, 1: 101, 2: 300})

    def register(self, *operators: str) -> None:
        """Register these functions."""
        for operator in operators:
            assert api.register_func(operator, self.monitor if operator == "MONITOR" else self._called(operator))

    def monitor(self, pids: list[int]) -> dict[int, dict[str, object]]:
        """MONITOR."""
        assert pids == [-1]
        return {n: {"pid": pid, "status": self.status, "global_rank": 8 + n} for n, pid in self.pids.items()}

    def called(self) -> tuple[object, ...]:
        """The next call."""
        return self.calls.get(timeout=SOON)

    def _called(self, operator: str) -> Callable[..., None]:
        return lambda *arguments: self.calls.put((operator, *arguments))


ALL = ("KILL_WORKER", "START_ALL_WORKER", "START_WORKER_LIST", "MONITOR")


@pytest.fixture
def framework() -> Framework:
    """All functions but RESTART are registered."""
    made = Framework()
    made.register(*ALL)
    return made


@dataclass
class Running:
    """An Agent that serves in a thread, and its Mgr."""

    mgr: BlockingNode
    result: Future[bool]

    def command(self, code: int, message: str = "", msg_type: str = "ACTION") -> None:
        """Have the Mgr command something."""
        assert self.mgr.send(Body(msg_type, code, message).to_json(), to=AGENT).ok


@pytest.fixture
def running(mgr: BlockingNode, threads: ThreadPoolExecutor) -> Iterator[Running]:
    """An Agent that has registered and has asked for the go."""
    config = NodeConfig.proxy(server_rank=2, listen="127.0.0.1:0", upstream=mgr.address or "")
    with BlockingNode(config) as near:
        host, port = (near.address or "").split(":")
        wanted = {"Framework": "MindSpore", "UpstreamAddr": host, "UpstreamPort": port, "ServerRank": "2"}
        assert api.init_taskd_agent(wanted)
        result = threads.submit(api.start_taskd_agent)
        for expected in (Body("REGISTER", 0), Body("STATUS", 201, "0")):
            message = mgr.receive(SOON)
            assert (Body.parse(message.body), message.mtype, str(message.src)) == (expected, "DEFAULT", AGENT)
        yield Running(mgr, result)
        if agent.slot._member is not None:
            assert api.destroy_taskd_agent()
        result.result(SOON)


def test_commands_and_functions(running: Running, framework: Framework) -> None:
    running.command(210, "3")
    assert framework.called() == ("START_ALL_WORKER",)
    running.command(208, "0")
    assert framework.called() == ("KILL_WORKER", [-1])
    assert framework.called() == ("START_ALL_WORKER",)
    framework.register("RESTART")
    running.command(208, "0")
    assert framework.called() == ("RESTART",)
    running.command(213, '["9", "10", "77"]')
    assert framework.called() == ("KILL_WORKER", [101])  # 10 has no process, 77 is elsewhere
    running.command(209, "[8, 10]")
    assert framework.called() == ("KILL_WORKER", [100])
    assert framework.called() == ("START_WORKER_LIST", [0, 2])
    running.command(209, "[77]")
    assert not running.result.done() and framework.calls.empty()
    assert api.destroy_taskd_agent()
    assert running.result.result(SOON) is True


@pytest.mark.parametrize(("code", "message"), [(203, ""), (208, "-1")])
def test_commands_to_leave_with_1(code: int, message: str, running: Running, framework: Framework) -> None:
    running.command(code, message)
    assert framework.called() == ("KILL_WORKER", [-1])
    assert running.result.result(SOON) is False
    assert agent.slot._member is None
    assert running.mgr.send("x", to=AGENT, timeout=SOON).code in (Code.NO_ROUTE, Code.NET_STREAM_NOT_INITED)


def test_leaving_does_not_depend_on_the_framework(running: Running, failures: Failures) -> None:
    running.command(203)
    assert running.result.result(SOON) is False
    assert "command_failed" in (line := failures.only()) and "no function is registered for KILL_WORKER" in line


def test_graceful_exit(running: Running, framework: Framework) -> None:
    """SIGTERM, time to end, and an end by force for what has not."""
    code = "import signal; signal.signal(signal.SIGTERM, lambda *_: exit(7)); print(1, flush=True); signal.pause()"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"1\n"
        framework.pids = {0: process.pid, 1: 300}
        framework.monitor = lambda pids: {  # type: ignore[method-assign]
            0: {"pid": process.pid, "status": process.poll(), "global_rank": 8}
        }
        framework.register("MONITOR")
        running.command(0, msg_type="GRACE_EXIT")
        assert running.result.result(SOON) is True
        assert process.wait(SOON) == 7
    assert framework.called() == ("KILL_WORKER", [-1])


def test_graceful_exit_of_workers_that_do_not_end(
    running: Running, framework: Framework, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "GRACE_EXIT_S", 0.0)
    with subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]) as process:
        try:
            process.send_signal(signal.SIGSTOP)
            framework.pids = {0: process.pid}
            framework.register("MONITOR")
            running.command(0, msg_type="GRACE_EXIT")
            assert framework.called() == ("KILL_WORKER", [-1])
            assert running.result.result(SOON) is True
        finally:
            process.kill()


def test_destroy_ends_a_graceful_exit(running: Running, framework: Framework) -> None:
    framework.pids = {0: 300}
    asked: SimpleQueue[None] = SimpleQueue()

    def monitor(_: list[int]) -> dict[int, dict[str, object]]:
        asked.put(None)
        return {0: {"pid": 2**22 + 1, "status": None, "global_rank": 8}}  # beyond every pid of Linux

    api.register_func("MONITOR", monitor)
    running.command(0, msg_type="GRACE_EXIT")
    for _ in range(2):
        asked.get(timeout=SOON)
    assert api.destroy_taskd_agent()
    assert running.result.result(SOON) is True and framework.calls.empty()


def test_what_cannot_be_carried_out_is_logged_and_the_next_command_is(
    running: Running, framework: Framework, failures: Failures
) -> None:
    def fail(*_: object) -> None:
        raise OSError("no such worker")

    api.register_func("KILL_WORKER", fail)
    for code, message, reason in (
        (208, "many", "invalid literal for int"),
        (208, "1", "no such worker"),
        (209, "8", "expected a JSON list of ranks"),
        (213, "no JSON", "Expecting value"),
        (213, '["x"]', "rank is 'x'; expected a whole number"),
        (204, "", "an Agent does nothing for code 204"),
    ):
        running.command(code, message)
        until(lambda: bool(failures.lines))
        assert reason in (line := failures.only()) and "command_failed" in line
    assert running.mgr.send("no JSON", to=AGENT).ok
    until(lambda: bool(failures.lines))
    assert "Expecting value" in failures.only()
    api.register_func("MONITOR", lambda _: [])
    running.command(209, "[8]")
    until(lambda: bool(failures.lines))
    assert "MONITOR answered []; expected a dict by local rank" in failures.only()
    running.command(210)
    assert framework.called() == ("START_ALL_WORKER",)


@pytest.mark.parametrize(
    ("operator", "func", "reason"),
    [
        ("KILL", print, "operator is 'KILL'; expected one of KILL_WORKER, START_ALL_WORKER, START_WORKER_LIST,"),
        (None, print, "operator is None;"),
        ([], print, "operator is [];"),
        ("MONITOR", None, "func is None; expected a function"),
    ],
)
def test_functions_that_are_none(operator: object, func: object, reason: str, failures: Failures) -> None:
    assert api.register_func(operator, func) is False  # type: ignore[arg-type]
    assert reason in failures.only()


def test_second_start(running: Running, failures: Failures) -> None:
    assert api.start_taskd_agent() is False
    assert "it has been started already" in failures.only()
    assert not running.result.done()


@pytest.mark.parametrize(
    ("config", "environment", "position", "upstream"),
    [
        ({}, {}, "Agent/0", "127.0.0.1:9602"),
        ({}, {"RANK": "4", "MS_NODE_RANK": "5"}, "Agent/4", "127.0.0.1:9602"),
        ({"Framework": "MindSpore"}, {"RANK": "4", "MS_NODE_RANK": "5"}, "Agent/5", "127.0.0.1:9602"),
        ({"Framework": "MindSpore"}, {"RANK": "4"}, "Agent/0", "127.0.0.1:9602"),
        ({"ServerRank": 7, "UpstreamAddr": "::1", "UpstreamPort": 80}, {"RANK": "4"}, "Agent/7", "[::1]:80"),
        ({"ServerRank": "7", "UpstreamAddr": "[fe80::1]", "UpstreamPort": "80"}, {}, "Agent/7", "[fe80::1]:80"),
        ({"UpstreamAddr": "node-0.job", "Other": object()}, {}, "Agent/0", "node-0.job:9602"),
    ],
)
def test_config(
    config: dict[str, object],
    environment: dict[str, str],
    position: str,
    upstream: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert api.init_taskd_agent(config)
    node = agent.slot.member.node
    assert (str(node.position), node.config.upstream) == (position, upstream)
    assert api.destroy_taskd_agent()


def test_restarts_that_remain_to_pytorchs_agent(mgr: BlockingNode, threads: ThreadPoolExecutor) -> None:
    class SimpleElasticAgent:
        _remaining_restarts = 3

    host, port = (mgr.address or "").split(":")
    assert api.init_taskd_agent({"UpstreamAddr": host, "UpstreamPort": int(port)}, cls=SimpleElasticAgent())
    result = threads.submit(api.start_taskd_agent)
    assert [Body.parse(mgr.receive(SOON).body).message for _ in range(2)] == ["", "3"]
    assert api.destroy_taskd_agent() and result.result(SOON) is True
