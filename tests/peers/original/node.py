"""A node of the original in any of the four roles."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, Self
from uuid import uuid4

import grpc

from tests.peers.mesh import soon
from tests.peers.original.downstream import Downstream
from tests.peers.original.forms import CODES, NIL, Failed, Triple, matches, parse, triple, wire
from tests.peers.original.upstream import LARGEST, Upstream
from tests.peers.stubs import pb

PATIENCE_S = 10.0


class Answer(NamedTuple):
    """The outcome of a message: a status with its text, and with status OK an Ack that most callers ignore."""

    status: grpc.StatusCode
    text: str
    ack: Any = None

    @property
    def ok(self) -> bool:
        """The check of most callers."""
        return self.status is grpc.StatusCode.OK

    @property
    def code(self) -> int:
        """The code by status and Ack together."""
        if self.ok:
            return int(self.ack.code)
        return CODES.get(self.text, 6999)


class OriginalNode:
    """One process of the original. Use it as `async with`; it must not have died at the end.

    Args:
        position: `Role/serverRank[/processRank]`; the fields stay unchanged in all that it sends.
        upstream: the parent's address; None for a Mgr.
        listen: address of a Mgr or Proxy.

    Attributes:
        late: delay in seconds before it handles a message.
        awake: cleared, the process is frozen.
        died: the cause of its death; empty while it lives.
        expected_to_die: the test makes it die.
        received: delivered messages.
        room: capacity of its inbox; beyond it the answer is busy.
    """

    def __init__(self, position: str, upstream: str | None = None, listen: str = "127.0.0.1:0") -> None:
        self.me = parse(position)
        self.position = position
        self.late = 0.0
        self.awake = asyncio.Event()
        self.awake.set()
        self.died = ""
        self.expected_to_die = False
        self.received: asyncio.Queue[Any] = asyncio.Queue()
        self.room = 100_000
        self._listen = listen
        self._address = upstream
        self._death: asyncio.Task[None] | None = None
        is_leaf = self.me[0] in ("Agent", "Worker")
        self.down: Downstream | None = None if is_leaf else Downstream(self.me, self._up, self._pass_on, self.die)
        self.up: Upstream | None = None
        if upstream is not None:
            self.up = Upstream(self.me, upstream, self._down, self.die, is_leaf=is_leaf, largest=LARGEST)

    @property
    def address(self) -> str:
        """The address for children."""
        assert self.down is not None
        return self.down.address

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.kill()
        if self._death is not None:
            await asyncio.wait([self._death])
        assert not self.died or self.expected_to_die, f"{self.position} died of {self.died}"

    async def start(self) -> None:
        """Listen, and begin to join."""
        if self.down is not None:
            await self.down.start(self._listen)
        if self.up is not None:
            self.up.start()

    async def joined(self) -> None:
        """Wait until its stream stands."""
        assert self.up is not None
        await soon(self.up.joined.wait(), PATIENCE_S)

    async def kill(self) -> None:
        """Be gone at once."""
        if self.up is not None:
            await self.up.stop()
        if self.down is not None:
            await self.down.stop()

    def die(self, reason: str) -> None:
        """Crash the process."""
        if not self.died:
            self.died = reason
            self._death = asyncio.create_task(self.kill())

    async def send(self, to: str, body: str = "", *, sync: bool = True, uuid: str = "", src: str = "") -> Answer:
        """Send a message. `createTime` stays 0; a broadcast loses its `sync`."""
        dst = parse(to)
        sync = sync and "All" not in dst
        header = pb.MessageHeader(
            uuid=uuid or str(uuid4()), mtype="go", sync=sync, src=wire(parse(src or self.position)), dst=wire(dst)
        )
        message = pb.Message(header=header, body=body)
        try:
            if self.down is None:
                assert self.up is not None
                ack = await self.up.transfer(message)
            else:
                ack = await self._route(message)
        except Failed as failed:
            return Answer(failed.status, failed.text)
        return Answer(grpc.StatusCode.OK, "", ack)

    async def take(self) -> Any:
        """The next message for it."""
        return await soon(self.received.get(), PATIENCE_S)

    def bodies(self) -> list[str]:
        """The bodies of everything received so far."""
        return [self.received.get_nowait().body for _ in range(self.received.qsize())]

    async def _faulty(self) -> None:
        await self.awake.wait()
        if self.late:
            await asyncio.sleep(self.late)

    def _deliver(self, message: Any) -> Any:
        if self.received.qsize() >= self.room:
            raise Failed("dst recv buffer busy")
        self.received.put_nowait(message)
        return pb.Ack(uuid=message.header.uuid, src=wire(self.me))

    async def _up(self, message: Any) -> Any:
        """Handle a message from below."""
        await self._faulty()
        return await self._route(message)

    async def _route(self, message: Any) -> Any:
        assert self.down is not None
        dst = triple(message.header.dst)
        if "All" in dst:
            await self._spread(dst, message)
            raise Failed(NIL, grpc.StatusCode.INTERNAL)
        if dst == self.me:
            return self._deliver(message)
        hop = self.down.routes.get(dst)
        if hop is not None:
            return await self.down.send(hop, message)
        if self.up is not None and dst[0] == "Mgr":
            return await self.up.transfer(message)
        raise Failed("no route")

    async def _spread(self, dst: Triple, message: Any) -> None:
        """Send one copy for each matching node, also behind one child, and also back to the source.

        With `sync` it awaits an Ack for each copy, which its own Proxies never give. Its own senders use no `sync`.
        """
        assert self.down is not None
        copy = pb.Message(body=message.body)
        copy.header.CopyFrom(message.header)
        if matches(dst, self.me):
            self._deliver(copy)
        for _, hop in self.down.below(dst, matches):
            try:
                await self.down.send(hop, copy)
            except Failed:
                continue

    async def _down(self, message: Any) -> Any:
        """Handle a message from above, one at a time."""
        await self._faulty()
        header = message.header
        dst = triple(header.dst)
        try:
            if self.down is None:
                if "," in dst[1] + dst[2]:
                    raise Failed("no route")
                ack = self._deliver(message)
            elif "All" in dst:
                header.sync = False
                await self._spread(dst, message)
                return None
            elif dst == self.me:
                ack = self._deliver(message)
            elif (hop := self.down.routes.get(dst)) is not None:
                ack = await self.down.send(hop, message)
            else:
                raise Failed("no route")
        except Failed as failed:
            ack = pb.Ack(uuid=header.uuid, code=CODES.get(failed.text, 6999), src=wire(self.me))
        return ack if header.sync else None

    async def _pass_on(self, path: list[Triple]) -> None:
        """Pass a leaf's announcement on to the root."""
        if self.up is not None:
            await self.up.announce([*path, self.me])
