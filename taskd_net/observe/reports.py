"""The status service (`proto/status.proto`): a child's reports to its parent, and the answer to whoever asks.

A report is one short call on the connection that the child has anyway, one at a time: a parent that is slow to answer
gets fewer. What changes while one is under way is told in the next.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Final

import grpc

from taskd_net import limits
from taskd_net.address import Address
from taskd_net.codes import Refusal
from taskd_net.core.identity import Violation
from taskd_net.core.links import Link
from taskd_net.links import peer as peers
from taskd_net.links.connections import host_of, is_of_this_machine
from taskd_net.links.host import Host
from taskd_net.links.session import Context
from taskd_net.observe import status_codec as wire
from taskd_net.position import Role
from taskd_net.states import State
from taskd_net.transport.channel import STATUS_SERVICE

_URGENT_SHARE: Final = 20
"""Where a parent asks for longer pauses between figures, changes of state are gathered for this part of them."""


class Reporter:
    """Tells the parent, for one stay with it.

    Args:
        host: the node.
        channel: to the parent, of the moment.
        timeout: seconds for the parent's answer.
        parent: what kind of peer it is.
    """

    def __init__(self, host: Host, channel: Callable[[], grpc.aio.Channel], timeout: float, parent: peers.Peer) -> None:
        self._host = host
        self._view = host.view
        self._channel = channel
        self._timeout = timeout
        self._parent = parent
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Tell the parent, until it is cancelled or the parent takes no reports any more."""
        view, ledger = self._view, self._view.ledger
        loop = asyncio.get_running_loop()
        if Role(self._host.router.position.role).is_leaf:
            # Thousands that join together have nothing to tell that would be worth delaying them all: that they have
            # joined the parent sees.
            await asyncio.sleep(random.uniform(0.0, self._parent.pace))  # noqa: S311 - to spread them
        view.changed = self._news.set
        ledger.begin(ends=self._parent.ends)
        pace = limits.STATUS_FIGURES_S
        figures_at = loop.time()
        try:
            while True:
                urgent = self._news.is_set()
                self._news.clear()
                if loop.time() >= figures_at:
                    await view.look_in_parts()
                    figures_at = loop.time() + pace
                # Not until nothing is left: what children tell meanwhile waits for the next time.
                for _ in range(ledger.reports):
                    pace = await self._tell(urgent=urgent)
                await self._wait(figures_at, max(limits.STATUS_URGENT_S, pace / _URGENT_SHARE))
        finally:
            view.changed = _nothing
            ledger.end()

    async def _wait(self, until: float, gather: float) -> None:
        """Wait until it is time for figures, or something has happened."""
        try:
            async with asyncio.timeout_at(until):
                await self._news.wait()
            await asyncio.sleep(gather)
        except TimeoutError:
            pass

    async def _tell(self, *, urgent: bool) -> float:
        """Tell what is next. Returns the pace that the parent asks for."""
        ledger = self._view.ledger
        report = ledger.next_report(urgent=urgent)
        tell: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel().unary_unary(f"/{STATUS_SERVICE}/Tell")
        try:
            answer = await tell(
                wire.write_report(report),
                metadata=peers.stream_metadata(self._host.router.identity),
                timeout=self._timeout,
            )
            return max(limits.STATUS_FIGURES_S, wire.read_pace(answer))
        except (grpc.aio.AioRpcError, Refusal) as error:
            # Whether it has arrived nobody knows: tell everything again, after a while.
            text = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.aio.AioRpcError) else str(error)
            self._host.log.warning("status_not_taken", reason=text)
            ledger.begin(ends=self._parent.ends)
            await asyncio.sleep(limits.STATUS_FIGURES_S)
            return limits.STATUS_FIGURES_S


class StatusService:
    """The parent's side, and the answer to whoever asks.

    Args:
        host: the node.
        expected: the size of the job, as text; empty where it is not known.
        reporting: the child that makes a call, or raises a Violation.
        listen: where the node listens.
    """

    def __init__(self, host: Host, expected: str, reporting: Callable[[Context], Link], listen: Address) -> None:
        self._host = host
        self._view = host.view
        self._expected = expected
        self._reporting = reporting
        self._listen = listen

    @property
    def pace(self) -> float:
        """Seconds between two reports of one child, if all children send them."""
        return len(self._host.router.children) / limits.STATUS_REPORTS_PER_S

    def handlers(self) -> dict[str, grpc.RpcMethodHandler[bytes, bytes]]:
        """The calls of the service."""
        return {
            "Tell": grpc.unary_unary_rpc_method_handler(self._tell),
            "Tree": grpc.unary_unary_rpc_method_handler(self._tree),
            "Forget": grpc.unary_unary_rpc_method_handler(self._forget),
        }

    async def _tell(self, data: bytes, context: Context) -> bytes:
        host, child = self._host, ""
        try:
            link = self._reporting(context)
            child = str(link.position)
            self._view.told(link, wire.read_report(data))
        except Violation as violation:
            host.perform(host.router.report_violation(host_of(context.peer()), violation))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(violation))
        except Refusal as refusal:
            host.log.warning("status_refused", child=child, detail=str(refusal))
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
        return wire.write_pace(max(limits.STATUS_FIGURES_S, self._view.reporters / limits.STATUS_REPORTS_PER_S))

    async def _tree(self, _: bytes, context: Context) -> bytes:
        view = self._view
        await view.look_in_parts()
        return wire.write_mesh(self._host.router.identity, view.wall(), self._expected, view.records())

    async def _forget(self, data: bytes, context: Context) -> bytes:
        host, view, router = self._host, self._view, self._host.router
        if not is_of_this_machine(context.peer(), self._listen):
            text = f"{router.identity} forgets nodes only for those who ask on its own machine"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)
        try:
            position = wire.read_forget(data)
        except Refusal as refusal:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))
        await view.look_in_parts()
        # Nothing is awaited between the look at the node and the end of it.
        state, name = view.state_of(position), str(position)
        if state is State.JOINED or position == router.identity:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{name} is connected, and was not forgotten")
        known = position in router.routes or router.children.find(position) is not None
        if not known and view.ledger.find(name) is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{name} is not known at {router.identity}")
        host.perform(router.forget(position))
        view.forget(position)
        host.log.info("forgotten", position=name, state=None if state is None else state.value)
        return wire.write_forgotten(state)


def _nothing() -> None:
    pass
