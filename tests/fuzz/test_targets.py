"""The targets of the fuzzers under hypothesis, and with everything that was ever found."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from taskd_net.base import rank_record
from taskd_net.net.wire import datatrace_pb2, job_pb2, link_pb2, recover_pb2, status_pb2
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.socket_frames import (
    FrameKind,
    Greeting,
    write_accepted,
    write_delivered,
    write_frame,
    write_greeting,
    write_message,
)
from tests.fuzz.targets import TARGETS

CORPUS = Path(__file__).parent / "corpus"
PACKAGE = Path(__file__).resolve().parents[2] / "taskd_net"

texts = st.one_of(st.text(max_size=6), st.sampled_from(["", "0", "7", "-1", "All", "0,1", "Worker", "Mgr", "9" * 300]))
positions = st.builds(
    pb.Position, role=st.one_of(st.sampled_from(["Worker", "Mgr", "Proxy"]), texts), serverRank=texts, processRank=texts
)
headers = st.builds(
    pb.MessageHeader,
    uuid=st.one_of(texts, st.just("u" * 127), st.just("u" * 129)),
    mtype=texts,
    sync=st.booleans(),
    src=st.one_of(st.none(), positions),
    dst=st.one_of(st.none(), positions),
    createTime=st.one_of(st.just(1_700_000_000_000), st.integers(-(2**63), 2**63 - 1)),
)
messages = st.builds(pb.Message, header=st.one_of(st.none(), headers), body=st.text(max_size=20))
announcements = st.builds(
    pb.PathDiscoveryReq, uuid=texts, proxyPos=st.one_of(st.none(), positions), path=st.lists(positions, max_size=5)
)
batches = st.builds(
    link_pb2.Batch,
    messages=st.lists(messages.map(pb.Message.SerializeToString), max_size=5),
    patience=st.lists(st.integers(0, 2**32 - 1), max_size=5),
    accepted=st.lists(texts, max_size=5),
    answers=st.lists(st.binary(max_size=10), max_size=3),
    taken=st.integers(0, 2**32 - 1),
)
streams = st.lists(
    st.builds(
        link_pb2.Batch,
        messages=st.lists(messages.map(pb.Message.SerializeToString), max_size=3),
        patience=st.lists(st.integers(0, 5000), max_size=3),
        numbers=st.lists(st.integers(0, 4), max_size=3),
        accepted_numbers=st.lists(st.integers(0, 4), max_size=3),
        answers=st.lists(
            st.builds(pb.Ack, uuid=texts, code=st.sampled_from([0, 5002, 6001]), src=positions).map(
                pb.Ack.SerializeToString
            ),
            max_size=3,
        ),
        answer_numbers=st.lists(st.integers(0, 4), max_size=3),
        taken=st.integers(0, 9),
        joined=st.integers(0, 4),
    ).map(link_pb2.Batch.SerializeToString),
    max_size=4,
).map(lambda batches: b"".join(len(data).to_bytes(2) + data for data in batches))
reports = st.builds(
    status_pb2.Report,
    entries=st.lists(st.builds(status_pb2.Entry, position=texts, node=st.binary(max_size=20)), max_size=3),
    gone=st.lists(texts, max_size=3),
)


numbers = st.integers(0, 5) | st.integers(0, 2**64 - 1)
socket_frames = st.lists(
    st.one_of(
        st.builds(write_frame, st.sampled_from(FrameKind), st.binary(max_size=40)),
        st.builds(write_greeting, st.builds(Greeting, st.binary(min_size=32, max_size=32), st.booleans())),
        st.builds(write_accepted, st.sampled_from([None, True, False])),
        st.builds(write_message, numbers, st.integers(0, 9000), st.integers(0, 255), st.binary(max_size=40)),
        st.builds(write_delivered, numbers, st.integers(0, 255)),
        st.integers(0, 2**32 - 1).map(lambda size: size.to_bytes(4, "little") + b"\0"),
    ),
    max_size=5,
).map(b"".join)
socket_requests = st.builds(
    link_pb2.Request,
    number=st.integers(0, 2**32 - 1),
    patience=st.integers(0, 5000),
    routes=st.sampled_from(["", "complete", "withdraw", "x"]),
    end=st.sampled_from(["", "finished", "lost"]),
    announcement=st.one_of(st.none(), announcements.map(pb.PathDiscoveryReq.SerializeToString)),
    renewal=st.sampled_from([None, False, True]),
).map(link_pb2.Request.SerializeToString)
replies = st.builds(
    link_pb2.Reply,
    number=st.integers(0, 2),
    ack=st.one_of(st.just(b""), st.builds(pb.Ack, code=st.integers(0, 7000)).map(pb.Ack.SerializeToString)),
    pace=st.binary(max_size=4),
    offer=st.text(max_size=4),
).map(link_pb2.Reply.SerializeToString)


def direct_streams(kind: FrameKind, payloads: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Streams of a direct link, with frames of this kind among the batches and the frames of any kind."""
    frames = st.one_of(
        st.builds(write_frame, st.just(kind), payloads),
        st.builds(write_frame, st.just(FrameKind.BATCH), batches.map(link_pb2.Batch.SerializeToString)),
        socket_frames,
    )
    return st.lists(frames, max_size=5).map(lambda frames: b"\x40" + b"".join(frames))


json_texts = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**64) | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["0", "ops", "fault_ranks", "rankResult", "code", "result"]), inner, max_size=3
        )
    ),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode())
job_orders = st.one_of(
    st.builds(
        recover_pb2.ProcessManageSignal,
        uuid=texts,
        jobId=texts,
        signalType=texts,
        actions=st.lists(texts, max_size=2),
        faultRanks=st.lists(st.builds(recover_pb2.FaultRank, rankId=texts, faultType=texts), max_size=3),
        nodeRankIds=st.lists(texts, max_size=2),
        timeout=st.integers(-5, 5),
        extraParams=texts,
    ),
    st.builds(
        recover_pb2.SwitchRankList,
        rankID=st.lists(texts, max_size=3),
        op=st.lists(st.booleans(), max_size=3),
        jobId=texts,
    ),
    st.builds(
        datatrace_pb2.DataStatusRes,
        code=st.sampled_from([0, 200, 400]),
        message=texts,
        profilingSwitch=st.builds(datatrace_pb2.ProfilingSwitch, Step=st.sampled_from(["", "on", "off", "x"])),
    ),
).map(lambda order: order.SerializeToString())
job_documents = st.one_of(
    st.builds(
        job_pb2.Job,
        agents=st.lists(st.builds(job_pb2.Agent, rank=st.integers(-1, 3)), max_size=2),
        decisions=st.lists(st.builds(job_pb2.Decision), max_size=2),
    ).map(job_pb2.Job.SerializeToString),
    json_texts,
)

device_texts = st.one_of(
    st.sampled_from(["00", "8C0A4E00", "host-b/npu", "major", "1.5", "-1", "nan", "1e999", "9" * 5000, "true"]),
    texts,
    st.dictionaries(
        st.sampled_from(["code", "device", "kind", "severity", "at", "network", "msg_type", "message", "extension"]),
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.sampled_from(["8C0A4E00", "FAULT", "once", "minor"]),
    ).map(json.dumps),
).map(str.encode)
codes = st.sampled_from(["8C0A4E00", "81078603", "8c1f8608", "0x1", 7, None])
fault_rules = st.fixed_dictionaries(
    {
        "EventId": st.lists(codes, min_size=1, max_size=3),
        "TimeWindow": st.just(3600) | st.integers(-1, 10**6),
        "Times": st.just(2) | st.integers(-1, 200),
        "FaultHandling": st.sampled_from(["ManuallySeparateNPU", "SeparateNPU", "PreSeparateNPU", 1]),
    },
    optional={
        "ReleaseTimeWindow": st.just(7200) | st.integers(-1, 10**6),
        **dict.fromkeys(("FaultTimeout", "RecoverTimeout"), st.just(20) | st.integers(-1, 10**4)),
    },
)
code_lists = st.lists(codes, min_size=1, max_size=4)
fault_files = st.tuples(
    st.fixed_dictionaries(
        {"RestartNPUCodes": code_lists},
        optional={
            **dict.fromkeys(("NotHandleFaultCodes", "SeparateNPUCodes", "SubHealthFaultCodes"), code_lists),
            "x": texts | code_lists,
        },
    ).map(json.dumps),
    st.fixed_dictionaries(
        {},
        optional={
            "GraceTolerance": st.dictionaries(
                st.sampled_from(["WaitProcessReadCMTime", "WaitDeviceResetTime", "WaitFaultSelfHealingTime", "x"]),
                st.integers(-1, 10**4) | texts,
            ),
            "FaultFrequency": st.lists(fault_rules, max_size=3) | texts,
            "FaultDuration": st.lists(fault_rules, max_size=3) | texts,
        },
    ).map(json.dumps),
    st.sampled_from(["300", '"60"', "0", "9" * 5000]),
).map(lambda files: "\0".join(files).encode())
platform_files = st.one_of(
    st.dictionaries(texts, st.integers(-1, 2**40) | texts, max_size=3).map(json.dumps),
    st.dictionaries(
        st.sampled_from(["RankList", "RetryTime", "GracefulExit", "FaultFlushing", "RestartFaultProcess"]),
        st.integers(-1, 2**70)
        | st.booleans()
        | st.lists(
            st.fixed_dictionaries({"RankId": st.integers(-1, 9), "Status": texts | st.just("fault")}), max_size=3
        ),
    ).map(json.dumps),
    st.sampled_from(["hotReset", "podReschedule\n", "12", "9" * 5000, "host-a/0,host-b/1 x"]),
).map(str.encode)


error_texts = st.sampled_from(
    [
        "ValueError: boom",
        "RuntimeError: [/gloo/x]",
        "\ud800",
        "\x1b[0m",
        "9" * 5000,
        5000 * "x\n",
        'File "a", line 3 in x',
    ]
)
error_values = st.none() | st.booleans() | st.integers(-1, 2**70) | error_texts | st.just(1e999)
failures = st.one_of(
    st.fixed_dictionaries(
        {
            "message": error_values
            | st.dictionaries(
                st.sampled_from(["message", "extraInfo", "errorCode"]),
                error_values | st.dictionaries(st.sampled_from(["py_callstack", "timestamp"]), error_values),
            )
        },
        optional={
            "timestamp": error_values,
            "taskd_net": st.dictionaries(
                st.sampled_from(["pid", "at_ns", "type", "file", "line", "function"]), error_values
            ),
        },
    ).map(json.dumps),
    st.just('Fatal Python error: Aborted\n\n  File "/a.py", line 4 in crash\n'),
).map(str.encode)


reasons = error_values | st.dictionaries(
    st.sampled_from(["kind", "message", "traceback", "at_ns", "pid", "place"]),
    error_values | st.dictionaries(st.sampled_from(["file", "line", "function"]), error_values),
)
causes = (
    st.fixed_dictionaries(
        {"rank": st.integers(0, 9) | error_values},
        optional={
            **dict.fromkeys(("node", "host", "pid", "code", "signal", "at_ns", "asked"), error_values),
            **dict.fromkeys(("reason", "thread"), reasons),
        },
    )
    .map(json.dumps)
    .map(str.encode)
)

progress = (
    st.fixed_dictionaries(
        {"ranks": st.integers(0, 9) | error_values},
        optional={
            **dict.fromkeys(("watched", "marking", "lowest", "highest", "low_group", "marked", "loss"), error_values),
            "spent": st.dictionaries(st.sampled_from(["steps", "data", "x"]), error_values, max_size=3),
            "slowest": st.lists(
                st.fixed_dictionaries(
                    {"rank": st.integers(0, 9) | error_values},
                    optional=dict.fromkeys(("seen", "step", "group", "section", "marked", "moved"), error_values),
                ),
                max_size=6,
            ),
        },
    )
    .map(json.dumps)
    .map(str.encode)
)

counts = st.integers(0, 9) | st.integers(0, 2**64 - 1)
signed = st.integers(-1, 9) | st.integers(-(2**63), 2**63 - 1)
flags = st.integers(0, 9) | st.integers(0, 255)
records = st.builds(
    lambda *fields: rank_record.SCRIPT.pack(*fields[:14], *fields[14]) + rank_record.BEAT.pack(fields[0], *fields[15:]),
    *(counts, st.just(7), signed, signed, signed, counts, counts, counts, st.floats(), flags, flags, flags, flags),
    st.binary(max_size=rank_record.NAME_BYTES),
    st.lists(counts, min_size=len(rank_record.CLASSES), max_size=len(rank_record.CLASSES)),
    *(st.just(7), signed, signed, flags),
)

frames = st.lists(st.tuples(texts | error_values, st.integers(0, 9) | error_values, texts).map(list), max_size=3)
stacks = (
    st.lists(
        st.fixed_dictionaries(
            {"pids": st.dictionaries(texts, st.integers(0, 9) | error_values, max_size=3) | error_values},
            optional={
                "seen": st.sampled_from(["runs", "stopped", "x"]) | error_values,
                "why": error_values,
                "stack": frames | error_values,
                "others": st.lists(frames, max_size=2) | error_values,
            },
        ),
        max_size=3,
    )
    .map(json.dumps)
    .map(str.encode)
)
stack_texts = st.lists(
    st.sampled_from(
        [
            "Thread 0x7f (most recent call first):",
            "Current thread 0x1 (most recent call first):",
            '  File "a", line 3 in f',
        ]
    ),
    max_size=6,
).map(lambda lines: "\n".join(lines).encode())


def damaged(whole: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """Valid input, and the same with some bytes changed, removed or inserted."""

    def change(data: bytes, at: int, what: bytes, cut: int) -> bytes:
        at %= len(data) + 1
        return data[:at] + what + data[at + cut :]

    cuts = st.integers(0, 4)
    once = st.builds(change, whole, st.integers(0, 400), st.binary(max_size=4), cuts)
    return st.one_of(whole, once, st.builds(change, once, st.integers(0, 400), st.binary(max_size=2), cuts))


files = st.lists(
    st.builds(
        "{} = {}".format,
        st.sampled_from(["grace", "listen", "upstream", "inbox", "identity", "child_bytes", "[mgr]\nlinks", "x", "ca"]),
        st.sampled_from(
            [
                *("1", "-1", "1e400", "nan", "'a:1'", "''", "true", "[]", "{}", "'\\u0000'", "99999999999999999999"),
                *("[" * 5000, "{a=" * 2000, "9" * 5000, "0x" + "f" * 5000, "'a:" + "9" * 5000 + "'", "'\\u0000:1'"),
            ]
        ),
    )
).map(lambda lines: "\n".join(lines).encode())

STRATEGIES = {
    "frames": damaged(messages.map(pb.Message.SerializeToString)),
    "headers": damaged(headers.map(pb.MessageHeader.SerializeToString)),
    "batches": damaged(batches.map(link_pb2.Batch.SerializeToString)),
    "requests": damaged(announcements.map(pb.PathDiscoveryReq.SerializeToString)),
    "metadata": st.one_of(
        st.binary(max_size=60),
        st.sampled_from(
            [b"taskd://j/Worker/0/*", b"127.0.0.1:9602", b"[::1]:0", b"Worker/0/All", b"a\n999\nbatched/2"]
        ),
    ),
    "configuration": damaged(files),
    "bodies": damaged(
        st.one_of(
            st.text().map(str.encode),
            st.sampled_from(
                [
                    b"[" * 5000,
                    b'{"msg_type":' * 5000,
                    b'{"msg_type": "ACTION", "code": 208, "message": "-1", "extension": {"a": "b"}}',
                    b'{"msg_type": "\\ud800", "code": ' + b"9" * 4000 + b"}",
                    b'["1", 2, "\xc2\xb2"]',
                    b"[NaN, 1e999, -Infinity, " + b"9" * 5000 + b"]",
                ]
            ),
        )
    ),
    "given": st.one_of(
        st.binary(max_size=40),
        st.sampled_from(
            [b"9" * 5000, b"\xb2", b"127.0.0.1:" + b"9" * 5000, b"a\x00b:1", b"1", b"4x8", b"on", b"\xe9:1"]
        ),
    ),
    "hosts": st.one_of(
        st.binary(max_size=30),
        st.sampled_from(
            [b"127.0.0.1:80", b"[::1]", b"[::1]x", b"localhost:1", b"localhost.evil", b"1.2.3.4@x", b"fe80::1%x"]
        ),
    ),
    "failures": damaged(failures),
    "causes": damaged(causes),
    "progress": damaged(progress),
    "stacks": damaged(st.one_of(stacks, stack_texts)),
    "records": damaged(records),
    "reports": damaged(reports.map(status_pb2.Report.SerializeToString)),
    "job_reports": damaged(json_texts),
    "job_orders": damaged(job_orders),
    "job_documents": damaged(job_documents),
    "device_reports": damaged(device_texts),
    "fault_files": damaged(fault_files),
    "platform_files": damaged(platform_files),
    "socket_frames": damaged(socket_frames),
    "socket_requests": damaged(socket_requests),
    "socket_stream": damaged(direct_streams(FrameKind.REQUEST, socket_requests)),
    "socket_stream_from_above": damaged(direct_streams(FrameKind.REPLY, replies)),
    "child_stream": damaged(streams),
    "parent_stream": damaged(streams),
    "mesh": st.binary(max_size=150),
}


SLOW = ("configuration", "device_reports", "job_reports")
"""Targets that read the input many times."""


@pytest.mark.more
@pytest.mark.parametrize("name", TARGETS)
def test_any_bytes(name: str) -> None:
    strategy = STRATEGIES[name]

    @settings(max_examples=40 if name in SLOW else 100)
    @given(strategy)
    @example(b"")
    @example(b"\xff" * 40)
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*/*")), ids=lambda file: f"{file.parent.name}-{file.name}")
def test_what_was_found_before(file: Path) -> None:
    TARGETS[file.parent.name](file.read_bytes())


def test_corpus_is_of_targets_that_exist() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)


# A reader of outside data is named read_…; a target calls it itself, or reads by the second function of its entry here.
READ_BY = {
    "read_body": "read_message",  # of a header that was split before
    "read_decisions": "from_json",  # plain data of the same store
    "read_file": "read_switch",  # bytes of a file
    "read_small": "read_switch",  # bytes of a file
    "read_files": "read_rules",  # the files of a folder
    "read_folder": "read_rules",
    "read_known_frames": "from_child",  # several frames of a batch
    "read_position": "read_message",
    "read_probe": "read_frame",
    "read_spans": "from_child",  # fields of a batch
    "read_varint": "split_batch",
    "read_kind": "read_request",  # fields of a request over a direct link
    "read_end": "read_request",
    "read_marks": "look",  # a record
    "read_beat": "look",
    "read_plain": "from_parent",  # a status of gRPC, which is an enumeration
    "read_original": "from_parent",
    "read_nodes": "configuration",  # a list of positions in a setting
    "read_again": "configuration",  # the same files while a daemon runs
}


def test_every_reader_has_a_target() -> None:
    names = {
        node.name
        for file in PACKAGE.rglob("*.py")
        if "demo" not in file.parts
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("read_")
    }
    sources = [
        Path(__file__).parent / f"{module}.py"
        for module in ("targets", "jobs", "devices", "sockets", "streams", "mesh")
    ]
    called = {
        node.attr if isinstance(node, ast.Attribute) else node.id
        for file in sources
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute | ast.Name)
    }
    assert names - called == set(READ_BY)
    assert set(READ_BY.values()) <= called
