"""Trees of our nodes and of the original's, behind one interface."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple
from uuid import uuid4

from taskd_net import NodeConfig, Position
from taskd_net.core.links import UP
from taskd_net.net.links.direct import DirectLink
from tests.peers.mesh import Mesh, WatchedNode
from tests.peers.original.cluster import Originals, stands
from tests.peers.original.node import OriginalNode
from tests.ports import free_address

ACK_TIMEOUT_S = 2.0
"""Ack timeout of our nodes; the original's is 3 s, and as long again for each message that it passes on.

Ours has to be shorter: the matrix tells a late Ack from one that never came. It must be long enough for a busy machine,
where one event loop with many trees stands still for up to a second.
"""

SETTLE_S = 0.4
"""Seconds in which surplus copies of a broadcast may arrive."""


class Combination(NamedTuple):
    """The roles of the original's nodes."""

    mgr: bool
    proxy: bool
    worker: bool
    agent: bool

    def __str__(self) -> str:
        return " ".join("theirs" if theirs else "ours" for theirs in self)


EVERY = [Combination(*kinds) for kinds in product((False, True), repeat=4)]


@dataclass
class Member:
    """One node of either kind. A restart is a new process at the same address."""

    position: str
    theirs: bool
    parent: Member | None
    address: str
    node: WatchedNode | OriginalNode | None = None
    got: Counter[str] = field(default_factory=Counter)

    @property
    def original(self) -> OriginalNode:
        """The node as a stand-in."""
        assert isinstance(self.node, OriginalNode)
        return self.node

    @property
    def ours(self) -> WatchedNode:
        """The node as one of ours."""
        assert isinstance(self.node, WatchedNode)
        return self.node

    async def start(self, mesh: Mesh, originals: Originals, *, wait: bool = True) -> None:
        """Start the process and, unless told otherwise, wait until it has joined."""
        upstream = self.parent.address if self.parent else None
        if self.theirs:
            self.node = await originals.start(self.position, upstream, listen=self.address, join=False)
            if wait and self.parent and self.parent.node:
                await self.original.joined()
                await stands(self.parent.node, self.position)
            return
        at = Position.parse(self.position)
        listen = None if at.role in ("Worker", "Agent") else self.address
        config = NodeConfig(position=at, listen=listen, upstream=upstream, inbox=4096, ack_timeout=ACK_TIMEOUT_S)
        self.node = await mesh.start(config, backoff_max=0.1)
        if wait and self.parent and self.parent.node:
            await self.ours.joined(10.0)
            await stands(self.parent.node, self.position)

    async def stop(self) -> None:
        """End the process at once."""
        if isinstance(self.node, OriginalNode):
            await self.node.kill()
        elif self.node is not None:
            await self.node.close()
        if self.parent and self.parent.node:
            await stands(self.parent.node, self.position, still=False)

    async def send(self, to: str, body: str, *, sync: bool = True, uuid: str = "", wait: bool = True) -> int:
        """Send a message. Returns the code of its answer, of either form.

        Args:
            wait: whether a node of ours waits until it has joined; nodes of the original never wait.
        """
        uuid = uuid or str(uuid4())
        if isinstance(self.node, OriginalNode):
            return (await self.node.send(to, body, sync=sync, uuid=uuid)).code
        assert self.node is not None
        call = self.node.send if sync else self.node.post
        return int((await call(body, to=to, uuid=uuid, timeout=8.0, wait=wait)).code)

    def fill(self) -> None:
        """Fill the inbox."""
        if isinstance(self.node, OriginalNode):
            self.node.room = 0
        else:
            self.ours.driver.router.gate.room = 0

    def freeze(self) -> Callable[[], None]:
        """Freeze the process. Returns a function that resumes it."""
        if isinstance(self.node, OriginalNode):
            awake = self.node.awake
            awake.clear()
            return awake.set
        return _freeze(self.ours)

    async def look(self) -> Counter[str]:
        """The bodies received so far, with their counts."""
        if isinstance(self.node, OriginalNode):
            self.got.update(self.node.bodies())
        elif self.node is not None:
            self.got.update(await self.node.take_all(self.node.waiting()))
        return self.got


def _freeze(node: WatchedNode) -> Callable[[], None]:
    """Hold back all data to a leaf. After resuming, its clock shows the standstill."""
    session, began, held = node.driver.links[UP], node.driver.now(), list[bytes]()
    if isinstance(session, DirectLink):
        return _freeze_direct(session)
    take_in = session._take_in
    session._take_in = held.append  # type: ignore[assignment]

    def thaw() -> None:
        session._take_in = take_in  # type: ignore[method-assign]
        pulse = getattr(session, "_pulse", None)
        if pulse is not None:
            pulse._stood = node.driver.now() - began
        for data in held:
            take_in(data)

    return thaw


def _freeze_direct(session: DirectLink) -> Callable[[], None]:
    """The same where frames come in, of which a message alone has a kind of its own."""
    take_in, held = session.take_in, list[tuple[int, bytes]]()

    def hold(kind: int, data: bytes | memoryview) -> bool:
        held.append((kind, bytes(data)))
        return False

    def thaw() -> None:
        session.take_in = take_in  # type: ignore[method-assign]
        for kind, data in held:
            take_in(kind, data)

    session.take_in = hold  # type: ignore[method-assign]
    return thaw


class Members:
    """The nodes of one job, of either kind, by position."""

    def __init__(self, mesh: Mesh, originals: Originals) -> None:
        self._mesh = mesh
        self._originals = originals
        self.members: dict[str, Member] = {}

    async def _add(self, position: str, theirs: bool, parent: Member | None) -> Member:
        leaf = position.partition("/")[0] in ("Worker", "Agent")
        member = Member(position, theirs, parent, "" if leaf else free_address())
        self.members[position] = member
        await member.start(self._mesh, self._originals)
        return member

    def __getitem__(self, position: str) -> Member:
        return self.members[position]

    async def restart(self, position: str) -> None:
        """Kill a process, and start it again."""
        await self[position].stop()
        await asyncio.sleep(0.05)
        await self[position].start(self._mesh, self._originals)

    async def copies(self, body: str) -> dict[str, int]:
        """The receivers of a message with their counts, after all copies have arrived."""
        seen: dict[str, int] | None = None
        while True:
            before = seen
            seen = {one.position: count for one in self.members.values() if (count := (await one.look())[body])}
            if seen == before:
                return seen
            # A sleep, because the test waits for nothing to happen.
            await asyncio.sleep(SETTLE_S)


class Tree(Members):
    """A Mgr, two Proxies, below each a Worker and an Agent, and a second Worker on node 0.

    Args:
        kinds: the implementation of each role.
    """

    def __init__(self, kinds: Combination, mesh: Mesh, originals: Originals) -> None:
        super().__init__(mesh, originals)
        self.kinds = kinds

    async def start(self) -> Tree:
        """Start every node, from the root down."""
        kinds = self.kinds
        mgr = await self._add("Mgr/0", kinds.mgr, None)
        for rank in (0, 1):
            proxy = await self._add(f"Proxy/{rank}", kinds.proxy, mgr)
            await self._add(f"Worker/{rank}/{rank}", kinds.worker, proxy)
            await self._add(f"Agent/{rank}", kinds.agent, proxy)
        await self._add("Worker/0/2", kinds.worker, self["Proxy/0"])
        return self


ABOVE = ("their Mgr", "our Mgr", "our Proxy")
"""The possible common parents of two Proxies of different kinds."""


class Siblings(Members):
    """One Proxy of the original's and one of ours side by side; below each a Worker of either kind and an Agent.

    Args:
        above: their parent, one of `ABOVE`. A Proxy of ours there is below a Mgr of ours.
    """

    def __init__(self, above: str, mesh: Mesh, originals: Originals) -> None:
        super().__init__(mesh, originals)
        self.above = above

    async def start(self) -> Siblings:
        """Start every node, from the root down."""
        top = await self._add("Mgr/0", self.above == "their Mgr", None)
        if self.above == "our Proxy":
            top = await self._add("Proxy/9", False, top)
        for rank, theirs in ((0, True), (1, False)):
            proxy = await self._add(f"Proxy/{rank}", theirs, top)
            await self._add(f"Worker/{rank}/{2 * rank}", False, proxy)
            await self._add(f"Worker/{rank}/{2 * rank + 1}", True, proxy)
            await self._add(f"Agent/{rank}", not theirs, proxy)
        return self
