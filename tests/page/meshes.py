"""Meshes that never were, as the records that a node has of them: any size, with whatever trouble a test asks for."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

from taskd_net.base.position import Position
from taskd_net.base.states import State
from taskd_net.observe.records import Direction, NodeStatus, OwnFigures
from taskd_net.observe.status_codec import write_node

NOW = 1_700_000_000.0
WORKERS = 8


@dataclass
class Made:
    """A mesh of `proxies` with an Agent and eight Workers each.

    Args:
        proxies: how many.
        nested: Proxies below the first one, with eight Workers each.
        workers: below each Proxy.
        agents: whether there are Agents.
        seed: of what is made up.
    """

    proxies: int
    nested: int = 0
    workers: int = WORKERS
    agents: bool = True
    seed: int = 1
    now: float = NOW
    nodes: dict[Position, NodeStatus] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        root = Position.mgr()
        own = OwnFigures("10.0.0.1:9601", 3, 1024, 0, 51_702)
        self.nodes[root] = NodeStatus(None, State.JOINED, self.now - 7500.0, "taskd_net", "0.1.0", own=own)
        for node in range(self.proxies + self.nested):
            proxy = Position.proxy(node)
            parent = root if node < self.proxies else Position.proxy(0)
            self._join(proxy, parent, f"10.0.{node // 200}.{node % 200 + 2}:9602")
            if self.agents:
                self._join(Position.agent(node), proxy)
            for rank in range(node * self.workers, (node + 1) * self.workers):
                self._join(Position.worker(node, rank), proxy)

    def _join(self, position: Position, parent: Position, listen: str = "") -> None:
        chance = self._chance
        messages = chance.randrange(1000, 60_000)
        p50 = chance.uniform(0.0004, 0.002)
        flow = Direction(messages, messages * 180, 0, chance.randrange(3), 0, p50, p50 * chance.uniform(1.5, 6.0))
        back = Direction(messages // 3, messages * 40, 0, chance.randrange(2), 0, p50 * 1.2, p50 * 4.0)
        own = OwnFigures(listen, chance.randrange(3), 8, 0, messages, 0, 0, back)
        address = f"127.0.0.1:{chance.randrange(32768, 60999)}"
        since, last = self.now - 7200.0 + chance.uniform(0.0, 9.0), self.now - chance.uniform(0.0, 2.0)
        self.nodes[position] = NodeStatus(
            parent, State.JOINED, since, "taskd_net", "0.1.0", "batched", address, last, flow, back, 0, own
        )

    def lose(self, positions: Iterable[str], state: State = State.LOST, ago: float = 95.0, reason: str = "") -> Made:
        """These nodes are gone, or whatever `state` says, for this reason."""
        for text in positions:
            position = Position.parse(text)
            self.nodes[position] = self.nodes[position]._replace(
                state=state, since=self.now - ago, link="", end_reason=reason
            )
        return self

    def leave_out(self, positions: Iterable[str]) -> Made:
        """These nodes were never there."""
        for text in positions:
            del self.nodes[Position.parse(text)]
        return self

    def fill(self, positions: Iterable[str]) -> Made:
        """The inboxes of these nodes are full, and messages wait for them."""
        for text in positions:
            position = Position.parse(text)
            status = self.nodes[position]
            assert status.own is not None
            own = status.own._replace(inbox=status.own.inbox_room, inbox_line=5)
            self.nodes[position] = status._replace(own=own, down=status.down._replace(in_flight=13, ack_p99=2.4))
        return self

    def empty(self, positions: Iterable[str]) -> Made:
        """Nothing waits for these nodes any more."""
        for text in positions:
            position = Position.parse(text)
            status = self.nodes[position]
            assert status.own is not None
            own = status.own._replace(inbox=0, inbox_line=0)
            self.nodes[position] = status._replace(own=own, down=status.down._replace(in_flight=0))
        return self

    def listen_on(self, text: str, address: str) -> Made:
        """This node listens there; empty: it does not say where."""
        position = Position.parse(text)
        status = self.nodes[position]
        assert status.own is not None
        self.nodes[position] = status._replace(own=status.own._replace(listen=address))
        return self

    def go_on(self, seconds: float, rate: float = 40.0) -> Made:
        """Time passes, and with it messages."""
        self.now += seconds
        for position, status in self.nodes.items():
            if status.parent is None or status.state is not State.JOINED:
                continue
            chance = self._chance
            more = round(seconds * rate * chance.uniform(0.6, 1.4))
            down, up = status.down, status.up
            p50 = chance.uniform(0.0004, 0.002)
            self.nodes[position] = status._replace(
                last_message=self.now,
                down=down._replace(
                    messages=down.messages + more, bytes=down.bytes + more * 180, ack_p50=p50, ack_p99=p50 * 3.0
                ),
                up=up._replace(messages=up.messages + more // 3, bytes=up.bytes + more * 60),
            )
        return self

    def entries(self) -> list[tuple[str, bytes]]:
        """Each node's position and record, as a node has them."""
        return [(str(position), write_node(status)) for position, status in self.nodes.items()]


def of_size(nodes: int) -> tuple[Made, str]:
    """A mesh of so many nodes in some trouble, and the size of job that is expected there."""
    if nodes < 10:
        return Made(1, workers=max(1, nodes - 2), agents=False), f"1x{max(1, nodes - 2)}"
    proxies = nodes // (WORKERS + 2)
    made = Made(proxies)
    some = {
        "lost": [2 * WORKERS + 3],
        "gone": [3 * WORKERS + 1, 3 * WORKERS + 2],
        "never": range(WORKERS * 5 - 3, WORKERS * 5),
        "full": [WORKERS + 4],
    }
    made.lose([f"Worker/{rank // WORKERS}/{rank}" for rank in some["lost"]])
    made.lose([f"Worker/{rank // WORKERS}/{rank}" for rank in some["gone"]], State.GONE, 2700.0)
    made.fill([f"Worker/{rank // WORKERS}/{rank}" for rank in some["full"]])
    if proxies > 5:
        made.leave_out(f"Worker/{rank // WORKERS}/{rank}" for rank in some["never"])
    if proxies > 20:
        made.lose([f"Proxy/{proxies // 2}"], ago=41.0)
        last = proxies - 1
        made.leave_out([f"Proxy/{last}", f"Agent/{last}"])
        made.leave_out(f"Worker/{last}/{rank}" for rank in range(last * WORKERS, proxies * WORKERS))
    return made, f"{proxies}x{WORKERS}"
