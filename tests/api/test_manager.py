"""The Manager: what it keeps, what it answers, and how it ends."""

from __future__ import annotations

import _thread
import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Self

import pytest

from taskd_net import BlockingNode, Code, NodeConfig, Position
from taskd_net.base.body import Body
from taskd_net.base.waiting import taken
from taskd_net.job import api, arguments
from taskd_net.job.api import manager
from taskd_net.job.decide.job import Job
from taskd_net.job.decide.records import REPORTS_PER_NODE
from taskd_net.job.decide.snapshot import JobTimes
from taskd_net.job.manager import Succession, runtime
from taskd_net.job.manager.limits import ManagerLimits
from taskd_net.observe.document import document
from tests.api.conftest import OWN_IP, SOON, Failures, until
from tests.ports import free_port

CONFIG: dict[str, object] = {
    "job_id": "job",
    "node_nums": 2,
    "proc_per_node": 8,
    "plugin_dir": "",
    "fault_recover": "",
    "taskd_enable": "on",
    "cluster_infos": {"ip": "", "port": "8899", "name": "ClusterD", "role": "server"},
}


@pytest.fixture
def running(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> Iterator[Future[bool]]:
    """A Manager that serves in a thread."""
    monkeypatch.setenv("POD_IP", OWN_IP)
    assert api.init_taskd_manager(CONFIG)
    with serving(threads) as result:
        yield result


@contextmanager
def serving(threads: ThreadPoolExecutor) -> Iterator[Future[bool]]:
    """The Manager that was initialised serves in a thread."""
    result = threads.submit(api.start_taskd_manager)
    until(lambda: manager.slot._member is not None and manager.slot._member._start._done)
    yield result
    if manager.slot._member is not None:
        assert api.destroy_taskd_manager()
    result.result(SOON)


@contextmanager
def leaf(config: NodeConfig) -> Iterator[BlockingNode]:
    """A node below the Manager, joined."""
    with BlockingNode(config) as node:
        node.joined(SOON)
        yield node


UPSTREAM = f"{OWN_IP}:9601"


def test_the_size_of_the_job_says_which_ranks_are_missing(running: Future[bool]) -> None:
    with leaf(NodeConfig.worker(server_rank=0, rank=3, upstream=UPSTREAM)):
        shown = document(manager.slot.member.node.mesh())
    assert shown["expected"] == {"nodes": 2, "processes": 8}
    missing = {entry["position"] for entry in shown["missing"]}
    assert missing == {
        *(f"Proxy/{node}" for node in range(2)),
        *(f"Worker/{rank // 8}/{rank}" for rank in range(16) if rank != 3),
    }


@pytest.mark.parametrize("config", [{}, {"node_nums": 2}, {"proc_per_node": 8}, {"node_nums": 0, "proc_per_node": 8}])
def test_without_the_size_of_the_job_nobody_is_missing(
    config: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_IP", OWN_IP)
    assert api.init_taskd_manager(config)
    try:
        assert document(manager.slot.member.node.mesh())["expected"] is None
    finally:
        assert api.destroy_taskd_manager()


def test_what_each_node_has_last_reported(running: Future[bool]) -> None:
    began = time.time()
    position = Position.worker(0, 3)
    with leaf(NodeConfig.worker(server_rank=0, rank=3, upstream=UPSTREAM)) as worker:
        for text in (Body("REGISTER", 101).to_json(), "no JSON", Body("STATUS", 1410).to_json()):
            assert worker.send(text, to="Mgr").ok
        assert worker.send(Body("STATUS", 1420, "last").to_json(), to="Mgr", uuid="some-uuid").ok
        until(lambda: "last" in str(api.last_reports()))
        reports = api.last_reports()
        kinds = [("REGISTER", 101), ("STATUS", 1410), ("STATUS", 1420)]
        assert set(reports) == {position} and list(reports[position]) == kinds
        status = reports[position]["STATUS", 1420]
        assert (status.body, status.uuid) == (Body("STATUS", 1420, "last"), "some-uuid")
        assert began <= status.at <= time.time()
        # Bounded, whatever a node sends.
        for kind in range(100):
            assert worker.send(Body(f"KIND {kind}", 0).to_json(), to="Mgr").ok
        until(lambda: ("KIND 99", 0) in api.last_reports()[position])
        assert len(api.last_reports()[position]) == REPORTS_PER_NODE
        assert list(reports[position]) == kinds
    assert api.destroy_taskd_manager() and running.result(SOON) is True
    assert api.last_reports() == {}


def test_no_reports_while_it_starts(threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    resumed = runtime.Manager._resumed

    async def late(starting: runtime.Manager, seed: str) -> Job | None:
        begun.set()
        await asyncio.to_thread(go.wait, SOON)
        return await resumed(starting, seed)

    monkeypatch.setenv("POD_IP", OWN_IP)
    monkeypatch.setattr(runtime.Manager, "_resumed", late)
    assert api.init_taskd_manager(CONFIG)
    result = threads.submit(api.start_taskd_manager)
    try:
        assert begun.wait(SOON)
        assert api.last_reports() == {}
    finally:
        go.set()
        until(lambda: manager.slot.member._deciding is not None and manager.slot.member._deciding.leads)
        assert api.destroy_taskd_manager()
    assert result.result(SOON)


def test_registration_of_another_process_begins_an_empty_record(running: Future[bool]) -> None:
    position = Position.agent(5)

    def register(incarnation: str | None) -> Body:
        return Body("REGISTER", 0, extension={} if incarnation is None else {"Incarnation": incarnation})

    def kinds() -> list[str]:
        return [kind for kind, _ in api.last_reports().get(position, ())]

    with leaf(NodeConfig.agent(server_rank=5, upstream=UPSTREAM)) as agent:

        def send(*bodies: Body) -> None:
            for body in (*bodies, Body("LAST", 0)):
                assert agent.send(body.to_json(), to="Mgr").ok
            until(lambda: "LAST" in kinds())

        # One that comes late, to a Mgr that was restarted.
        send(Body("STATUS", 202), register("first"))
        assert kinds() == ["REGISTER", "LAST"], "the record begins with it"
        registered = api.last_reports()[position]["REGISTER", 0]
        send(register("first"), Body("OTHER", 1))
        until(lambda: kinds() == ["REGISTER", "OTHER", "LAST"])
        assert api.last_reports()[position]["REGISTER", 0] == registered
        send(register("second"))
        until(lambda: kinds() == ["REGISTER", "LAST"])
        # The original's registers once for each process.
        send(register(None))
        until(lambda: kinds() == ["REGISTER", "LAST"])
        assert api.last_reports()[position]["REGISTER", 0].body == register(None)
        send(register(None), register("third"))
        until(lambda: kinds() == ["REGISTER", "LAST"])


def test_agent_that_asks_for_the_go_gets_it(running: Future[bool]) -> None:
    with leaf(NodeConfig.agent(server_rank=5, upstream=UPSTREAM)) as agent:
        assert agent.send(Body("STATUS", 201, "3").to_json(), to="Mgr", mtype="DEFAULT").ok
        message = agent.receive(SOON)
        body = Body.parse(message.body)
        assert (body.msg_type, body.code, body.message) == ("ACTION", 210, "3")
        assert list(body.extension) == ["Incarnation"]
        assert (message.mtype, message.sync, str(message.src)) == ("DEFAULT", True, "Mgr/0")


def test_go_is_given_again_until_it_is_acknowledged(threads: ThreadPoolExecutor) -> None:
    config = NodeConfig.mgr(listen=UPSTREAM, confirms=True)
    limits = ManagerLimits(job=JobTimes(retry=0.01))
    manager.slot.fill(lambda: manager.HostedManager(config, CONFIG, limits=limits), "manager.log")
    with serving(threads), leaf(NodeConfig.agent(server_rank=5, upstream=UPSTREAM, inbox=1)) as agent:
        with leaf(NodeConfig.agent(server_rank=6, upstream=UPSTREAM)) as filler:
            assert filler.send("in the way", to="Agent/5").ok
            for _ in range(3):
                assert agent.send(Body("STATUS", 201, "3").to_json(), to="Mgr").ok
            assert filler.send("in the way", to="Agent/5").code == Code.RECV_BUF_BUSY
        assert agent.receive(SOON).body == "in the way"
        assert Body.parse(agent.receive(SOON).body).code == 210


def test_worker_that_asks_for_the_go_gets_nothing(running: Future[bool]) -> None:
    worker_of = NodeConfig.worker(server_rank=0, rank=0, upstream=UPSTREAM)
    with leaf(worker_of) as worker, leaf(NodeConfig.agent(server_rank=0, upstream=UPSTREAM)) as agent:
        for node in (worker, agent):
            assert node.send(Body("STATUS", 201, "3").to_json(), to="Mgr").ok
        assert Body.parse(agent.receive(SOON).body).code == 210
        with pytest.raises(TimeoutError):
            worker.receive(0.05)


def test_address_and_second_start(running: Future[bool], failures: Failures) -> None:
    assert manager.slot.member.node.address == UPSTREAM
    assert manager.slot.member.config == CONFIG
    assert api.start_taskd_manager() is False
    assert "it has been started already" in failures.only()
    assert not running.done()


@pytest.mark.parametrize("address", ["::1", "[::1]"])
def test_ipv6(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", address)
    port = free_port()  # the usual one may be taken: there is but one ::1
    monkeypatch.setattr(arguments, "MGR_PORT", port)
    assert api.init_taskd_manager({})
    assert manager.slot.member.node.address == f"[::1]:{port}"
    assert api.destroy_taskd_manager()


def test_local_proxy_listens_on_loopback_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_PROXY_ENABLE", "on")
    monkeypatch.setenv("POD_IP", "192.0.2.1")  # of no host: to listen there fails
    port = free_port()
    monkeypatch.setattr(arguments, "MGR_PORT", port)
    assert api.init_taskd_manager({})
    assert manager.slot.member.node.address == f"127.0.0.1:{port}"
    assert api.destroy_taskd_manager()


def test_destroy_between_init_and_start(monkeypatch: pytest.MonkeyPatch, failures: Failures) -> None:
    monkeypatch.setenv("POD_IP", OWN_IP)
    for _ in range(3):
        assert api.init_taskd_manager({}) and api.destroy_taskd_manager()
    assert api.start_taskd_manager() is False
    assert "init_taskd_manager first" in failures.only()


def test_destroy_while_the_manager_is_about_to_start(
    threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its node is already being closed: a Manager that started now would leave its state and a thread behind."""
    monkeypatch.setenv("POD_IP", OWN_IP)
    assert api.init_taskd_manager({})
    lock, ended = manager.slot.member.node._closing, list[Future[bool]]()

    def closing() -> bool:
        free = lock.acquire(blocking=False)
        if free:
            lock.release()
        return not free

    class Late(Succession):
        def __init__(self, *of: Any) -> None:
            super().__init__(*of)
            # In the node's thread, which the end of the node waits for.
            ended.append(threads.submit(api.destroy_taskd_manager))
            until(closing)

        async def start(self) -> Self:
            pytest.fail("it starts")

    monkeypatch.setattr("taskd_net.job.manager.Succession", Late)
    assert api.start_taskd_manager()
    assert ended[0].result(SOON)


SERVE = """
import taskd_net
assert taskd_net.init_taskd_manager({"job_id": "job"})
print("listening", flush=True)
result = taskd_net.start_taskd_manager()
print("ended", result, flush=True)
"""


def test_sigterm_ends_it_cleanly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", OWN_IP)
    monkeypatch.setenv("TASKD_STD_LOG_LEVEL", "ERROR")
    with subprocess.Popen(
        [sys.executable, "-c", SERVE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "listening\n"
            with leaf(NodeConfig.agent(server_rank=0, upstream=UPSTREAM)) as agent:
                assert agent.send(Body("STATUS", 201).to_json(), to="Mgr").ok
                assert Body.parse(agent.receive(SOON).body).code == 210  # so it serves
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=SOON)
            assert (process.returncode, out, err) == (0, "ended True\n", "")
        finally:
            process.kill()


def test_none_is_a_value_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """As `os.getenv` gives it for a variable that is not set."""
    monkeypatch.setenv("POD_IP", OWN_IP)
    infos = {"ip": None, "port": None, "name": None, "role": None}
    given = dict.fromkeys([*CONFIG, "fault_config", "sub_health", "tls_conf", "enable_tls", "PlainListenAddr"])
    assert api.init_taskd_manager({**given, "cluster_infos": [infos]}) is True
    assert manager.slot.member._settings == manager._settings({})
    assert api.destroy_taskd_manager()


@pytest.fixture
def no_handler() -> Iterator[None]:
    """No handler for SIGTERM, whatever ran in this process before: with one the Manager leaves the signal alone."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("no_handler")
def test_sigterm_that_interrupts_no_wait_ends_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", OWN_IP)
    assert api.init_taskd_manager({})
    main, over = threading.main_thread().ident, threading.Event()
    assert main is not None

    def waits() -> bool:
        # `begin` waits in the same function for the node's thread, before a handler is set.
        frame = sys._current_frames()[main]
        return (
            frame.f_code is taken.__code__
            and getattr(frame.f_back, "f_code", None) is manager.HostedManager.wait.__code__
        )

    def lose() -> None:
        while not waits():
            time.sleep(0.001)
        time.sleep(0.1)  # nothing tells when the wait has begun; before that the test proves less
        _thread.interrupt_main(signal.SIGTERM)  # noted, and nobody is woken
        if not over.wait(SOON):
            api.destroy_taskd_manager()

    losing = threading.Thread(target=lose)
    losing.start()
    began = time.monotonic()
    assert api.start_taskd_manager() is True
    assert time.monotonic() - began < SOON
    over.set()
    losing.join()


def test_sigterm_of_the_application_stays_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_IP", OWN_IP)
    before = signal.getsignal(signal.SIGTERM)
    seen: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        assert api.init_taskd_manager({})

        def end() -> None:
            member = manager.slot.member
            until(lambda: member._start._done)
            signal.raise_signal(signal.SIGTERM)
            api.destroy_taskd_manager()

        ending = threading.Thread(target=end)
        ending.start()
        assert api.start_taskd_manager() is True
        ending.join()
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


INFO = {"ip": "10.0.0.9", "port": "8900", "name": "ClusterD", "role": "clusterd"}


@pytest.mark.parametrize(
    ("variables", "infos", "address"),
    [
        ({}, {}, None),
        ({}, INFO, "10.0.0.9:8900"),
        ({}, [{**INFO, "role": "server"}, {**INFO, "port": ""}], "10.0.0.9:8899"),
        ({}, {**INFO, "ip": ""}, None),
        ({"MINDX_SERVER_DOMAIN": "clusterd.mindx"}, INFO, "clusterd.mindx:8899"),
        ({"MINDX_SERVER_IP": "10.0.0.7", "MINDX_SERVER_DOMAIN": "clusterd.mindx"}, INFO, "10.0.0.7:8899"),
        ({"LOCAL_PROXY_ENABLE": "on", "MINDX_SERVER_IP": "10.0.0.7"}, INFO, "127.0.0.1:8899"),
        ({"LOCAL_PROXY_ENABLE": "off", "MINDX_SERVER_IP": "10.0.0.7"}, INFO, "10.0.0.7:8899"),
        ({"TASKD_NET_CLUSTERD_ADDR": "h:1", "LOCAL_PROXY_ENABLE": "on"}, INFO, "h:1"),
    ],
)
def test_address_of_clusterd(
    variables: dict[str, str], infos: object, address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    assert manager._settings({"job_id": "J", "cluster_infos": infos}).clusterd_addr == address


def test_settings_of_the_fault_levels_come_from_the_config_else_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variables = {"CONFIG": "/etc/faults", "EDITION": "current", "WATCH": "off", "ON_RESET": "/bin/reset"}
    for name, value in variables.items():
        monkeypatch.setenv(f"TASKD_NET_FAULT_{name}", value)
    monkeypatch.setenv("TASKD_NET_LINKDOWN_TIMEOUT", "7")
    found = manager._settings({"job_id": "J", "fault_mode": "grace", "fault_edition": "documented"})
    assert (found.fault_config, found.fault_edition, found.fault_mode) == ("/etc/faults", "documented", "grace")
    assert (found.fault_watch, found.linkdown_timeout, found.fault_on_reset) == (False, 7, "/bin/reset")
    monkeypatch.delenv("TASKD_NET_FAULT_CONFIG")
    assert manager._settings({"job_id": "J"}).fault_config is None


def test_each_setting_of_a_manager_comes_from_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "PLUGIN_TIMEOUT": "2.5",
        "IN_PLACE_TIMEOUT": "90",
        "PROCESS_INTERVAL": "200",
        "IN_PLACE": "true",
        "RESET_FILE": "/reset",
        "STATE": "/state",
        "FAULT_REPORTERS": "Agent/7",
    }
    for name, value in variables.items():
        monkeypatch.setenv(f"TASKD_NET_{name}", value)
    found = manager._settings({"job_id": "J"})
    assert (found.plugin_timeout, found.in_place_timeout, found.process_interval) == (2.5, 90.0, 200)
    assert (found.in_place, found.reset_file, found.state) == (True, "/reset", "/state")
    assert found.fault_reporters == "Agent/7"
    monkeypatch.delenv("TASKD_NET_PROCESS_INTERVAL")
    monkeypatch.setenv("TASKD_PROCESS_INTERVAL", "300")
    assert manager._settings({"job_id": "J"}).process_interval == 300


@pytest.mark.parametrize(
    ("config", "variables", "text"),
    [
        ({}, {"PLUGIN_TIMEOUT": "61"}, "plugin_timeout is 61.0; expected at most 60.0"),
        ({}, {"IN_PLACE": "perhaps"}, "in_place is 'perhaps'; expected True or False"),
        ({"fault_config": 5}, {}, "fault_config is 5; expected a path of a folder"),
        ({"fault_mode": "kind"}, {}, "fault_mode is 'kind'; expected 'rescheduling' or 'grace'"),
        ({}, {"LINKDOWN_TIMEOUT": "31"}, "linkdown_timeout is 31; expected a whole number from 1 to 30"),
        ({}, {"LINKDOWN_TIMEOUT": "x"}, "linkdown_timeout is 'x'; expected a whole number from 1 to 30"),
        ({}, {"FAULT_WATCH": "perhaps"}, "fault_watch is 'perhaps'; expected True or False"),
    ],
)
def test_a_wrong_setting_of_the_fault_levels_is_named(
    config: dict[str, object],
    variables: dict[str, str],
    text: str,
    monkeypatch: pytest.MonkeyPatch,
    failures: Failures,
) -> None:
    monkeypatch.setenv("POD_IP", OWN_IP)
    for name, value in variables.items():
        monkeypatch.setenv(f"TASKD_NET_{name}", value)
    assert api.init_taskd_manager({"job_id": "J", **config}) is False
    assert text in failures.only()


@pytest.mark.parametrize(("text", "enabled"), [(None, True), ("on", True), ("off", False), ("other", True)])
def test_taskd_enable_is_that_of_the_environment_alone(
    text: str | None, enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        monkeypatch.setenv("TASKD_PROCESS_ENABLE", text)
    assert manager._settings({"taskd_enable": "off"}).taskd_enable is enabled
