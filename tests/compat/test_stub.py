"""ClusterD's service by the names of a generated module."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import grpc
import pytest

import taskd_net
from taskd.python.toolkit.recover_module.pb.recover_pb2_grpc import (
    RecoverServicer,
    RecoverStub,
    add_RecoverServicer_to_server,
)
from taskd_net.net.wire import recover_pb2 as pb

pytestmark = pytest.mark.oldest

PROTO = Path(taskd_net.__file__).parents[1] / "proto" / "recover.proto"


class Servicer(RecoverServicer):
    """Two of the calls."""

    def Register(self, request: pb.ClientInfo, context: grpc.ServicerContext) -> pb.Status:
        """Give the job back."""
        return pb.Status(code=7, info=f"{request.jobId} {request.role}")

    def SubscribeProcessManageSignal(
        self, request: pb.ClientInfo, context: grpc.ServicerContext
    ) -> Iterator[pb.ProcessManageSignal]:
        """Two signals."""
        for uuid in ("a", "b"):
            yield pb.ProcessManageSignal(uuid=uuid, jobId=request.jobId)


@pytest.fixture
def channel() -> Iterator[grpc.Channel]:
    """A channel to a server."""
    server = grpc.server(futures.ThreadPoolExecutor(2))
    add_RecoverServicer_to_server(Servicer(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    with grpc.insecure_channel(f"127.0.0.1:{port}") as made:
        yield made
    server.stop(None).wait()


def test_calls_reach_the_methods(channel: grpc.Channel) -> None:
    stub = RecoverStub(channel)
    info = pb.ClientInfo(jobId="J", role="taskd")
    assert stub.Register(info, timeout=10) == pb.Status(code=7, info="J taskd")
    assert [signal.uuid for signal in stub.SubscribeProcessManageSignal(info, timeout=10)] == ["a", "b"]


def test_calls_without_a_method_are_unimplemented(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as raised:
        RecoverStub(channel).Init(pb.ClientInfo(), timeout=10)
    assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.skipif(not PROTO.exists(), reason="the proto file is part of a checkout")
def test_every_call_of_the_proto_file_is_there(channel: grpc.Channel) -> None:
    named = re.findall(r"\brpc (\w+)", re.sub(r"//.*", "", PROTO.read_text()))
    assert len(named) == 16
    assert sorted(vars(RecoverStub(channel))) == sorted(named)
