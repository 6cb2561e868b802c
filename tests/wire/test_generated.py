"""The public proto file is the contract's, and the generated module says the same under names that cannot collide."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet

from taskd_net.net.wire import tasknet_pb2

pytestmark = pytest.mark.oldest

PROTO = Path(__file__).resolve().parents[2] / "proto"

# message: ((number, name, type), ...), as section 2 of the contract lists them
MESSAGES = {
    "Position": ((1, "role", "string"), (2, "serverRank", "string"), (3, "processRank", "string")),
    "RegisterReq": ((1, "uuid", "string"), (2, "pos", "Position")),
    "PathDiscoveryReq": ((1, "uuid", "string"), (2, "proxyPos", "Position"), (3, "path", "repeated Position")),
    "MessageHeader": (
        (1, "uuid", "string"),
        (2, "mtype", "string"),
        (3, "sync", "bool"),
        (4, "src", "Position"),
        (5, "dst", "Position"),
        (6, "createTime", "int64"),
    ),
    "Message": ((1, "header", "MessageHeader"), (2, "body", "string")),
    "Ack": ((1, "uuid", "string"), (2, "code", "uint32"), (3, "src", "Position")),
}

# method: (request, answer)
METHODS = {
    "Register": ("RegisterReq", "Ack"),
    "PathDiscovery": ("PathDiscoveryReq", "Ack"),
    "TransferMessage": ("Message", "Ack"),
    "InitServerDownStream": ("stream Ack", "stream Message"),
}


def type_of(field: FieldDescriptorProto) -> str:
    """Write the type of a field as a proto file does, a message without its package."""
    if field.type == FieldDescriptorProto.TYPE_MESSAGE:
        name = field.type_name.rpartition(".")[2]
    else:
        name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"repeated {name}" if field.label == FieldDescriptorProto.LABEL_REPEATED else name


def messages(file: FileDescriptorProto) -> dict[str, tuple[tuple[int, str, str], ...]]:
    """List the messages of a proto file in the form of `MESSAGES`."""
    return {
        message.name: tuple((field.number, field.name, type_of(field)) for field in message.field)
        for message in file.message_type
    }


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> FileDescriptorProto:
    """The public file as another language's compiler reads it."""
    target = tmp_path_factory.mktemp("proto") / "tasknet.binpb"
    compiler = [sys.executable, "-m", "grpc_tools.protoc"]
    subprocess.run([*compiler, f"-I{PROTO}", f"--descriptor_set_out={target}", "tasknet.proto"], check=True)
    (file,) = FileDescriptorSet.FromString(target.read_bytes()).file
    return file


def test_public_messages_are_those_of_the_contract(public: FileDescriptorProto) -> None:
    assert public.syntax == "proto3"
    assert messages(public) == MESSAGES


def test_public_service_is_that_of_the_contract(public: FileDescriptorProto) -> None:
    assert public.package == ""
    (service,) = public.service
    assert service.name == "TaskNet"
    assert {
        method.name: (
            "stream " * method.client_streaming + method.input_type.removeprefix("."),
            "stream " * method.server_streaming + method.output_type.removeprefix("."),
        )
        for method in service.method
    } == METHODS


def test_generated_module_has_the_same_messages() -> None:
    file = FileDescriptorProto()
    tasknet_pb2.DESCRIPTOR.CopyToProto(file)
    assert messages(file) == MESSAGES


def test_generated_names_are_in_a_package_of_their_own() -> None:
    file = FileDescriptorProto()
    tasknet_pb2.DESCRIPTOR.CopyToProto(file)
    assert file.package == "taskd_net.wire"
    assert file.name == "taskd_net/net/wire/tasknet.proto"
    assert not file.service


def test_package_is_not_on_the_wire() -> None:
    ack = tasknet_pb2.Ack(uuid="u", code=5002, src=tasknet_pb2.Position(role="Mgr", serverRank="0", processRank="-1"))
    assert ack.SerializeToString() == bytes.fromhex("0a0175108a271a0c0a034d67721201301a022d31")
