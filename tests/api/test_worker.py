"""The Worker of a training script, in a mesh of real sockets."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import pytest

from taskd_net import Ack, BlockingNode, Code, NodeConfig
from taskd_net.base import limits
from taskd_net.base.body import Body
from taskd_net.base.states import State
from taskd_net.job import api
from taskd_net.job.api import worker
from taskd_net.job.arguments import UPSTREAM
from taskd_net.job.frameworks.pytorch import PYTORCH
from taskd_net.job.worker import reporting
from taskd_net.job.worker import worker as shell
from taskd_net.job.worker.worker import Handler, WorkerTimes, join_early
from taskd_net.node.driver import Driver
from tests.api.conftest import SOON, WORKER, Failures, rank_3_of_8, reach, started, state_of, take
from tests.ports import free_port

pytestmark = pytest.mark.oldest

OFTEN = WorkerTimes(repeat=0.1)
"""A Worker registers all the time."""


def test_start_registers_with_the_manager(mgr: BlockingNode, near: BlockingNode) -> None:
    started()
    message = mgr.receive(SOON)
    assert (str(message.src), message.mtype, message.sync) == (WORKER, "default", True)
    body = Body.parse(message.body)
    assert (body.msg_type, body.code, list(body.extension)) == ("REGISTER", 101, ["Incarnation"])
    assert api.destroy_taskd_worker()


def test_worker_that_is_destroyed_has_finished(mgr: BlockingNode, near: BlockingNode) -> None:
    started()
    mgr.receive(SOON)
    assert api.destroy_taskd_worker()
    assert state_of(near, WORKER) is State.FINISHED


@pytest.mark.parametrize(
    ("framework", "environment", "position"),
    [
        ("pt", {"RANK": "17", "LOCAL_WORLD_SIZE": "8"}, "Worker/2/17"),
        ("pt", {"RANK": "2", "LOCAL_WORLD_SIZE": "1", "GROUP_RANK": "1"}, "Worker/1/17"),
        ("ms", {"MS_NODE_RANK": "5"}, "Worker/5/17"),
    ],
)
def test_node_that_the_process_is_on(
    framework: str, environment: dict[str, str], position: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    assert api.init_taskd_worker(17, framework=framework)
    node = worker.slot.member.node
    assert (str(node.position), node.config.upstream) == (position, "127.0.0.1:9602")
    assert api.destroy_taskd_worker()


def test_commands_go_to_the_handler_of_their_code_or_type(
    mgr: BlockingNode, near: BlockingNode, caplog: pytest.LogCaptureFixture
) -> None:
    taken: SimpleQueue[tuple[str, api.Command, str]] = SimpleQueue()

    def by(name: str) -> Handler:
        return lambda command: taken.put((name, command, threading.current_thread().name))

    assert api.register_handler(700, by("code")) and api.register_handler("ACTION", by("type"))
    started()
    reach(mgr, Body("ACTION", 700, "off", {"key": "value"}), uuid="some-uuid")
    name, command, thread = taken.get(timeout=SOON)
    assert (name, thread) == ("code", "taskd_net handlers")
    assert (command.msg_type, command.code, command.message) == ("ACTION", 700, "off")
    assert (command.extension, str(command.src), command.uuid) == ({"key": "value"}, "Mgr/0", "some-uuid")
    reach(mgr, Body("ACTION", 710))
    assert taken.get(timeout=SOON)[0] == "type"
    # The same again is the same; another one of that kind is not.
    reach(mgr, Body("ACTION", 700), uuid="some-uuid")
    assert api.register_handler(700, None)
    reach(mgr, Body("ACTION", 700))
    assert taken.get(timeout=SOON)[0] == "type"
    for _ in range(3):
        reach(mgr, Body("OTHER", 5))
    reach(mgr, Body("ACTION", 1))
    assert taken.get(timeout=SOON)[1].code == 1 and taken.empty()
    assert caplog.text.count("command_without_handler code=5 msg_type=OTHER") == 1


def test_commands_of_others_reach_no_handler(
    mgr: BlockingNode, near: BlockingNode, caplog: pytest.LogCaptureFixture
) -> None:
    """Other messages of theirs do."""
    taken: SimpleQueue[tuple[str, int, str]] = SimpleQueue()
    for kind in ("ACTION", "OTHER", 205):
        api.register_handler(kind, lambda command: taken.put((command.msg_type, command.code, str(command.src))))
    started()
    reach(mgr, Body("ACTION", 700))
    with BlockingNode(NodeConfig.worker(server_rank=0, rank=4, upstream=near.address or "")) as other:
        for body in (Body("ACTION", 700), Body("ACTION", 9), Body("OTHER", 205), Body("OTHER", 1)):
            assert other.send(body.to_json(), to=WORKER).ok
    assert taken.get(timeout=SOON) == ("ACTION", 700, "Mgr/0")
    assert taken.get(timeout=SOON) == ("OTHER", 1, "Worker/0/4")
    assert taken.empty() and caplog.text.count("command_refused src=Worker/0/4") == 3


def test_handler_that_raises_harms_nothing(mgr: BlockingNode, near: BlockingNode, failures: Failures) -> None:
    called = threading.Event()

    def leave(_: api.Command) -> None:
        sys.exit(3)

    api.register_handler(1, lambda command: 1 // len(command.message))
    api.register_handler(2, leave)
    api.register_handler(3, lambda _: called.set())
    started()
    for text in ("no JSON", "[]", '{"code": "one"}', '{"code": 1, "extension": {"a": 1}}'):
        assert mgr.send(text, to=WORKER, timeout=SOON).code in (Code.OK, Code.NO_ROUTE)
    for code in (1, 2, 3):
        reach(mgr, Body("ACTION", code))
    assert called.wait(SOON)
    assert ["ZeroDivisionError" in line for line in failures.lines] == [True, False]
    assert all("handler_failed" in line for line in failures.lines)
    failures.lines.clear()


@pytest.mark.parametrize(
    ("command", "handler", "reason"),
    [
        (None, print, "command is None; expected a code (int) or a msg_type (str)"),
        (True, print, "command is True;"),
        (700, "print", "handler is 'print'; expected a function, or None"),
    ],
)
def test_handler_that_is_none(command: object, handler: object, reason: str, failures: Failures) -> None:
    assert api.register_handler(command, handler) is False  # type: ignore[arg-type]
    assert reason in failures.only()


def test_handlers_do_not_hold_up_the_mesh(mgr: BlockingNode, near: BlockingNode) -> None:
    """While one works, the next commands wait in the inbox, which says so when it is full; sends go on."""
    go_on, taken = threading.Event(), SimpleQueue[int]()

    def work(command: api.Command) -> None:
        taken.put(command.code)
        assert go_on.wait(SOON)

    api.register_handler("ACTION", work)
    started()
    reach(mgr, Body("ACTION", 0))
    assert taken.get(timeout=SOON) == 0
    for code in range(1, limits.INBOX["Worker"] + 1):
        assert mgr.send(Body("ACTION", code).to_json(), to=WORKER).ok
    assert mgr.send(Body("ACTION", 99).to_json(), to=WORKER).code == Code.RECV_BUF_BUSY
    assert api.send_to_manager(1410, "STATUS")
    go_on.set()
    assert [taken.get(timeout=SOON) for _ in range(limits.INBOX["Worker"])] == list(range(1, 9))


def test_reports(mgr: BlockingNode, near: BlockingNode, threads: ThreadPoolExecutor) -> None:
    started()
    assert api.send_to_manager(204, "ACTION", "switchOK", {"switchNicUUID": "some-uuid"})
    message, body = take(mgr)
    assert (body, message.mtype) == (Body("ACTION", 204, "switchOK", {"switchNicUUID": "some-uuid"}), "default")
    done = [threads.submit(api.send_to_manager, code, "STATUS") for code in range(50)]
    assert all(future.result(SOON) for future in done)
    codes: list[int] = []
    while len(codes) < len(done):
        if (body := take(mgr)[1]).msg_type == "STATUS":  # the answer follows the registration
            codes.append(body.code)
    assert sorted(codes) == list(range(50))


def test_report_that_nobody_takes(monkeypatch: pytest.MonkeyPatch, failures: Failures) -> None:
    rank_3_of_8(monkeypatch)
    monkeypatch.setenv(UPSTREAM, "127.0.0.1:1")
    assert api.init_taskd_worker(3)
    for arguments, reason in (
        (("1410", "STATUS"), "code is '1410'; expected a whole number"),
        ((1410, None), "msg_type is None; expected a text"),
        ((1410, "STATUS", 5), "message is 5; expected a text"),
        ((1410, "STATUS", "", {"a": 1}), "extension is {'a': 1}; expected a dict of texts"),
        ((1410, "STATUS", "", "text"), "extension is 'text'; expected"),
        ((1410, "STATUS", "x" * 9_000_000), "the Mgr has not got it: 4999"),
    ):
        assert api.send_to_manager(*arguments) is False
        assert reason in failures.only()
    assert api.send_to_manager(1, "x", timeout=float("nan")) is False
    assert "timeout is not a number" in failures.only()
    assert api.send_to_manager(1410, "STATUS", timeout=0.05) is False
    assert "the Mgr has not got it: 6002 NET_STREAM_NOT_INITED" in failures.only()
    assert api.send_to_manager(1410, "STATUS", timeout=SOON) is False
    assert "this one was not tried" in failures.only()


def test_report_whose_answer_is_lost_arrives_once(
    mgr: BlockingNode, near: BlockingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert api.init_taskd_worker(3)
    node = worker.slot.member.node._node
    assert node is not None
    uuids: list[str] = []
    request = Driver.request

    def lossy(self: Driver, reply: Callable[[Ack], None]) -> int:
        def answered(ack: Ack) -> None:
            # Announcements are requests, too; their uuids are of another kind.
            message = ack.ok and ack.uuid.startswith("tn1-")
            if message:
                uuids.append(ack.uuid)
            reply(Ack(ack.uuid, Code.NETWORK_ACK_LOST, ack.src) if message and len(uuids) <= 2 else ack)

        return request(self, answered if self is node.driver else reply)

    monkeypatch.setattr(Driver, "request", lossy)
    assert api.send_to_manager(1, "STATUS", timeout=SOON)
    assert api.send_to_manager(2, "STATUS", timeout=SOON)
    assert [take(mgr)[1].code for _ in range(2)] == [1, 2]
    assert uuids[0] == uuids[1] == uuids[2] != uuids[3]


def test_upstream_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    rank_3_of_8(monkeypatch)
    port, called = free_port(), threading.Event()
    monkeypatch.setenv(UPSTREAM, f"127.0.0.1:{port}")
    api.register_handler(700, lambda _: called.set())
    started()
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        config = NodeConfig.proxy(server_rank=0, listen=f"127.0.0.1:{port}", upstream=mgr.address or "")
        with BlockingNode(config):
            assert Body.parse(mgr.receive(SOON).body).code == 101
            reach(mgr, Body("ACTION", 700))
            assert called.wait(SOON)
            assert api.destroy_taskd_worker()


def test_manager_that_is_restarted_hears_of_the_worker_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a Proxy that lives on, so that the Worker's own link knows nothing of it."""
    rank_3_of_8(monkeypatch)
    listen = f"127.0.0.1:{free_port()}"
    with BlockingNode(NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=listen)) as near:
        monkeypatch.setenv(UPSTREAM, near.address or "")
        started(OFTEN)
        for _ in range(2):
            with BlockingNode(NodeConfig.mgr(listen=listen)) as mgr:
                assert str(mgr.receive(SOON).src) == WORKER
        assert api.destroy_taskd_worker()


def test_registration_is_that_of_one_process_and_the_profiling_state_follows_it(
    mgr: BlockingNode, near: BlockingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An original Mgr forgets that state with each REGISTER."""
    started(OFTEN)
    first = mgr.receive(SOON)
    assert api.send_to_manager(1420, "STATUS") and api.send_to_manager(1410, "STATUS", "on", wait=False)
    assert api.send_to_manager(1410, "OTHER") and api.send_to_manager(1300, "STATUS")
    uuids: set[str] = set()
    registered = False
    while len(uuids) < 4:  # its own, and three repeats at least
        message = mgr.receive(SOON)
        body = Body.parse(message.body)
        if body.msg_type == "REGISTER":
            registered = True
            assert body == Body.parse(first.body) and message.uuid != first.uuid
        elif body == Body("STATUS", 1410, "on"):
            uuids.add(message.uuid)
    assert registered
    assert api.destroy_taskd_worker()


def test_profiling_state_is_repeated_until_it_is_taken(
    mgr: BlockingNode, near: BlockingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one, where the application has reported another one meanwhile."""
    codes = [Code.RECV_BUF_BUSY, Code.OK, Code.OK]
    sent: list[str] = []

    class Refusing:
        async def send(self, body: str, **_: object) -> Ack:
            sent.append(body)
            if len(sent) == 2:
                reports.remember(last)
            return Ack("", codes[len(sent) - 1], mgr.position, "", 0)

    async def registered(*_: object) -> None:
        return None

    monkeypatch.setattr(reporting, "report_until_taken", registered)
    assert worker.initialise(3, times=WorkerTimes(retry=0.01))
    reports = worker.slot.member.reports
    before, last = Body("STATUS", 1420), Body("STATUS", 1410)
    reports.remember(before)
    asyncio.run(reports._register(Refusing()))  # type: ignore[arg-type]
    assert sent == [body.to_json() for body in (before, before, last)]
    assert api.destroy_taskd_worker()


def test_part_in_an_epoch_and_profiling_state_follow_a_registration(
    mgr: BlockingNode, near: BlockingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last of each: a Manager that was restarted has lost them."""
    started(OFTEN)
    for code, text in ((301, "new"), (1410, ""), (301, "left")):
        assert api.send_to_manager(code, "STATUS", text)
    said = [(body.code, body.message) for body in (take(mgr)[1] for _ in range(12))]
    assert set(said[-6:]) == {(301, "left"), (1410, "")}
    assert api.destroy_taskd_worker()


def test_answers_to_operations_follow_a_registration_while_they_matter(
    mgr: BlockingNode, near: BlockingNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An original Mgr that waits for other Workers would forget them."""
    monkeypatch.setitem(reporting._ANSWERED_WITHIN, 205, 0.0)
    started(OFTEN)
    switched = Body("ACTION", 204, "switchOK", {"switchNicUUID": "s"})
    assert api.send_to_manager(205, "ACTION", "{}") and api.send_to_manager(1, "ACTION")
    assert api.send_to_manager(204, "ACTION", "switchOK", {"switchNicUUID": "s"})
    assert [take(mgr)[1].code for _ in range(6)] == [205, 1, 204, 204, 204, 204]
    assert take(mgr)[1] == switched
    assert api.destroy_taskd_worker()


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment of a training process that an Agent has started under a Manager that recovers in place."""
    for variable, value in (("TASKD_NET_IN_PLACE", "on"), ("TASKD_NET_AGENT_PID", str(os.getppid()))):
        monkeypatch.setenv(variable, value)
    rank_3_of_8(monkeypatch)


def test_process_in_place_joins_before_its_worker(mgr: BlockingNode, near: BlockingNode, in_place: None) -> None:
    join_early(PYTORCH, "RANK")
    node = shell._early._node
    assert node is not None
    node.joined(SOON)
    started()
    assert worker.slot.member.node is node
    assert Body.parse(mgr.receive(SOON).body).msg_type == "REGISTER"
    assert api.destroy_taskd_worker()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("TASKD_NET_IN_PLACE", ""), ("TASKD_NET_AGENT_PID", "1"), ("TASKD_NET_AGENT_PID", ""), ("LOCAL_WORLD_SIZE", "0")],
)
def test_other_processes_join_later(variable: str, value: str, in_place: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, value)
    join_early(PYTORCH, "RANK")
    assert shell._early._node is None


def test_worker_of_other_settings_ends_the_node_that_was_early(
    mgr: BlockingNode, near: BlockingNode, in_place: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    join_early(PYTORCH, "RANK")
    early = shell._early._node
    assert early is not None and api.init_taskd_worker(4)
    assert worker.slot.member.node is not early and not early.is_joined
    assert api.destroy_taskd_worker()
