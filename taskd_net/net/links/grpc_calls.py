"""Unary calls of gRPC: made to a parent, and served to children."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

import grpc

from taskd_net.base.codes import Code, Refusal, TaskdNetError
from taskd_net.base.position import Position
from taskd_net.core.certificate_name import CertificateName
from taskd_net.core.frame import Ack
from taskd_net.core.identity import Violation
from taskd_net.net.links import grpc_status
from taskd_net.net.links import peer as peers
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.peer import Metadata, Peer
from taskd_net.net.links.remote import Caller, Remote, remote_of
from taskd_net.net.links.session import Host
from taskd_net.net.tls.credentials import peer_names
from taskd_net.net.wire import codec
from taskd_net.net.wire.link_requests import Announcing

DRAIN_LOOK_S: Final = 0.01
"""Seconds between two looks at whether a draining node is done. Looked at, not signalled: a signal would cost every
message of a node's life something, for once at its end."""

DRAIN_TURNS: Final = 8
"""Turns of the loop in which the tasks of calls before a marker are woken. In 10,000 calls, three were enough."""

DRAIN_CATCH_UP_S: Final = 1.0
"""Seconds after which senders that keep calls waiting at gRPC all the time count as such, and the wait may end."""

DRAIN_CATCH_UP_CALLS: Final = 500
"""Calls of such senders that are taken in first, also when that takes a busy machine longer."""

SERVICE: Final = "TaskNet"
STATUS_SERVICE: Final = "taskd_net.status.TaskStatus"

Handler: TypeAlias = "grpc.RpcMethodHandler[bytes, bytes]"
Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"
UnaryCall: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
Unary: TypeAlias = Callable[[bytes, Context], Awaitable[bytes]]
Served: TypeAlias = Callable[[bytes, Context, Caller], Awaitable[Ack]]

GONE: Final = b""
"""The answer to a caller that has gone, which nobody reads."""


class CallFailed(TaskdNetError):
    """A call has no answer; the text says why."""


def caller_of(context: Context) -> Caller | None:
    """The far end of the connection that a call or a stream of gRPC comes over.

    None if the deadline of the call has passed, and nobody awaits the answer. gRPC has forgotten the connection then,
    so a node that answered late would take an honest caller for a stranger. Ask before the first await, and once.
    """

    def names() -> frozenset[CertificateName] | None:
        shown = context.auth_context()
        return frozenset(peer_names(shown)) if b"ssl" in shown.get("transport_security_type", ()) else None

    remote = remote_of(context.peer())
    return Caller(remote, names) if remote.family else None


def unary_call(channel: grpc.aio.Channel, name: str) -> UnaryCall:
    """One of the service's unary calls; bytes go in and come out."""
    call: UnaryCall = channel.unary_unary(f"/{SERVICE}/{name}")
    return call


class GrpcRequests:
    """The requests of a child beside its messages, over gRPC.

    Args:
        channel: to the parent.
        identity: the child's position.
        parent: the parent's, the `src` of answers that the network gives in its place.
        peer: its properties.
    """

    def __init__(self, channel: grpc.aio.Channel, identity: Position, parent: Position, peer: Peer) -> None:
        self._channel = channel
        self._path_discovery = unary_call(channel, "PathDiscovery")
        self._identity = identity
        self._parent = parent
        self._peer = peer

    async def announce(self, announcing: Announcing, timeout: float) -> Ack:
        """Announce or withdraw positions. Returns the parent's answer, or the code of the failure in its place."""
        metadata: Metadata = ()
        if self._peer.profile.withdraws:
            metadata += peers.routes_metadata(announcing.kind)
        if self._peer.ends and announcing.end is not None:
            metadata += peers.end_metadata(announcing.end)
        try:
            answer = await self._path_discovery(announcing.data, metadata=metadata, timeout=timeout)
            return codec.read_ack(answer, self._parent)
        except grpc.aio.AioRpcError as error:
            return Ack("", self._peer.profile.read_status(error.code(), error.details() or "", False), self._parent)
        except Refusal as refusal:
            return Ack("", refusal.code, self._parent)

    async def report(self, report: bytes, timeout: float) -> bytes:
        """Report the state of the mesh. Returns the parent's answer.

        Raises:
            CallFailed: there is none.
        """
        call: UnaryCall = self._channel.unary_unary(f"/{STATUS_SERVICE}/Tell")
        try:
            return await call(report, metadata=peers.stream_metadata(self._identity), timeout=timeout)
        except grpc.aio.AioRpcError as error:
            raise CallFailed(f"{error.code().name}: {error.details()}") from error


class Methods(grpc.GenericRpcHandler):
    """The methods that a parent serves to its children.

    Args:
        methods: the handler of each, by its full name.

    Attributes:
        count: calls that gRPC has handed over.
    """

    def __init__(self, methods: Mapping[str, Handler]) -> None:
        self._methods = methods
        self.count = 0
        self._refusal = ""

    def refuse(self, why: str) -> None:
        """Refuse every call with UNAVAILABLE and this text; an empty one serves them again."""
        self._refusal = why

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Handler | None:
        """Count and serve a call that gRPC hands over."""
        self.count += 1
        method = self._methods.get(handler_call_details.method)
        # A stream of requests on both sides takes a unary call as well.
        return grpc.stream_stream_rpc_method_handler(self._refuse) if self._refusal and method is not None else method

    async def _refuse(self, _: object, context: Context) -> None:
        await context.abort(grpc.StatusCode.UNAVAILABLE, self._refusal)

    async def rest(self, seconds: float, looks: int, passes: Callable[[], Awaitable[None]]) -> None:
        """Wait until gRPC has handed over every call that had arrived, for `seconds` at most.

        Children go on calling, and gRPC does not tell how many calls it still holds. A marker does: it passes the queue
        that received calls pass, so gRPC held none if none has come before the marker's return. Several looks with a
        pause in between give gRPC's threads time to read what has reached the sockets.

        Args:
            seconds: the time at most.
            looks: markers before which no call has come.
            passes: sends one marker through the queue and waits for it, such as `Marker.passes`.
        """
        loop = asyncio.get_running_loop()
        began, first, empty = loop.time(), self.count, 0
        while loop.time() - began < seconds:
            count = self.count
            await passes()
            if self.count == count:
                empty += 1
                if empty == looks:
                    return
                await asyncio.sleep(DRAIN_LOOK_S)
            elif self.count - first >= DRAIN_CATCH_UP_CALLS and loop.time() - began >= DRAIN_CATCH_UP_S:
                return


class Marker:
    """Markers in the queue through which gRPC hands received calls to the loop.

    grpc.aio has one such queue in a process, first in, first out, and asks for the next call as soon as it has one. A
    marker is a call that has failed before it begins: nothing is sent, and its end passes the queue.
    """

    def __init__(self) -> None:
        self._channel = grpc.aio.insecure_channel("unix:/dev/null")  # no call leaves, and nothing can listen there
        self._call = unary_call(self._channel, "Marker")

    async def passes(self) -> None:
        """Send a marker, and wait for it and for the calls before it: gRPC wakes their tasks in turns of their own."""
        with contextlib.suppress(grpc.aio.AioRpcError):
            await self._call(b"", timeout=-1.0)
        for _ in range(DRAIN_TURNS):
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Close the channel of the markers."""
        await self._channel.close()


class Failures:
    """Answers to calls that have failed, in the way that each peer understands.

    Args:
        host: the node.
        connections: of its children.
    """

    def __init__(self, host: Host, connections: Connections) -> None:
        self._host = host
        self._connections = connections

    def guarded(self, call: Served) -> Unary:
        """A call whose failures are answered."""

        async def guarded(data: bytes, context: Context) -> bytes:
            caller = caller_of(context)
            if caller is None:
                return GONE
            try:
                ack = await call(data, context, caller)
            except Exception as error:  # noqa: BLE001 - a fault is answered and logged there
                ack = self.answer(call.__name__, error, caller.remote)
            if ack.code:
                await self.end(ack, context, caller.remote)
            return codec.write_ack(ack)

        return guarded

    def answer(self, call: str, error: Exception, remote: Remote) -> Ack:
        """The answer to a request that has failed: a refusal's code, 5999 for a fault.

        One bad request must not cost the others their node.
        """
        host = self._host
        position = host.router.position
        if not isinstance(error, Refusal):
            host.log.error("request_failed", call=call, peer=f"{remote.place}:{remote.port}", exc_info=error)
            return Ack("", Code.SERVER_ERR, position)
        if isinstance(error, Violation):
            host.perform(host.router.report_violation(remote.place, error))
        host.log.debug("request_refused", call=call, code=int(error.code), detail=str(error))
        return Ack(error.uuid, error.code, position, str(error))

    async def end(self, ack: Ack, context: Context, remote: Remote) -> None:
        """End a call that has failed by a status, where the peer understands nothing else."""
        # As it was decided when the peer registered, or as it describes itself before that.
        peer = self._connections.peer_over(remote)
        if peer is None:
            peer = peers.of_child(peers.read_metadata(context.invocation_metadata()))
        if peer.profile.fails_by_status:
            await context.abort(grpc.StatusCode.UNKNOWN, grpc_status.text_for(ack.code))
