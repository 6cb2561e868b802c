"""ClusterD's service `Recover` for code that is written against gRPC's generated module `recover_pb2_grpc`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from taskd_net.job.clusterd import rpcs

__all__ = ["RecoverServicer", "RecoverStub", "add_RecoverServicer_to_server"]


class RecoverStub:
    """The calls of the service, one attribute for each, by the names in `proto/recover.proto`.

    Args:
        channel: to ClusterD.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        for rpc in rpcs.CALLS:
            make = channel.unary_stream if rpc.streams else channel.unary_unary
            call = make(
                rpc.path, request_serializer=rpc.request.SerializeToString, response_deserializer=rpc.answer.FromString
            )
            setattr(self, rpc.name, call)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


class RecoverServicer:
    """Base class of a server. Calls without a method in the subclass are answered UNIMPLEMENTED by gRPC."""


def add_RecoverServicer_to_server(servicer: RecoverServicer, server: grpc.Server) -> None:
    """Have a server answer the calls of the service.

    Args:
        servicer: has a method `(request, context)` for each call that it answers.
        server: of gRPC.
    """
    handlers = {}
    for rpc in rpcs.CALLS:
        function = getattr(servicer, rpc.name, None)
        if function is not None:
            make = grpc.unary_stream_rpc_method_handler if rpc.streams else grpc.unary_unary_rpc_method_handler
            handlers[rpc.name] = make(
                function,
                request_deserializer=rpc.request.FromString,
                response_serializer=rpc.answer.SerializeToString,
            )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(rpcs.RECOVER, handlers),))
