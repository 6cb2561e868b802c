"""MindIO's controller in its process, against the double of MindIO and training processes."""

from __future__ import annotations

import math
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from taskd_net.base import threads
from taskd_net.base.codes import NodeError
from taskd_net.job.clusterd import DLRecoverManager, pb, rpcs
from taskd_net.job.clusterd.controller import NoHandler, Ranks, Reports, carry_out
from taskd_net.job.clusterd.mindio import MindIO, MindIORefused
from taskd_net.job.decide.traffic import Call
from taskd_net.net.wire import recover_pb2 as wire
from tests import mindio as double
from tests.peers.clusterd import ClusterD

pytestmark = pytest.mark.oldest


class Heard(Reports):
    """Reports that are written down; they raise or wait where a test says so."""

    def __init__(self) -> None:
        self.given: list[tuple[object, ...]] = []
        self.error: Exception | None = None
        self.go = threading.Event()
        self.go.set()

    def stop_complete(self, code: int, msg: str, ranks: Ranks) -> int:
        return self._take("stop_complete", code, dict(ranks))

    def strategies(self, ranks: Ranks, strategies: Iterable[str]) -> int:
        return self._take("strategies", dict(ranks), list(strategies))

    def result(self, code: int, msg: str, ranks: Ranks, strategy: str) -> int:
        return self._take("result", code, strategy)

    def fault_ranks(self, ranks: Ranks, codes: object = None) -> int:
        return self._take("fault_ranks", dict(ranks))

    def _take(self, *report: object) -> int:
        self.given.append(report)
        self.go.wait(20)
        if self.error is not None:
            raise self.error
        return 0


def eventually(true: Callable[[], object]) -> None:
    """Wait for a state of another process."""
    give_up_at = time.monotonic() + 60
    while not true():
        assert time.monotonic() < give_up_at, true
        time.sleep(0.005)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[double.Job]:
    with double.job(tmp_path, monkeypatch) as made:
        yield made


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def controller(job: double.Job, heard: Heard) -> Iterator[MindIO]:
    """A controller that has started, and whose processes train."""
    made = MindIO.find()
    assert made is not None
    made.start(heard)
    job.train()
    eventually(lambda: job.all_are("trains"))
    yield made
    made.kill()


def stopped(controller: MindIO, heard: Heard) -> None:
    controller.stop_train({3: 1}, 900)
    eventually(lambda: ("stop_complete", 0, {3: 1}) in heard.given)


def chosen(controller: MindIO, heard: Heard) -> None:
    stopped(controller, heard)
    controller.on_global_rank({3: 1}, 0)
    eventually(lambda: ("strategies", {3: 1}, ["recover", "dump", "exit"]) in heard.given)


def test_a_round_ends_with_the_training(controller: MindIO, heard: Heard, job: double.Job) -> None:
    chosen(controller, heard)
    eventually(lambda: job.all_are("stopped"))
    controller.change_strategy("recover", "")
    eventually(lambda: ("result", 0, "recover") in heard.given and job.all_are("trains"))
    stopped(controller, heard)
    assert job.calls[2:] == [
        ["stop_train", [[3, 1]], "stop"],
        ["on_global_rank", [[3, 1]]],
        ["change_strategy", "recover", ""],
        ["stop_train", [[3, 1]], "stop"],
    ]


def test_refusals_raise(controller: MindIO, heard: Heard, job: double.Job) -> None:
    calls: list[Callable[[], None]] = [
        lambda: controller.stop_train({9: 1}, 0),
        lambda: controller.on_global_rank({3: 1}, 0),
        lambda: controller.change_strategy("recover", ""),
        lambda: controller.prepare("jump", {}),
    ]
    for call in calls:
        with pytest.raises(MindIORefused, match=r"MindIO has refused .*: it returned 1, expected 0"):
            call()
    chosen(controller, heard)
    with pytest.raises(MindIORefused, match="MindIO has refused change_strategy"):
        controller.change_strategy("upgrade", "")


@pytest.mark.parametrize(("seconds", "given"), [(0, []), (33, [33]), (3600, [3600]), (86_400, [3600])])
def test_on_global_rank_has_the_time_of_its_signal(
    controller: MindIO, heard: Heard, job: double.Job, seconds: int, given: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HCCL_CONNECT_TIMEOUT", "1800")
    stopped(controller, heard)
    controller.on_global_rank({3: 1}, seconds)
    assert job.calls[-1] == ["on_global_rank", [[3, 1]], *given]


@pytest.mark.parametrize(("connect", "timeout"), [("", 600), ("120", 300), ("7200", 7200), ("7201", 7200), ("x", 600)])
def test_a_pause_without_a_time_follows_that_of_a_connect(
    controller: MindIO, heard: Heard, job: double.Job, connect: str, timeout: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HCCL_CONNECT_TIMEOUT", connect)
    controller.pause_train({}, 0)
    assert job.calls[-1] == ["stop_train", [], "pause", timeout]
    eventually(lambda: ("stop_complete", 0, {}) in heard.given)
    stopped(controller, heard)  # a stop in a pause begins a round


def test_a_second_stop_within_a_round_is_refused_and_restarts_the_controller(
    controller: MindIO, heard: Heard, job: double.Job
) -> None:
    chosen(controller, heard)
    with pytest.raises(MindIORefused, match="a second stop_train came within a round"):
        controller.stop_train({3: 1}, 0)
    assert job.names[-4:] == ["change_strategy", "destroy_controller", "init_controller", "start_controller"]
    assert job.calls[-4] == ["change_strategy", "exit", ""]
    eventually(lambda: job.all_are("ended"))
    with pytest.raises(MindIORefused, match="no training processes until they are restarted"):
        controller.on_global_rank({3: 1}, 0)
    carry_out(controller, Call("restart"), heard)
    job.train()
    eventually(lambda: job.all_are("trains"))
    stopped(controller, heard)


@pytest.mark.parametrize("refused", [False, True])
def test_a_stop_after_mindio_has_given_up_is_refused_and_restarts_the_controller(
    refused: bool, controller: MindIO, heard: Heard, job: double.Job
) -> None:
    controller.gives_up_s = 60 / double.SPEED
    job.kill(3)
    eventually(lambda: heard.given == [("fault_ranks", {3: 1})])
    if refused:  # what MindIO has refused is no order to it
        for order in (controller.stop_train, controller.pause_train):
            with pytest.raises(MindIORefused, match="MindIO has refused stop_train"):
                order({7_000: 0}, 0)
    eventually(lambda: job.states[:3] == ["ended"] * 3)
    eventually(lambda: time.monotonic() > controller._gives_up_at)
    with pytest.raises(MindIORefused, match="no order came in time after a fault or a pause"):
        controller.stop_train({3: 1}, 0)
    assert job.names.count("start_controller") == 2


def test_a_stop_after_a_pause_that_ran_out_is_refused(
    controller: MindIO, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller.pause_train({}, 30)
    paused_until = controller._gives_up_at
    assert 0.0 < paused_until - time.monotonic() <= 30.0
    monkeypatch.setattr(controller, "_gives_up_at", time.monotonic() - 1.0)
    with pytest.raises(MindIORefused, match="no order came in time after a fault or a pause"):
        controller.stop_train({3: 1}, 0)


def test_a_pause_that_goes_on_does_not_run_out(controller: MindIO, heard: Heard) -> None:
    controller.pause_train({}, 30)
    eventually(lambda: any(name == "stop_complete" for name, *_ in heard.given))
    controller.change_strategy("continue", "")
    assert controller._gives_up_at == math.inf


def test_a_stop_after_a_checkpoint_is_refused(controller: MindIO, job: double.Job) -> None:
    controller.save_and_exit()
    eventually(lambda: job.all_are("saved"))
    with pytest.raises(MindIORefused, match="until they are restarted"):
        controller.stop_train({3: 1}, 0)


@pytest.mark.parametrize("in_round", [False, True])
def test_a_restart_ends_the_processes_first_and_lets_new_ones_in(
    controller: MindIO, heard: Heard, job: double.Job, in_round: bool
) -> None:
    if in_round:
        chosen(controller, heard)
    before = len(job.calls)
    carry_out(controller, Call("restart"), heard)
    names = ["change_strategy", "destroy_controller", "init_controller", "start_controller"]
    assert job.names[before:] == names
    if in_round:
        eventually(lambda: job.all_are("ended"))
    job.close()
    job.train()
    eventually(lambda: job.all_are("trains"))
    stopped(controller, heard)


def test_callbacks_return_at_once_and_keep_their_order(controller: MindIO, heard: Heard, job: double.Job) -> None:
    heard.go.clear()
    controller.stop_train({3: 1}, 0)
    eventually(lambda: heard.given)
    controller.on_global_rank({3: 1}, 0)
    controller.change_strategy("recover", "")
    eventually(lambda: job.all_are("trains"))
    assert len(heard.given) == 1, "ClusterD has not answered the first report"
    heard.go.set()
    eventually(lambda: len(heard.given) == 3)
    assert [name for name, *_ in heard.given] == ["stop_complete", "strategies", "result"]


def test_reports_that_fail_do_not_end_mindio(
    controller: MindIO, heard: Heard, job: double.Job, caplog: pytest.LogCaptureFixture
) -> None:
    heard.error = RuntimeError("no ClusterD")
    chosen(controller, heard)
    eventually(lambda: caplog.text.count("mindio_report_failed") == 2)
    controller.change_strategy("recover", "")
    eventually(lambda: job.all_are("trains"))


def test_reports_end_with_the_controller(controller: MindIO, heard: Heard, job: double.Job) -> None:
    heard.go.clear()
    controller.stop_train({3: 1}, 0)
    eventually(lambda: heard.given)
    controller.on_global_rank({3: 1}, 0)
    controller.close()
    heard.go.set()
    with pytest.raises(NoHandler, match="MindIO's controller was not started"):
        controller.stop_train({3: 1}, 0)
    assert len(heard.given) == 1


def test_an_abort_is_not_the_managers(
    job: double.Job, heard: Heard, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MINDIO_FAULT", "abort stop_train")
    lost: list[bool] = []
    controller = MindIO(lost.append)
    controller.again_s = 0.0
    controller.start(heard)
    job.train()
    eventually(lambda: job.all_are("trains"))
    with pytest.raises(MindIORefused, match="MindIO's controller has ended in stop_train"):
        controller.stop_train({3: 1}, 0)
    eventually(lambda: lost == [True])
    assert f"status={-signal.SIGABRT}" in caplog.text
    eventually(lambda: job.all_are("unprotected"))
    with pytest.raises(MindIORefused, match="until they are restarted: its process has ended with status -6"):
        controller.stop_train({3: 1}, 0)
    controller.start(heard)
    with pytest.raises(MindIORefused, match="until they are restarted"):
        controller.stop_train({3: 1}, 0)
    controller.close()


def test_a_call_that_never_returns_is_ended(job: double.Job, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINDIO_FAULT", "hang dump")
    controller = MindIO()
    controller.start(heard)
    process = controller._process
    assert process is not None
    with pytest.raises(MindIORefused, match=r"MindIO has not returned from dump within 0\.05 s"):
        process.call("dump", seconds=0.05)
    eventually(lambda: controller.loss)
    controller.close()


def test_a_destroy_that_takes_long_is_ended(controller: MindIO, heard: Heard, job: double.Job) -> None:
    controller.end_s = 0.05
    stopped(controller, heard)
    process = controller._process
    assert process is not None
    controller.close()
    eventually(lambda: not process._reader.is_alive())
    assert process._popen.returncode == -signal.SIGKILL


def test_a_kill_in_a_restart_leaves_no_process(
    controller: MindIO, heard: Heard, job: double.Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINDIO_FAULT", "hang init_controller")
    failed: list[Exception] = []

    def restart() -> None:
        try:
            carry_out(controller, Call("restart"), heard)
        except MindIORefused as error:
            failed.append(error)

    thread = threading.Thread(target=restart)
    thread.start()
    eventually(lambda: job.names.count("init_controller") == 2)
    controller.kill()
    thread.join(20)
    assert len(failed) == 1 and controller._process is None
    with pytest.raises(MindIORefused, match="was ended while it started"):
        controller.start(heard)


@pytest.mark.parametrize("thread", ["reports of MindIO's controller", "reads from MindIO's controller"])
def test_a_process_without_its_threads_is_ended(
    job: double.Job, heard: Heard, monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    start = threads.start

    def fail(work: Callable[[], object], name: str, **options: bool) -> threading.Thread:
        if name == thread:
            raise NodeError("no more threads")
        return start(work, name, **options)

    monkeypatch.setattr(threads, "start", fail)
    controller = MindIO()
    with pytest.raises(NodeError, match="no more threads"):
        controller.start(heard)
    assert job.calls == []


def test_a_process_that_is_stopped_holds_nobody(
    controller: MindIO, monkeypatch: pytest.MonkeyPatch, job: double.Job
) -> None:
    process = controller._process
    assert process is not None
    process._popen.send_signal(signal.SIGSTOP)
    timeout = struct.pack("ll", 0, 50_000)
    process._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, timeout)
    with pytest.raises(MindIORefused, match=r"MindIO has not returned from on_global_rank within 0\.1 s"):
        process.call("on_global_rank", dict.fromkeys(range(100_000), 1), seconds=0.1)
    eventually(lambda: controller.loss)


def test_the_managers_logs_stay_writable(controller: MindIO, job: double.Job) -> None:
    log = job.folder / "manager.log"
    log.touch()
    controller.close()
    assert "destroy_controller" in job.names
    assert log.stat().st_mode & 0o200


@pytest.mark.parametrize("fault", ["raise", "exit"])
def test_a_start_that_fails_is_said(job: double.Job, heard: Heard, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv("MINDIO_FAULT", f"{fault} init_controller")
    controller = MindIO()
    with pytest.raises(MindIORefused, match="MindIO has failed in init: "):
        controller.start(heard)
    with pytest.raises(NoHandler):
        controller.stop_train({3: 1}, 0)


def test_a_package_that_cannot_be_imported_is_said(
    job: double.Job, heard: Heard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mindio_ttp").mkdir()
    (tmp_path / "mindio_ttp" / "__init__.py").write_text("")
    (tmp_path / "mindio_ttp" / "controller_ttp.py").write_text("raise OSError('no libttp.so')")
    monkeypatch.syspath_prepend(tmp_path)
    controller = MindIO.find()
    assert controller is not None
    with pytest.raises(MindIORefused, match=r"OSError: no libttp\.so"):
        controller.start(heard)


def test_mindio_starts_as_taskd_starts_it(job: double.Job, heard: Heard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROCESS_RECOVER", "on")
    controller = MindIO()
    controller.start(heard)
    controller.start(heard)  # once
    controller.close()
    assert job.calls[:2] == [
        ["init_controller", -1, 4, False, True, False],
        ["start_controller", "127.0.0.1", job.port, False, ""],
    ]
    assert len(job.calls) == 3
    assert os.environ["TORCH_AGENT_START"] == "0"


@pytest.mark.parametrize(
    ("value", "elastic"),
    [("dump,elastic-training", True), ("elastic-training", True), ("no-elastic-training", False), ("", False)],
)
def test_high_availability_is_a_list(
    job: double.Job, heard: Heard, monkeypatch: pytest.MonkeyPatch, value: str, elastic: bool
) -> None:
    monkeypatch.delenv("WORLD_SIZE")
    monkeypatch.setenv("MS_WORKER_NUM", "8")
    monkeypatch.setenv("HIGH_AVAILABILITY", value)
    controller = MindIO()
    controller.start(heard)
    controller.close()
    assert job.calls[0] == ["init_controller", -1, 8, False, False, elastic]


@pytest.mark.parametrize("variable", ["WORLD_SIZE", "TTP_PORT", "POD_IP"])
def test_mindio_without_its_environment_says_so(
    job: double.Job, heard: Heard, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "")
    with pytest.raises(NoHandler, match="needs WORLD_SIZE or MS_WORKER_NUM, POD_IP and TTP_PORT"):
        MindIO().start(heard)
    assert job.calls == []


def test_a_launcher_has_another_controller_after_an_abort(job: double.Job) -> None:
    def order(uuid: str) -> wire.ProcessManageSignal:
        faults = [wire.FaultRank(rankId="3", faultType="1")]
        return wire.ProcessManageSignal(
            uuid=uuid, jobId="J", signalType="stopTrain", actions=["stop_train"], faultRanks=faults
        )

    with ClusterD() as clusterd:
        manager = DLRecoverManager(pb.ClientInfo(jobId="J", role="master agent"), clusterd.address)
        thread = threading.Thread(target=manager.start_subscribe)
        thread.start()
        try:
            eventually(lambda: "start_controller" in job.names)
            job.train()
            eventually(lambda: job.all_are("trains"))
            controller = manager._controller
            assert isinstance(controller, MindIO) and controller._process is not None
            controller.again_s = 0.0
            controller._process._popen.kill()
            eventually(lambda: job.names.count("start_controller") == 2)
            clusterd.send(rpcs.SIGNALS, order("u"))
            assert clusterd.wait_for(rpcs.STOP_COMPLETE)[0].status.code == 499
            manager.restart_controller()
            eventually(lambda: job.names.count("start_controller") == 3)
            job.train()
            eventually(lambda: job.all_are("trains"))
            clusterd.send(rpcs.SIGNALS, order("v"))
            assert clusterd.wait_for(rpcs.STOP_COMPLETE, 2)[1].status.code == 0
        finally:
            manager.close()
            thread.join(20.0)


def test_mindio_that_is_not_installed_is_none() -> None:
    assert MindIO.find() is None


def test_the_process_ends_with_its_parent(job: double.Job, tmp_path: Path) -> None:
    """Also while a call holds it, and while a forked child has the parent's end of the socket."""
    program = """\
import os, sys, time
from taskd_net.job.clusterd.mindio import MindIO
from tests.recover.test_mindio import Heard
controller = MindIO()
controller.start(Heard())
print(controller._process._popen.pid, flush=True)
if (pid := os.fork()) == 0:
    time.sleep(600)
print(pid, flush=True)
controller.save_and_exit()
"""
    environment = {**os.environ, "MINDIO_FAULT": "hang dump", "PYTHONPATH": f"{double.PATH}:{Path.cwd()}"}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        child, forked = int(parent.stdout.readline()), int(parent.stdout.readline())
        try:
            eventually(lambda: job.names[-1:] == ["dump"])
            parent.kill()
            parent.wait()
            eventually(lambda: not runs(child))
        finally:
            os.kill(forked, signal.SIGKILL)


def runs(pid: int) -> bool:
    """True for a process that is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
