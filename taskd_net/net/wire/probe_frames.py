"""Probes on the wire: messages whose mtype is reserved, between neighbours that are known to answer them."""

from __future__ import annotations

from typing import Final

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Destination, Position, is_rank
from taskd_net.core.frame import Probe
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.positions import write_position

PROBE_HOPS: Final = 64
"""Links that a trace follows at most: more levels than any tree has; in the wire it has two digits."""

PREFIX = "taskd-net/probe"
"""Prefix of a probe's mtype. A bounded probe has a slash behind it, and the number of links that it may still cross."""


def write_probe(uuid: str, src: Position, dst_written: Position, hops: int | None = None) -> Probe:
    """Make a probe.

    Raises:
        Refusal: 4003-4006 for the destination.
    """
    dst = Destination.of(dst_written)
    header = pb.MessageHeader(uuid=uuid, sync=True, src=write_position(src), dst=write_position(dst.position))
    return _probe(pb.Message(header=header), src, dst, hops)


def read_probe(message: pb.Message, src: Position, dst: Destination) -> Probe:
    """Read a probe that crossed one link more, in the form in which it goes on.

    Raises:
        Refusal: 4999, only its mtype is a probe's.
    """
    header = message.header
    hops = header.mtype.removeprefix(PREFIX)
    if not hops and header.sync:
        return _probe(message, src, dst, None)
    left = int(hops[1:]) if hops[:1] == "/" and is_rank(hops[1:]) and len(hops) < 4 else 0
    if not (header.sync and 0 < left <= PROBE_HOPS):
        raise Refusal(Code.CLIENT_ERR, f"mtype {header.mtype[:80]!r} is kept for probes", header.uuid, sync=header.sync)
    return _probe(message, src, dst, left - 1)


def _probe(message: pb.Message, src: Position, dst: Destination, hops: int | None) -> Probe:
    message.header.mtype = PREFIX if hops is None else f"{PREFIX}/{hops}"
    return Probe(message.header.uuid, True, src, dst, message.SerializeToString(), hops)
