"""ClusterD's messages, against bytes written by hand: `field number << 3 | wire type`, length, content."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from google.protobuf.message import Message

from taskd_net.net.wire import datatrace_pb2, recover_pb2
from taskd_net.net.wire import recover_pb2 as pb

pytestmark = pytest.mark.oldest

PROTO = Path(__file__).resolve().parents[2] / "proto"


def text(number: int, value: str) -> bytes:
    """A field with a text of up to 127 bytes."""
    return part(number, value.encode())


def part(number: int, content: bytes) -> bytes:
    """A field with a message, or packed numbers, of up to 127 bytes."""
    assert number < 16 and len(content) < 128
    return bytes([number << 3 | 2, len(content)]) + content


def number(field: int, value: int) -> bytes:
    """A field with a number of up to 127."""
    assert field < 16 and 0 <= value < 128
    return bytes([field << 3, value])


RANK = text(1, "3") + text(2, "1")
STATUS = bytes.fromhex("08 93 03") + text(2, "no")  # 403 is 0b11_0010011

KNOWN: list[tuple[Message, bytes]] = [
    (pb.Status(code=403, info="no"), STATUS),
    (pb.ClientInfo(jobId="J", role="taskd"), text(1, "J") + text(2, "taskd")),
    (pb.FaultRank(rankId="3", faultType="1"), RANK),
    (
        pb.ProcessManageSignal(
            uuid="u",
            jobId="J",
            signalType="stopTrain",
            actions=["stop_train", "x"],
            faultRanks=[pb.FaultRank(rankId="3", faultType="1")],
            changeStrategy="dump",
            timeout=90,
            nodeRankIds=["0", "1"],
            extraParams="{}",
        ),
        text(1, "u")
        + text(2, "J")
        + text(3, "stopTrain")
        + text(4, "stop_train")
        + text(4, "x")
        + part(5, RANK)
        + text(6, "dump")
        + number(7, 90)
        + text(8, "0")
        + text(8, "1")
        + text(9, "{}"),
    ),
    (
        pb.StopCompleteRequest(
            jobId="J", status=pb.Status(code=403, info="no"), faultRanks=[pb.FaultRank(rankId="3", faultType="1")]
        ),
        text(1, "J") + part(2, STATUS) + part(3, RANK),
    ),
    (
        pb.RecoverStrategyRequest(
            jobId="J", faultRanks=[pb.FaultRank(rankId="3", faultType="1")], strategies=["retry", "exit"]
        ),
        text(1, "J") + part(2, RANK) + text(3, "retry") + text(3, "exit"),
    ),
    (
        pb.RecoverStatusRequest(
            jobId="J", status=pb.Status(code=403, info="no"), strategy="recover", isolateRankIds=["3", "4"]
        ),
        text(1, "J") + part(2, STATUS) + text(3, "recover") + text(4, "3") + text(4, "4"),
    ),
    (
        pb.ProcessFaultRequest(jobId="J", faultRanks=[pb.FaultRank(rankId="3", faultType="1")]),
        text(1, "J") + part(2, RANK),
    ),
    (pb.SwitchNicRequest(jobID="J"), text(1, "J")),
    (pb.SwitchNicResponse(jobID="J", msg="m"), text(1, "J") + text(2, "m")),
    (
        pb.SwitchNics(jobID="J", nicOps={"n": pb.DeviceList(dev=["d"], op=[True])}),
        text(1, "J") + part(2, text(1, "n") + part(2, text(1, "d") + part(2, b"\x01"))),
    ),
    (
        pb.SwitchRankList(rankID=["0", "1"], op=[True, False], jobId="J"),
        text(1, "0") + text(1, "1") + part(2, b"\x01\x00") + text(3, "J"),
    ),
    (pb.SwitchResult(jobId="J", result=True), text(1, "J") + number(2, 1)),
    (
        pb.StressTestParam(jobID="J", stressParam={"n": pb.StressOpList(ops=[0, 1])}, allNodesOps=[0, 1]),
        text(1, "J") + part(2, text(1, "n") + part(2, part(1, b"\x00\x01"))) + part(3, b"\x00\x01"),
    ),
    (pb.StressTestRequest(jobID="J"), text(1, "J")),
    (pb.StressTestResponse(jobID="J", msg="m"), text(1, "J") + text(2, "m")),
    (
        pb.StressTestRankParams(stressParam={"3": pb.StressOpList(ops=[1])}, jobId="J"),
        part(1, text(1, "3") + part(2, part(1, b"\x01"))) + text(2, "J"),
    ),
    (
        pb.StressTestResult(
            jobId="J",
            stressResult={"3": pb.StressTestRankResult(rankResult={"0": pb.StressTestOpResult(code="0", result="OK")})},
        ),
        text(1, "J") + part(2, text(1, "3") + part(2, part(1, text(1, "0") + part(2, text(1, "0") + text(2, "OK"))))),
    ),
    (datatrace_pb2.ProfilingClientInfo(jobId="J", role="taskd"), text(1, "J") + text(2, "taskd")),
    (
        datatrace_pb2.DataStatusRes(
            message="m",
            profilingSwitch=datatrace_pb2.ProfilingSwitch(
                CommunicationOperator="on", Step="off", SaveCheckpoint="a", FP="b", DataLoader="c"
            ),
            code=100,
        ),
        text(1, "m")
        + part(2, text(1, "on") + text(2, "off") + text(3, "a") + text(4, "b") + text(5, "c"))
        + number(3, 100),
    ),
]


@pytest.mark.parametrize(("message", "written"), KNOWN, ids=[type(message).__name__ for message, _ in KNOWN])
def test_message_has_the_numbers_of_clusterd(message: Message, written: bytes) -> None:
    assert message.SerializeToString() == written
    assert type(message).FromString(written) == message


def test_every_field_has_its_bytes() -> None:
    """A message without bytes here, or a field that no example sets, would be unproven."""
    proven = {type(message).DESCRIPTOR.full_name: message for message, _ in KNOWN}
    inside = {"DeviceList", "StressOpList", "StressTestRankResult", "StressTestOpResult", "ProfilingSwitch"}
    for module in (recover_pb2, datatrace_pb2):
        for name, descriptor in module.DESCRIPTOR.message_types_by_name.items():
            assert descriptor.full_name == f"taskd_net.clusterd.{name}"
            if name not in inside:
                message = proven[descriptor.full_name]
                assert {field.name for field, _ in message.ListFields()} == set(descriptor.fields_by_name)


def test_generated_files_have_names_of_their_own() -> None:
    """TaskD's own modules may be in the same process, whose pool of names is one."""
    assert recover_pb2.DESCRIPTOR.name == "taskd_net/net/wire/recover.proto"
    assert datatrace_pb2.DESCRIPTOR.name == "taskd_net/net/wire/datatrace.proto"
    assert not recover_pb2.DESCRIPTOR.services_by_name


BOTH: Final = """
import recover_pb2, datatrace_pb2
from taskd_net.job.clusterd import pb
from taskd_net.net.wire import datatrace_pb2 as ours
for theirs, own in ((recover_pb2, pb), (datatrace_pb2, ours)):
    for name in theirs.DESCRIPTOR.message_types_by_name:
        assert getattr(theirs, name) is not getattr(own, name)
info = pb.ClientInfo(jobId="J", role="taskd").on_wire()
assert recover_pb2.ClientInfo.FromString(info.SerializeToString()).jobId == "J"
"""


@pytest.mark.parametrize("first", ["", "import taskd_net.job.clusterd\n"], ids=["theirs-first", "ours-first"])
def test_taskds_own_modules_may_be_in_the_same_process(first: str, tmp_path: Path) -> None:
    """Its file names, and its messages without a package, are in the same pool of names."""
    compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", f"--python_out={tmp_path}"]
    subprocess.run([*compiler, "recover.proto", "datatrace.proto"], check=True)
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    subprocess.run([sys.executable, "-c", first + BOTH], check=True, env={**os.environ, "PYTHONPATH": path})


def test_public_files_have_no_package() -> None:
    """The path of a method begins with its package; ClusterD's begin with the service."""
    for name in ("recover", "datatrace"):
        lines = (PROTO / f"{name}.proto").read_text(encoding="utf-8").splitlines()
        assert not any(line.startswith("package") for line in lines)
