"""Probes on the wire: read in the form in which they go on, and a reserved mtype."""

from __future__ import annotations

import pytest

from taskd_net import Code, Message, Position
from taskd_net.base.codes import Refusal
from taskd_net.base.position import Destination
from taskd_net.core.frame import Frame, Probe
from taskd_net.net.wire import codec, probe_frames
from taskd_net.net.wire import tasknet_pb2 as pb
from tests.wire.known import read_known_frame

pytestmark = pytest.mark.oldest


def test_probe_is_read_as_it_goes_on_from_here() -> None:
    """Each link that it has crossed is one less; what is forwarded says so too."""
    sent = probe_frames.write_probe("u", Position.mgr(), Position.worker(0, 3), 2)
    one = read_known_frame(sent.data)
    assert isinstance(one, Probe) and (one.uuid, one.sync, one.src, one.hops) == ("u", True, Position.mgr(), 1)
    assert one.dst == Destination.of(Position.worker(0, 3))
    last = codec.read_frame(one.data)
    assert isinstance(last, Probe) and last.hops == 0
    with pytest.raises(Refusal) as refused:
        read_known_frame(last.data)
    assert (refused.value.code, refused.value.uuid, refused.value.sync) == (Code.CLIENT_ERR, "u", True)


def test_probe_without_bound_stays_as_it_is() -> None:
    sent = probe_frames.write_probe("u", Position.mgr(), Position("Worker", "All", "All"))
    for read in (codec.read_frame, read_known_frame):
        again = read(sent.data)
        assert isinstance(again, Probe) and (again.hops, again.data) == (None, sent.data)


@pytest.mark.parametrize(
    "mtype", ["", "/0", "/65", "/-1", "/x", "/", "/1/2", "s", "/\u0661", "/0001", "/999999999999999"]
)
@pytest.mark.parametrize("sync", [True, False])
def test_mtype_of_probes_is_kept_for_them(mtype: str, sync: bool) -> None:
    """No application can send one, and what only looks like one is refused, not delivered."""
    if not (mtype == "" and sync):
        header = pb.MessageHeader(uuid="u", mtype=f"taskd-net/probe{mtype}", sync=sync)
        header.src.CopyFrom(pb.Position(role="Mgr", serverRank="0", processRank="-1"))
        header.dst.CopyFrom(pb.Position(role="Worker", serverRank="0", processRank="3"))
        for read in (codec.read_frame, read_known_frame):
            with pytest.raises(Refusal) as refused:
                read(pb.Message(header=header).SerializeToString())
            assert (refused.value.code, refused.value.uuid, refused.value.sync) == (Code.CLIENT_ERR, "u", sync)
    with pytest.raises(Refusal) as refused:
        codec.write_message(Message("u", f"taskd-net/probe{mtype}", sync, Position.mgr(), Position.worker(0, 3), 0, ""))
    assert refused.value.code == Code.CLIENT_ERR


def test_mtype_that_only_resembles_that_of_probes_is_anybodys() -> None:
    for mtype in ("taskd-net/prob", "probe", "Taskd-net/probe", "xtaskd-net/probe"):
        frame = codec.write_message(Message("u", mtype, True, Position.mgr(), Position.worker(0, 3), 0, "x"))
        assert type(read_known_frame(frame.data)) is Frame
        assert codec.read_message(frame).mtype == mtype
