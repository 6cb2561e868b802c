"""Unfinished frames of direct links: the account of their bytes, and a thousand positions of one process with some."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from taskd_net import Code
from taskd_net.base import limits
from taskd_net.base.peer_limits import DEFAULT
from taskd_net.net.links import unfinished
from taskd_net.net.links.unfinished import Unfinished
from taskd_net.net.wire.socket_frames import HEAD, FrameKind
from tests.cli.processes import Daemon
from tests.peers.direct_child import DirectChild
from tests.peers.mesh import Mesh, soon

pytestmark = pytest.mark.timeout(240)

LINKS = 1000
MIB = 1024 * 1024
HEAD_OF_8_MIB = HEAD.pack(limits.MESSAGE_BYTES, FrameKind.BATCH)
STILL_S = unfinished.STILL_S


def account() -> Unfinished[str]:
    """An account of 800 bytes at most; beyond 100, frames that stand still end their links."""
    return Unfinished(100 * unfinished.PART)


def test_frames_that_go_on_are_left_alone_up_to_the_last_bound() -> None:
    frames = account()
    for link in range(80):
        assert frames.hold(f"{link}", "here", 10, 0.1) == []
    assert frames.size == 800
    assert frames.hold("next", "here", 10, 0.2) == ["0"]
    assert frames.size == 800


def test_frames_that_stand_still_end_when_another_one_needs_their_memory() -> None:
    frames = account()
    for link in range(5):
        assert frames.hold(f"still {link}", "here", 10, 0.0) == []
    # Nobody needs it.
    assert frames.hold("large", "here", 50, STILL_S) == []
    assert frames.hold("large", "here", 65, STILL_S) == ["still 0", "still 1"]
    assert frames.size == 95


def test_bytes_that_come_into_a_buffer_need_no_more_memory() -> None:
    frames = account()
    frames.hold("still", "here", 60, 0.0)
    assert frames.hold("large", "here", 60, STILL_S - 0.1) == []
    assert frames.hold("large", "here", 60, STILL_S) == []
    assert frames.hold("large", "here", 61, STILL_S) == ["still"]


def test_frame_that_goes_on_is_never_the_one_that_pays_for_others() -> None:
    frames = account()
    for turn in range(500):
        now = 0.1 * turn
        assert "honest" not in frames.hold("honest", "here", 40 + turn % 400, now)
        assert "honest" not in frames.hold(f"{turn}", "here", 50, now)
        assert frames.size <= 800


def test_address_that_holds_the_most_pays_first() -> None:
    frames = account()
    frames.hold("small", "there", 10, 0.0)
    for link in range(4):
        frames.hold(f"{link}", "here", 20, 0.5)
    assert frames.hold("new", "elsewhere", 30, 5.0) == ["0"]
    assert frames.hold("new", "elsewhere", 90, 5.0) == ["1", "2", "3"]


def test_only_so_many_end_in_one_go_before_the_last_bound() -> None:
    most = unfinished.ENDS
    frames = Unfinished[int](80 * unfinished.PART)
    for link in range(5 * most):
        assert frames.hold(link, "here", 1, 0.0) == []
    assert frames.hold(-1, "here", 80, 9.0) == list(range(most))
    assert frames.hold(-2, "there", 400, 9.0) == list(range(most, 2 * most))
    # Beyond it there is no such limit.
    assert frames.hold(-3, "there", 200, 9.0) == [*range(2 * most, 5 * most), -2]
    assert frames.hold(-3, "there", 900, 9.0) == [-3]
    assert frames.size == 80


def test_frames_leave_the_account_when_they_are_whole() -> None:
    frames = account()
    frames.hold("one", "here", 90, 0.0)
    frames.release("one", "here")
    frames.release("one", "here")
    frames.hold("two", "here", 10, 0.0)
    frames.release("one", "here")
    assert frames.size == 10
    frames.release("two", "here")
    assert frames.size == 0


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@contextlib.asynccontextmanager
async def positions(address: str, count: int) -> AsyncIterator[list[DirectChild]]:
    """So many positions of this process, each with a direct link."""
    children = [DirectChild(f"Worker/80/{rank}") for rank in range(count)]
    async with contextlib.AsyncExitStack() as stack:
        for first in range(0, count, 50):
            some = children[first : first + 50]
            for child in some:
                await stack.enter_async_context(child)
            await asyncio.gather(*(child.join(address) for child in some))
        yield children


def manager(logs: Path, *arguments: object) -> Daemon:
    """A Mgr of its own interpreter, which has only its own memory."""
    return Daemon("mgr", "--connections-per-address", "4096", *arguments, logs=logs, executed=True)


def bound(pid: int, size: int) -> None:
    """Let a process take no more memory than `size` bytes in all. What is mapped and unused counts as free."""
    mapped, used, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    most = size + (int(mapped) - int(used)) * 4096
    resource.prlimit(pid, resource.RLIMIT_AS, (most, most))


# The first number needed 224 MiB for 1,266 bytes.
@pytest.mark.parametrize("links", [211, pytest.param(LINKS, marks=pytest.mark.more)])
async def test_heads_of_large_frames_take_no_memory_and_others_are_served(tmp_path: Path, links: int) -> None:
    async with Mesh() as mesh, manager(tmp_path) as mgr, positions(mgr.address, links) as children:
        one, other = await mesh.worker(0, 0, mgr.address), await mesh.worker(0, 1, mgr.address)

        async def sent(body: str) -> float:
            began = time.monotonic()
            assert (await soon(one.send(body, to=other.position), 60.0)).ok
            await other.take()
            return time.monotonic() - began

        for body in ("x", "x" * 3 * MIB):  # the first message costs a process memory in any case
            await sent(body)
        before = resident(mgr.pid)
        calm = sorted([await sent("x") for _ in range(500)])
        bound(mgr.pid, 256 * MIB)
        for child in children:
            child.put(HEAD_OF_8_MIB + b"x")
        times = sorted([await sent("x") for _ in range(500)])
        most = resident(mgr.pid)
        print(f"p99 {calm[494] * 1e3:.1f} → {times[494] * 1e3:.1f} ms, {(most - before) / MIB:.1f} MiB")
        assert most - before <= 64 * MIB
        assert not any(child.over() for child in children), "nobody needs their memory"
        print(f"7 MiB took {await sent('x' * 7 * MIB):.2f} s")


@pytest.mark.more
async def test_parts_of_a_thousand_frames_keep_no_honest_message_out(tmp_path: Path) -> None:
    async with Mesh() as mesh, manager(tmp_path) as mgr, positions(mgr.address, LINKS) as children:
        one, other = await mesh.worker(0, 0, mgr.address), await mesh.worker(0, 1, mgr.address)
        before, most, times = resident(mgr.pid), 0, list[float]()
        for child in children:
            child.put(HEAD_OF_8_MIB + bytes(200_000))
        until = time.monotonic() + 3.0
        while time.monotonic() < until:
            began = time.monotonic()
            assert (await soon(one.send("x", to=other.position), 30.0)).ok
            times.append(time.monotonic() - began)
            await other.take()
            most = max(most, resident(mgr.pid))
        for _ in range(5):
            began = time.monotonic()
            assert (await soon(one.send("x" * 7 * MIB, to=other.position, timeout=60.0), 70.0)).ok
            await other.take()
            print(f"7 MiB took {time.monotonic() - began:.2f} s")
        times.sort()
        print(f"p99 {times[len(times) * 99 // 100] * 1e3:.1f} ms, {(most - before) / MIB:.0f} MiB")
        ended = sum(child.over() for child in children)
        assert 0 < ended < LINKS
        assert most - before <= DEFAULT.total_bytes + 64 * MIB


async def test_many_honest_senders_of_large_messages_succeed(tmp_path: Path) -> None:
    # Whole messages, whose quotas would be full with the last ones, have room.
    # Each waits for its turn among 256 MB. With an ack timeout of 1 s some get 6001, with 3 s on a busy machine.
    async with Mesh() as mesh, manager(tmp_path, "--total-bytes", 1024 * MIB, "--ack-timeout", 100) as mgr:
        workers = [await mesh.worker(0, rank, mgr.address) for rank in range(32)]
        body = "x" * (limits.MESSAGE_BYTES - 1000)
        sends = [
            one.send(body, to=other.position, timeout=100.0)
            for one, other in zip(workers, workers[1:] + workers[:1], strict=True)
        ]
        assert {ack.code for ack in await soon(asyncio.gather(*sends), 110.0)} == {Code.OK}
        assert mesh.count("upstream_lost") == 0
