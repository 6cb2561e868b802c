"""One node in a process of its own, with orders over its standard input, a JSON object a line.

Run with the kind of node, its settings, the name of this life and the file for the ledger's records:
`python -m tests.faults.member mgr '{"listen": "127.0.0.1:9601"}' mgr.1 mgr.1.records`. It prints `{"event": "started"}`
with the time, then answers each order by its `id`, and ends with its input. Its log goes to its standard error.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from taskd_net import Message, Node, NodeClosed, NodeConfig, Tls
from taskd_net.base.limits import ACK_TIMEOUT_S
from taskd_net.base.times import LinkTimes
from taskd_net.cli import memory
from taskd_net.core.links import UP
from taskd_net.core.ready import Ready
from tests.faults import traffic
from tests.faults.ledger import MARK, Recorder
from tests.faults.turns import TurnMeter


class RecordingNode(Node):
    """A node that records each message for its inbox before any answer leaves."""

    def __init__(self, config: NodeConfig, recorder: Recorder, times: LinkTimes) -> None:
        super().__init__(config, times=times)
        self.recorder = recorder
        self._carry_out, self.driver.perform = self.driver.perform, self._perform  # type: ignore[method-assign]

    def _perform(self, ready: Ready) -> None:
        """Carry out what the Router decided."""
        for frame in ready.deliveries:
            if frame.uuid.startswith(MARK):
                self.recorder.note("in", frame.uuid, time.monotonic())
        self._carry_out(ready)


class Member:
    """The node and its orders: one method for each order, with the order's arguments."""

    def __init__(self, node: RecordingNode, name: str, recorder: Recorder, meter: TurnMeter | None = None) -> None:
        self.node = node
        self.meter = meter
        self.recorder = recorder
        self.steady = traffic.Steady(node, name, recorder)
        self.reads = asyncio.Event()
        self.reads.set()
        self.pause = 0.0
        self.received = 0

    async def receive(self) -> None:
        """Receive messages, unless reading is paused, until the node is closed and the inbox is empty."""
        while True:
            await self.reads.wait()
            try:
                message: Message = await self.node.receive()
            except NodeClosed:
                return
            self.received += 1
            if message.uuid.startswith(MARK):
                self.recorder.note("took", message.uuid)
            if self.pause:
                await asyncio.sleep(self.pause)

    async def joined(self, timeout: float) -> float:
        """Wait until the node has joined. Returns the time."""
        await self.node.joined(timeout)
        return time.monotonic()

    async def link(self) -> str:
        """The kind of the link to the parent; empty without one."""
        session = self.node.driver.links.get(UP)
        return session.kind if session is not None else ""

    async def send(self, to: str, timeout: float, body: str = "x", sync: bool = True) -> dict[str, Any]:
        """Send one message, without waiting for the join. Returns the answer and its latency."""
        began = time.monotonic()
        ack = await (self.node.send if sync else self.node.post)(body, to=to, timeout=timeout, wait=False)
        ended = time.monotonic()
        return {"code": ack.code, "src": str(ack.src), "detail": ack.detail, "at": ended, "seconds": ended - began}

    async def until(self, to: str, codes: list[int], patience: float, timeout: float) -> dict[str, Any]:
        """Send until the answer is one of these codes. Returns the last answer."""
        give_up_at = time.monotonic() + patience
        while (told := await self.send(to, timeout))["code"] not in codes and time.monotonic() < give_up_at:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return told

    async def begin(
        self,
        to: list[str],
        interval: float,
        timeout: float = 3.0,
        patience: float = 30.0,
        size: int = 64,
        retries: bool = False,
        posts: Sequence[str] = (),
    ) -> None:
        """Begin steady traffic."""
        self.steady.start(
            to, posts=posts, interval=interval, timeout=timeout, patience=patience, size=size, retries=retries
        )

    async def quiet(self) -> None:
        """End the steady traffic. Every message has its code then."""
        await self.steady.stop()

    async def flood(self, to: str, seconds: float, in_flight: int, size: int = 64, sync: bool = True) -> dict[str, Any]:
        """Send as fast as possible."""
        return await traffic.flood(self.node, to, seconds=seconds, in_flight=in_flight, size=size, sync=sync)

    async def probe(self, to: list[str], patience: float) -> dict[str, Any]:
        """Wait until each of these is reachable. Returns the times."""
        return await traffic.probe(self.node, to, patience=patience)

    async def offer(
        self, to: str, seconds: float, rate: float, size: int = 64, timeout: float = ACK_TIMEOUT_S, wait: bool = True
    ) -> dict[str, Any]:
        """Send at a fixed rate."""
        return await traffic.offer(self.node, to, seconds=seconds, rate=rate, size=size, timeout=timeout, wait=wait)

    async def inbox(self, reads: bool, pause: float = 0.0) -> None:
        """Read the inbox, with a pause after each message, or let it fill up."""
        self.pause = pause
        if reads:
            self.reads.set()
        else:
            self.reads.clear()

    async def step_clock(self, seconds: float) -> None:
        """Step the wall clock of this process, not the monotonic one."""
        clock, clock_ns = time.time, time.time_ns
        time.time = lambda: clock() + seconds
        time.time_ns = lambda: clock_ns() + int(seconds * 1e9)

    async def hold(self, seconds: float) -> None:
        """Hold the interpreter, so that no other thread of Python runs."""
        ctypes.PyDLL(None).usleep(int(seconds * 1e6))

    async def usage(self) -> dict[str, int]:
        """The process's open files, tasks, threads and memory, after a garbage collection."""
        gc.collect()
        return {
            **opened(),
            # gRPC waits for the next call in a task that is not there for a moment after each.
            "tasks": sum(
                getattr(task.get_coro(), "__qualname__", "") != "AioServer._request_call"
                for task in asyncio.all_tasks()
            ),
            "python_threads": threading.active_count(),
            "routes": len(self.node.routes()),
            "children": len(self.node.driver.router.children),
            "received": self.received,
        }

    async def longest_turn(self) -> float:
        """Seconds of processor time of the loop's longest turn since the last such order; the node is metered."""
        assert self.meter is not None
        return self.meter.take_longest()

    async def turn_over(self, records: str) -> None:
        """Continue in another file of records."""
        before, self.recorder = self.recorder, Recorder(Path(records))
        self.node.recorder = self.steady.recorder = self.recorder
        before.close()


def opened() -> dict[str, int]:
    """The open files and the bytes of memory of this process."""
    return {
        "fds": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": sum(1 for _ in Path("/proc/self/task").iterdir()),
        "bytes": int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE"),
    }


def say(**fields: object) -> None:
    """Write a line to the laboratory."""
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


async def obey(member: Member, order: dict[str, Any]) -> None:
    """Carry out an order and answer it."""
    number, what = order.pop("id"), order.pop("do")
    work: Callable[..., Awaitable[object]] = getattr(member, what)
    try:
        say(id=number, value=await work(**order))
    except Exception as error:  # noqa: BLE001 - the laboratory raises it
        say(id=number, error=repr(error))


async def main(kind: str, settings: dict[str, Any], name: str, records: str, meter: TurnMeter | None) -> None:
    """Run a node until the input ends."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    recorder = Recorder(Path(records))
    if settings.pop("behind_relays", False):
        from taskd_net.net.links import direct_local

        # A Unix socket would pass the relays by.
        direct_local.listening = lambda: None
    if "tls" in settings:
        settings["tls"] = Tls(**settings["tls"])
    times = LinkTimes(**settings.pop("times", {}))
    async with RecordingNode(getattr(NodeConfig, kind)(**settings), recorder, times) as node:
        member = Member(node, name, recorder, meter)
        memory.leave_start_uncollected()
        say(event="started", at=time.monotonic())
        async with asyncio.TaskGroup() as group:
            group.create_task(member.receive())
            while line := await lines.readline():
                group.create_task(obey(member, json.loads(line)))
            # Messages in the inbox were acknowledged, and are still received.
            member.reads.set()
            await node.close()
            await member.steady.stop()


if __name__ == "__main__":
    memory.keep_freed_memory()  # as the daemons do it
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    given = json.loads(sys.argv[2])
    metered = TurnMeter() if given.pop("metered", False) else None
    new_loop = uvloop.new_event_loop if metered is None else partial(asyncio.SelectorEventLoop, metered)
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main(sys.argv[1], given, sys.argv[3], sys.argv[4], metered))
