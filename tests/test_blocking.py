"""The node for callers without an event loop: threads that wait always get something, and none is left behind."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from taskd_net import (
    ArgumentError,
    ArgumentTypeError,
    BlockingNode,
    Code,
    ConfigError,
    Message,
    Node,
    NodeClosed,
    NodeConfig,
    Position,
)

pytestmark = pytest.mark.timeout(180)

SOON = 10.0
T = TypeVar("T")


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    """Threads that call the node."""
    with ThreadPoolExecutor(16) as pool:
        yield pool


@pytest.fixture
def mgr() -> Iterator[BlockingNode]:
    """A Mgr: it can send to itself, which needs no second loop in this process."""
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        yield node


@pytest.fixture
def alone() -> Iterator[BlockingNode]:
    """A Worker whose parent is not there."""
    with BlockingNode(NodeConfig.worker(server_rank=0, rank=3, upstream="127.0.0.1:1")) as node:
        yield node


def soon(future: Future[T]) -> T:
    """The result of a call that has to return."""
    return future.result(SOON)


def own_threads() -> list[str]:
    """The names of the threads that nodes have started."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("taskd_net")]


def waits_in(monkeypatch: pytest.MonkeyPatch, method: str) -> threading.Event:
    """An event that says when a call of this method has reached the node."""
    reached, original = threading.Event(), getattr(Node, method)

    async def watched(*arguments: Any, **settings: Any) -> Any:
        reached.set()
        return await original(*arguments, **settings)

    monkeypatch.setattr(Node, method, watched)
    return reached


def test_one_thread_from_start_to_close() -> None:
    node = BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0"))
    assert (own_threads(), node.address) == ([], None)
    assert node.start() is node
    assert own_threads() == ["taskd_net"]
    assert node.address is not None and node.address.startswith("127.0.0.1:")
    assert node.position == Position.mgr()
    node.close()
    assert own_threads() == []


def test_all_nodes_of_a_process_share_the_thread(mgr: BlockingNode) -> None:
    """A whole branch of the tree in one process: gRPC serves one event loop well and several badly."""
    proxy = BlockingNode(NodeConfig.proxy(server_rank=0, listen="127.0.0.1:0", upstream=mgr.address or ""))
    with proxy:
        with BlockingNode(NodeConfig.worker(server_rank=0, rank=3, upstream=proxy.address or "")) as worker:
            worker.joined(SOON)
            assert own_threads() == ["taskd_net"]
            assert mgr.send("down", to="Worker/0/3").ok and worker.receive(SOON).body == "down"
            assert worker.send("up", to="Mgr").ok and mgr.receive(SOON).body == "up"
        assert proxy.send("still there", to="Mgr").ok and mgr.receive(SOON).body == "still there"
    assert own_threads() == ["taskd_net"]
    mgr.close()
    assert own_threads() == []


def test_work_beside_the_node_ends_with_it(mgr: BlockingNode, threads: ThreadPoolExecutor) -> None:
    began, ended = threading.Event(), threading.Event()

    async def work(node: Node) -> None:
        assert (await node.send("from beside", to="Mgr")).ok
        began.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.set()

    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")):  # keeps the thread running
        mgr.beside(work)
        assert began.wait(SOON) and mgr.receive(SOON).body == "from beside"
        mgr.close()
        assert ended.wait(SOON)
    with pytest.raises(NodeClosed):
        mgr.beside(work)


def test_work_beside_the_node_that_fails_is_a_line(mgr: BlockingNode, caplog: pytest.LogCaptureFixture) -> None:
    async def work(node: Node) -> None:
        raise OSError("broken")

    mgr.beside(work)
    # A call comes back through the same loop, after the task and what follows from its end.
    while "beside_failed" not in caplog.text:
        mgr.routes()
    assert "OSError('broken')" in caplog.text


def test_inbox_that_is_closed_takes_no_more(mgr: BlockingNode) -> None:
    assert mgr.send("x", to="Mgr").ok
    mgr.close_inbox()
    assert mgr.send("y", to="Mgr").code == Code.RECV_BUF_NIL
    assert mgr.receive(SOON).body == "x"


def test_call_from_the_nodes_own_thread_says_so_instead_of_waiting_for_itself(mgr: BlockingNode) -> None:
    said: Future[str] = Future()

    async def work(_: Node) -> None:
        try:
            mgr.receive()
        except RuntimeError as error:
            said.set_result(str(error))

    mgr.beside(work)
    assert "would wait for itself" in soon(said)


AT_EXIT = """
import threading
from taskd_net import BlockingNode, NodeConfig
nodes = [BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start() for _ in range(2)]
nodes.append(BlockingNode(NodeConfig.worker(server_rank=0, rank=0, upstream=nodes[0].address)).start())
nodes[2].joined(20)
threading.Thread(target=lambda: list(nodes[2].messages()), daemon=True).start()
"""


def test_interpreter_ends_cleanly_over_nodes_that_are_open() -> None:
    # Time enough for a busy machine, where twelve such processes take 12 s: the point is that it ends at all.
    run = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, timeout=90, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_closing_twice_is_closing_once(mgr: BlockingNode) -> None:
    mgr.close()
    mgr.close()
    assert own_threads() == []


def test_closing_from_many_threads_at_once(threads: ThreadPoolExecutor) -> None:
    """Each returns when the node is closed and its thread has ended."""
    for _ in range(20):
        node = BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start()
        together = threading.Barrier(8)

        def close(node: BlockingNode = node, together: threading.Barrier = together) -> list[str]:
            together.wait(SOON)
            node.close()
            return own_threads()

        assert [soon(future) for future in [threads.submit(close) for _ in range(8)]] == [[]] * 8


def test_node_that_was_never_started() -> None:
    node = BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0"))
    node.close()
    for call in (node.routes, node.receive, node.joined, lambda: node.statistics):
        with pytest.raises(NodeClosed, match=r"Mgr/0 was not started"):
            call()
    ack = node.post("x", to="Mgr", uuid="some-uuid")
    assert (ack.code, ack.uuid, ack.detail) == (Code.CLIENT_ERR, "some-uuid", "Mgr/0 was not started")
    assert list(node.messages()) == []
    with node:
        assert node.send("x", to="Mgr").ok


def test_node_is_started_once(mgr: BlockingNode) -> None:
    with pytest.raises(RuntimeError, match="started once"):
        mgr.start()
    assert mgr.send("x", to="Mgr").ok
    mgr.close()
    with pytest.raises(RuntimeError, match="started once"):
        mgr.start()


def test_start_that_fails_leaves_no_thread(mgr: BlockingNode) -> None:
    taken = mgr.address or ""
    node = BlockingNode(NodeConfig.proxy(server_rank=0, listen=taken, upstream="127.0.0.1:1"))
    with pytest.raises(ConfigError, match="listen"):
        node.start()
    assert own_threads() == ["taskd_net"]
    node.close()
    with pytest.raises(NodeClosed):
        node.receive()


def test_node_is_closed_when_its_block_ends_with_an_error() -> None:
    with pytest.raises(ZeroDivisionError), BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")):
        raise ZeroDivisionError
    assert own_threads() == []


def test_message_to_itself(mgr: BlockingNode) -> None:
    mgr.joined(0.0)
    sent = mgr.send("one", to="Mgr", mtype="kind", uuid="some-uuid")
    assert (sent.code, sent.uuid, sent.src) == (Code.OK, "some-uuid", Position.mgr())
    assert (sent.receivers, sent.failures) == (1, ())
    assert mgr.post("two", to=Position.mgr()).ok
    first, second = mgr.receive(SOON), mgr.receive(SOON)
    assert (first.body, first.mtype, first.uuid, first.sync) == ("one", "kind", "some-uuid", True)
    assert (second.body, second.mtype, second.sync) == ("two", "default", False)
    assert (mgr.statistics.sent, mgr.statistics.delivered) == (2, 2)


def test_ping(mgr: BlockingNode) -> None:
    assert mgr.ping("Mgr").ok
    echo = mgr.ping("Worker/0/9", timeout=SOON)
    assert (echo.code, echo.src) == (Code.NO_ROUTE, Position.mgr())
    assert mgr.statistics.delivered == 0
    mgr.close()
    with pytest.raises(NodeClosed):
        mgr.ping("Mgr")


def test_codes_and_errors_are_those_of_node(mgr: BlockingNode) -> None:
    assert mgr.send(None, to="Mgr").code == Code.NIL_MESSAGE
    assert mgr.send("x", to="Boss/0").code == Code.DST_ROLE_ILLEGAL
    assert mgr.send("x", to="Worker/0/0", timeout=0.1).code == Code.NO_ROUTE
    with pytest.raises(ValueError, match="not a position"):
        mgr.send("x", to="")
    for to in (3, ("Mgr", "0")):
        with pytest.raises(ArgumentTypeError, match=re.escape(f"to is {to!r}; expected a Position, or a text")):
            mgr.send("x", to=to)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="timeout is not a number of seconds, but '3'"):
        mgr.send("x", to="Mgr", timeout="3")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="text"):
        mgr.post(b"bytes", to="Mgr")  # type: ignore[arg-type]
    assert mgr.send("x", to="Mgr").ok


def test_many_threads_send_and_receive_at_once(mgr: BlockingNode, threads: ThreadPoolExecutor) -> None:
    together = threading.Barrier(16)

    def send(thread: int) -> list[int]:
        together.wait(SOON)
        return [mgr.send(f"{thread} {i}", to="Mgr").code for i in range(30)]

    def receive() -> list[str]:
        together.wait(SOON)
        return [mgr.receive(SOON).body for _ in range(30)]

    senders = [threads.submit(send, thread) for thread in range(8)]
    receivers = [threads.submit(receive) for _ in range(8)]
    assert {code for sender in senders for code in soon(sender)} == {Code.OK}
    received = [body for receiver in receivers for body in soon(receiver)]
    assert sorted(received) == sorted(f"{thread} {i}" for thread in range(8) for i in range(30))


def test_all_messages_at_once(mgr: BlockingNode, threads: ThreadPoolExecutor) -> None:
    for text in ("one", "two", "three"):
        assert mgr.send(text, to="Mgr").ok
    assert [message.body for message in mgr.receive_all()] == ["one", "two", "three"]
    waiting = threads.submit(mgr.receive_all)
    assert mgr.send("four", to="Mgr").ok
    assert [message.body for message in soon(waiting)] == ["four"]
    waiting = threads.submit(mgr.receive_all)
    mgr.close()
    with pytest.raises(NodeClosed):
        soon(waiting)


def test_receive_that_times_out_loses_no_message(mgr: BlockingNode) -> None:
    for timeout in (0.0, 0.001):
        with pytest.raises(TimeoutError):
            mgr.receive(timeout)
    assert mgr.send("x", to="Mgr").ok
    assert mgr.receive(SOON).body == "x"


def test_joined_that_times_out_says_why(alone: BlockingNode) -> None:
    with pytest.raises(TimeoutError, match=r"Worker/0/3 has not joined 127.0.0.1:1 within 0.05 s"):
        alone.joined(0.05)
    assert alone.address is None


def test_send_before_joining_waits_no_longer_than_its_timeout(alone: BlockingNode) -> None:
    ack = alone.send("x", to="Mgr", timeout=0.05)
    assert (ack.code, ack.src) == (Code.NET_STREAM_NOT_INITED, Position.worker(0, 3))


ECHO = """
import sys
from taskd_net import BlockingNode, NodeConfig
with BlockingNode(NodeConfig.worker(server_rank=0, rank=3, upstream=sys.argv[1])) as node:
    node.joined(20)
    for message in node.messages():
        if message.body == "end":
            break
        assert node.send(message.body * 2, to=message.src).ok
"""


def test_two_processes(mgr: BlockingNode) -> None:
    worker = Position.worker(0, 3)
    with subprocess.Popen([sys.executable, "-c", ECHO, mgr.address or ""]) as process:
        try:
            while not (ack := mgr.send("ab", to=worker, timeout=SOON)).ok:
                assert ack.code in (Code.NO_ROUTE, Code.NET_STREAM_NOT_INITED)
            assert mgr.receive(SOON).body == "abab"
            assert mgr.routes() == {worker: worker}
            assert mgr.send("end", to=worker, timeout=SOON).ok
            assert process.wait(SOON) == 0
        finally:
            process.kill()


@pytest.mark.parametrize("timeout", [None, 1000.0])
def test_closing_ends_a_receive(
    timeout: float | None, mgr: BlockingNode, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = waits_in(monkeypatch, "receive")
    receiving = threads.submit(mgr.receive, timeout)
    assert reached.wait(SOON)
    soon(threads.submit(mgr.close))
    with pytest.raises(NodeClosed):
        soon(receiving)


def test_closing_ends_the_messages(
    mgr: BlockingNode, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_messages() -> list[Message]:
        return list(mgr.messages())

    assert mgr.send("x", to="Mgr").ok
    reached = waits_in(monkeypatch, "receive")
    receiving = threads.submit(all_messages)
    assert reached.wait(SOON)
    soon(threads.submit(mgr.close))
    assert [message.body for message in soon(receiving)] in ([], ["x"])


def test_closing_ends_a_joined(
    alone: BlockingNode, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = waits_in(monkeypatch, "joined")
    joining = threads.submit(alone.joined)
    assert reached.wait(SOON)
    soon(threads.submit(alone.close))
    with pytest.raises(NodeClosed):
        soon(joining)


def test_closing_answers_a_send(
    alone: BlockingNode, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = waits_in(monkeypatch, "send")
    sending = threads.submit(lambda: alone.send("x", to="Mgr", timeout=1000.0))
    assert reached.wait(SOON)
    soon(threads.submit(alone.close))
    assert soon(sending).code == Code.NET_STREAM_NOT_INITED


def test_closing_under_calls_from_many_threads(threads: ThreadPoolExecutor) -> None:
    """Each call returns or says that the node is closed; none waits for ever."""
    for _ in range(10):
        node = BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")).start()
        together = threading.Barrier(9)

        def call(node: BlockingNode = node, together: threading.Barrier = together) -> str:
            together.wait(SOON)
            try:
                while True:
                    if node.send("x", to="Mgr").code == Code.CLIENT_ERR:
                        return "closed"
                    node.receive(SOON)
            except NodeClosed:
                return "closed"

        calls = [threads.submit(call) for _ in range(8)]
        together.wait(SOON)
        soon(threads.submit(node.close))
        assert [soon(future) for future in calls] == ["closed"] * 8


def test_after_closing_every_call_says_so(mgr: BlockingNode) -> None:
    assert mgr.send("left in the inbox", to="Mgr").ok
    mgr.close()
    calls = (
        mgr.receive,
        mgr.joined,
        mgr.routes,
    )
    for call in calls:
        with pytest.raises(NodeClosed, match=r"Mgr/0 is closed"):
            call()
    for ack in (mgr.send("x", to="Mgr"), mgr.post("x", to="Mgr")):
        assert (ack.code, ack.src, ack.detail) == (Code.CLIENT_ERR, Position.mgr(), "Mgr/0 is closed")
        assert len(ack.uuid) == 36
    assert list(mgr.messages()) == []
    assert mgr.statistics.sent == 1


@pytest.mark.parametrize("timeout", ["3", float("nan"), 10**400])
def test_timeout_that_is_no_number_of_seconds_is_refused_by_every_call(mgr: BlockingNode, timeout: Any) -> None:
    calls = (mgr.joined, mgr.receive, mgr.withdraw, lambda seconds: mgr.send("x", to="Mgr", timeout=seconds))
    for call in calls:
        with pytest.raises(ArgumentError, match="timeout is not a number of seconds, but "):
            call(timeout)
