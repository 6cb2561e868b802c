"""The fault laboratory: a mesh of real processes, with traffic and faults.

    with Lab(folder, proxies=2, workers=4) as lab:
        lab.begin_traffic()
        lab.mgr.kill()
        lab.mgr.start()
        lab.probe()
        lab.quiet()
        assert not lab.audit().broken

Times are of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from taskd_net.net.links.registry import best
from tests.faults.controlled import ANSWER_S, ControlledProcess, OrderFailed
from tests.faults.ledger import Audit, Ledger
from tests.faults.network import Machines
from tests.ports import free_port

JOIN_S: Final = 60.0
"""Seconds for a mesh to join on a busy machine; longer is a hang."""

TAKEN_S: Final = 30.0
"""Seconds for a receiver on a busy machine to take its last messages; those it takes later count as lost."""


class Member:
    """One place in the mesh and its process: each start is a new life.

    Args:
        lab: its laboratory.
        name: of the place.
        position: of the node, as a destination.
        kind: `mgr`, `proxy`, `agent` or `worker`.
        settings: of its `NodeConfig`.
        wrapper: a command that runs it.
    """

    def __init__(
        self, lab: Lab, name: str, position: str, kind: str, settings: Mapping[str, Any], wrapper: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.position = position
        self.kind = kind
        self.settings = dict(settings)
        self.lives = 0
        self.started_at = 0.0
        self.stopped = False
        self._lab = lab
        self._wrapper = wrapper
        self._process: ControlledProcess | None = None
        self._traffic: dict[str, Any] | None = None

    @property
    def life(self) -> str:
        """The name of its current life, or of its last one."""
        return f"{self.name}.{self.lives}"

    @property
    def records(self) -> str:
        """The records of its current life."""
        return str(self._lab.records / f"{self.life}.records")

    @property
    def alive(self) -> bool:
        """True while its process lives."""
        return self._process is not None

    @property
    def process(self) -> ControlledProcess:
        """Its process.

        Raises:
            OrderFailed: it has none.
        """
        if self._process is None:
            raise OrderFailed(f"{self.name} is not running")
        return self._process

    def launch(self) -> None:
        """Start its process, without waiting for it."""
        assert self._process is None, f"{self.name} runs already"
        self.lives += 1
        arguments = ["-m", "tests.faults.member", self.kind, json.dumps(self.settings), self.life, self.records]
        self._process = ControlledProcess(self.name, arguments, self._lab.folder / f"{self.name}.log", self._wrapper)

    def start(self) -> float:
        """Start its process and its traffic. Returns the time of listening."""
        if self._process is None:
            self.launch()
        self.started_at = self.process.event("started")["at"]
        if self._traffic is not None:
            self.begin(**self._traffic)
        return self.started_at

    def kill(self) -> float:
        """`kill -9`, also of a stopped process. Returns the time."""
        self.stopped = False
        process, self._process = self.process, None
        at = time.monotonic()
        process.kill()
        # All its records count as written before the kill.
        self._lab.killed[self.life] = time.monotonic()
        return at

    def stop(self) -> float:
        """SIGSTOP. Returns the time."""
        self.stopped = True
        self.process.signal(signal.SIGSTOP)
        return time.monotonic()

    def cont(self) -> float:
        """SIGCONT. Returns the time."""
        if self.stopped:
            self.stopped = False
            self.process.signal(signal.SIGCONT)
        return time.monotonic()

    def begin_end(self) -> None:
        """Begin an orderly end; `end` waits for it."""
        if self._process is not None:
            self.cont()
            self._process.begin_end()

    def end(self) -> None:
        """End it in an orderly way."""
        if self._process is not None:
            self.cont()
            process, self._process = self._process, None
            process.end()

    def ask(self, do: str, *, within: float = ANSWER_S, **arguments: object) -> Any:
        """Give it an order, and return the result (`member.Member`)."""
        return self.process.ask(do, within=within, **arguments)

    def begin(self, **traffic: Any) -> None:
        """Begin steady traffic, in this life and in every later one until `quiet`."""
        self._traffic = traffic
        if self._process is not None:
            self.ask("begin", **traffic)

    def forget_traffic(self) -> None:
        """Give later lives no traffic."""
        self._traffic = None

    def log(self) -> str:
        """The log of all its lives."""
        return (self._lab.folder / f"{self.name}.log").read_text(errors="replace")


class Lab:
    """A Mgr, Proxies and Workers, each a process.

    Args:
        folder: a new folder for records and logs.
        proxies: number of Proxies.
        workers: total number; each Proxy gets the same share.
        relayed: names of members that reach their parent through a relay.
        settings: of every node's `NodeConfig`.
        machines: two machines: one for the Mgr and the first Proxy with its Workers, the other for the rest.
            None: all on this one.
    """

    def __init__(
        self,
        folder: Path,
        *,
        proxies: int = 2,
        workers: int = 4,
        relayed: Iterable[str] = (),
        settings: Mapping[str, Any] | None = None,
        machines: Machines | None = None,
    ) -> None:
        self.folder = folder
        self.records = folder / "records"
        self.killed: dict[str, float] = {}
        self._turns = 0
        self._relayed = set(relayed)
        self._relays: ControlledProcess | None = None
        self._settings = dict(settings or {})
        self._machines = machines
        self.proxies: list[Member] = []
        self.workers: list[Member] = []
        self.others: list[Member] = []
        self.mgr = self._place("mgr", "Mgr/0", 0, **self._listening(machines.host(0) if machines else "127.0.0.1"))
        for rank in range(proxies):
            listening = self._listening("127.0.0.1")
            self.proxies.append(self._place(f"proxy{rank}", f"Proxy/{rank}", rank, server_rank=rank, **listening))
        for rank in range(workers):
            node = rank * proxies // workers
            self.workers.append(
                self._place(f"worker{rank}", f"Worker/{node}/{rank}", node, server_rank=node, rank=rank)
            )

    def _listening(self, host: str) -> dict[str, Any]:
        """The addresses of a parent, which its relays know before it starts."""
        if not self._relayed:
            return {"listen": f"{host}:{free_port()}"}
        return {name: f"{host}:{free_port()}" for name in ("listen", "direct_listen")} | {"behind_relays": True}

    def _place(self, name: str, position: str, node: int, **settings: Any) -> Member:
        kind = name.rstrip("0123456789")
        wrapper = self._machines.wrapper(min(node, 1)) if self._machines else ()
        return Member(self, name, position, kind, {**self._settings, **settings}, wrapper)

    def __enter__(self) -> Self:
        try:
            self.connect()
            for member in self.members:
                member.launch()
            for member in self.members:
                member.start()
            self.probe(JOIN_S)
            self.check_links()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def connect(self) -> None:
        """Set up the relays, and give each member its parent's address."""
        self.records.mkdir(parents=True)
        if self._relayed:
            self._relays = ControlledProcess("relay", ["-m", "tests.faults.relay"], self.folder / "relay.log")
        for proxy in self.proxies:
            proxy.settings["upstream"] = self._way(proxy.name, self.mgr)
        for worker in self.workers:
            worker.settings["upstream"] = self._way(worker.name, self.parent(worker))

    def close(self) -> None:
        """End every process."""
        for member in self.members:
            member.begin_end()
        for member in self.members:
            member.end()
        if self._relays is not None:
            self._relays.end()
            self._relays = None

    def check_links(self) -> None:
        """Check that every link is of the kind that the settings name, and none has fallen back to another.

        Raises:
            AssertionError: one is of another kind.
        """
        kinds = self.together("link", [member for member in self.members if member is not self.mgr])
        other = {name: kind for name, kind in kinds.items() if kind != self._settings.get("links", best())}
        assert not other, f"links of another kind: {other}"

    def joins(self) -> Counter[str]:
        """The joins of all members so far, by the kind of link."""
        logs = [member.log() for member in self.members]
        return Counter(kind for log in logs for kind in re.findall(r"event=joined .*link=(\w+)", log))

    @property
    def members(self) -> list[Member]:
        """All members: the Mgr, the Proxies, the Workers, then the additions of a test."""
        return [self.mgr, *self.proxies, *self.workers, *self.others]

    def parent(self, member: Member) -> Member:
        """The parent of a Proxy or a Worker."""
        return self.mgr if member.kind == "proxy" else self.proxies[int(member.settings["server_rank"])]

    def way(self, sender: Member, receiver: Member) -> set[str]:
        """The names of the members on a message's way, both ends included."""
        lines = []
        for end in (sender, receiver):
            line = [end]
            while line[-1] is not self.mgr:
                line.append(self.parent(line[-1]))
            lines.append(line)
        up, down = lines
        turn = next(member for member in up if member in down)
        return {member.name for member in [*up[: up.index(turn) + 1], *down[: down.index(turn)]]}

    def below(self, proxy: Member) -> list[Member]:
        """The Workers of a Proxy."""
        return [worker for worker in self.workers if self.parent(worker) is proxy]

    def add(self, name: str, position: str, kind: str, settings: Mapping[str, Any]) -> Member:
        """Add a member, without starting its process."""
        member = Member(self, name, position, kind, {**self._settings, **settings})
        self.others.append(member)
        return member

    def begin_traffic(
        self, interval: float = 0.1, *, posts: bool = False, retries: bool = False, **traffic: Any
    ) -> None:
        """Begin traffic in every direction.

        Each Worker sends to the Mgr, to its neighbour and to one below another Proxy; the Mgr and Proxies to Workers.

        Args:
            interval: seconds between two messages of a flow.
            posts: each Worker also posts to one below another Proxy, three messages one after another.
            retries: every second Worker lets its node retry. The others, and all without `retries`, record each
                attempt.
            traffic: further arguments of `member.Member.begin`.
        """
        workers, count = self.workers, len(self.workers)
        step = max(1, count // max(1, len(self.proxies)))
        for index, worker in enumerate(workers):
            far = workers[(index + step) % count].position
            to = {workers[(index + 1) % count].position, far} - {worker.position}
            worker.begin(
                to=["Mgr/0", *sorted(to)],
                posts=[far] if posts else [],
                interval=interval,
                retries=retries and index % 2 == 0,
                **traffic,
            )
        self.mgr.begin(to=[worker.position for worker in workers[:: max(1, count // 4)]], interval=interval, **traffic)
        for proxy in self.proxies:
            to = {worker.position for worker in self.below(proxy)[:1]}
            proxy.begin(to=["Mgr/0", *sorted(to)], interval=interval, **traffic)

    def quiet(self, within: float = ANSWER_S) -> None:
        """End the traffic. Every message has its code then."""
        for member in self.members:
            member.forget_traffic()
        self.together("quiet", within=within)

    def together(
        self, do: str, members: Iterable[Member] | None = None, *, within: float = ANSWER_S, **arguments: object
    ) -> dict[str, Any]:
        """Give several members (None: all living ones) the same order. Returns the results by name."""
        asked = [member for member in (self.members if members is None else members) if member.alive]
        begun = [(member, member.process.begin(do, **arguments)) for member in asked]
        return {member.name: member.process.answer(number, within) for member, number in begun}

    def probe(
        self, patience: float = JOIN_S, to: Iterable[Member] | None = None, by: Member | None = None
    ) -> dict[str, float]:
        """Wait until the Mgr reaches these members (None: all but the Mgr). Returns the times by name.

        Raises:
            AssertionError: one was not reached within `patience` seconds.
        """
        by = by or self.mgr
        members = [m for m in (self.members if to is None else to) if m is not by]
        found = by.ask(
            "probe", within=patience + ANSWER_S, to=[member.position for member in members], patience=patience
        )
        missing = {at: told for at, told in found.items() if isinstance(told, str)}
        assert not missing, f"not reached by {by.name} within {patience} s: {missing}"
        return {member.name: found[member.position] for member in members}

    def _way(self, name: str, parent: Member) -> str:
        listen: str = parent.settings["listen"]
        if name not in self._relayed:
            return listen
        assert self._relays is not None
        host, _, port = listen.rpartition(":")
        direct = int(parent.settings["direct_listen"].rpartition(":")[2])
        at = f"127.0.1.{1 + sorted(self._relayed).index(name)}"
        self._relays.ask("open", name=name, host=host, at=at, ports=[int(port), direct])
        return f"{at}:{port}"

    def shape(self, member: Member, **shape: Any) -> float:
        """Change the relay between a member and its parent (`relay.Shape`). Returns the time."""
        assert self._relays is not None
        self._relays.ask("shape", name=member.name, **shape)
        return time.monotonic()

    def heal(self, member: Member) -> float:
        """Let everything pass between a member and its parent. Returns the time."""
        assert self._relays is not None
        self._relays.ask("clear", name=member.name)
        return time.monotonic()

    def reset(self, member: Member) -> None:
        """Reset the connections between a member and its parent."""
        assert self._relays is not None
        self._relays.ask("reset", name=member.name)

    def recover(self) -> None:
        """Undo every fault, and wait until all members are reachable."""
        for name in sorted(self._relayed):
            assert self._relays is not None
            self._relays.ask("clear", name=name)
        for member in (self.mgr, *self.proxies, *self.workers):
            if not member.alive:
                member.start()
            member.cont()
        self.probe()

    def ledger(self) -> Ledger:
        """All records so far."""
        return Ledger.read(self.records, self.killed)

    def turn_over(self) -> None:
        """Begin a new ledger without traffic, and drop the old one."""
        self._turns += 1
        old, self.records = self.records, self.folder / f"records{self._turns}"
        self.records.mkdir()
        for member in self.members:
            if member.alive:
                member.ask("turn_over", records=member.records)
        shutil.rmtree(old)

    def audit(self) -> Audit:
        """Check the ledger against the promises, and the logs for errors. Waits for messages still in an inbox.

        Raises:
            AssertionError: a member has logged an error or an exception.
        """
        for member in self.members:
            wrong = [
                line
                for line in member.log().splitlines()
                if (" ERROR " in line or " CRITICAL " in line or "Traceback" in line) and "position_taken" not in line
            ]
            assert not wrong, f"{member.name} logged: {wrong[:5]}"
        # An Ack says "in the inbox". The receiver's process may get its next turn later than the sender's answer.
        give_up_at = time.monotonic() + TAKEN_S
        while (audit := self.ledger().audit()).lost and time.monotonic() < give_up_at:
            time.sleep(0.05)
        return audit
