"""The Agent in a mesh of real sockets, with doubles of the frameworks whose workers are processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import grpc
import pytest

from taskd_net import BlockingNode, Code, NodeConfig, Retry, api, job_limits, limits
from taskd_net.api import agent, agent_messages
from taskd_net.api.body import Body
from taskd_net.api.plans import MindSporePlans
from taskd_net.api.pytorch import RESTARTED
from taskd_net.api.supervision import Supervisor
from tests.api.conftest import SOON, Failures, take, until
from tests.api.frameworks import FINISHES, RUNS, Double, Msrun, RunResult, SimpleElasticAgent, WorkerState
from tests.freezing import freeze
from tests.peers.stubs import pb, position, rpc

AGENT = "Agent/2"
STUBBORN = RUNS.replace("os._exit(7)", "None")
FAULT = '{"fault_ranks": %s, "restart_times": -1}'
PLAIN_GO = Body("ACTION", 210, "1")
ANEW = ["REGISTER", "STATUS"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second of an Agent takes a twentieth."""
    monkeypatch.setattr(job_limits, "AGENT_LOOK_S", 0.05)
    monkeypatch.setenv(agent.FINISH_PAUSE, "0")


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


Start = Callable[[Double], Running]


@pytest.fixture
def start(mgr: BlockingNode, threads: ThreadPoolExecutor, frameworks: list[Double]) -> Iterator[Start]:
    """Start an Agent, up to its 201."""
    begun: list[Running] = []
    config = NodeConfig.proxy(server_rank=2, listen="127.0.0.1:0", upstream=mgr.address or "")
    with BlockingNode(config) as near:

        def started(framework: Double) -> Running:
            assert init(near, framework)
            running = Running(mgr, near, threads.submit(api.start_taskd_agent))
            begun.append(running)
            assert running.report("REGISTER").extension["Incarnation"]
            return running

        yield started
        for running in begun:
            if agent.slot._member is not None:
                assert api.destroy_taskd_agent()
            running.result.exception(SOON)


def init(near: BlockingNode, framework: Double) -> bool:
    """Initialise an Agent below a node."""
    host, port = (near.address or "").split(":")
    upstream: dict[str, object] = {"UpstreamAddr": host, "UpstreamPort": int(port), "ServerRank": "2"}
    if isinstance(framework, SimpleElasticAgent):
        return api.init_taskd_agent(upstream, cls=framework)
    return api.init_taskd_agent({**upstream, "Framework": "MindSpore"})


def test_life_of_mindspores_workers(start: Start, msrun: Msrun) -> None:
    running = start(msrun)
    assert running.report(201) == Body("STATUS", 201, "1")
    running.command(210, "-1")
    assert msrun.called() == ("START_ALL_WORKER",)
    assert running.report("KEEP_ALIVE") == agent_messages.keep_alive()

    os.kill(msrun.processes[1].pid, signal.SIGKILL)
    report = running.report(202)
    assert report.message == FAULT % "[9]" and report.extension["REPORT_FAULT_TIME"].isdigit()
    msrun.vanished.add(0)
    assert running.report(202).message == FAULT % "[8, 9]"

    running.command(209, '["9", "77"]')
    assert msrun.called() == ("KILL_WORKER", ["pid of 1"])
    assert msrun.called() == ("START_WORKER_LIST", [1])
    assert running.report(202).message == FAULT % "[8]"
    running.command(208, "1")
    assert msrun.called() == ("KILL_WORKER", [-1])
    msrun.vanished.clear()
    assert msrun.called() == ("START_ALL_WORKER",)
    running.command(213, '["8"]')
    assert msrun.called() == ("KILL_WORKER", ["pid of 0"])
    assert running.report(202).message == FAULT % "[8]"

    running.command(203)
    assert msrun.called() == ("KILL_WORKER", [-1])
    assert running.report(202).message == FAULT % "[]"
    assert running.exit_status() == 1
    assert running.mgr.send("x", to=AGENT, timeout=SOON).code in (Code.NO_ROUTE, Code.NET_STREAM_NOT_INITED)


def test_life_of_pytorchs_workers(start: Start, elastic: SimpleElasticAgent) -> None:
    running = start(elastic)
    assert running.report(201) == Body("STATUS", 201, "3")
    running.command(210, "2")
    assert elastic.called() == ("START_ALL_WORKER", 2)
    elastic.looked()
    os.kill(elastic.pid(9), signal.SIGKILL)
    assert running.report(202).message == FAULT % "[9]"
    running.command(209, "[9, 77]")
    assert elastic.called() == ("RESTART", [9])
    running.command(208, "1")
    assert elastic.called() == ("KILL_WORKER", [8, 9])
    assert elastic.called() == ("START_ALL_WORKER", 1)
    running.command(208, "-1")
    assert elastic.called() == ("KILL_WORKER", [8, 9])
    assert running.exit_status() == 1


def test_result_of_pytorchs_job(start: Start, elastic: SimpleElasticAgent) -> None:
    elastic.program = FINISHES
    running = start(elastic)
    running.command(210, "2")
    expected = RunResult(WorkerState.SUCCEEDED, return_values={8: 0, 9: 0})
    assert running.result.result(SOON) == expected
    assert agent.slot._member is None


def test_end_of_mindspores_job(start: Start, msrun: Msrun) -> None:
    msrun.program = FINISHES
    running = start(msrun)
    running.command(210, "2")
    assert msrun.called() == ("START_ALL_WORKER",)
    assert msrun.called() == ("KILL_WORKER", [-1])
    assert running.exit_status() == 0


def test_no_restart_remains_before_the_start(start: Start, elastic: SimpleElasticAgent) -> None:
    running = start(elastic)
    running.command(210, "-1")
    assert running.exit_status() == 1
    assert elastic.calls.empty()


def test_workers_that_cannot_be_started(start: Start, msrun: Msrun, failures: Failures) -> None:
    msrun.answer = 1
    running = start(msrun)
    running.command(210, "2")
    assert running.exit_status() == 1
    lines, failures.lines[:] = list(failures.lines), []
    reasons = ("START_ALL_WORKER answered 1", "KILL_WORKER answered 1")
    assert all(reason in line for reason, line in zip(reasons, lines, strict=True)), lines


def test_leaving_does_not_depend_on_the_framework(start: Start, msrun: Msrun, failures: Failures) -> None:
    running = start(msrun)
    running.command(210)
    msrun.called()

    def fail(_: object) -> None:
        raise OSError("no such worker")

    api.register_func("KILL_WORKER", fail)
    running.command(203)
    assert running.exit_status() == 1
    assert "command_failed" in (line := failures.only()) and "no such worker" in line


def test_graceful_exit(start: Start, msrun: Msrun) -> None:
    """SIGTERM, time to end, and an end by force for what has not."""
    running = start(msrun)
    running.command(210)
    msrun.called()
    running.command(0, msg_type="GRACE_EXIT")
    assert msrun.called() == ("KILL_WORKER", [-1])
    assert running.exit_status() == 0
    assert [worker.wait(SOON) for worker in msrun.processes] == [7, 7]


def test_graceful_exit_of_workers_that_do_not_end(
    start: Start, elastic: SimpleElasticAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_limits, "GRACE_EXIT_S", 0.1)
    running = start(elastic)
    running.command(210)
    elastic.called()
    for worker in elastic.processes:
        freeze(worker.pid)
    running.command(0, msg_type="GRACE_EXIT")
    assert elastic.called() == ("KILL_WORKER", [8, 9])
    assert running.exit_status() == 0


def test_inbox_is_read_during_a_graceful_exit_and_203_ends_it(start: Start, msrun: Msrun) -> None:
    msrun.program = STUBBORN
    running = start(msrun)
    running.command(210)
    msrun.called()
    running.command(0, msg_type="GRACE_EXIT")
    msrun.looked()
    for _ in range(3 * limits.INBOX["Agent"]):
        running.command(208, "1")
    running.report("KEEP_ALIVE")
    assert msrun.calls.empty()
    running.command(203)
    assert msrun.called() == ("KILL_WORKER", [-1])
    assert running.report(202).message == FAULT % "[]"
    assert running.exit_status() == 1


def test_nothing_else_stops_while_a_function_does(start: Start, msrun: Msrun) -> None:
    """Commands are read, KEEP_ALIVE goes on, and they are carried out in order afterwards."""
    running = start(msrun)
    begun, go_on = threading.Event(), threading.Event()

    def block() -> int:
        begun.set()
        assert go_on.wait(SOON)
        return 0

    api.register_func("START_ALL_WORKER", block)
    api.register_func("START_WORKER_LIST", lambda local_ranks: msrun.calls.put(("START", local_ranks)))
    running.command(210)
    assert begun.wait(SOON)
    for _ in range(2 * limits.INBOX["Agent"]):
        running.command(209, '["8"]')
    for _ in range(3):
        running.report("KEEP_ALIVE")
    assert msrun.calls.empty()
    go_on.set()
    for _ in range(2 * limits.INBOX["Agent"]):
        assert msrun.called() == ("START", [0])
    assert api.destroy_taskd_agent()
    assert running.result.result(SOON) is True


def test_functions_run_in_the_thread_that_started_the_agent(start: Start, msrun: Msrun) -> None:
    seen: set[str] = set()
    api.register_func("START_ALL_WORKER", lambda: seen.add(threading.current_thread().name))
    running = start(msrun)
    running.command(210)
    msrun.looked()
    assert len(seen) == 1 and seen.pop().startswith("ThreadPoolExecutor")


def test_go_is_asked_for_again(start: Start, msrun: Msrun, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_limits, "REGISTER_EVERY_S", 0.1)
    running = start(msrun)
    uuids: set[str] = set()
    while len(uuids) < 3:
        message, body = take(running.mgr)
        assert body == Body("STATUS", 201, "1")
        uuids.add(message.uuid)
    running.command(210)
    running.command(210)
    assert msrun.called() == ("START_ALL_WORKER",)
    msrun.looked()
    assert msrun.calls.empty()


@pytest.mark.parametrize(("name", "reason"), [("AGENT_JOIN_S", "not joined"), ("AGENT_GO_S", "no go")])
def test_waiting_for_the_mgr_ends(
    name: str,
    reason: str,
    start: Start,
    msrun: Msrun,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(job_limits, name, 0.1)
    if name == "AGENT_JOIN_S":
        assert api.init_taskd_agent({"Framework": "MindSpore", "UpstreamPort": 1})
        with pytest.raises(SystemExit) as left:
            api.start_taskd_agent()
        assert left.value.code == 1
    else:
        assert start(msrun).exit_status() == 1
    assert f"{reason} within 0.1 s" in caplog.text
    assert msrun.calls.empty()


def test_fault_without_an_answer(
    start: Start, msrun: Msrun, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(job_limits, "FAULT_TIMEOUT_S", (0, 600))
    monkeypatch.setenv(agent.FAULT_TIMEOUT, "0")
    running = start(msrun)
    running.command(210)
    msrun.called()
    os.kill(msrun.processes[0].pid, signal.SIGKILL)
    assert msrun.called() == ("KILL_WORKER", [-1])
    assert running.exit_status() == 1
    assert "no answer to a fault within 0 s" in caplog.text


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("300", 300), ("600", 600), ("299", None), ("601", None), ("long", None)]
)
def test_time_for_an_answer_to_a_fault(
    text: str, seconds: int | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(agent.FAULT_TIMEOUT, text)
    assert agent._fault_timeout() == seconds
    said = f"TASKD_REPORT_FAULT_TIMEOUT is '{text}'; expected 300 to 600 seconds" in caplog.text
    assert said == (bool(text) and seconds is None)


@pytest.mark.parametrize(("go", "expected"), [(agent_messages.go("1", "the Mgr"), ["STATUS"]), (PLAIN_GO, ANEW)])
def test_mgr_that_was_away_gets_the_fault_again(go: Body, expected: list[str], start: Start, msrun: Msrun) -> None:
    """One of this package without a registration, an original one behind a registration."""
    running = start(msrun)
    assert running.mgr.send(go.to_json(), to=AGENT).ok
    msrun.called()
    os.kill(msrun.processes[0].pid, signal.SIGKILL)
    first = running.report(202)
    address = running.mgr.address or ""
    running.mgr.close()
    with BlockingNode(NodeConfig.mgr(listen=address)) as second:
        bodies: list[Body] = []
        # An attempt that the first Mgr has refused may come again before those.
        while [body.msg_type for body in bodies[-len(expected) :]] != expected:
            body = Body.parse(second.receive(SOON).body)
            if body.msg_type != "KEEP_ALIVE":
                bodies.append(body)
        assert [body.msg_type for body in bodies if body != first] == expected[:-1]


def test_fault_of_an_agent_is_repeated_to_a_mgr_of_ours(
    start: Start, msrun: Msrun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_limits, "REGISTER_EVERY_S", 0.2)
    running = start(msrun)
    assert running.mgr.send(agent_messages.go("1", "the Mgr").to_json(), to=AGENT).ok
    msrun.called()
    os.kill(msrun.processes[0].pid, signal.SIGKILL)
    first = running.report(202)
    uuids: set[str] = set()
    while len(uuids) < 2:
        message = running.mgr.receive(SOON)
        body = Body.parse(message.body)
        assert body.msg_type != "REGISTER"
        if body.code == 202:
            assert body == first
            uuids.add(message.uuid)


def test_what_cannot_be_carried_out_is_logged_and_the_next_command_is(
    start: Start, msrun: Msrun, failures: Failures
) -> None:
    running = start(msrun)
    running.command(210)
    msrun.called()

    def fail(*_: object) -> None:
        raise OSError("no such worker")

    api.register_func("KILL_WORKER", fail)
    for code, message, reason in (
        (208, "many", "expected a number of restarts"),
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
    api.register_func("MONITOR", lambda _: [])
    until(lambda: bool(failures.lines))
    msrun.register()
    msrun.looked()
    assert all("MONITOR answered []; expected a dict by local rank" in line for line in failures.lines)
    failures.lines.clear()
    running.command(208, "1")
    assert msrun.called() == ("KILL_WORKER", [-1])
    assert msrun.called() == ("START_ALL_WORKER",)


def test_commands_of_others_do_nothing(start: Start, msrun: Msrun, caplog: pytest.LogCaptureFixture) -> None:
    """A Worker's 203, under its own name and under the Mgr's, and those of another Agent and of the Proxy."""
    running = start(msrun)
    running.command(210)
    msrun.called()
    forged = [Body("ACTION", 203).to_json(), Body("ACTION", 208, "1").to_json(), Body("GRACE_EXIT", 0).to_json()]
    address = running.proxy.address or ""
    with (
        BlockingNode(NodeConfig.worker(server_rank=2, rank=8, upstream=address)) as worker,
        BlockingNode(NodeConfig.agent(server_rank=7, upstream=address)) as other,
    ):
        for text in forged:
            for sender in (worker, other, running.proxy):
                assert sender.send(text, to=AGENT).ok
            for _ in range(20):
                assert worker.send(text, to=AGENT, retry=Retry()).ok

    with grpc.insecure_channel(address) as channel:
        stub, me = rpc.TaskNetStub(channel), position("Worker/2/9")
        assert stub.Register(pb.RegisterReq(uuid="r", pos=me)).code == 0
        assert stub.PathDiscovery(pb.PathDiscoveryReq(uuid="p", proxyPos=me, path=[me])).code == 0
        for text in forged:
            header = pb.MessageHeader(uuid=text, sync=True, src=position("Mgr/0"), dst=position(AGENT))
            assert stub.TransferMessage(pb.Message(header=header, body=text)).code == Code.NIL_POSITION
    msrun.looked()
    assert msrun.calls.empty() and not running.result.done()
    refused = [line for line in caplog.text.splitlines() if "command_refused" in line]
    assert {line.split("src=")[1].split()[0] for line in refused} == {"Worker/2/8", "Agent/7", "Proxy/2"}
    assert len(refused) <= 3 * limits.LOG_PEER_LINES
    running.command(203)
    assert msrun.called() == ("KILL_WORKER", [-1])


def test_destroy_ends_a_graceful_exit(start: Start, msrun: Msrun) -> None:
    msrun.program = STUBBORN
    running = start(msrun)
    running.command(210)
    msrun.called()
    running.command(0, msg_type="GRACE_EXIT")
    msrun.looked()
    assert api.destroy_taskd_agent()
    assert running.result.result(SOON) is True and msrun.calls.empty()


def test_destroy_while_a_function_runs(start: Start, msrun: Msrun) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        assert go_on.wait(SOON)

    api.register_func("START_ALL_WORKER", block)
    running = start(msrun)
    running.command(210)
    assert begun.wait(SOON)
    assert api.destroy_taskd_agent()
    assert not running.result.done()
    go_on.set()
    assert running.result.result(SOON) is True


def test_fault_of_this_package_leaves_nobody_waiting(
    start: Start, msrun: Msrun, failures: Failures, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(msrun)

    def fail(*_: object) -> list[object]:
        raise ZeroDivisionError

    monkeypatch.setattr(Supervisor, "handle", fail)
    assert running.exit_status() == 1
    assert "beside_failed" in failures.only()


def test_functions_that_are_missing(msrun: Msrun, failures: Failures) -> None:
    agent._operators._functions.clear()
    assert api.init_taskd_agent({"Framework": "MindSpore"})
    assert api.register_func("START_ALL_WORKER", print)
    assert api.start_taskd_agent() is False
    assert "no function is registered for KILL_WORKER, START_WORKER_LIST, MONITOR" in failures.only()
    assert api.destroy_taskd_agent()


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


def test_second_start(start: Start, msrun: Msrun, failures: Failures) -> None:
    running = start(msrun)
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
    assert api.init_taskd_agent(config, None if "Framework" in config else SimpleElasticAgent())
    node = agent.slot.member.node
    assert (str(node.position), node.config.upstream) == (position, upstream)
    assert api.destroy_taskd_agent()


@pytest.mark.parametrize("config", [{}, {"Framework": "PyTorch"}])
def test_pytorch_needs_its_agent(config: dict[str, object], failures: Failures) -> None:
    assert api.init_taskd_agent(config) is False
    assert "cls is None; expected the SimpleElasticAgent" in failures.only()


@pytest.mark.parametrize(
    ("devices", "restart", "plans"),
    [
        (["davinci0", "davinci_manager"], None, MindSporePlans(60.0, 15.0, 10.0)),
        (["davinci_manager", "null"], None, MindSporePlans(0.0, 0.0, 10.0)),
        (["davinci0"], "0", MindSporePlans(0.0, 0.0, 10.0)),
        ([], "20.5", MindSporePlans(20.5, 15.0, 10.0)),
    ],
)
def test_pauses_are_for_npus(
    devices: list[str],
    restart: str | None,
    plans: MindSporePlans,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path_factory.mktemp("dev")
    for device in devices:
        (folder / device).touch()
    monkeypatch.setattr(agent, "DEVICES", folder)
    monkeypatch.delenv(agent.FINISH_PAUSE)
    if restart is not None:
        monkeypatch.setenv(agent.RESTART_PAUSE, restart)
    assert agent._mindspore_plans() == plans


@pytest.mark.parametrize("value", ["-1", "nan", "long"])
def test_pause_that_is_none(value: str, failures: Failures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(agent.RESTART_PAUSE, value)
    assert api.init_taskd_agent({"Framework": "MindSpore"}) is False
    reason = f"TASKD_NET_RESTART_PAUSE is '{value}'; expected a number of seconds, at least 0"
    assert reason in failures.only()
