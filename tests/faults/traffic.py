"""The traffic of a laboratory node: steady flows for the ledger, floods that are only counted, probes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any

from taskd_net import Ack, Node, Retry
from tests.faults.ledger import MARK, Recorder

PROBE_TIMEOUT_S = 0.25
"""Seconds of one attempt to reach a node."""


class Steady:
    """Flows from one node to others: in each, one message after another, resent until it arrives.

    Args:
        node: the sender.
        name: of the sender's life; part of the uuids.
        recorder: for every message, attempt and answer.
    """

    def __init__(self, node: Node, name: str, recorder: Recorder) -> None:
        self.recorder = recorder
        self._node = node
        self._name = name
        self._numbers = count(1)
        self._flows: list[asyncio.Task[None]] = []
        self._stopping = asyncio.Event()

    def start(
        self,
        to: Sequence[str],
        *,
        posts: Sequence[str],
        interval: float,
        timeout: float,
        patience: float,
        size: int,
        retries: bool,
    ) -> None:
        """Begin to send.

        Args:
            to: the destinations, each a flow of its own.
            posts: destinations of `sync=false` messages, each a flow of its own.
            interval: seconds between two messages of a flow.
            timeout: seconds of one attempt.
            patience: seconds after which a message is given up with its last code.
            size: characters of a body.
            retries: let the node retry; else retry here, and record each attempt.
        """
        self._stopping.clear()
        retry = Retry(attempts=1000, within=patience) if retries else None
        for dst in to:
            flow = self._flow(dst, "x" * size, interval, timeout, patience, retry)
            self._flows.append(asyncio.create_task(flow, name=f"flow to {dst}"))
        for dst in posts:
            flow = self._flow(dst, "x" * size, interval, timeout, 0.0, None, post=True)
            self._flows.append(asyncio.create_task(flow, name=f"posts to {dst}"))

    async def stop(self) -> None:
        """Begin no further message, and wait for the codes of those under way."""
        self._stopping.set()
        await asyncio.gather(*self._flows)
        self._flows.clear()

    async def _flow(
        self,
        dst: str,
        body: str,
        interval: float,
        timeout: float,
        patience: float,
        retry: Retry | None,
        *,
        post: bool = False,
    ) -> None:
        # The flows start at different times.
        await asyncio.sleep(random.uniform(0.0, interval))
        while not self._stopping.is_set():
            if post:
                await self._post(dst, body, timeout)
            else:
                await self._deliver(dst, body, timeout, patience, retry)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval):
                    await self._stopping.wait()

    async def _post(self, dst: str, body: str, timeout: float) -> None:
        # Three at a time, so that they queue.
        for _ in range(3):
            uuid = f"{MARK}{self._name}-{next(self._numbers)}"
            self.recorder.note("begin", uuid, dst, time.monotonic(), "posted")
            ack = await self._node.post(body, to=dst, uuid=uuid, timeout=timeout)
            self.recorder.note("handed", uuid, ack.code)

    async def _deliver(self, dst: str, body: str, timeout: float, patience: float, retry: Retry | None) -> None:
        uuid = f"{MARK}{self._name}-{next(self._numbers)}"
        begun = time.monotonic()
        self.recorder.note("begin", uuid, dst, begun, "sent" if retry is None else "retried")
        pause = 0.02
        while True:
            began = time.monotonic()
            ack = await self._node.send(body, to=dst, uuid=uuid, timeout=timeout, retry=retry)
            ended = time.monotonic()
            self.recorder.note("tried", uuid, ack.code, str(ack.src), began, ended)
            if retry is not None or ack.code < 5000 or ended - begun > patience:
                self.recorder.note("end", uuid, ack.code)
                return
            await asyncio.sleep(random.uniform(0.0, pause))
            pause = min(1.0, 2 * pause)


async def flood(node: Node, to: str, *, seconds: float, in_flight: int, size: int, sync: bool) -> dict[str, Any]:
    """Keep messages in flight for some seconds, without retries. Returns the outcomes."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    codes: Counter[int] = Counter()
    took: list[float] = []
    body = "x" * size
    send = node.send if sync else node.post

    async def sender() -> None:
        while True:
            began = loop.time()
            ack = await send(body, to=to)
            codes[ack.code] += 1
            if ack.ok:
                took.append(loop.time() - began)
            # A refusal takes no time: without this pause no other task would run.
            await asyncio.sleep(0)
            if loop.time() >= until:
                return

    await asyncio.gather(*(sender() for _ in range(in_flight)))
    return {
        "codes": {str(code): number for code, number in codes.items()},
        "rate": codes[0] / seconds,
        **_spread(took),
    }


async def offer(
    node: Node, to: str, *, seconds: float, rate: float, size: int, timeout: float, wait: bool
) -> dict[str, Any]:
    """Send at a fixed rate, without retries. Returns the outcomes."""
    loop = asyncio.get_running_loop()
    codes: Counter[int] = Counter()
    took: list[float] = []
    body = "x" * size

    async def one() -> None:
        # Not the loop's time, which under uvloop goes by whole milliseconds.
        began = time.monotonic()
        ack = await node.send(body, to=to, timeout=timeout, wait=wait)
        took.append(time.monotonic() - began)
        codes[ack.code] += 1

    began, sent = loop.time(), 0
    async with asyncio.TaskGroup() as group:
        while (elapsed := loop.time() - began) < seconds:
            while sent < rate * elapsed:
                group.create_task(one())
                sent += 1
            await asyncio.sleep(0.005)
    return {"codes": {str(code): number for code, number in codes.items()}, **_spread(took)}


async def probe(node: Node, to: Sequence[str], *, patience: float) -> dict[str, Any]:
    """Reach each of these nodes. Returns the times on the monotonic clock, or the last code of an unreachable one."""

    async def look(dst: str) -> float | str:
        give_up_at = time.monotonic() + patience
        while True:
            ack: Ack = await node.send("probe", to=dst, timeout=PROBE_TIMEOUT_S)
            now = time.monotonic()
            if ack.ok:
                return now
            if now > give_up_at:
                return f"{ack.code} from {ack.src}: {ack.detail}"
            await asyncio.sleep(0.005)

    return dict(zip(to, await asyncio.gather(*map(look, to)), strict=True))


def _spread(took: list[float]) -> dict[str, float | None]:
    took.sort()
    return {
        "p50": took[len(took) // 2] if took else None,
        "p99": took[len(took) * 99 // 100] if took else None,
        "slowest": took[-1] if took else None,
    }
