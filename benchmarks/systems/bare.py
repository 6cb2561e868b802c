"""A bare handler of grpc.aio: the cost of a unary call in Python without any work."""

from __future__ import annotations

import grpc

from benchmarks.systems.member import Member, Spec
from taskd_net import Position
from taskd_net.core.frame import Ack
from taskd_net.net.joining.channel import server_options
from taskd_net.net.links.grpc_calls import SERVICE, Context
from taskd_net.net.wire import codec


class Bare(Member):
    """A server with our settings, whose handlers answer every call unread, with the same Ack."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._ack = codec.write_ack(Ack("0" * 12, 0, Position.parse(spec["positions"][0])))
        self._server: grpc.aio.Server | None = None

    async def start(self) -> str:
        """Serve."""
        self._server = server = grpc.aio.server(options=server_options())
        calls: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.unary_unary_rpc_method_handler(self._answer)
            for name in ("Register", "PathDiscovery", "TransferMessage")
        }
        calls["InitServerDownStream"] = grpc.stream_stream_rpc_method_handler(self._stream)
        handler = grpc.method_handlers_generic_handler(SERVICE, calls)
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        return f"127.0.0.1:{port}"

    async def close(self) -> None:
        """Stop serving."""
        if self._server is not None:
            await self._server.stop(0)

    async def _answer(self, _: bytes, context: Context) -> bytes:
        return self._ack

    async def _stream(self, _: object, context: Context) -> None:
        await context.read()
