"""Stacks of a job's ranks, collected from the Agents of its nodes, and kept in files.

A person asks for them, or the Manager itself for a job that stands still. Each node is asked once in `PAUSE_S`: the
stacks of a rank cost it some milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from uuid import uuid4

from taskd_net.base import vocabulary
from taskd_net.base.body import Body
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.logger import Logger
from taskd_net.base.position import Position
from taskd_net.base.stacks import StackGroup, joined, named, read_stacks, words
from taskd_net.base.untrusted import natural
from taskd_net.job.decide.events import Reported
from taskd_net.job.decide.records import JOB_NODES, Records
from taskd_net.node.node import Node

PAUSE_S: Final = 30.0
"""Seconds between two collections at one node."""

COLLECT_S: Final = 5.0
"""Seconds for the answers of all nodes: a rank has one for its stack, and 1,000 messages take less than another."""

FILES: Final = 10
"""Files that are kept, the last ones."""

FILE_BYTES: Final = 4 * 1024 * 1024
"""Bytes of a file: some 1,000 different stacks."""

_MTYPE: Final = "default"
_NUMBER_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Collected:
    """A collection.

    Args:
        groups: ranks with equal stacks.
        silent: nodes whose Agent has not answered.
        file: it, as a text; empty where none could be written.
        at: its beginning, by the monotonic clock.
    """

    groups: list[StackGroup]
    silent: list[int]
    file: str
    at: float

    def of(self, ranks: Collection[int]) -> Collected:
        """The same of some ranks; of all without a list."""
        if not ranks:
            return self
        parts = [(each, {rank: pid for rank, pid in each.pids.items() if rank in ranks}) for each in self.groups]
        return replace(self, groups=[replace(each, pids=pids) for each, pids in parts if pids])


class StackCollector:
    """The collections of one Manager, in the node's event loop.

    Args:
        node: the Mgr.
        state: the file of the Manager's state, beside which those of stacks are, with its name in front; None for none.
        log: the Manager's.
    """

    def __init__(self, node: Node, state: Path | None, log: Logger) -> None:
        self._node = node
        self._state = state
        self._log = log
        self._asked: dict[int, float] = {}
        self._whole: Collected | None = None  # the last collection of all ranks
        self._waits: dict[str, dict[int, asyncio.Future[list[StackGroup]]]] = {}

    async def collect(self, records: Records, ranks: Collection[int], why: str, *, fresh: bool = False) -> Collected:
        """Collect the stacks of ranks; of all without a list. Those of all do for `PAUSE_S`, and are not asked again.

        Args:
            records: of the job's Agents.
            ranks: global ranks.
            why: who wants it, for the file.
            fresh: for the Manager itself, which asks also where a person has asked a moment ago.

        Raises:
            Refusal: 5001, a node was asked within `PAUSE_S`.
        """
        nodes, now = _nodes_of(records, ranks), time.monotonic()
        if not fresh and self._whole is not None and now < self._whole.at + PAUSE_S:
            return self._whole.of(ranks)
        for node in () if fresh else nodes:
            if (left := self._asked.get(node, -PAUSE_S) + PAUSE_S - now) > 0.0:
                text = f"node {node} was asked {PAUSE_S - left:.0f} s ago; a node is asked once in {PAUSE_S:g} s"
                raise Refusal(Code.RECV_BUF_BUSY, text)
        self._asked |= dict.fromkeys(nodes, now)
        name = uuid4().hex
        self._waits[name] = waits = {node: asyncio.get_running_loop().create_future() for node in nodes}
        try:
            sends = [asyncio.create_task(self._ask(node, name, ranks)) for node in nodes]
            if waits:
                await asyncio.wait(waits.values(), timeout=COLLECT_S)
            for send in sends:
                send.cancel()
            await asyncio.gather(*sends, return_exceptions=True)
        finally:
            del self._waits[name]
        answered = {node: wait.result() for node, wait in waits.items() if wait.done()}
        groups = joined(group for each in answered.values() for group in each)
        silent = sorted(waits.keys() - answered.keys())
        file = await asyncio.to_thread(self._keep, groups, silent, why)
        self._log.info("stacks_collected", nodes=len(nodes), silent=len(silent), file=file, reason=why)
        found = Collected(groups, silent, file, now)
        if nodes and not ranks:
            self._whole = found
        return found

    def take(self, report: Reported) -> None:
        """Take in the answer of an Agent. One to no collection that is under way is left alone."""
        node = natural(report.src.server_rank, JOB_NODES)
        wait = self._waits.get(report.message, {}).get(-1 if node is None else node)
        if wait is not None and not wait.done():
            wait.set_result(read_stacks(report.extension.get(vocabulary.STACKS_TEXT, "")) or [])

    async def _ask(self, node: int, name: str, ranks: Collection[int]) -> None:
        body = Body(vocabulary.ACTION, vocabulary.STACKS_WANTED, _listed(ranks), {vocabulary.COLLECTION: name})
        await self._node.send(body.to_json(), to=Position.agent(node), mtype=_MTYPE, wait=False)

    def _keep(self, groups: Iterable[StackGroup], silent: list[int], why: str) -> str:
        """Write a file, and remove the oldest ones. Returns its path; empty where it could not be written."""
        if self._state is None:
            return ""
        at = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        lines = [f"stacks of {at} UTC: {why}", *words(groups)]
        lines += [f"no answer came from the Agents of nodes {','.join(map(str, silent))}"] if silent else []
        for group in groups:
            for stack in group.others:
                lines += [f"another thread of {named(group.ranks[:1])}:", *words([StackGroup({}, stack=stack)])[1:]]
        prefix = f"{self._state.stem}-stacks-"
        path = self._state.with_name(f"{prefix}{at}.txt")
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write("\n".join([*lines, ""]).encode()[:FILE_BYTES])
            written = (each for each in path.parent.iterdir() if each.name.startswith(prefix))
            for old in sorted(written)[:-FILES]:
                with contextlib.suppress(FileNotFoundError):
                    old.unlink()
        except OSError as error:
            self._log.warning("stacks_not_written", file=str(path), reason=str(error))
            return ""
        return str(path)


def is_answer(report: Reported) -> bool:
    """True for the stacks of an Agent's ranks."""
    return report.msg_type == vocabulary.STATUS and report.code == vocabulary.STACKS


def _listed(ranks: Collection[int]) -> str:
    return f"[{','.join(map(str, sorted(ranks)))}]"


def _nodes_of(records: Records, ranks: Collection[int]) -> list[int]:
    """The nodes to ask: all whose Agents collect stacks; those of the ranks, where each Agent says how many it has."""
    nodes = [
        node
        for node, agent in sorted(records.agents.items())
        if not agent.exited and records.left(node) is None and records.has_feature(node, vocabulary.SHOWS_STACKS)
    ]
    first, places = 0, {}
    for node in range(len(records.agents)):
        size = natural(records.said_ready(node, vocabulary.LOCAL_WORLD), _NUMBER_MOST)
        if size is None:
            return nodes
        places[node] = range(first, first + size)
        first += size
    return [node for node in nodes if not ranks or any(rank in places.get(node, ()) for rank in ranks)]
