"""The reader of a Worker and of a Manager, in a mesh of real sockets: nothing that a message holds makes them deaf."""

from __future__ import annotations

import json
import logging
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from taskd_net import BlockingNode, Code, NodeConfig
from taskd_net.base import limits
from taskd_net.base.body import Body
from taskd_net.job import api, arguments
from taskd_net.job.worker.receiver import HandlerThread
from taskd_net.net.wire.codec import Message
from tests.api.conftest import SOON, WORKER, Failures, reach, started
from tests.ports import free_port

pytestmark = pytest.mark.oldest

DEEP = "[" * 1000
"""Python's parser gives it up with a RecursionError, which is no ValueError."""

TEXTS = st.dictionaries(st.text(), st.text())

BODIES = [
    DEEP,
    '{"msg_type": ' * 50_000,
    json.dumps({"msg_type": "x", "code": 1, "extension": {"a": "b"}}).replace('"b"', "[" * 900 + "]" * 900),
    '{"msg_type": "x", "code": ' + "9" * 5000 + "}",
    '{"msg_type": "x", "code": ' + "9" * 4000 + "}",
    '{"msg_type": "x", "code": NaN}',
    '{"msg_type": "x", "code": 1e999}',
    '{"msg_type": "\\ud800", "code": 1, "message": "\\udfff", "extension": {"\\ud800": "\\ud800"}}',
    '{"msg_type": {}, "code": []}',
    '{"msg_type": null}',
    '{"msg_type": "x", "code": true}',
    '{"msg_type": "\\u0000", "code": -1, "message": "\\u0000"}',
    "null",
    "",
    "\x00",
    "{}",
]


@pytest.fixture
def handler() -> SimpleQueue[str]:
    """The commands that the Worker's handler of code 700 got."""
    taken: SimpleQueue[str] = SimpleQueue()
    assert api.register_handler(700, lambda command: taken.put(command.message))
    return taken


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:20])
def test_worker_hears_the_next_command(
    body: str, mgr: BlockingNode, near: BlockingNode, handler: SimpleQueue[str]
) -> None:
    started()
    reach(mgr, Body("ACTION", 700, "first"))
    assert handler.get(timeout=SOON) == "first"
    assert mgr.send(body, to=WORKER, timeout=SOON).ok
    reach(mgr, Body("ACTION", 700, "next"))
    assert handler.get(timeout=SOON) == "next"


def test_worker_refuses_the_command_of_a_mgr_that_leads_no_more(
    mgr: BlockingNode, near: BlockingNode, handler: SimpleQueue[str]
) -> None:
    started()
    for term in ("5", "4", "no number", "5", "6", "5"):
        reach(mgr, Body("ACTION", 700, term, {"Term": term}))
    reach(mgr, Body("ACTION", 700, "the last"))
    assert [handler.get(timeout=SOON) for _ in range(5)] == ["5", "no number", "5", "6", "the last"]


def test_manager_hears_the_next_report(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setattr(arguments, "MGR_PORT", free_port())
    assert api.init_taskd_manager({})
    manager = api.manager.slot.member
    manager.begin()
    config = NodeConfig.agent(server_rank=0, upstream=manager.node.address or "")
    with BlockingNode(config) as agent:
        agent.joined(SOON)
        for body in BODIES:
            assert agent.send(body, to="Mgr", timeout=SOON).ok
        # Half of a pair of surrogates comes back as what UTF-8 can write.
        assert agent.send('{"msg_type": "STATUS", "code": 201, "message": "\\ud800"}', to="Mgr", timeout=SOON).ok
        # The go comes back: the Manager has read it all.
        go = Body.parse(agent.receive(SOON).body)
        assert (go.msg_type, go.code, go.message) == ("ACTION", 210, "\ufffd")
    assert api.destroy_taskd_manager()


def test_lines_about_one_sender_are_limited(
    mgr: BlockingNode, near: BlockingNode, handler: SimpleQueue[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert api.register_handler(1, lambda command: 1 // len(command.message))
    assert api.register_handler(2, lambda command: sys.exit(3))
    started()
    for _ in range(limits.LOG_PEER_LINES):
        for body in (DEEP, '{"msg_type": 1}'):
            reach(mgr, Body("ACTION", 1))
            reach(mgr, Body("ACTION", 2))
            assert mgr.send(body, to=WORKER, timeout=SOON).ok
            # The inbox of a Worker has room for 8 messages, and is full at times on a busy machine.
            reach(mgr, Body("ACTION", 700, "next"))
            assert handler.get(timeout=SOON) == "next"
    assert caplog.text.count("body_unreadable") == limits.LOG_PEER_LINES
    assert caplog.text.count("event=handler_failed") == limits.LOG_PEER_LINES
    assert "ZeroDivisionError" in caplog.text and "SystemExit" in caplog.text


class _Fed:
    """A node whose inbox the test fills."""

    def __init__(self) -> None:
        self.inbox: SimpleQueue[list[Message] | BaseException] = SimpleQueue()
        self.closed = threading.Event()
        self.position = NodeConfig.mgr(listen="127.0.0.1:0").position

    def receive_all(self) -> list[Message]:
        """The next messages."""
        messages = self.inbox.get()
        if isinstance(messages, BaseException):
            raise messages
        return messages

    def close_inbox(self) -> None:
        """Nobody reads any more."""
        self.closed.set()


@pytest.fixture(scope="module")
def fed() -> Iterator[tuple[_Fed, SimpleQueue[str]]]:
    """A Receiver that lives through all examples, and what its handler was given."""
    node, taken = _Fed(), SimpleQueue[str]()
    receiver = HandlerThread(node, lambda message, body: taken.put(message.uuid))  # type: ignore[arg-type]
    receiver.start()
    yield node, taken
    node.inbox.put(MemoryError())
    assert node.closed.wait(SOON)
    receiver.join()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.one_of(
        st.text(),
        st.text('[]{}",:0123456789.eE+-\\ud8', max_size=60),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
            lambda value: st.one_of(st.lists(value), st.dictionaries(st.text(), value)),
        ).map(json.dumps),
        st.fixed_dictionaries(
            {},
            optional={
                name: st.one_of(
                    st.none(), st.booleans(), st.integers(), st.text(), st.dictionaries(st.text(), st.text())
                )
                for name in ("msg_type", "code", "message", "extension")
            },
        ).map(json.dumps),
    )
)
@example(DEEP)
@example('{"msg_type": "x", "code": ' + "9" * 5000 + "}")
@example('{"msg_type": "\\ud800"}')
def test_any_text_leaves_the_reader_alive(fed: tuple[_Fed, SimpleQueue[str]], text: str) -> None:
    node, taken = fed
    position = node.position
    node.inbox.put([Message("any", "default", True, position, position, 0, text)])
    node.inbox.put([Message("next", "default", True, position, position, 0, Body("ACTION", 1).to_json())])
    while taken.get(timeout=SOON) != "next":
        pass
    assert not node.closed.is_set()


def test_reader_that_ends_closes_the_inbox_and_everybody_hears_of_it(
    mgr: BlockingNode, near: BlockingNode, monkeypatch: pytest.MonkeyPatch, failures: Failures
) -> None:
    """A fault of ours, which no message can bring about: the node must not acknowledge what nobody will read."""
    started()
    reach(mgr, Body("ACTION", 1))

    def broken(self: BlockingNode) -> list[Message]:
        raise MemoryError("no room")

    monkeypatch.setattr(BlockingNode, "receive_all", broken)
    # The call that waits ends with the first of these.
    while (ack := mgr.send("x", to=WORKER, timeout=SOON)).code != Code.RECV_BUF_NIL:
        assert ack.code in (Code.OK, Code.RECV_BUF_BUSY)
    assert "reader_failed" in failures.only()
    closed: set[str] = set()
    while not closed:
        closed = {str(node) for node, status in mgr.mesh().nodes if status.own is not None and status.own.inbox_closed}
    assert closed == {WORKER}
