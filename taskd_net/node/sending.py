"""Messages that the application sends, each until its answer."""

from __future__ import annotations

import asyncio
import math
import os
import time

from taskd_net.base import fork, limits
from taskd_net.base.codes import ArgumentError, ArgumentTypeError, Code, NodeClosed, NodeForked, Refusal
from taskd_net.base.position import Position, destination
from taskd_net.base.untrusted import shown
from taskd_net.core.frame import Ack
from taskd_net.core.uuids import Uuids
from taskd_net.net.links.answers import awaited
from taskd_net.net.retry import Retry, require_retry
from taskd_net.net.wire.codec import Message, write_message
from taskd_net.node.driver import Driver


class Sender:
    """The sending side of one node.

    Args:
        driver: the node's.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._config = driver.config
        self._uuids = Uuids(os.urandom(8).hex(), os.urandom)

    async def send(
        self,
        body: object,
        to: Position | str,
        mtype: object,
        timeout: float | None,
        uuid: str | None,
        *,
        sync: bool,
        wait: bool,
    ) -> Ack:
        """Send a message and await its Ack; see `Node.send` for the arguments and errors."""
        driver, dst, timeout = self._driver, destination(to), self.seconds(timeout)
        uuid = uuid or self._uuids.next(dst)
        if not driver.running:
            if fork.forked():
                raise NodeForked(fork.REASON)
            text = "the node is closed" if driver.closed else "the node was not started"
            return Ack(uuid, Code.CLIENT_ERR, self._config.position, text, 0)
        if body is None:
            return Ack(uuid, Code.NIL_MESSAGE, self._config.position, "body is None", 0)
        if not isinstance(body, str) or not isinstance(mtype, str):
            text = f"body and mtype are text; got {type(body).__name__} and {type(mtype).__name__}"
            raise ArgumentTypeError(text)
        if not isinstance(uuid, str):
            raise ArgumentTypeError(f"uuid is {shown(uuid)}; expected a text")
        try:
            message = Message(uuid, mtype, sync, self._config.position, dst, time.time_ns() // 1_000_000, body)
            frame = write_message(message)
        except Refusal as refusal:
            return Ack(uuid, refusal.code, self._config.position, refusal.detail, 0)
        answer: asyncio.Future[Ack] = asyncio.get_running_loop().create_future()

        end = None
        if driver.tracer is not None:
            frame, end = driver.tracer.sent(frame)

        def answered(ack: Ack) -> None:
            if end is not None:
                end(ack.code, ack.src)
            if not answer.done():
                answer.set_result(ack)

        token = driver.request(answered)
        driver.perform(driver.router.submit(driver.now(), frame, token, timeout, wait))
        try:
            return await answer
        except asyncio.CancelledError:
            if answer.cancelled():  # not answered meanwhile
                driver.perform(driver.router.cancel(token))
            raise

    async def send_again(
        self,
        body: object,
        to: Position | str,
        mtype: object,
        timeout: float | None,
        uuid: str | None,
        retry: Retry,
        *,
        wait: bool,
    ) -> Ack:
        """Send a message as often as `retry` says, with one uuid."""
        dst, each = destination(to), self.seconds(timeout)
        require_retry(retry)
        same = uuid or self._uuids.next(dst)
        return await retry.run(lambda left: self.send(body, to, mtype, min(each, left), same, sync=True, wait=wait))

    async def withdraw(self, timeout: float) -> bool:
        """Take this node out of the routes of the mesh. Returns whether the parent has confirmed it in time."""
        driver, waits = self._driver, seconds(timeout)
        token, answer = awaited(driver)
        driver.perform(driver.router.withdraw(token, self._uuids.next(None)))
        await asyncio.wait([answer], timeout=waits)
        return answer.done() and answer.result().ok

    def probing(self, to: Position | str, timeout: float | None) -> tuple[Position, float]:
        """The destination and the seconds of a probe; see `Node.ping` for the errors."""
        if not self._driver.running:
            raise NodeForked(fork.REASON) if fork.forked() else NodeClosed(f"{self._config.position} is not running")
        return destination(to), self.seconds(timeout)

    def seconds(self, timeout: object) -> float:
        """A timeout in seconds, by default the configured one."""
        return self._config.ack_timeout if timeout is None else seconds(timeout)


def seconds(timeout: object, name: str = "timeout") -> float:
    """A timeout in seconds, a day at most.

    Args:
        timeout: of the caller.
        name: of the caller's argument.

    Raises:
        ArgumentTypeError: it is no number.
        ArgumentError: it is no number of seconds, such as NaN.
    """
    if not isinstance(timeout, int | float):
        raise ArgumentTypeError(f"{name} is not a number of seconds, but {shown(timeout)}")
    try:
        number = float(timeout)
    except OverflowError:
        number = math.nan
    if math.isnan(number):
        raise ArgumentError(f"{name} is not a number of seconds, but {shown(timeout)}")
    return min(number, limits.TIMEOUT_MAX_S)
