"""This package: nodes with direct links, with `links = "batched"` or `"tasknet"`, and `BlockingNode`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import threading
import time
from functools import lru_cache

from benchmarks.systems import DIRECT, OURS, OVER_TCP
from benchmarks.systems.member import INBOX, SEND_S, Member, NotAcknowledged, Spec
from taskd_net import Ack, Node, NodeConfig, Position, Role
from taskd_net.cli.memory import keep_freed_memory, leave_start_uncollected
from taskd_net.net.links import direct_local
from taskd_net.net.tls.files import Tls
from taskd_net.node.blocking import BlockingNode

JOIN_S = 60.0


def config(
    position: Position, upstream: str, links: str = "batched", certificates: str = "", listen: str = ""
) -> NodeConfig:
    """The configuration of a node here: defaults except a large inbox, links of one kind, and TLS with certificates."""
    tls = None
    if certificates:
        key, crt = f"{certificates}/node.key", f"{certificates}/node.crt"
        tls = Tls(ca=f"{certificates}/ca.crt", server_key=key, server_crt=crt, client_key=key, client_crt=crt)
    return NodeConfig(
        position=position,
        listen=None if Role(position.role).is_leaf else listen or "127.0.0.1:0",
        upstream=upstream or None,
        links=links,
        inbox=INBOX,
        ack_timeout=SEND_S,
        tls=tls,
    )


class Nodes(Member):
    """One or many nodes on one event loop. The first one sends; all receive without delay."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._positions = [Position.parse(position) for position in spec["positions"]]
        self._upstream = spec["upstream"]
        self._listen = spec["listen"]
        self._links = {OURS: "batched", OVER_TCP: DIRECT}.get(spec["system"], spec["system"])
        if spec["system"] == OVER_TCP:
            direct_local.listening = lambda: None
        self._certificates = spec["certificates"]
        if not Role(self._positions[0].role).is_leaf:
            # As a daemon of these roles.
            keep_freed_memory()
        self._nodes: list[Node] = []
        self._readers: list[asyncio.Task[None]] = []
        self._computing: threading.Thread | None = None
        self._stop = threading.Event()

    async def start(self) -> str:
        """Start a few nodes; `join` starts many at once."""
        if len(self._positions) > 1:
            return ""
        await self._start()
        return self._nodes[0].address or ""

    async def ready(self) -> None:
        """Wait until every node has joined."""
        await asyncio.gather(*(node.joined(JOIN_S) for node in self._nodes))
        if not Role(self._positions[0].role).is_leaf:
            leave_start_uncollected()

    def body(self, size: int) -> str:
        """Text."""
        return "x" * size

    async def send(self, to: str, body: str | bytes) -> None:
        """`Node.send`."""
        assert isinstance(body, str)
        _require_ok(await self._nodes[0].send(body, to=_position(to)))

    async def answer(self, request: dict[str, object]) -> object:
        """Join, count, and compute beside the node."""
        match request:
            case {"do": "join"}:
                began = time.monotonic()
                if not self._nodes:
                    await self._start()
                await self.ready()
                return {"began": began, "ended": time.monotonic()}
            case {"do": "statistics"}:
                return [dataclasses.asdict(node.statistics) for node in self._nodes]
            case {"do": "routes"}:
                return len(self._nodes[0].routes())
            case {"do": "compute", "interval": float(interval)}:
                self._compute(interval)
                return None
            case {"do": "rest"}:
                self._rest()
                return None
        return await super().answer(request)

    async def close(self) -> None:
        """Close the nodes."""
        self._rest()
        for reader in self._readers:
            reader.cancel()
        await asyncio.gather(*(node.close() for node in self._nodes))

    async def _start(self) -> None:
        self._nodes = [
            Node(config(position, self._upstream, self._links, self._certificates, self._listen))
            for position in self._positions
        ]
        await asyncio.gather(*(node.start() for node in self._nodes))
        self._readers = [asyncio.create_task(self._read(node)) for node in self._nodes]

    async def _read(self, node: Node) -> None:
        async for _ in node.messages():
            self.received += 1

    def _compute(self, interval: float) -> None:
        """Run a loop in pure Python in another thread, like a training script without a framework."""
        self._rest()
        sys.setswitchinterval(interval)
        self._stop.clear()
        self._computing = threading.Thread(target=_count, args=(self._stop,))
        self._computing.start()

    def _rest(self) -> None:
        if self._computing is not None:
            self._stop.set()
            self._computing.join()
            self._computing = None


class Blocking(Member):
    """`BlockingNode` in a thread of its own, as in a training script."""

    def __init__(self, spec: Spec) -> None:
        super().__init__()
        self._node = BlockingNode(config(Position.parse(spec["positions"][0]), spec["upstream"]))

    async def start(self) -> str:
        """Start the node in its thread."""
        await asyncio.to_thread(self._node.start)
        return ""

    async def ready(self) -> None:
        """Wait until the node has joined."""
        await asyncio.to_thread(self._node.joined, JOIN_S)

    def body(self, size: int) -> str:
        """Text."""
        return "x" * size

    async def load(self, to: str, body: str | bytes, seconds: float, in_flight: int) -> tuple[list[int], float]:
        """Send one message after another from a thread without an event loop."""
        if in_flight != 1:
            raise ValueError("a blocking caller has one message in flight")
        assert isinstance(body, str)
        return await asyncio.to_thread(self._send_on, to, body, seconds)

    async def close(self) -> None:
        """Close the node."""
        await asyncio.to_thread(self._node.close)

    def _send_on(self, to: str, body: str, seconds: float) -> tuple[list[int], float]:
        node, clock, position = self._node, time.perf_counter_ns, _position(to)
        took: list[int] = []
        start = clock()
        until = start + int(seconds * 1e9)
        while (began := clock()) < until:
            _require_ok(node.send(body, to=position))
            took.append(clock() - began)
        return took, (clock() - start) / 1e9


@lru_cache
def _position(text: str) -> Position:
    return Position.parse(text)


def _require_ok(ack: Ack) -> None:
    if ack.code != 0:
        raise NotAcknowledged(f"answered {ack.code} by {ack.src}: {ack.detail}")


def _count(stop: threading.Event) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        while not stop.is_set():
            sum(i * i for i in range(10_000))
