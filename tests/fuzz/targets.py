"""The fuzz targets: functions of bytes that assert invariants for any bytes.

Beside its assertions, a target may raise only the documented errors of the tested code. Drivers are hypothesis
(test_targets.py), atheris (run.py), and all findings so far (corpus/).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from binascii import crc32
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias
from unittest.mock import patch

from click.testing import CliRunner
from google.protobuf.message import DecodeError

from taskd_net import NodeConfig
from taskd_net.base import rank_record
from taskd_net.base.address import Address
from taskd_net.base.body import Body
from taskd_net.base.cause import (
    HEAD_CHARS,
    TAIL_CHARS,
    TEXT_CHARS,
    Cause,
    first,
    read_cause,
    read_reason,
    read_stack,
    summary,
    words,
    write_cause,
)
from taskd_net.base.codes import Code, ConfigError, Refusal
from taskd_net.base.expect import Expected
from taskd_net.base.job_id import require_job_id
from taskd_net.base.limits import MESSAGE_BYTES
from taskd_net.base.position import Position
from taskd_net.base.progress import SECTION_CHARS, SLOWEST, STEP_MOST, read_progress, write_progress
from taskd_net.base.stacks import NODE_CHARS, RankStack, grouped, read_stacks, read_threads, write_stacks
from taskd_net.base.stacks import words as words_of_stacks
from taskd_net.base.untrusted import json_line, printable
from taskd_net.base.vocabulary import ACTION, FAULT_RANKS, RESTART_ALL, RESTART_RANKS, STOP_RANKS
from taskd_net.cli import systemd
from taskd_net.cli.group import group
from taskd_net.core.acks import FAILURES_TOLD
from taskd_net.core.certificate_name import CertificateName
from taskd_net.core.frame import Frame
from taskd_net.faces.page.feed import Feed
from taskd_net.faces.side_port import _Gate
from taskd_net.job import arguments
from taskd_net.job.agent import messages
from taskd_net.job.agent.progress import NodeLedger, Sight
from taskd_net.net.links import peer as peers
from taskd_net.net.links.remote import remote_of
from taskd_net.net.wire import codec
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.batches import (
    BATCH_ANSWERS,
    BATCH_ANSWERS_READ,
    BATCH_MESSAGES,
    read_batch,
    read_branches,
    split_batch,
    write_batch,
)
from taskd_net.net.wire.fields import field_sizes, varint
from taskd_net.net.wire.link_pb2 import Batch
from taskd_net.net.wire.requests import Announcement, read_announcement, read_register
from taskd_net.observe import probe_codec, status_codec
from taskd_net.observe.document import document
from taskd_net.observe.ledger import Ledger, Report
from taskd_net.observe.records import Mesh
from tests.fuzz import devices, jobs, sockets
from tests.fuzz.mesh import play
from tests.fuzz.streams import from_child, from_parent
from tests.wire.known import read_known_frame

Target: TypeAlias = Callable[[bytes], None]

TIGHT_BYTES: Final = 1024
"""Bytes of a message beside the contract's, so that inputs reach the bound."""

TIGHT_PATH: Final = 3
"""Positions of an announcement, for the same."""

_SENDERS_ERRORS: Final = {*range(4000, 4007), Code.CLIENT_ERR}


def _position(position: pb.Position) -> Position:
    return Position(position.role, position.serverRank, position.processRank)


def _agrees(frame: Frame, data: bytes) -> None:
    """The router and the receiver read the same header: no node gets another's message."""
    try:
        header = pb.Message.FromString(data).header
    except DecodeError:
        return  # the body is no text, so only the header is compared
    assert (frame.uuid, frame.sync) == (header.uuid, header.sync)
    assert (frame.src, frame.dst.position) == (_position(header.src), _position(header.dst))


def frames(data: bytes) -> None:
    """A message at the first hop, and at a later one."""
    for most in (MESSAGE_BYTES, TIGHT_BYTES):
        try:
            frame = codec.read_frame(data, most)
        except Refusal as refusal:
            assert int(refusal.code) in _SENDERS_ERRORS
        else:
            assert len(frame.data) <= most and len(frame.uuid) <= codec.UUID_CHARS
            pb.Message.FromString(frame.data)
            _agrees(frame, frame.data)
            message = codec.read_message(frame)
            assert (message.uuid, message.src, message.dst) == (frame.uuid, frame.src, frame.dst.position)
            assert codec.read_frame(frame.data, most) is not frame
            _agrees(frame, codec.write_checked(frame))
    try:
        frame = read_known_frame(data)
    except Refusal as refusal:
        assert int(refusal.code) in _SENDERS_ERRORS
        return
    _agrees(frame, frame.data)
    try:
        codec.read_message(frame)
        _agrees(frame, codec.write_checked(frame))
    except Refusal as refusal:
        assert refusal.code == Code.NIL_MESSAGE
    codec.read_uuid(data)


def headers(data: bytes) -> None:
    """A message with these bytes as its header, and one whose header ends with them."""
    for header in (data, b"\x0a\x01u" + data, b"\x0a\x01u" + data + b"\x30\x80\x80\x80\x80\x80\x20"):
        frames(b"\x0a" + varint(len(header)) + header + b"\x12\x01x")


def batches(data: bytes) -> None:
    """A batch: one that is refused is none, has too much in it, or its lists do not fit together."""
    with contextlib.suppress(IndexError, ValueError):
        assert sum(size for _, size in field_sizes(data, len(data))) == len(data)
    try:
        whole = Batch.FromString(data)
    except DecodeError:
        whole = None
    try:
        batch = read_batch(data)
    except Refusal as refusal:
        assert refusal.code == Code.NET_ERR
        fits = whole is None or len(whole.messages) == len(whole.patience)
        for items, numbers in ((whole.messages, whole.numbers), (whole.answers, whole.answer_numbers)) if whole else ():
            fits = fits and len(numbers) in (0, len(items))
        if whole is not None:
            fits = fits and max(len(whole.messages), len(whole.spans)) <= BATCH_MESSAGES
            answers = max(len(whole.answers), len(whole.accepted), len(whole.accepted_numbers))
            fits = fits and answers <= BATCH_ANSWERS_READ and len(whole.branches) <= BATCH_ANSWERS
        assert whole is None or not fits
        return
    assert batch == whole
    messages, fields = split_batch(memoryview(data))
    assert list(messages) == list(batch.messages)
    assert fields.patience == batch.patience
    rest = Batch.FromString(batch.SerializeToString())
    rest.ClearField("messages")
    assert Batch.FromString(write_batch(batch.messages, rest)) == batch
    for message in batch.messages:
        frames(message)
    try:
        told = read_branches(batch.branches, Position.mgr())
    except Refusal as refusal:
        assert refusal.code == Code.NET_ERR
    else:
        assert all(len(each.failures) <= FAILURES_TOLD for each in told.values())


def requests(data: bytes) -> None:
    """The other calls, and an answer."""
    for read in (read_register, partial(read_announcement, most=TIGHT_PATH)):
        try:
            asked = read(data)
            if isinstance(asked, Announcement):
                path = [position for part in asked.slices() for position in part.read()]
                assert path == [_position(position) for position in pb.PathDiscoveryReq.FromString(data).path]
                assert len(path) <= TIGHT_PATH
        except Refusal as refusal:
            assert refusal.code in (Code.NIL_MESSAGE, Code.NIL_POSITION, Code.CLIENT_ERR, Code.DST_TYPE_ILLEGAL)
    try:
        ack = codec.read_ack(data, Position.mgr())
    except Refusal as refusal:
        assert refusal.code == Code.NET_ERR
    else:
        again = codec.read_ack(codec.write_ack(ack), Position.mgr())
        assert (again.uuid, again.code, again.src) == (ack.uuid, ack.code, ack.src)
        assert printable(str(ack.src)).isprintable()


def metadata(data: bytes) -> None:
    """Metadata, names in certificates, addresses, positions: texts from outside, also as lines for people."""
    text = data.decode("latin-1")
    for shown in (text, data.decode("utf-8", "surrogateescape")):
        assert printable(shown).isprintable() and json_line({shown: shown}).isprintable()
        assert json.loads(json_line(shown)) == shown
    parts = [*text.split("\n"), "", "", ""]
    keys = (peers.VERSION_KEY, peers.JOB_KEY, peers.DEPTH_KEY, peers.LINKS_KEY, peers.ROUTES_KEY, "user-agent", "role")
    for said in ({**dict(zip(parts[::2], parts[1::2], strict=False))}, dict(zip(keys, parts, strict=False))):
        read = peers.read_metadata([*said.items(), ("some-bin", data)])
        require_job_id("metadata", peers.of_child(read).job_id)
        assert 0 <= peers.of_parent(read).depth < 1000
        peers.stream_position(read)
        peers.routes_kind(read)
    remote_of(text)
    for parse, wrong in ((CertificateName.parse, ValueError), (Position.parse, ValueError)):
        try:
            parse(text)
        except wrong:
            continue
    try:
        address = Address.parse(text, "listen")
        assert Address.parse(str(address), "listen") == address
    except ConfigError:
        pass


def configuration(data: bytes) -> None:
    """A configuration file: accepted, or refused in one line with exit code 2."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as file:
        Path(file.name).write_bytes(data)
        environment = {name: "" for name in os.environ if name.startswith("TASKD_")}
        done = CliRunner().invoke(group, ["config", "proxy", "--config", file.name], env=environment)
    assert done.exit_code in (0, 2), done.output
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception


def bodies(data: bytes) -> None:
    """The body of a message, for the readers of a Worker, a Manager and an Agent."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        body = Body.parse(text)
    except ValueError as error:
        assert len(str(error)) < 1000, "a line in the log is no place for a whole message"
    else:
        # An echo, as of the Manager, can be sent, and is read the same.
        body.to_json().encode()
        assert Body.parse(body.to_json()) == body
        hash((body.code, body.msg_type))
        commanded(body)
    for code in (RESTART_ALL, RESTART_RANKS, STOP_RANKS):
        commanded(Body(ACTION, code, text))
        commanded(Body(ACTION, code, "", {FAULT_RANKS: text}))


def commanded(body: Body) -> None:
    """A command to an Agent."""
    try:
        command = messages.read_command(body)
        assert 0 <= (messages.read_highest(body) or 0) <= STEP_MOST
    except ValueError as error:
        assert len(str(error)) < 1000
    else:
        assert all(rank >= 0 for rank in getattr(command, "ranks", ()))


def given(data: bytes) -> None:
    """Input of the documented calls, of systemd and of browsers, in words and numbers."""
    text = data.decode("latin-1")
    calls: tuple[Callable[[], object], ...] = (
        lambda: arguments.rank(text, "RANK"),
        lambda: arguments.joined(text, "UpstreamAddr", text, "UpstreamPort"),
        lambda: arguments.joined("127.0.0.1", "UpstreamAddr", text, "UpstreamPort"),
        lambda: arguments.secured({"enable_tls": text}, listens=True, connects=True),
        lambda: NodeConfig.agent(server_rank=0, upstream=text),
        lambda: Expected.parse(text),
    )
    for call in calls:
        try:
            call()
        except ConfigError as error:
            assert len(str(error)) < 1000
    with patch.dict(os.environ, {"WATCHDOG_USEC": text.replace("\0", ""), "WATCHDOG_PID": ""}):
        period = systemd.watchdog_period()
        assert period is None or period > 0.0
    feed = Feed(Position.mgr(), "", "life")
    for _ in feed.look(0.0, []):
        pass
    for since in (text, f"life-{text}"):
        json.loads(feed.answer(since))


def reports(data: bytes) -> None:
    """Reports, the state of the mesh, and the questions and answers of probes."""
    for read in (status_codec.read_report, status_codec.read_mesh, status_codec.read_node, status_codec.read_pace):
        with contextlib.suppress(Refusal):
            told: object = read(data)
            if isinstance(told, Report):
                assert len(told.records) + len(told.gone) <= status_codec.REPORT_NODES
                assert all(len(record.node) <= status_codec.RECORD_BYTES for record in told.records)
                view = Ledger(64, status_codec.REPORT_NODES)
                view.told("child", told)
                assert len(view) <= 64
                status_codec.read_records(view)
            elif isinstance(told, Mesh):
                json_line(document(told))
    answers = (status_codec.read_forgotten, probe_codec.read_echo, probe_codec.read_about)
    for answer in (status_codec.read_forget, *answers):
        with contextlib.suppress(Refusal):
            answer(data)
    for ask in (probe_codec.read_ping, probe_codec.read_trace):
        with contextlib.suppress(ValueError):
            ask(data)


def hosts(data: bytes) -> None:
    """The `Host` of a request: only addresses, `localhost` and the allowed names pass, with any port."""
    gate = _Gate(_nobody, ("mgr.JOB.svc",))
    host = data.decode("latin-1")
    if gate._knows(host):
        name = re.sub(r":[0-9]*$", "", host.lower())
        if name not in ("localhost", "mgr.job.svc"):
            assert set(name) <= set("0123456789abcdef.:%[]") or "%" in name, "a name has passed as an address"


async def _nobody(*_: object) -> None:
    raise AssertionError("nobody asks")


def failures(data: bytes) -> None:
    """Files of failed training processes: their words are lines for a terminal, however long the texts are."""
    text = data.decode("latin-1")
    found = [read_stack(text)]
    with contextlib.suppress(ValueError):
        found.append(read_reason(text))
    for reason in found:
        cause = Cause(0, 0, "h", 1, 0, "SIGABRT", 5, reason=reason, thread=reason)
        assert first([cause]) == cause and all(line.isprintable() for line in words(cause))
        assert read_cause(write_cause(cause)) == cause, "it travels as it is"
        if reason is not None:
            assert len(reason.message) < 2 * TEXT_CHARS and len(reason.traceback) < 2 * (HEAD_CHARS + TAIL_CHARS)
            assert reason.at_ns is None or 0 <= reason.at_ns < 2**63
            (reason.message + reason.traceback).encode()


def causes(data: bytes) -> None:
    """Causes in messages of Agents and of a Manager: whatever they say, they have words, and are stored again."""
    cause = read_cause(data.decode("latin-1"))
    if cause is not None:
        lines = [summary(cause), summary(cause.told), *words(cause)]
        assert all(line.isprintable() for line in lines)
        assert len(write_cause(cause)) < 20 * (HEAD_CHARS + TAIL_CHARS)
        assert read_cause(write_cause(cause)) == cause
        assert isinstance(cause.likeness, str)


def progress(data: bytes) -> None:
    """Progress in KEEP_ALIVEs of Agents: what is read is within its bounds, and travels as it is."""
    said = read_progress(data.decode("latin-1"))
    if said is not None:
        assert len(said.slowest) <= SLOWEST and all(0 <= seconds <= 1e9 for seconds in said.spent.values())
        assert all(len(each.section) <= SECTION_CHARS for each in said.slowest)
        again = read_progress(write_progress(said))
        assert again is not None and read_progress(write_progress(again)) == again, "it travels as it is"


def records(data: bytes) -> None:
    """Records of ranks: for whatever a process writes, its Agent tells something within its bounds, and it travels."""
    size = rank_record.SCRIPT.size
    parts = (
        data[:size].ljust(size, b"\0"),
        data[size : size + rank_record.BEAT.size].ljust(rank_record.BEAT.size, b"\0"),
    )
    whole = bytearray(rank_record.BYTES)
    for part, (at, _) in zip(parts, (rank_record.SCRIPT_AT, rank_record.BEAT_AT), strict=True):
        slot = part + rank_record.CHECK.pack(crc32(part))
        whole[at : at + len(slot)] = slot
    ledger = NodeLedger()
    for number, record in enumerate((data, bytes(whole), bytes(whole)[: len(data)])):
        sight = Sight(3, 1, int.from_bytes(parts[0][8:16], "little"), record=record)
        said = ledger.look([sight], 2**62 + number)
        assert said.steps <= 2**62 and said.again <= said.steps and sum(said.spent.values()) <= 2**62
        assert all(len(each.section) <= SECTION_CHARS for each in said.slowest)
        travelled = read_progress(write_progress(said))
        assert travelled is not None
        assert (travelled.steps, travelled.samples, travelled.of) == (said.steps, said.samples, said.of)
        assert (travelled.highest, travelled.high_group) == (said.highest, said.high_group)


def stacks(data: bytes) -> None:
    """Stacks: what faulthandler writes, and what Agents tell. Their words are lines for a terminal."""
    text = data.decode("latin-1")
    threads = read_threads(text)
    groups = read_stacks(text) or []
    for found in (groups, grouped([RankStack(1, 2, threads=threads)])):
        assert all(line.isprintable() for line in words_of_stacks(found))
        written = write_stacks(found)
        assert len(written) <= NODE_CHARS
        again = read_stacks(written)
        assert again is not None and read_stacks(write_stacks(again)) == again


TARGETS: Final[Mapping[str, Target]] = {
    "frames": frames,
    "headers": headers,
    "batches": batches,
    "requests": requests,
    "metadata": metadata,
    "configuration": configuration,
    "bodies": bodies,
    "given": given,
    "hosts": hosts,
    "failures": failures,
    "causes": causes,
    "progress": progress,
    "stacks": stacks,
    "records": records,
    "reports": reports,
    "job_reports": jobs.reports,
    "job_orders": jobs.clusterd,
    "job_documents": jobs.documents,
    "device_reports": devices.device_reports,
    "fault_files": devices.fault_files,
    "platform_files": devices.platform_files,
    "socket_frames": sockets.frames,
    "socket_requests": sockets.requests,
    "socket_stream": sockets.direct_stream,
    "socket_stream_from_above": sockets.direct_stream_from_above,
    "child_stream": from_child,
    "parent_stream": from_parent,
    "mesh": play,
}
