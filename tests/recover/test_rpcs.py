from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.rpcs import Rpc

pytestmark = pytest.mark.oldest

PROTO = Path(__file__).resolve().parents[2] / "proto"


def test_methods_are_those_of_the_public_files(tmp_path: Path) -> None:
    target = tmp_path / "public.binpb"
    files = ("recover.proto", "datatrace.proto")
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--descriptor_set_out={target}", *files]
    subprocess.run(command, check=True)
    public = {
        (f"/{service.name}/{method.name}", method.input_type, method.output_type, method.server_streaming)
        for file in FileDescriptorSet.FromString(target.read_bytes()).file
        for service in file.service
        for method in service.method
    }
    ours = {
        (each.path, f".{each.request.DESCRIPTOR.name}", f".{each.answer.DESCRIPTOR.name}", each.streams)
        for each in vars(rpcs).values()
        if isinstance(each, Rpc)
    }
    assert ours == public
    assert len(ours) == 17


def test_path_has_no_package() -> None:
    assert rpcs.INIT.path == "/Recover/Init"
    assert rpcs.PROFILING.path == "/TrainingDataTrace/SubscribeDataTraceSwitch"
