"""A Worker's own answers to the Mgr's commands: a thin shell around `duties.Duties`, which decides.

Decisions, KEEP_ALIVEs and answers belong to the node's thread. Device calls run in a thread of their own, one at a
time. Nothing can end a call that does not return: its thread is left alone, and further calls fail until it returns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final

from taskd_net.base import threads
from taskd_net.base.body import Body
from taskd_net.base.codes import NodeError
from taskd_net.job.exchange import Heartbeat, ReportQueue
from taskd_net.job.frameworks.kind import TrainingFramework
from taskd_net.job.member import log
from taskd_net.job.worker import devices
from taskd_net.job.worker.duties import Action, DeviceOutcome, Duties, DutyIgnored, MakeCall, SendAnswer, keep_alive
from taskd_net.node.blocking import BlockingNode
from taskd_net.node.node import Node

BEAT_S: Final = 1.0
"""Seconds between two KEEP_ALIVEs of a Worker during a stress test, as TaskD's. A Mgr gives it up after 3 s."""


class Attendant:
    """The built-in answers of one Worker.

    Args:
        node: the Worker's node.
        rank: its global rank.
        framework: its training framework.
        mtype: the kind of its messages.
        remember: is told each answer, so that it is repeated after a REGISTER.
        beat: seconds between two KEEP_ALIVEs during a stress test.
    """

    def __init__(
        self,
        node: BlockingNode,
        rank: int,
        framework: TrainingFramework,
        mtype: str,
        remember: Callable[[Body], None],
        beat: float = BEAT_S,
    ) -> None:
        self._beat_s = beat
        self._framework = framework
        self._mtype = mtype
        self._remember = remember
        self._duties = Duties(rank)
        self._call = 0  # the number of the device call that is waited for
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._testing = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._outbox: ReportQueue
        node.beside(self._begin)

    def take(self, body: Body) -> None:
        """Answer a command; from any thread."""
        with suppress(RuntimeError):  # closed meanwhile
            self._loop.call_soon_threadsafe(self._take, body)

    def _begin(self, node: Node) -> Coroutine[Any, Any, None]:
        """Begin to answer. This and all below it belongs to the node's thread."""
        self._loop = asyncio.get_running_loop()
        self._outbox = ReportQueue(node, self._mtype)
        return self._run(node)

    async def _run(self, node: Node) -> None:
        heartbeat = Heartbeat(node, self._mtype)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._outbox.run())
                tasks.create_task(self._beat(heartbeat))
        finally:
            heartbeat.close()
            if self._timer is not None:
                self._timer.cancel()

    async def _beat(self, heartbeat: Heartbeat) -> None:
        while True:
            await self._testing.wait()
            heartbeat.beat(keep_alive())
            await asyncio.sleep(self._beat_s)

    def _take(self, body: Body) -> None:
        log.info("command", code=body.code, msg_type=body.msg_type)
        self._perform(self._duties.take(body))

    def _perform(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case MakeCall():
                    self._start(action)
                case SendAnswer(body):
                    self._remember(body)
                    self._outbox.put(body)
                case DutyIgnored(reason):
                    log.info("command_ignored", reason=reason)
        if self._duties.testing:
            self._testing.set()
        else:
            self._testing.clear()

    def _start(self, run: MakeCall) -> None:
        self._call += 1
        number = self._call
        if self._busy:
            log.error("device_call_failed", reason="an earlier one has not returned")
            self._loop.call_soon(self._ended, number, DeviceOutcome.FAILED)
            return
        self._busy = True
        self._timer = self._loop.call_later(run.seconds, self._ended, number, DeviceOutcome.TIMEOUT)

        def work() -> None:
            outcome = devices.perform(self._framework, run.call)
            with suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(self._returned, number, outcome)

        try:
            threads.start(work, "taskd_net device", application=True)
        except NodeError as error:
            log.error("device_call_failed", reason=str(error))
            self._loop.call_soon(self._returned, number, DeviceOutcome.FAILED)

    def _returned(self, number: int, outcome: DeviceOutcome) -> None:
        self._busy = False
        self._ended(number, outcome)

    def _ended(self, number: int, outcome: DeviceOutcome) -> None:
        if number != self._call:
            return  # it has ended before, by its time
        self._call += 1
        if self._timer is not None:
            self._timer.cancel()
        log.info("device_call_ended", outcome=outcome.name.lower())
        self._perform(self._duties.ended(outcome))
