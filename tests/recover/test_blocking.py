from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from taskd_net.base.codes import ConfigError, NodeError
from taskd_net.job import clusterd as recover
from taskd_net.job.clusterd import ClusterdError, Code, DLRecoverManager, HandlerController, Reports, blocking, pb, rpcs
from taskd_net.job.clusterd.blocking import address_of
from taskd_net.job.decide.traffic import Call
from taskd_net.net.wire import recover_pb2 as wire
from tests.peers import certificates
from tests.peers.clusterd import QUICK, RPCS, ClusterD

pytestmark = pytest.mark.oldest

INFO = pb.ClientInfo(jobId="J", role="master agent")
FAULTS = [wire.FaultRank(rankId="3", faultType="1")]


@pytest.fixture
def clusterd() -> Iterator[ClusterD]:
    with ClusterD() as server:
        yield server


@pytest.fixture
def made() -> Iterator[Callable[..., DLRecoverManager]]:
    managers: list[DLRecoverManager] = []

    def make(*arguments: Any, **options: Any) -> DLRecoverManager:
        managers.append(DLRecoverManager(*arguments, **{"times": QUICK} | options))
        return managers[-1]

    yield make
    for manager in managers:
        manager.close()


Made = Callable[..., DLRecoverManager]


def subscribed(manager: DLRecoverManager) -> threading.Thread:
    thread = threading.Thread(target=manager.start_subscribe, args=("pytorch",))
    thread.start()
    return thread


def order(action: str, uuid: str = "u", **fields: Any) -> wire.ProcessManageSignal:
    return wire.ProcessManageSignal(
        uuid=uuid, jobId="J", signalType="stopTrain", actions=[action], faultRanks=FAULTS, **fields
    )


def test_reports_reach_clusterd_and_bring_its_code(clusterd: ClusterD, made: Made) -> None:
    manager = made(INFO, clusterd.address)
    assert manager.register(INFO).code == 0
    assert recover.report_stop_complete(404, "never started", {3: 1}) == 0
    assert recover.report_recover_strategy({3: 1}, ["retry", "exit"]) == 0
    assert recover.report_recover_status(201, "smaller", {3: 1}, "downgrade") == 0
    assert recover.report_process_fault({3: 1}, {3: "0x80"}) == 0
    assert [request for _, request in clusterd.calls] == [
        wire.ClientInfo(jobId="J", role="master agent"),
        wire.StopCompleteRequest(jobId="J", status=wire.Status(code=404, info="never started"), faultRanks=FAULTS),
        wire.RecoverStrategyRequest(jobId="J", faultRanks=FAULTS, strategies=["retry", "exit"]),
        wire.RecoverStatusRequest(
            jobId="J", status=wire.Status(code=201, info="smaller"), strategy="downgrade", isolateRankIds=["3"]
        ),
        wire.ProcessFaultRequest(jobId="J", faultRanks=FAULTS),
    ]


def test_report_without_a_client_makes_one_of_the_environment(
    clusterd: ClusterD, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocking, "_made", [])
    monkeypatch.delenv("MINDX_TASK_ID", raising=False)
    with pytest.raises(ConfigError, match="MINDX_TASK_ID is not set; expected the id of the job"):
        recover.report_process_fault({3: 1})
    monkeypatch.setenv("MINDX_TASK_ID", "J")
    monkeypatch.setenv("TASKD_NET_CLUSTERD_ADDR", clusterd.address)
    try:
        assert recover.report_process_fault({3: 1}) == 0
        assert recover.report_process_fault({3: 1}) == 0
        assert clusterd.calls == [("ReportProcessFault", wire.ProcessFaultRequest(jobId="J", faultRanks=FAULTS))] * 2
        assert len(blocking._made) == 1  # the same one
    finally:
        for each in blocking._made:
            each.close()


def test_report_that_is_refused_is_made_again_after_register(clusterd: ClusterD, made: Made) -> None:
    manager = made(INFO, clusterd.address)
    clusterd.answers["ReportStopComplete"].append(400)
    assert recover.report_stop_complete(0, "", {}) == 0
    clusterd.answers["ReportStopComplete"].extend([599, 599])
    assert recover.report_stop_complete(0, "", {}) == 599
    assert clusterd.names == ["ReportStopComplete", "Register", "ReportStopComplete"] * 2
    assert manager.statistics().reports == {"sent": 1, "refused": 3, "unanswered": 0, "void": 0}


@pytest.mark.parametrize("code", [int(code) for code in Code if code])
def test_every_code_of_an_answer_is_passed_on(clusterd: ClusterD, made: Made, code: int) -> None:
    manager = made(INFO, clusterd.address)
    clusterd.answers["Register"].append(code)
    assert manager.register(INFO).code == code
    for name in ("ReportStopComplete", "ReportRecoverStrategy", "ReportRecoverStatus", "ReportProcessFault"):
        clusterd.answers[name].extend([code, code])
    assert recover.report_stop_complete(0, "", {}) == code
    assert recover.report_recover_strategy({}, []) == code
    assert recover.report_recover_status(0, "", {}, "dump") == code
    assert recover.report_process_fault({}) == code


def test_grpcs_error_is_the_cause(clusterd: ClusterD, made: Made) -> None:
    manager = made(INFO, clusterd.address)
    clusterd.answers["Register"].append(grpc.StatusCode.UNKNOWN)
    with pytest.raises(ClusterdError, match="UNKNOWN: as told") as raised:
        manager.register(INFO)
    assert isinstance(raised.value.__cause__, grpc.RpcError)
    clusterd.stop()
    with pytest.raises(ClusterdError, match="UNAVAILABLE"):
        recover.report_process_fault({})


def test_wrong_arguments_send_nothing(clusterd: ClusterD, made: Made) -> None:
    manager = made(INFO, clusterd.address)
    with pytest.raises(ValueError, match="a rank of fault_ranks is 'x'; expected a rank from 0 to"):
        recover.report_stop_complete(0, "", {"x": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="a strategy of strategy_list is 3; expected a text"):
        recover.report_recover_strategy({}, [3])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="strategy is 3; expected a text"):
        recover.report_recover_status(0, "", {}, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="fault_codes is 3; expected a dict"):
        recover.report_process_fault({}, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="jobId is empty; expected the id of a job"):
        DLRecoverManager(pb.ClientInfo(role="boss"), clusterd.address)
    with pytest.raises(TypeError, match="role is 3; expected a text"):
        manager.register(pb.ClientInfo(jobId="J", role=3))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="server_addr is 3"):
        DLRecoverManager(INFO, 3)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="server_addr"):
        DLRecoverManager(INFO, "a b:1")
    assert clusterd.calls == []


def test_init_is_repeated_until_it_is_taken_or_switched_off(clusterd: ClusterD, made: Made) -> None:
    manager = made(INFO, clusterd.address)
    clusterd.answers["Init"].extend([502, grpc.StatusCode.UNAVAILABLE, 0, 599, 403])
    assert manager.init_clusterd() is True
    assert manager.init_clusterd() is False
    assert clusterd.names == ["Init"] * 5


def test_close_ends_whatever_waits(clusterd: ClusterD, made: Made) -> None:
    clusterd.answers["Init"].extend([502] * 1000)
    manager = made(INFO, clusterd.address)
    ended: list[Exception] = []

    def wait() -> None:
        try:
            manager.init_clusterd()
        except NodeError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    clusterd.wait_for(rpcs.INIT, 2)
    manager.close()
    thread.join(20.0)
    assert ended and not thread.is_alive()
    with pytest.raises(NodeError, match="closed"):
        manager.register(INFO)


WAITING: dict[str, Callable[[DLRecoverManager], object]] = {
    "Register": lambda manager: manager.register(INFO),
    "ReportStopComplete": lambda _: recover.report_stop_complete(0, "", {}),
    "ReportRecoverStrategy": lambda _: recover.report_recover_strategy({}, ["exit"]),
    "ReportRecoverStatus": lambda _: recover.report_recover_status(0, "", {}, "dump"),
    "ReportProcessFault": lambda _: recover.report_process_fault({}),
}


@pytest.mark.parametrize("name", WAITING)
def test_each_call_raises_with_grpcs_error_as_its_cause(clusterd: ClusterD, made: Made, name: str) -> None:
    manager = made(INFO, clusterd.address)
    clusterd.answers[name].append(grpc.StatusCode.INTERNAL)
    with pytest.raises(ClusterdError, match=f"{name} at 127.0.0.1:.*INTERNAL: as told") as raised:
        WAITING[name](manager)
    assert raised.value.status is grpc.StatusCode.INTERNAL
    assert isinstance(raised.value.__cause__, grpc.RpcError)
    clusterd.answers[name].append(400)
    clusterd.answers["Register"].append(grpc.StatusCode.UNKNOWN)
    if name == "Register":
        assert manager.register(INFO).code == 400
        return
    with pytest.raises(ClusterdError, match=r"Register at 127\.0\.0\.1:.*UNKNOWN: as told") as raised:
        WAITING[name](manager)
    assert isinstance(raised.value.__cause__, grpc.RpcError), "nor does the Register before the second try hide it"


@pytest.mark.parametrize("name", WAITING)
def test_close_ends_a_call_that_clusterd_never_answers(clusterd: ClusterD, made: Made, name: str) -> None:
    silence = threading.Event()
    ended: list[Exception] = []

    def wait() -> int:
        silence.wait()
        return 0

    def call() -> None:
        try:
            WAITING[name](manager)
        except NodeError as error:
            ended.append(error)

    clusterd.answers[name].append(wait)
    manager = made(INFO, clusterd.address)
    thread = threading.Thread(target=call)
    thread.start()
    try:
        clusterd.wait_for(next(rpc for rpc in RPCS.values() if rpc.name == name))
        manager.close()
        thread.join(5.0)
        assert ended and not thread.is_alive()
    finally:
        silence.set()


def test_orders_are_carried_out_once_in_the_subscribing_thread(clusterd: ClusterD, made: Made) -> None:
    taken: list[tuple[Call, threading.Thread]] = []

    def stop(call: Call, reports: Reports) -> None:
        taken.append((call, threading.current_thread()))
        assert reports.stop_complete(0, "done", call.ranks) == 0

    manager = made(INFO, clusterd.address, controller=HandlerController({"stop_train": stop}))
    thread = subscribed(manager)
    clusterd.send(rpcs.SIGNALS, order("stop_train"), order("stop_train"))
    clusterd.wait_for(rpcs.STOP_COMPLETE)
    clusterd.end(rpcs.SIGNALS)
    clusterd.wait_for(rpcs.SIGNALS, 2)
    clusterd.send(rpcs.SIGNALS, order("stop_train"), order("stop_train", "v"))
    clusterd.wait_for(rpcs.STOP_COMPLETE, 2)
    manager.close()
    thread.join(20.0)
    assert taken == [(Call("stop_train", {3: 1}, "stop"), thread)] * 2
    seen = manager.statistics()
    assert (seen.taken, seen.repeated, seen.rounds) == (2, 2, 1)


def test_orders_that_nobody_carries_out_are_answered(
    clusterd: ClusterD, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: Call, __: Reports) -> None:
        raise RuntimeError("no checkpoint")

    manager = made(INFO, clusterd.address, controller=HandlerController({"save_and_exit": fail}))
    thread = subscribed(manager)
    orders = [order("stop_train"), order("jump"), order(""), order("on_global_rank"), order("save_and_exit")]
    clusterd.send(rpcs.SIGNALS, *orders)
    (stop,) = clusterd.wait_for(rpcs.STOP_COMPLETE)
    (strategy,) = clusterd.wait_for(rpcs.RECOVER_STRATEGY)
    (status,) = clusterd.wait_for(rpcs.RECOVER_STATUS)
    manager.close()
    thread.join(20.0)
    assert stop.status.code == 404
    assert list(strategy.strategies) == ["exit"]
    assert (status.status.code, status.status.info, status.strategy) == (499, "no checkpoint", "dump")
    assert "action=jump" in caplog.text
    seen = manager.statistics()
    assert (seen.taken, seen.unknown_actions, seen.failed_actions) == (5, 2, 3)


def test_without_a_controller_clusterd_need_not_wait(
    clusterd: ClusterD, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    manager = made(INFO, clusterd.address)
    thread = subscribed(manager)
    clusterd.send(rpcs.SIGNALS, order("stop_train"), order("on_global_rank", "v"))
    (stop,) = clusterd.wait_for(rpcs.STOP_COMPLETE)
    (strategy,) = clusterd.wait_for(rpcs.RECOVER_STRATEGY)
    manager.close()
    thread.join(20.0)
    assert (stop.status.code, list(strategy.strategies)) == (404, ["exit"])
    assert caplog.text.count("no_controller") == 1


def test_report_to_an_order_of_an_ended_stream_is_void(clusterd: ClusterD, made: Made) -> None:
    codes: list[int] = []
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def stop(call: Call, reports: Reports) -> None:
        begun.set()
        assert go.wait(20)
        codes.append(reports.stop_complete(0, "late", call.ranks))
        codes.append(reports.fault_ranks({3: 1}))
        done.set()

    manager = made(INFO, clusterd.address, controller=HandlerController({"stop_train": stop}))
    thread = subscribed(manager)
    clusterd.send(rpcs.SIGNALS, order("stop_train"))
    assert begun.wait(20)
    clusterd.end(rpcs.SIGNALS)
    clusterd.wait_for(rpcs.SIGNALS, 2)
    go.set()
    assert done.wait(20)
    manager.close()
    thread.join()
    assert codes == [599, 0]
    assert manager.statistics().reports_void == 1
    assert clusterd.requests(rpcs.STOP_COMPLETE) == []


def test_403_ends_the_subscription(clusterd: ClusterD, made: Made) -> None:
    clusterd.answers["Init"].append(403)
    made(INFO, clusterd.address).start_subscribe()
    assert clusterd.names == ["Init"]


def test_kill_master_ends_the_controller(clusterd: ClusterD, made: Made) -> None:
    class Ending(HandlerController):
        def __init__(self) -> None:
            super().__init__()
            self.closed = threading.Event()

        def close(self) -> None:
            self.closed.set()

    controller = Ending()
    manager = made(INFO, clusterd.address, controller=controller)
    thread = subscribed(manager)
    kill = wire.ProcessManageSignal(uuid="k", jobId="J", signalType="killMaster", actions=["killMaster"])
    clusterd.send(rpcs.SIGNALS, kill)
    assert controller.closed.wait(20.0)
    manager.close()
    thread.join(20.0)


def test_elastic_agents_form_speaks_tls(made: Made, tmp_path: Path) -> None:
    files = certificates.Folder(tmp_path)
    pair = (Path(files.key).read_bytes(), Path(files.crt).read_bytes())
    with ClusterD(grpc.ssl_server_credentials([pair])) as clusterd:
        info = pb.ClientInfo(ip="10.0.0.1", port="1", taskId="T", role="master agent")
        manager = made(info, clusterd.address, cert_path=files.ca)
        assert manager.register(info).code == 0
        assert clusterd.calls == [("Register", wire.ClientInfo(jobId="T", role="master agent"))]
        plain = made(info, clusterd.address, secure_conn=False)
        with pytest.raises(ClusterdError, match="UNAVAILABLE"):
            plain.register(info)


def test_without_a_certificate_those_of_the_system_are_trusted(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificates.Folder(tmp_path)
    pair = (Path(files.key).read_bytes(), Path(files.crt).read_bytes())
    monkeypatch.setenv("SSL_CERT_FILE", files.ca)
    with ClusterD(grpc.ssl_server_credentials([pair])) as clusterd:
        info = pb.ClientInfo(ip="10.0.0.1", port="1", taskId="T", role="master agent")
        assert made(info, clusterd.address).register(info).code == 0


def test_generated_and_foreign_infos_are_taken(clusterd: ClusterD, made: Made) -> None:
    manager = made(wire.ClientInfo(jobId="J", role="taskd"), clusterd.address)
    assert manager.register(SimpleNamespace(jobId="J", role="taskd")).code == 0


def test_address_without_a_port_has_clusterds() -> None:
    assert str(address_of("clusterd")) == "clusterd:8899"
    assert str(address_of("[::1]")) == "[::1]:8899"
    assert str(address_of("10.0.0.7:1")) == "10.0.0.7:1"


def ranks_of(report: wire.ProcessFaultRequest) -> list[tuple[str, str]]:
    return [(each.rankId, each.faultType) for each in report.faultRanks]


def test_ranks_that_clusterd_has_lost_are_reported_again(clusterd: ClusterD, made: Made) -> None:
    """ClusterD loses the ranks of a report that falls into its reset, and forgets a round whose stream ends."""

    def stop(call: Call, reports: Reports) -> None:
        reports.stop_complete(0, "", call.ranks)

    def change(call: Call, reports: Reports) -> None:
        reports.result(0, "", {}, call.text)

    manager = made(
        INFO, clusterd.address, controller=HandlerController({"stop_train": stop, "change_strategy": change})
    )
    thread = subscribed(manager)
    clusterd.wait_for_stream(rpcs.SIGNALS)
    assert recover.report_process_fault({3: 0}) == 0
    bare = wire.ProcessManageSignal(uuid="u", jobId="J", signalType="stopTrain", actions=["stop_train"])
    clusterd.send(rpcs.SIGNALS, bare)
    assert list(map(ranks_of, clusterd.wait_for(rpcs.PROCESS_FAULT, 2))) == [[("3", "0")]] * 2
    for number, status in ((3, None), (4, grpc.StatusCode.UNAVAILABLE)):
        clusterd.end(rpcs.SIGNALS, status)
        assert ranks_of(clusterd.wait_for(rpcs.PROCESS_FAULT, number)[-1]) == [("3", "0")]
    retry = wire.ProcessManageSignal(
        uuid="v", jobId="J", signalType="changeStrategy", actions=["change_strategy"], changeStrategy="retry"
    )
    clusterd.send(rpcs.SIGNALS, order("stop_train", "v"), retry)
    clusterd.wait_for(rpcs.RECOVER_STATUS)
    streams = len(clusterd.requests(rpcs.SIGNALS))
    clusterd.end(rpcs.SIGNALS)
    clusterd.wait_for(rpcs.SIGNALS, streams + 1)
    manager.close()
    thread.join(20.0)
    assert len(clusterd.requests(rpcs.PROCESS_FAULT)) == 4, "the round is over"


@pytest.mark.parametrize("fails", [False, True])
def test_a_pause_that_clusterd_forgets_is_ended_by_the_launcher(
    clusterd: ClusterD, made: Made, caplog: pytest.LogCaptureFixture, fails: bool
) -> None:
    """A training that does not continue ends, as with ClusterD's killMaster."""
    taken: SimpleQueue[str] = SimpleQueue()

    def pause(call: Call, reports: Reports) -> None:
        taken.put("pause")
        reports.stop_complete(0, "", call.ranks)

    def change(call: Call, reports: Reports) -> None:
        taken.put(call.text)
        reports.result(499 if fails else 0, "", {}, call.text)

    controller = HandlerController({"pause_train": pause, "change_strategy": change})
    manager = made(INFO, clusterd.address, controller=controller, killed=lambda: taken.put("killed"))
    thread = subscribed(manager)
    for number in (1, 2):
        clusterd.send(rpcs.SIGNALS, order("pause_train", f"u{number}"))
        clusterd.wait_for(rpcs.STOP_COMPLETE, number)
        clusterd.end(rpcs.SIGNALS, None if number == 1 else grpc.StatusCode.UNAVAILABLE)
        expected = ["pause", "continue", "killed"] if fails else ["pause", "continue"]
        assert [taken.get(timeout=20) for _ in expected] == expected
        clusterd.wait_for(rpcs.SIGNALS, number + 1)
    manager.close()
    thread.join(20.0)
    assert taken.empty()
    assert clusterd.requests(rpcs.RECOVER_STATUS) == [], "of no stream"
    assert caplog.text.count("stop_forgotten") == (4 if fails else 2)


def test_a_stop_without_ranks_that_clusterd_forgets_ends_the_launcher(clusterd: ClusterD, made: Made) -> None:
    killed = threading.Event()
    manager = made(INFO, clusterd.address, controller=HandlerController(), killed=killed.set)
    thread = subscribed(manager)
    bare = wire.ProcessManageSignal(uuid="u", jobId="J", signalType="stopTrain", actions=["stop_train"])
    clusterd.send(rpcs.SIGNALS, bare)
    clusterd.wait_for(rpcs.STOP_COMPLETE)
    clusterd.end(rpcs.SIGNALS)
    assert killed.wait(20)
    manager.close()
    thread.join(20.0)


def test_orders_without_a_uuid_are_new_but_for_those_of_a_round_that_was_reset(
    clusterd: ClusterD, made: Made, caplog: pytest.LogCaptureFixture
) -> None:
    taken: list[str] = []
    handlers = dict.fromkeys(("hot switch", "on_global_rank"), lambda call, _: taken.append(call.name))
    manager = made(INFO, clusterd.address, controller=HandlerController(handlers))
    thread = subscribed(manager)
    ghost = wire.ProcessManageSignal(jobId="J", signalType="globalFault", actions=["on_global_rank"])
    switch = wire.ProcessManageSignal(jobId="J", signalType="hot-switch", actions=["hot switch"])
    clusterd.send(rpcs.SIGNALS, ghost, switch, switch, order("stop_train"))
    clusterd.wait_for(rpcs.STOP_COMPLETE)
    manager.close()
    thread.join(20.0)
    assert taken == ["prepare_action", "prepare_action"]
    assert caplog.text.count("clusterd_order_void") == 1
