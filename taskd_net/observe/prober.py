"""Probes that this node sends, and their answers."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from uuid import uuid4

from taskd_net.base.codes import ArgumentError, Code, Refusal, describe
from taskd_net.base.position import Destination, Position
from taskd_net.core.frame import FOREIGN, Ack, Failure
from taskd_net.net.links import registry
from taskd_net.net.links.answers import awaited, until_answered
from taskd_net.net.links.session import Host
from taskd_net.net.wire import probe_frames
from taskd_net.net.wire.probe_frames import PROBE_HOPS
from taskd_net.observe.probe_codec import Echo


class Prober:
    """The probes of one node.

    Args:
        host: the node.
    """

    def __init__(self, host: Host) -> None:
        self._host = host

    async def ping(self, to: Position, timeout: float) -> Echo:
        """Probe a destination, which may be a broadcast or a list, within `timeout` seconds."""
        ack, seconds = await self._ask(to, None, timeout)
        return self._ended(ack, seconds)

    async def trace(self, to: Position, timeout: float) -> AsyncIterator[Echo]:
        """Probe each hop on the way to one node. The last answer is the node's, or says where the way ends.

        Args:
            to: the node.
            timeout: seconds for each hop.
        """
        wanted = to.identity
        for hops in range(1, PROBE_HOPS + 1):
            ack, seconds = await self._ask(to, hops, timeout)
            kind = registry.probed(ack.code)
            if kind is None:
                yield self._ended(ack, seconds)
                return
            yield Echo(Code.OK, ack.src, seconds, kind.name)
            if ack.src.identity == wanted:
                return

    async def _ask(self, to: Position, hops: int | None, timeout: float) -> tuple[Ack, float]:
        host, uuid = self._host, str(uuid4())
        try:
            probe = probe_frames.write_probe(uuid, host.router.position, to, hops)
        except Refusal as refusal:
            return Ack(uuid, refusal.code, host.router.position, refusal.detail), 0.0
        # Not by the loop's clock, which uvloop keeps in whole milliseconds.
        began = time.perf_counter()
        token, answer = awaited(host)
        host.perform(host.router.probe(host.now(), probe, token, timeout))
        ack = await until_answered(host, token, answer)
        return ack, time.perf_counter() - began

    def _ended(self, ack: Ack, seconds: float) -> Echo:
        failures = tuple(Failure(position, _readable(code)) for position, code in ack.failures)
        if ack.code == FOREIGN:
            text = "it knows no probes (not a node of taskd_net, or an older one), so it was not asked"
            return Echo(Code.CLIENT_ERR, ack.src, seconds, registry.plain().name, text, ack.receivers, failures)
        detail = "" if ack.ok else ack.detail or describe(ack.code).partition(": ")[2]
        return Echo(ack.code, ack.src, seconds, "", detail, ack.receivers, failures)


def _readable(code: int) -> int:
    """The code of the mesh for the answer to a probe."""
    return Code.CLIENT_ERR if code == FOREIGN else code


def one_node(to: Position) -> Position:
    """The destination of a trace, in the form that nodes answer with.

    Raises:
        ArgumentError: it is a broadcast, a list, or no position at all.
    """
    try:
        dst = Destination.of(to)
    except Refusal as refusal:
        raise ArgumentError(str(refusal)) from refusal
    if not dst.unicast:
        raise ArgumentError(f"{to} is more than one position; a trace follows the way to one")
    return dst.position
