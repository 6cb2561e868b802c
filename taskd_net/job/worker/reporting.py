"""Reports of a Worker to the Mgr."""

from __future__ import annotations

import asyncio
import itertools
import math
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple
from uuid import uuid4

from taskd_net.base.body import Body
from taskd_net.base.codes import describe
from taskd_net.base.limits import STRESS_TEST_S, SWITCH_NIC_S
from taskd_net.base.vocabulary import ACTION, EPOCH_STATE, PROFILING_STATES, STATUS, STRESS_TEST, SWITCH_NIC
from taskd_net.core.frame import Ack
from taskd_net.job.exchange import MGR, REGISTER_EVERY_S, RETRY_S
from taskd_net.job.member import Refused, log
from taskd_net.net.retry import Retry, repeat
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.node import Node

REPORTS_WAITING: Final = 256
"""Reports of `send_to_manager(wait=False)` that wait for the Mgr at most: some minutes of training steps."""

_ANSWERED_WITHIN: Final = {SWITCH_NIC: SWITCH_NIC_S, STRESS_TEST: STRESS_TEST_S}
"""Seconds for which the answer to an operation matters to a Mgr, by code: it waits for those of other Workers."""


async def report_until_taken(node: Node, body: Body, mtype: str, retry: float) -> None:
    """Send one report until the Mgr has it, with one uuid, so that it arrives once. `retry`: seconds between tries."""
    send = partial(node.send, body.to_json(), to=MGR, mtype=mtype, uuid=str(uuid4()), wait=False)
    await node.joined()
    if not (ack := await send()).ok:
        log.warning("report_not_taken", node=str(node.position), code=body.code, reason=describe(ack.code))
        await asyncio.sleep(retry)
        await repeat(send, itertools.repeat(retry))
    log.debug("report_taken", node=str(node.position), code=body.code)


class WorkerReports:
    """The reports of a Worker's application to the Mgr. None delays a training step for long.

    The first report without an Ack costs its caller the timeout. Later calls fail at once, until the Mgr has
    acknowledged a registration sent in the background: an answer from end to end, over every kind of link.

    Args:
        node: the Worker's node.
        registration: what the Worker registers with.
        mtype: the kind of message.
        repeat: seconds between two registrations.
        retry: seconds before a registration, or what follows it, is sent again.
    """

    def __init__(
        self,
        node: BlockingNode,
        registration: Body,
        mtype: str,
        *,
        repeat: float = REGISTER_EVERY_S,
        retry: float = RETRY_S,
    ) -> None:
        self._repeat = repeat
        self._retry = retry
        self._node = node
        self._registration = registration
        self._mtype = mtype
        self._away = ""  # or the reason of the report that was not taken
        self._missed = asyncio.Event()
        # Reports without a waiting caller; a SimpleQueue among them is notified at its turn.
        self._waiting: deque[_WaitingReport | SimpleQueue[None]] = deque()
        # Reports to repeat after a REGISTER, by kind, with the time until which each matters.
        self._lasting: dict[str, tuple[Body, float]] = {}
        self._posted = asyncio.Event()
        self._lost = 0
        self._loop: asyncio.AbstractEventLoop
        node.beside(self._begin)

    def send(self, body: Body, timeout: float) -> None:
        """Send one report, and again with the same uuid where that may help.

        Args:
            body: what it says.
            timeout: seconds for all of it.

        Raises:
            Refused: the Mgr has not acknowledged it.
        """
        self.remember(body)
        if self._away:
            text = f"the Mgr has not taken an earlier report ({self._away})"
            raise Refused(f"{text}; this one was not tried, and none is before it can be reached again")
        ack = self._node.send(body.to_json(), to=MGR, mtype=self._mtype, timeout=timeout, retry=_within(timeout))
        if not ack.ok:
            self._not_taken(ack)
            raise Refused(f"the Mgr has not got it: {_reason(ack)}")

    def post(self, body: Body, timeout: float) -> None:
        """Have a report sent in the background, behind those that wait already.

        Args:
            body: what it says.
            timeout: seconds until it is given up.

        Raises:
            Refused: too many wait already, or the Worker is being destroyed.
        """
        if len(self._waiting) >= REPORTS_WAITING:
            raise Refused(f"{REPORTS_WAITING} reports wait for the Mgr already")
        self.remember(body)
        self._waiting.append(_WaitingReport(body.code, body.to_json(), time.monotonic() + timeout))
        if not self._in_loop(self._posted.set):
            raise Refused("the Worker is being destroyed")

    def close(self, seconds: float) -> None:
        """Send the waiting reports, for a bounded time, while the Mgr takes them. Close the node after this."""
        done: SimpleQueue[None] = SimpleQueue()
        if self._waiting and not self._away:
            self._waiting.append(done)
            if self._in_loop(self._posted.set):
                with suppress(Empty):
                    done.get(timeout=seconds)
        lost = self._lost + sum(isinstance(waiting, _WaitingReport) for waiting in self._waiting)
        if lost:
            log.warning("reports_lost", node=str(self._node.position), count=lost)

    def remember(self, body: Body) -> None:
        """Repeat a report after each REGISTER. A Mgr may have lost it: a state, an answer, a part in an epoch."""
        if body.msg_type == STATUS and body.code in PROFILING_STATES:
            self._lasting[STATUS] = (body, math.inf)
        elif body.msg_type == STATUS and body.code == EPOCH_STATE:
            self._lasting[f"{STATUS} {EPOCH_STATE}"] = (body, math.inf)
        elif body.msg_type == ACTION and body.code in _ANSWERED_WITHIN:
            self._lasting[f"{ACTION} {body.code}"] = (body, time.monotonic() + _ANSWERED_WITHIN[body.code])

    async def stay_registered(self, node: Node) -> None:
        """Register with the Mgr, and repeat it from time to time, as a restarted Mgr has lost its registrations.

        Nothing else would tell: behind a Proxy, a node's own link outlives the Mgr.
        """
        while True:
            await self._register(node)
            await asyncio.sleep(self._repeat)

    def _not_taken(self, ack: Ack) -> None:
        """Look for the Mgr, unless the report itself was wrong."""
        if ack.code >= 5000:
            self._away = _reason(ack)
            self._in_loop(self._missed.set)

    def _in_loop(self, callback: Callable[[], None]) -> bool:
        """Schedule a callback in the node's thread; False if that has ended."""
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            return False
        return True

    def _begin(self, node: Node) -> Coroutine[Any, Any, None]:
        """Begin to send. This and all below it belongs to the node's thread."""
        self._loop = asyncio.get_running_loop()
        return self._run(node)

    async def _run(self, node: Node) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look(node))
            tasks.create_task(self._send_waiting(node))

    async def _look(self, node: Node) -> None:
        """Register with the Mgr when it has not taken a report, until it takes that."""
        while True:
            await self._missed.wait()
            self._missed.clear()
            since = time.monotonic()
            await self._register(node)
            lost, self._lost, self._away = self._lost, 0, ""
            seconds = round(time.monotonic() - since, 3)
            log.info("manager_back", node=str(node.position), seconds=seconds, count=lost)

    async def _register(self, node: Node) -> None:
        """Register, and repeat what an original Mgr forgets with each REGISTER."""
        await report_until_taken(node, self._registration, self._mtype, self._retry)
        told: list[Body] = []
        while (report := self._untold(told)) is not None:
            # The application may report another state meanwhile; the Mgr gets the last one last.
            ack = await node.send(report.to_json(), to=MGR, mtype=self._mtype, wait=False)
            if ack.code < 5000:
                told.append(report)
            else:
                await asyncio.sleep(self._retry)

    def _untold(self, told: Sequence[Body]) -> Body | None:
        """A report that matters, and that the Mgr has not been told."""
        now = time.monotonic()
        for body, until in list(self._lasting.values()):
            if until > now and all(body is not other for other in told):
                return body
        return None

    async def _send_waiting(self, node: Node) -> None:
        """Send the reports without a waiting caller, one after another, so that they arrive in order."""
        while True:
            await self._posted.wait()
            self._posted.clear()
            while self._waiting:
                first = self._waiting[0]
                if isinstance(first, _WaitingReport):
                    await self._send_one(node, first)
                else:
                    first.put(None)
                self._waiting.popleft()

    async def _send_one(self, node: Node, report: _WaitingReport) -> None:
        left = report.until - time.monotonic()
        if left <= 0:
            self._lost += 1
            return
        ack = await node.send(report.text, to=MGR, mtype=self._mtype, timeout=left, retry=_within(left))
        if not ack.ok:
            self._lost += 1
            if not self._away:  # the first one only: a line per message is no help
                log.warning("report_not_taken", node=str(node.position), code=report.code, reason=_reason(ack))
            self._not_taken(ack)


class _WaitingReport(NamedTuple):
    """A report without a waiting caller, and the time at which it is given up."""

    code: int
    text: str
    until: float


def _within(seconds: float) -> Retry:
    """As many attempts as the time allows."""
    return Retry(attempts=sys.maxsize, within=seconds)


def _reason(ack: Ack) -> str:
    return f"{describe(ack.code)}{': ' + ack.detail if ack.detail else ''}"
