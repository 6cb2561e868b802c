"""The original's Agent and Mgr above the mesh, as far as faults of Agents go: bodies in, bodies out.

They decide by themselves. `Stage` plays one over any blocking node:

    with Stage(node, OriginalAgent(0)) as stage:
        stage.do(lambda agent: agent.fail(3))
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, Self, TypeVar
from uuid import uuid4

from taskd_net import BlockingNode, NodeClosed
from taskd_net.base.codes import NodeTimeout
from tests.peers.original.forms import Died

MGR = "Mgr/0"
SNAPSHOT_S = 0.1
"""Pause between two looks of its Mgr."""
ATTEMPTS = 5
"""Its Mgr sends a command so often, with one uuid."""


class Letter(NamedTuple):
    """A message of one of these nodes."""

    to: str
    body: str
    mtype: str = "DEFAULT"


def body(msg_type: str, code: int, message: str = "", extension: dict[str, str] | None = None) -> str:
    """A body as the original writes it: an empty extension is null."""
    return json.dumps({"msg_type": msg_type, "code": code, "message": message, "extension": extension})


class OriginalAgent:
    """Its Agent with a framework that does at once what it is asked for.

    Args:
        rank: of its node.
        restarts: that remain, for its 201.
        counts: it leaves with 1 when no restart remains, as PyTorch's; MindSpore's does not look at the count.

    Attributes:
        calls: what its framework was asked to do, in order.
        status: the exit status of its process; None while it runs.
        failed: the ranks that it has reported last.
    """

    def __init__(self, rank: int, restarts: str = "3", *, counts: bool = True) -> None:
        self.position = f"Agent/{rank}"
        self.restarts = restarts
        self.counts = counts
        self.calls: list[tuple[object, ...]] = []
        self.status: int | None = None
        self.failed: tuple[int, ...] = ()

    def start(self) -> list[Letter]:
        """Register and ask for the go, each once."""
        return [Letter(MGR, body("REGISTER", 0)), Letter(MGR, body("STATUS", 201, self.restarts))]

    def tick(self) -> list[Letter]:
        """Say that it lives, once a second."""
        return [Letter(MGR, body("KEEP_ALIVE", 0, _state(())))]

    def fail(self, *ranks: int) -> list[Letter]:
        """Its workers have failed; the Mgr is told when the set has changed."""
        if ranks == self.failed:
            return []
        self.failed = ranks
        return [Letter(MGR, body("STATUS", 202, _state(ranks), {"REPORT_FAULT_TIME": str(int(time.time()))}))]

    def take(self, _: str, text: str, __: str) -> list[Letter]:
        """Carry out a command.

        Raises:
            Died: it is one that this Agent does not survive.
        """
        command = json.loads(text)
        code, message = command["code"], command["message"]
        if self.status is not None:
            return []
        match code:
            case 203:
                self.calls.append(("kill",))
                self.failed = ()
                self.status = 1
                return [Letter(MGR, body("STATUS", 202, _state(())))]
            case 208 | 210:
                self._begin(code, _count(message))
            case 209 | 213:
                self._some(code, message)
            case _:
                raise Died(f"a command with code {code!r}, msg_type {command['msg_type']!r}")
        return []

    def _begin(self, code: int, count: int) -> None:
        if count < 0 and self.counts:
            self.status = 1
            return
        self.calls.append(("start" if code == 210 else "restart", count))
        self.failed = ()

    def _some(self, code: int, message: str) -> None:
        try:
            ranks = json.loads(message)
        except ValueError:
            raise Died(f"a {code} whose message is {message!r}") from None
        if not isinstance(ranks, list) or not all(isinstance(rank, str) for rank in ranks):
            raise Died(f"a {code} whose message is {message!r}")
        self.calls.append(("restart ranks" if code == 209 else "stop ranks", ranks))
        self.failed = tuple(rank for rank in self.failed if str(rank) not in ranks)


@dataclass
class _Record:
    """All that its Mgr knows of a process; a REGISTER empties it."""

    fault: str = ""


class OriginalManager:
    """Its Mgr without a fault-recover value.

    Attributes:
        rounds: the faulty Agents of each decision, in order.
        restarts: its own count; 0 before an Agent has said one.
    """

    position = MGR

    def __init__(self) -> None:
        self.rounds: list[tuple[str, ...]] = []
        self.restarts = 0
        self.said: list[tuple[str, str, int]] = []
        self._records: dict[str, _Record] = {}
        self._exited: set[str] = set()
        self._held = False

    def start(self) -> list[Letter]:
        """It waits for its Agents."""
        return []

    def take(self, src: str, text: str, mtype: str) -> list[Letter]:
        """Take a report in."""
        report = json.loads(text)
        kind, code, message = report["msg_type"], report["code"], report.get("message", "")
        if kind != "KEEP_ALIVE":
            self.said.append((src, kind, code))
        if kind == "REGISTER":
            self._records[src] = _Record()
            self._exited.discard(src)
        elif (record := self._records.get(src)) is None or kind != "STATUS":
            pass  # of a process that has not registered
        elif code == 201:
            self.restarts = self.restarts or _count(message)
            return [Letter(src, body("ACTION", 210, str(self.restarts or message)), mtype)]
        elif code == 202:
            record.fault = message  # any text is a fault, also that of no ranks
        return []

    def tick(self) -> list[Letter]:
        """Look at a snapshot, and decide."""
        faulty = tuple(sorted(src for src, record in self._records.items() if record.fault))
        if self._held:
            self._held = bool(faulty or self._exited)
            return []
        new = tuple(src for src in faulty if src not in self._exited)
        if not new:
            return []
        self.rounds.append(new)
        self._exited.update(new)
        exits = [Letter(src, body("ACTION", 203)) for src in new]
        if "Agent/0" in new:
            return exits
        self._held = True
        self.restarts -= 1
        others = sorted(self._records.keys() - set(new))
        return [*exits, *(Letter(src, body("ACTION", 208, str(self.restarts))) for src in others)]

    def in_place(self, to: str, *ranks: int) -> list[Letter]:
        """The 209 of its signal `fault_nodes_restart`: an empty message, of which its own Agents die."""
        extension = {"FaultRanks": json.dumps({str(rank): 1 for rank in ranks})}
        return [Letter(to, body("ACTION", 209, "", extension))]


class Application(Protocol):
    """One of the two."""

    position: str

    def start(self) -> list[Letter]:
        """The first messages."""

    def take(self, src: str, text: str, mtype: str, /) -> list[Letter]:
        """Handle a message."""

    def tick(self) -> list[Letter]:
        """Some time has passed."""


A = TypeVar("A", bound=Application)


class Stage(Generic[A]):
    """Plays an application in a thread of its own, until the context ends or the process has died or left.

    Args:
        node: its way into the mesh.
        application: decides.
        pause: seconds between two ticks.

    Attributes:
        died: the cause of its death; empty while it lives. A death fails the test, unless it takes the text out.
    """

    def __init__(self, node: BlockingNode, application: A, pause: float = SNAPSHOT_S) -> None:
        self.node = node
        self.application = application
        self.died = ""
        self._pause = pause
        self._orders: list[Callable[[A], Iterable[Letter]]] = []
        self._changing = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"original {application.position}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        assert not self.died, f"{self.application.position} died of {self.died}"

    def do(self, order: Callable[[A], Iterable[Letter]]) -> None:
        """Have the application do something, in its own thread."""
        with self._changing:
            self._orders.append(order)

    def wait(self) -> None:
        """Wait for the end of its process."""
        self._thread.join(10.0)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with suppress(NodeClosed):
            try:
                self._play()
            except Died as death:
                self.died = str(death)

    def _play(self) -> None:
        self._send(self.application.start())
        due = time.monotonic()
        while not self._ended.is_set() and getattr(self.application, "status", None) is None:
            if time.monotonic() >= due:
                due = time.monotonic() + self._pause
                self._send(self.application.tick())
            with self._changing:
                orders, self._orders = self._orders, []
            for order in orders:
                self._send(order(self.application))
            with suppress(NodeTimeout):
                message = self.node.receive(0.02)
                self._send(self.application.take(str(message.src), message.body, message.mtype))

    def _send(self, letters: Iterable[Letter]) -> None:
        for letter in letters:
            uuid = str(uuid4())
            for _ in range(ATTEMPTS):
                if self._ended.is_set() or self.node.send(letter.body, to=letter.to, mtype=letter.mtype, uuid=uuid).ok:
                    break
                self._ended.wait(self._pause)


def _state(ranks: tuple[int, ...]) -> str:
    return json.dumps({"fault_ranks": list(ranks), "restart_times": -1})


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Died(f"a count of restarts that is {text!r}") from None
