"""The rank of a node: the job's Manager gives it to a launcher that has none, and keeps two launchers from having one.

A launcher asks before its Agent joins, by a place of its own in the mesh, as tools do. It keeps that place, so the
Manager sees that it lives, and says its rank again after each join: another Manager may be there.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final
from uuid import uuid4

from taskd_net.base import vocabulary
from taskd_net.base.address import Address
from taskd_net.base.body import Body
from taskd_net.base.codes import ArgumentError, NodeClosed, TaskdNetError
from taskd_net.base.untrusted import natural, shown
from taskd_net.job.member import log
from taskd_net.net.free_position import tool_position
from taskd_net.net.tls.files import Tls
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.config import NodeConfig
from taskd_net.node.node import Node
from taskd_net.observe.client import AskFailed, NodeClient, NoManager

ASK_S: Final = 180.0
"""Seconds for an answer: as long as an Agent has to join, which is the start of a job's other pods."""

CLAIM_S: Final = 5.0
"""Seconds for the answer to a launcher that has a rank. Without a Manager nobody else runs its node."""

TELL_S: Final = 30.0
"""Seconds between two lines about the wait."""

ANSWER_S: Final = 4.0
"""Seconds after which a request without an answer is sent again. The Manager asks other launchers for 2 s."""

BEGIN_S: Final = 10.0
"""Seconds after a join in which a Mgr may begin its Manager. It listens before: half a second on a busy machine."""

LATE_S: Final = 5.0
"""Seconds without a join between two looks for a later attempt of the job."""

AGAIN_S: Final = 0.5
"""Seconds between two looks at the place in the mesh."""

STOPPED_S: Final = 1.0
"""Seconds by which such a pause is longer in a process that was stopped. Another launcher may have its rank then."""


class NoRank(TaskdNetError):
    """The Manager has given no rank; the text says why."""


class NoAnswer(NoRank):
    """No Manager has answered in time."""


@contextmanager
def held_rank(
    upstream: str,
    job_id: str,
    tls: Tls | None,
    rank: int | None,
    lost: Callable[[NoRank], object],
    *,
    host: str | None = None,
    nodes: int = 0,
    late: Callable[[], str] = str,
    seconds: float | None = None,
    answered: bool = False,
) -> Iterator[int]:
    """The rank of this node, for as long as the block lasts.

    Args:
        upstream: address of the Mgr.
        job_id: of the job; empty for none.
        tls: files of the node.
        rank: that it has; None for one that the Manager gives.
        lost: called in another thread where the answer comes later, and somebody else runs this node.
        host: name of this host; None for its own.
        nodes: number of nodes that the launcher was started for; 0: any.
        late: gives the reason why this launcher comes too late; empty where it does not. A thread asks it while the Mgr
            does not take this node.
        seconds: for an answer.
        answered: an answer is needed, also for a node that has a rank.

    Raises:
        NoRank: another launcher runs this node, all ranks are taken, the job has another size, or this node is late.
        NoAnswer: the Manager does not answer in time.
    """
    place = tool_position(None, tls)
    config = NodeConfig.agent(
        server_rank=place.server_rank, upstream=upstream, job_id=job_id or None, service=True, tls=tls
    )
    claim = _Claim(
        upstream, tls, host or socket.gethostname(), rank, nodes, late, lost, needs_answer=answered or rank is None
    )
    with BlockingNode(config) as node:
        node.beside(claim.hold)
        given = claim.first((ASK_S if rank is None else CLAIM_S) if seconds is None else seconds, lambda: node.trouble)
        yield given
        with suppress(NodeClosed):
            node.withdraw(1.0)


class _Claim:
    """The claim of a launcher on a rank.

    Args:
        upstream, tls, host, rank, nodes, late, lost: as of `held_rank`.
        needs_answer: it is an error where none comes in time.
    """

    def __init__(
        self,
        upstream: str,
        tls: Tls | None,
        host: str,
        rank: int | None,
        nodes: int,
        late: Callable[[], str],
        lost: Callable[[NoRank], object],
        *,
        needs_answer: bool,
    ) -> None:
        self._upstream = upstream
        self._tls = tls
        self._host = host
        self._rank = rank
        self._nodes = nodes
        self._late = late
        self._lost = lost
        self._needs_answer = needs_answer
        self._key = uuid4().hex
        self._answered: SimpleQueue[int | NoRank] = SimpleQueue()
        self._is_first = True
        self._begins_by = 0.0

    def first(self, seconds: float, trouble: Callable[[], str] = str) -> int:
        """Wait for the first answer. A launcher with a rank goes on without one, unless it needs it.

        Args:
            seconds: the time at most.
            trouble: gives the reason why this node has not joined; empty for none.

        Raises:
            NoRank: the Manager has refused.
            NoAnswer: it does not answer in time.
        """
        until, rank = time.monotonic() + seconds, self._rank
        wait = min(1.0, seconds)
        while (left := until - time.monotonic()) > 0.0:
            try:
                answer = self._answered.get(timeout=min(wait, left))
            except Empty:
                if rank is None:
                    reason = trouble()
                    log.warning("waits_for_rank", address=self._upstream, reason=reason, seconds_left=round(left))
                wait = TELL_S
                continue
            if isinstance(answer, NoRank):
                raise answer
            return answer
        if rank is None or self._needs_answer:
            what = "given this node a rank" if rank is None else "answered"
            why = f": {trouble()}" if trouble() else ""
            raise NoAnswer(f"no Manager at {self._upstream} has {what} within {seconds:g} s{why}")
        self._is_first = False
        return rank

    async def hold(self, node: Node) -> None:
        """Say the rank after each join, and after a stop of this process, in the node's loop."""
        asked = answered = 0
        with suppress(NodeClosed):
            while True:
                if not node.is_joined and (reason := await self._await_join(node)):
                    self._tell(NoRank(reason))
                    return
                if (now := node.joins) != answered:
                    if now != asked:
                        asked, self._begins_by = now, time.monotonic() + BEGIN_S
                    answered = now if await self._ask(node) else answered
                since = time.monotonic()
                await asyncio.sleep(AGAIN_S)
                if time.monotonic() - since > AGAIN_S + STOPPED_S:
                    asked = answered = 0

    async def _await_join(self, node: Node) -> str:
        """Wait for a join. Returns the reason why there will be none; empty after a join."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LATE_S):
                    await node.joined()
                    return ""
            if reason := await asyncio.to_thread(self._late):
                return reason

    async def _ask(self, node: Node) -> bool:
        """Ask once. Returns whether there is an answer, or none will come."""
        if (can := await self._can_answer()) is not True:
            if can is False and self._rank is None:
                self._tell(NoRank(f"the Manager at {self._upstream} gives no ranks; expected --node-rank"))
            elif can is False:
                self._tell(self._rank)
            return can is False
        extension = {vocabulary.HOST: self._host, vocabulary.PID: str(os.getpid())}
        extension |= {} if self._rank is None else {vocabulary.RANK: str(self._rank)}
        extension |= {vocabulary.NODES: str(self._nodes)} if self._nodes else {}
        body = Body(vocabulary.NODE_RANK, 0, self._key, extension)
        if not (await node.send(body.to_json(), to="Mgr", timeout=ANSWER_S)).ok:
            return False
        try:
            async with asyncio.timeout(ANSWER_S):
                answer = Body.parse((await node.receive()).body)
            self._rank = read_rank(answer)
        except TimeoutError:
            return False
        except NoRank as refused:
            self._tell(refused)
        else:
            self._tell(self._rank)
        return True

    async def _can_answer(self) -> bool | None:
        """True for a Manager that knows such requests; None where that is not known.

        An earlier one would take the place of the launcher for a node of the job.
        """
        try:
            async with NodeClient(Address.parse(self._upstream), ANSWER_S, self._tls) as client:
                return bool((await client.job()).restarts)
        except NoManager:
            return None if time.monotonic() < self._begins_by else False
        except AskFailed as error:
            return None if error.implemented else False

    def _tell(self, answer: int | NoRank | None) -> None:
        assert answer is not None
        if self._is_first:
            self._is_first = False
            self._answered.put(answer)
        elif isinstance(answer, NoRank):
            self._lost(answer)


def read_rank(answer: Body) -> int:
    """The rank in the Manager's answer.

    Raises:
        NoRank: it has given none.
        ArgumentError: the answer is none.
    """
    if reason := answer.extension.get(vocabulary.REASON):
        raise NoRank(reason)
    rank = natural(answer.message, 2**31 - 1) if answer.code == vocabulary.RANK_GIVEN else None
    if rank is None:
        raise ArgumentError(f"the Manager answers {shown(answer.message)} with code {answer.code}; expected a rank")
    return rank
