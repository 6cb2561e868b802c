"""The Agent in a mesh of real sockets, with doubles of the frameworks whose workers are processes."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import cast

import grpc
import pytest

from taskd_net import BlockingNode, Code, NodeConfig, Retry
from taskd_net.base import limits
from taskd_net.base.body import Body
from taskd_net.base.progress import NodeProgress, Seen, read_progress
from taskd_net.job import api, arguments
from taskd_net.job.agent import agent as shell
from taskd_net.job.agent import messages
from taskd_net.job.agent.records import Records
from taskd_net.job.agent.supervision import Supervisor
from taskd_net.job.api import agent
from tests.agent.ranks import Rank
from tests.api.conftest import AGENT, QUICK, SOON, Failures, Start, until
from tests.api.frameworks import (
    FINISHES,
    RUNS,
    Double,
    Msrun,
    RunResult,
    SimpleElasticAgent,
    WorkerGroup,
    WorkerState,
)
from tests.freezing import freeze
from tests.peers.stubs import pb, position, rpc

STUBBORN = RUNS.replace("os._exit(7)", "None")
FAULT = '{"fault_ranks": %s, "restart_times": -1}'

pytestmark = pytest.mark.usefixtures("quick")


def test_life_of_mindspores_workers(start: Start, msrun: Msrun) -> None:
    running = start(msrun)
    assert running.report(201) == Body("STATUS", 201, "1")
    running.command(210, "-1")
    assert msrun.called() == ("START_ALL_WORKER",)
    assert running.report("KEEP_ALIVE") == messages.keep_alive()

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


def test_workers_learn_that_the_mgr_recovers_in_place(
    start: Start, elastic: SimpleElasticAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(arguments.IN_PLACE, "")
    running = start(elastic)
    assert running.mgr.send(Body("ACTION", 210, "2", {"InPlace": "on"}).to_json(), to=AGENT).ok
    assert elastic.called() == ("START_ALL_WORKER", 2)
    assert os.environ[arguments.IN_PLACE] == "on"


class Marking(SimpleElasticAgent):
    """The double with records, and with workers that mark steps as a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.records = Records()
        self.ranks: dict[int, Rank] = {}

    def _begin(self, worker_group: WorkerGroup) -> None:
        for worker in worker_group.workers:
            worker.global_rank = 8 + worker.local_rank
            rank = self.ranks[worker.local_rank] = Rank(self.records, worker.local_rank, worker.global_rank)
            worker.id = rank.process.pid
            self._by_pid[worker.id] = cast("subprocess.Popen[bytes]", rank.process)
            self.processes.append(self._by_pid[worker.id])


def test_keep_alives_tell_the_progress_of_the_workers(start: Start, frameworks: list[Double]) -> None:
    framework = Marking()
    framework.register()
    frameworks.append(framework)
    running = start(framework, look=QUICK)

    def command(code: int, message: str, highest: str) -> None:
        extension = {"Incarnation": "m", "HighestStep": highest}
        assert running.mgr.send(Body("ACTION", code, message, extension).to_json(), to=AGENT).ok

    def told(true: Callable[[NodeProgress], object]) -> NodeProgress:
        while True:
            found = read_progress(running.report("KEEP_ALIVE").extension.get("Progress", ""))
            if found is not None and true(found):
                return found

    command(210, "2", "4")
    framework.called()
    for local_rank, rank in framework.ranks.items():
        rank.run("from taskd_net import train", f"train.step({4 + local_rank})")
    found = told(lambda now: now.marking == 2)
    assert (found.ranks, found.watched, found.lowest, found.highest, found.steps) == (2, 2, 4, 5, 1)
    framework.ranks[1].process.kill()
    assert told(lambda now: any(each.seen is Seen.ENDED for each in now.slowest)).lowest == 4
    command(209, "[9]", "5")
    assert framework.called() == ("RESTART", [9])
    framework.ranks[1].run("from taskd_net import train", "train.step(5)", "train.step(6)")
    found = told(lambda now: now.highest == 6)
    assert (found.steps, found.again) == (3, 1)
    framework.records.close()


def test_worker_that_ends_is_noticed_between_two_looks(start: Start, elastic: SimpleElasticAgent) -> None:
    running = start(elastic, look=3600.0)
    running.command(210, "2")
    elastic.called()
    os.kill(elastic.pid(9), signal.SIGKILL)
    assert running.report(202).message == FAULT % "[9]"
    os.kill(elastic.pid(8), signal.SIGKILL)
    assert running.report(202).message == FAULT % "[8, 9]"
    running.command(209, "[9]")
    elastic.called()
    assert running.report(202).message == FAULT % "[8]"
    os.kill(elastic.pid(9), signal.SIGKILL)
    assert running.report(202).message == FAULT % "[8, 9]"


def test_worker_of_mindspore_that_ends_is_noticed_between_two_looks(start: Start, msrun: Msrun) -> None:
    """MONITOR tells their processes at once after each start."""
    running = start(msrun, look=3600.0)
    running.command(210, "1")
    for lives in range(2):
        msrun.called()
        msrun.looks.get(timeout=SOON)
        msrun.processes[-1].kill()
        assert running.report(202).message == FAULT % "[9]"
        running.command(209, '["9"]')
        assert msrun.called()[0] == "KILL_WORKER", lives


class DeathSignal(Exception):
    """PyTorch's SignalException."""

    sigval = signal.SIGTERM


@pytest.mark.parametrize("operator", ["START_ALL_WORKER", "MONITOR"])
def test_signal_belongs_to_the_caller(operator: str, start: Start, elastic: SimpleElasticAgent) -> None:
    def interrupted(_: object) -> None:
        raise DeathSignal

    running = start(elastic)
    assert api.register_func(operator, interrupted)
    running.command(210, "2")
    with pytest.raises(DeathSignal):
        raise running.result.exception(SOON) or AssertionError


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
    assert running.exit_status() == 143
    assert [worker.wait(SOON) for worker in msrun.processes] == [7, 7]


def test_graceful_exit_of_workers_that_do_not_end(start: Start, elastic: SimpleElasticAgent) -> None:
    running = start(elastic, times=replace(shell.times_of_environment(), grace=0.1))
    running.command(210)
    elastic.called()
    for worker in elastic.processes:
        freeze(worker.pid)
    running.command(0, msg_type="GRACE_EXIT")
    assert elastic.called() == ("KILL_WORKER", [8, 9])
    assert running.exit_status() == 143


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


def test_command_to_an_earlier_process_is_refused(start: Start, msrun: Msrun) -> None:
    """A Manager that has restarted repeats it, and this process is new."""
    running = start(msrun)
    running.command(210)
    msrun.called()
    process = ""
    for code in (203, 208):
        body = Body("ACTION", code, "1", {"MeantFor": "an earlier one"})
        assert running.mgr.send(body.to_json(), to=AGENT).ok
        process = running.report("REGISTER").extension["Incarnation"]
    msrun.looked()
    assert msrun.calls.empty() and not running.result.done()
    restart = running.mgr.send(Body("ACTION", 208, "1", {"MeantFor": process}).to_json(), to=AGENT)
    assert (msrun.called(), msrun.called()) == (("KILL_WORKER", [-1]), ("START_ALL_WORKER",))
    os.kill(msrun.processes[-1].pid, signal.SIGKILL)
    assert running.report(202).extension["AfterRestart"] == restart.uuid
    running.command(203)
    assert running.exit_status() == 1


def test_command_of_a_mgr_that_leads_no_more_is_refused(
    start: Start, msrun: Msrun, caplog: pytest.LogCaptureFixture
) -> None:
    """A command that was under way when the leader changed, of a Mgr with its state in etcd."""
    running = start(msrun)

    def send(code: int, **extension: str) -> None:
        assert running.mgr.send(Body("ACTION", code, "1", extension).to_json(), to=AGENT).ok

    send(210, Term="7")
    assert msrun.called() == ("START_ALL_WORKER",)
    send(203, Term="6")
    send(208, Term="7")
    assert (msrun.called(), msrun.called()) == (("KILL_WORKER", [-1]), ("START_ALL_WORKER",))
    send(203)
    assert running.exit_status() == 1, "a Mgr with its state in a file has no term"
    (line,) = (line for line in caplog.text.splitlines() if "command_refused" in line)
    assert "its Mgr led in term 6, and another one leads since term 7" in line


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


def test_answers_of_monitor_that_are_none(start: Start, msrun: Msrun, failures: Failures) -> None:
    """One line for each kind, and the next look."""
    running = start(msrun)
    running.command(210)
    assert msrun.called() == ("START_ALL_WORKER",)
    answers: tuple[object, ...] = (
        [0],
        "running",
        {0: None},
        {"0": {}},
        {0: {"pid": 0, "status": None, "global_rank": 8}},
    )
    for answer in answers:
        msrun.malformed = answer
        msrun.looked()
    msrun.malformed = None
    os.kill(msrun.processes[1].pid, signal.SIGKILL)
    assert running.report(202).message == FAULT % "[9]"
    first, second = failures.lines
    failures.lines.clear()
    assert "expected a dict by local rank" in first
    assert "for local rank 0; expected whole numbers as pid, status and global_rank" in second
