"""The script of the demo: its steps, and the expected result of each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final
from uuid import uuid4

from taskd_net import Code, Position, Role
from taskd_net.base import limits
from taskd_net.base.position import ALL
from taskd_net.demo.display import ProgressLines, counted
from taskd_net.demo.fleet import Fleet, NodeProcess
from taskd_net.demo.process import DemoNode
from taskd_net.demo.report import Broadcast, DemoReport, Sends

UNICAST_SENDS: Final = 200
GROUP_SENDS: Final = 50
REFUSED_SENDS: Final = 100
FULL_INBOX_SENDS: Final = 20
"""Sends to a full inbox; each waits for room before it is refused."""

JOIN_S: Final = 10.0

REACH_S: Final = 20.0
"""Seconds until the nodes below a killed Proxy are reached again, including the start of a new process."""

ANY_PORT: Final = "127.0.0.1:0"


class Tour:
    """One demo.

    Args:
        fleet: starts the processes.
        nodes: number of nodes, each with a Proxy and an Agent.
        workers: number of Workers in all, spread evenly over the nodes.
        report: collects the findings.
        progress: shows the steps.
        http_port: `host:port` of the Mgr's status page; None for none.
    """

    def __init__(
        self,
        fleet: Fleet,
        nodes: int,
        workers: int,
        report: DemoReport,
        progress: ProgressLines,
        http_port: str | None = None,
    ) -> None:
        self._fleet = fleet
        self._progress = progress
        self._nodes = nodes
        self._http_port = http_port
        self._workers = workers_by_node(nodes, workers)
        self._all_workers = [worker for node in self._workers for worker in node]
        self._started: dict[Position, NodeProcess] = {}
        # The uuids due at each node, by kind, in order.
        self._due: dict[Position, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        self.report = report

    async def run(self) -> None:
        """Run every step.

        Raises:
            DemoFailed: it cannot go on.
        """
        await self._join()
        await self._unicast()
        await self._groups()
        await self._refusals()
        await self._recovery()
        await self._tree()

    async def _join(self) -> None:
        report = self.report
        with self._progress.step(f"Starting {report.expected} processes") as step:
            (mgr,) = await self._start([Position.mgr()], listen=ANY_PORT)
            page = await mgr.ask(DemoNode.open_page, listen=self._http_port) if self._http_port is not None else None
            proxies = await self._start(list(map(Position.proxy, range(self._nodes))), ANY_PORT, mgr.address)
            below = [
                self._start([Position.agent(node), *self._workers[node]], upstream=proxy.address)
                for node, proxy in enumerate(proxies)
            ]
            await asyncio.gather(*below)

            async def join(process: NodeProcess) -> None:
                await process.ask(DemoNode.join, timeout=JOIN_S)
                report.joined += 1
                step.doing(f"Joining: {report.joined} of {report.expected}")

            await asyncio.gather(*map(join, self._started.values()))
            seen = "" if page is None else f"; see {page}"
            step.done(f"{report.joined} of {report.expected} nodes have joined, each a process of its own{seen}")

    async def _unicast(self) -> None:
        mgr, first = Position.mgr(), self._all_workers[0]
        far = self._all_workers[-1]
        with self._progress.step("Sending from one to one") as step:
            await self._send("worker_to_mgr", "Worker → Mgr", first, mgr)
            await self._send("mgr_to_worker", "Mgr → Worker", mgr, far)
            if len(self._workers[0]) > 1:
                title = "Worker → Worker, same node"
                await self._send("worker_to_worker_same_node", title, first, self._workers[0][1])
            else:
                self._leave_out("Worker → Worker on the same node (needs two Workers on a node)")
            if self._nodes > 1:
                await self._send("worker_to_worker_other_node", "Worker → Worker, other node", first, far)
            else:
                self._leave_out("Worker → Worker on another node (needs --nodes 2)")
            await self._send("agent_to_mgr", "Agent → Mgr", Position.agent(0), mgr)
            await self._send("mgr_to_proxy", "Mgr → Proxy", mgr, Position.proxy(self._nodes - 1))
            await self._check_received()
            step.done(f"{UNICAST_SENDS} messages each way, all delivered once and in order")

    async def _groups(self) -> None:
        mgr, count = Position.mgr(), len(self._all_workers)
        with self._progress.step("Sending from one to many") as step:
            # The first, a middle one and the last: with two nodes, Workers on both.
            chosen = sorted({0, count // 2, count - 1})
            if len(chosen) > 1:
                ranks = ",".join(map(str, chosen))
                receivers = [self._all_workers[rank] for rank in chosen]
                title = f"multicast to Workers {ranks}"
                await self._send("multicast", title, mgr, Position.worker(ALL, ranks), receivers, GROUP_SENDS)
            else:
                self._leave_out("multicast to a list of ranks (needs two Workers)")
            to = Position.worker(ALL, ALL)
            title = "broadcast to all Workers"
            uuids = await self._send("broadcast", title, mgr, to, self._all_workers, GROUP_SENDS)
            received = await self._check_received()
            came = [received[worker].get("broadcast", []) for worker in self._all_workers]
            self.report.broadcast = broadcast = Broadcast(
                expected=len(uuids) * count,
                delivered=sum(len(set(uuids).intersection(each)) for each in came),
                duplicates=sum(len(each) - len(set(each)) for each in came),
            )
            step.done(
                f"{GROUP_SENDS} broadcasts to {counted(count, 'Worker')}:"
                f" {broadcast.delivered} of {broadcast.expected} copies delivered, {broadcast.duplicates} twice"
            )

    async def _refusals(self) -> None:
        mgr, first, last = Position.mgr(), self._all_workers[0], self._all_workers[-1]
        with self._progress.step("Sending what has to be refused") as step:
            nobody = Position.worker(0, 9999)
            await self._send("no_route", "a rank that does not exist", first, nobody, expect=Code.NO_ROUTE)
            stranger = Position("Driver", "0")
            await self._send("bad_role", "a role that does not exist", first, stranger, expect=Code.DST_ROLE_ILLEGAL)

            room = limits.INBOX[last.role]
            await self._started[last].ask(DemoNode.pause)
            fill = [str(uuid4()) for _ in range(room)]
            filled = await self._started[mgr].ask(DemoNode.send, to=str(last), mtype="fill", uuids=fill)
            if any(filled["codes"]):
                self.report.problems.append(f"{last} did not take {room} messages unread: {filled['codes']}")
            self._due[last]["fill"] += fill
            busy = Code.RECV_BUF_BUSY
            kept = await self._send("full_inbox", "a full inbox", mgr, last, times=FULL_INBOX_SENDS, expect=busy)
            await self._started[last].ask(DemoNode.resume)
            # A refused message is not lost: its sender may send it again with the same uuid.
            await self._send("full_inbox_again", "the same again, once it reads", mgr, last, uuids=kept)
            await self._check_received()
            step.done("Refused with its code: a rank nobody has, a bad role, a full inbox")

    async def _recovery(self) -> None:
        report, mgr = self.report, self._started[Position.mgr()]
        position, workers = Position.proxy(self._nodes - 1), self._workers[-1]
        below = [*workers, Position.agent(self._nodes - 1)]
        old = self._started[position]
        with self._progress.step(f"Killing {position}") as step:
            await old.kill()
            step.doing(f"Starting {position} again")
            # The Mgr is not told of the restart: it resends until it is heard.
            reaching = asyncio.create_task(mgr.ask(DemoNode.reach, to=list(map(str, below)), timeout=REACH_S))
            try:
                (new,) = await self._start([position], listen=old.address, upstream=mgr.address)
                await new.ask(DemoNode.join, timeout=JOIN_S)
                reached = dict(zip(below, await reaching, strict=True))
            finally:
                reaching.cancel()
            for target, outcome in reached.items():
                if outcome["at"] is None:
                    report.problems.append(f"{target} was not reached within {REACH_S:.0f} s, but {outcome['code']}")
                elif (copies := len((await self._started[target].ask(DemoNode.received)).get("reach", ()))) != 1:
                    report.problems.append(f"{target} got the Mgr's message {copies} times")
            acknowledged = [at for worker in workers if (at := reached[worker]["at"]) is not None]
            if len(acknowledged) == len(workers):
                report.recovered_s = max(acknowledged) - new.started_at
                step.done(
                    f"{position} killed and back: {counted(len(workers), 'Worker')}, not restarted,"
                    f" reached in {report.recovered_s:.3f} s"
                )
            report.replaced = position

    async def _tree(self) -> None:
        report = self.report
        for position, process in self._started.items():
            if not process.address:
                continue
            report.addresses[position] = process.address
            told = await process.ask(DemoNode.routes)
            routes = {Position.parse(below): Position.parse(child) for below, child in told.items()}
            report.tree[position] = [child for child, hop in routes.items() if child == hop]
            at = range(self._nodes) if position.role == Role.MGR else [int(position.server_rank)]
            due = {below for node in at for below in self._below(node)} - {position}
            if routes.keys() != due:
                wrong = ", ".join(sorted(map(str, routes.keys() ^ due)))
                report.problems.append(f"{position} does not know the tree as it is: {wrong}")

    def _below(self, node: int) -> list[Position]:
        return [Position.proxy(node), Position.agent(node), *self._workers[node]]

    async def _start(
        self, positions: Sequence[Position], listen: str | None = None, upstream: str | None = None
    ) -> list[NodeProcess]:
        """Start nodes and wait until they run."""
        processes = []
        for position in positions:
            process = await self._fleet.start(position, listen=listen, upstream=upstream)
            processes.append(process)
            self._started[position] = process
        await asyncio.gather(*(process.started() for process in processes))
        return processes

    async def _send(
        self,
        name: str,
        title: str,
        sender: Position,
        to: Position,
        receivers: Sequence[Position] | None = None,
        times: int = 0,
        *,
        uuids: Sequence[str] = (),
        expect: Code = Code.OK,
    ) -> Sequence[str]:
        """Send one kind of message, one after another; returns their uuids."""
        if not uuids:
            times = times or (UNICAST_SENDS if expect is Code.OK else REFUSED_SENDS)
            uuids = [str(uuid4()) for _ in range(times)]
        sent = await self._started[sender].ask(DemoNode.send, to=str(to), mtype=name, uuids=uuids)
        if expect is Code.OK:
            for receiver in receivers or [to]:
                self._due[receiver][name] += uuids
        self.report.add(Sends.of(name, title, expect, sent["codes"], sent["us"]))
        return uuids

    async def _check_received(self) -> dict[Position, dict[str, list[str]]]:
        """Compare the messages received by every node so far with those sent to it."""
        received = await asyncio.gather(*(process.ask(DemoNode.received) for process in self._started.values()))
        by_position = dict(zip(self._started, received, strict=True))
        self.report.check_received(self._due, by_position)
        return by_position

    def _leave_out(self, what: str) -> None:
        self.report.left_out.append(what)


def workers_by_node(nodes: int, workers: int) -> list[list[Position]]:
    """The Workers of each node, with ranks in order and numbers as even as possible."""
    share, more = divmod(workers, nodes)
    sizes = [share + (node < more) for node in range(nodes)]
    ranks = iter(range(workers))
    return [[Position.worker(node, next(ranks)) for _ in range(size)] for node, size in enumerate(sizes)]
