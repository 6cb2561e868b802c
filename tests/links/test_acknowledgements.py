"""A cut network under a direct link, and a process that does not read: the kernels at both ends are real."""

from __future__ import annotations

import asyncio
import ctypes
import math
import socket
import struct
import sys
import time
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

from taskd_net.base import limits
from taskd_net.base.times import LinkTimes
from taskd_net.net.links.acknowledgements import LOOK_S, Acknowledgements, _silent
from taskd_net.net.links.flushes import flushes
from tests.links.pipes import bodies
from tests.links.test_direct import Cable
from tests.peers.mesh import soon
from tests.polling import until

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.both_loops,
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked by TCP_INFO"),
]

# `linux/filter.h`: a program of one instruction, which returns 0, so that a socket takes in no packet.
_SO_ATTACH_FILTER, _SO_DETACH_FILTER = 26, 27
_DROP = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0), 8)


def cut(end: socket.socket) -> None:
    """Drop every packet to one end of a connection: it acknowledges nothing."""
    end.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", 1, ctypes.addressof(_DROP)))


def heal(end: socket.socket) -> None:
    """Undo `cut`."""
    end.setsockopt(socket.SOL_SOCKET, _SO_DETACH_FILTER, 0)


PAUSE, PATIENCE = LOOK_S / 4, limits.KEEPALIVE_TIMEOUT_S / 4
"""Seconds between two looks, and until a link counts as cut."""


@pytest.fixture
async def quick() -> AsyncIterator[Cable]:
    """A link whose times for acknowledgements are quarters."""
    cable = Cable(LinkTimes(keepalive_timeout=PATIENCE))
    cable.flushes.acknowledgements = Acknowledgements(cable.loop, PAUSE, PATIENCE)
    yield await cable.begin()
    await cable.close()


async def test_cut_network_with_a_message_under_way_ends_the_link_within_its_time(quick: Cable) -> None:
    cut(quick.far)
    began = time.monotonic()
    answers = quick.node.send(bodies(1)[0])
    await soon(quick.running)
    took = time.monotonic() - began
    assert quick.link.lost.startswith("the network is cut: nothing was acknowledged for")
    # The kernel counts from its last acknowledgement, which came before the cut, and in ticks of up to 10 ms.
    assert PATIENCE - PAUSE < took < limits.KEEPALIVE_TIME_S
    assert not answers  # the Router answers when the link is taken down


async def test_cut_network_at_rest_ends_the_link_after_the_ping(quick: Cable) -> None:
    cut(quick.far)
    quick.stream._look(time.monotonic())  # not yet silent for long
    await until(lambda: not flushes().acknowledgements._unanswered)
    began = time.monotonic()
    quick.stream._heard = began - limits.KEEPALIVE_TIME_S
    quick.stream._look(began)
    await soon(quick.running)
    assert quick.stream.reason.startswith("the network is cut")
    assert time.monotonic() - began < limits.SILENT_S


@pytest.mark.parametrize(("silent", "left"), [(5.0, 3.0), (7.8, 0.2), (9.0, math.inf)])
async def test_silent_end_is_looked_at_when_it_begins_to_count_as_not_answering(
    quick: Cable, silent: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    monkeypatch.setattr(quick.stream, "_look_in", looks.append)
    now = time.monotonic()
    quick.stream._heard = now - silent
    quick.stream._look(now)
    assert looks == [pytest.approx(min(left, PATIENCE), abs=0.1)]


async def test_short_cut_is_survived(quick: Cable) -> None:
    cut(quick.far)
    quick.node.send(bodies(1)[0])
    await until(lambda: 2 in flushes().acknowledgements._unanswered.values())
    heal(quick.far)
    assert (await quick.next_batch())[0]
    await until(lambda: not flushes().acknowledgements._unanswered)
    assert not quick.running.done()


async def test_process_that_does_not_read_keeps_its_link(quick: Cable) -> None:
    """Its kernel answers the probes of a closed window, in pauses that become longer than the time of a cut."""
    quick.stream.write(bytes(1_000_000))
    most, until_s = 0, time.monotonic() + 4.0 * PATIENCE
    while time.monotonic() < until_s:
        info = quick.stream.info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 60)
        most = max(most, struct.unpack_from("I", info, 56)[0])
        await asyncio.sleep(0.01)
    assert most > 1000.0 * PATIENCE
    assert quick.stream in flushes().acknowledgements._unanswered
    assert not quick.running.done()


class Kernel:
    """A socket whose kernel tells of probes, segments in flight, the last acknowledgement in ms, and the window."""

    def __init__(self, *, probes: int = 0, flying: int = 0, acknowledged: int = 0, window: int = 0) -> None:
        self._info = struct.pack("=3xB20xI28xI168xI", probes, flying, acknowledged, window)
        self.told = len(self._info)

    def getsockopt(self, level: int, option: int, most: int) -> bytes:
        """The beginning of `struct tcp_info`."""
        assert (level, option) == (socket.IPPROTO_TCP, socket.TCP_INFO)
        return self._info[: min(most, self.told)]


@pytest.mark.parametrize(
    ("kernel", "silent"),
    [
        (Kernel(flying=1, acknowledged=250, window=65_536), 0.25),
        # Seen with a link that is down: nothing is in flight. After slow answers a kernel probes rarely.
        (Kernel(acknowledged=1_500, window=65_536), 1.5),
        (Kernel(probes=1, acknowledged=1_500, window=65_536), 1.5),
        # The process at the other end does not read.
        (Kernel(acknowledged=60_000), 0.0),
        (Kernel(probes=1, acknowledged=60_000), 0.0),
        (Kernel(probes=2, acknowledged=60_000), 60.0),
    ],
)
def test_acknowledgement_is_due_for_what_the_other_machine_has_room_for(kernel: Kernel, silent: float) -> None:
    assert _silent(cast(socket.socket, kernel)) == silent


@pytest.mark.parametrize(("probes", "silent"), [(1, 0.0), (2, 5.0)])
def test_kernel_that_does_not_tell_the_window_is_believed_after_two_probes(probes: int, silent: float) -> None:
    kernel = Kernel(probes=probes, acknowledged=5_000, window=65_536)
    kernel.told = 192
    assert _silent(cast(socket.socket, kernel)) == silent


class Gone:
    """A connection whose transport of TLS has ended."""

    def closing(self) -> bool:
        """The answer of such a transport."""
        return False

    def info(self, _: str) -> None:
        """None: it has no socket."""


async def test_ended_transport_of_tls_is_left_out_and_others_are_looked_at(quick: Cable) -> None:
    """It has no socket any more, and says that it is not closing."""
    flushes().acknowledgements.await_from(cast(Any, Gone()))
    cut(quick.far)
    quick.node.send(bodies(1)[0])
    await soon(quick.running)
    assert quick.link.lost.startswith("the network is cut")
    assert not flushes().acknowledgements._unanswered


async def test_link_without_anything_outstanding_is_not_looked_at(quick: Cable) -> None:
    quick.node.send(bodies(1)[0])
    assert (await quick.next_batch())[0]
    await until(lambda: not flushes().acknowledgements._unanswered)
    quick.node.send(bodies(1)[0])
    await until(lambda: quick.stream in flushes().acknowledgements._unanswered)
