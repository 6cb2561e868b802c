"""A ClusterD for tests: a plain gRPC server that answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Final, Self

import grpc
from google.protobuf.message import Message

from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.clusterd.rpcs import Rpc
from taskd_net.net.wire import recover_pb2
from tests.ports import free_port

RPCS: Final[dict[str, Rpc[Any, Any]]] = {each.path: each for each in vars(rpcs).values() if isinstance(each, Rpc)}
WAIT_S: Final = 20.0

QUICK: Final = ClusterdTimes(init=0.25, pause=0.05, pause_most=0.5, health=0.05, look=0.05)
"""Pauses of tenths of a second: their lengths are tested in test_life."""

Answer = int | grpc.StatusCode | bytes | Callable[[], int]
"""A code of Status, an error of gRPC, raw bytes, or a function that returns a code, and may wait."""


INFO = "as its operator reads it"
"""The text of each refusal."""


class ClusterD:
    """The server, in threads of its own. Use it with `with`, or call `start` and `stop`; it may start again.

    Args:
        credentials: for TLS.

    Attributes:
        port: where it listens, from the beginning.
        answers: what to answer next, by method; 0 when there is nothing left.
        calls: methods and requests, in the order of their arrival.
        first: messages that each new stream begins with, by method.
        trusted: path of the CA of its certificate, for tests of TLS.
    """

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self.port = free_port()
        self.answers: dict[str, deque[Answer]] = defaultdict(deque)
        self.calls: list[tuple[str, Any]] = []
        self.first: dict[str, list[Message | bytes]] = defaultdict(list)
        self.trusted = ""
        self._credentials = credentials
        self._streams: dict[str, list[SimpleQueue[Message | bytes | grpc.StatusCode | None]]] = defaultdict(list)
        self._changed = threading.Condition()
        self._server: grpc.Server | None = None
        self._threads: ThreadPoolExecutor | None = None

    @property
    def address(self) -> str:
        """Its address, `host:port`."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Listen."""
        self._threads = ThreadPoolExecutor(32, "clusterd")
        # A port that was left a moment ago is still bound for the kernel, unless both may share it.
        server = grpc.server(self._threads, handlers=[_Handlers(self)], options=[("grpc.so_reuseport", 1)])
        if self._credentials is None:
            bound = server.add_insecure_port(self.address)
        else:
            bound = server.add_secure_port(self.address, self._credentials)
        assert bound == self.port
        server.start()
        self._server = server
        return self

    def stop(self) -> None:
        """End at once, as if killed. Idempotent."""
        server, self._server = self._server, None
        if server is None or self._threads is None:
            return
        done = server.stop(None)
        self._end_streams(None)
        done.wait()
        self._threads.shutdown()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def send(self, rpc: Rpc[Any, Any], *messages: Message | bytes) -> None:
        """Send messages over the newest stream of a method, which must be open."""
        self.wait_for_stream(rpc)
        for message in messages:
            self._streams[rpc.path][-1].put(message)

    def end(self, rpc: Rpc[Any, Any], status: grpc.StatusCode | None = None) -> None:
        """End the streams of a method, with an error where one is given."""
        streams, self._streams[rpc.path] = self._streams[rpc.path], []
        for stream in streams:
            stream.put(status)

    def _end_streams(self, status: grpc.StatusCode | None) -> None:
        for path in list(self._streams):
            self.end(RPCS[path], status)

    def wait_for_stream(self, rpc: Rpc[Any, Any]) -> None:
        """Wait until a stream of a method is open."""
        self._wait(lambda: bool(self._streams[rpc.path]), f"no stream of {rpc.name}")

    def wait_for(self, rpc: Rpc[Any, Any], number: int = 1) -> list[Any]:
        """Wait for this number of calls of a method since the beginning; returns their requests."""
        self._wait(lambda: len(self.requests(rpc)) >= number, f"{number} calls of {rpc.name}")
        return self.requests(rpc)

    def requests(self, rpc: Rpc[Any, Any]) -> list[Any]:
        """Requests of a method so far."""
        return [request for name, request in list(self.calls) if name == rpc.name]

    @property
    def names(self) -> list[str]:
        """Methods of the calls so far, without health checks."""
        return [name for name, _ in list(self.calls) if name != rpcs.HEALTH_CHECK.name]

    def _wait(self, until: Callable[[], bool], what: str) -> None:
        with self._changed:
            assert self._changed.wait_for(until, WAIT_S), f"{what}: {self.calls[-20:]}"

    def serve_call(self, rpc: Rpc[Any, Any], content: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer a unary call."""
        answers = self.answers[rpc.name]
        answer = answers.popleft() if answers else 0
        self._note(rpc, content)
        if callable(answer):
            answer = answer()
        if isinstance(answer, grpc.StatusCode):
            context.abort(answer, "as told")
        return (
            answer
            if isinstance(answer, bytes)
            else recover_pb2.Status(code=answer, info=INFO if answer else "").SerializeToString()
        )

    def serve_stream(self, rpc: Rpc[Any, Any], content: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        """Serve a stream until it is ended."""
        answers = self.answers[rpc.name]
        answer = answers.popleft() if answers else 0
        if isinstance(answer, grpc.StatusCode):
            self._note(rpc, content)
            context.abort(answer, "as told")
        stream: SimpleQueue[Message | bytes | grpc.StatusCode | None] = SimpleQueue()
        for message in self.first[rpc.name]:
            stream.put(message)
        self._streams[rpc.path].append(stream)
        if not context.add_callback(lambda: stream.put(None)):  # the call has ended before
            stream.put(None)
        self._note(rpc, content)
        yield from _contents(stream, context)

    def _note(self, rpc: Rpc[Any, Any], content: bytes) -> None:
        with self._changed:
            self.calls.append((rpc.name, rpc.request.FromString(content)))
            self._changed.notify_all()


def _contents(
    stream: SimpleQueue[Message | bytes | grpc.StatusCode | None], context: grpc.ServicerContext
) -> Iterable[bytes]:
    while (message := stream.get()) is not None:
        if isinstance(message, grpc.StatusCode):
            context.abort(message, "as told")
        yield message if isinstance(message, bytes) else message.SerializeToString()


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, owner: ClusterD) -> None:
        self._owner = owner

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """The handler of a path; None for one that ClusterD does not have."""
        rpc = RPCS.get(handler_call_details.method)
        if rpc is None:
            return None
        if rpc.streams:
            return grpc.unary_stream_rpc_method_handler(
                lambda request, context: self._owner.serve_stream(rpc, request, context)
            )
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._owner.serve_call(rpc, request, context)
        )
