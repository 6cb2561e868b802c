"""The services of a listening node beside its links: reports of its children, and questions of anyone.

A question needs no place in the tree, so that a full node, a standby or a caller without a place can be asked. On the
wire the calls have the names of three services (`proto/status.proto`, `proto/probe.proto`, `proto/job.proto`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from functools import partial
from typing import Final, NoReturn, Protocol

import grpc

from taskd_net.base.address import Address
from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position, Role
from taskd_net.base.states import State
from taskd_net.core.certificate_name import ANY
from taskd_net.core.identity import Violation
from taskd_net.core.links import UP, Link
from taskd_net.core.routes import LinkId
from taskd_net.net.links.grpc_calls import GONE, STATUS_SERVICE, Context, caller_of
from taskd_net.net.links.remote import Caller, Remote
from taskd_net.net.links.session import Host
from taskd_net.net.links.turns import Turns
from taskd_net.observe import probe_codec as probes
from taskd_net.observe import status_codec as wire
from taskd_net.observe.job_codec import read_stacks_request, write_job
from taskd_net.observe.job_view import JobView
from taskd_net.observe.probe_codec import About, Echo, ProbeSeries
from taskd_net.observe.prober import Prober, one_node
from taskd_net.observe.shared_answer import SharedAnswer
from taskd_net.observe.view import View
from taskd_net.version import __version__

REPORTS_PER_S: Final = 50
"""Reports of figures a second that a parent takes from all its children together: it asks them to make longer pauses
where they are many. A report with ten nodes costs it some 0.3 ms (`benchmarks/status.py`), so all of them cost some 2 %
of a core, for any number of children. Changes of state are sent at once."""

REPORT_COPIES: Final = 4
"""Times that the bytes of a report count towards its child's quota of bytes while it waits. So the reports of all
children together have an eighth of the memory of all, or little more, also where a thousand of one process wait."""

TURN_BYTES: Final = 16 * 1024
"""Bytes of reports that are read before messages have their turn: some 5 ms of the smallest entries. A larger report
goes alone."""

REPORTS_AT_ONCE: Final = 4
"""Reports of one child under way. A child of this package has one, and two for a moment when it changes connections."""

PROBE_INTERVAL_S: Final = 0.01
"""Least seconds from one probe of a series to the next: a hundred a second harm nobody, a loop without pause might."""

PROBE_SERIES: Final = 256
"""Series of probes that a node sends at a time for those who ask it to; more are told to come later."""

PROBE_SERIES_PER_CALLER: Final = 4
"""Series of one connection: endless ones of a stranger must not keep others from theirs."""

PROBE_SERIES_AT_FULL_RATE: Final = 4
"""Series that may each use the shortest interval. Where more run, each makes that much longer pauses, so that all
together send no more: 400 probes a second take some 6 % of a core."""

PROBE_SERVICE: Final = "taskd_net.probe.Probe"
JOB_SERVICE: Final = "taskd_net.job.JobStatus"


class Observed(Host, Protocol):
    """The node that answers.

    Attributes:
        job_view: gives the state of the job's Manager; None where this node has none.
        job_stacks: collects the stacks of ranks for somebody; None where this node has no Manager.
        standby: of a Mgr that stands by, the Manager that leads; empty for others.
    """

    job_view: Callable[[], JobView] | None
    job_stacks: Callable[[Collection[int], str], Awaitable[bytes]] | None
    standby: str


class NodeService:
    """The answers of one node.

    Args:
        host: the node.
        view: the state of the mesh.
        listen: the address that the node listens at.
    """

    def __init__(self, host: Observed, view: View, listen: Address) -> None:
        self._host = host
        self._view = view
        self._listen = listen
        self._child: Callable[[Context, Caller], Link]
        self._prober = Prober(host)
        self._turns = Turns(TURN_BYTES)
        # Reports under way, by child.
        self._telling: Counter[LinkId] = Counter()
        # Series of probes that run, by the caller's connection.
        self._running: Counter[Remote] = Counter()
        self._tree = SharedAnswer(host.now, self._look_at_tree)
        self._job = SharedAnswer(host.now, self._look_at_job)
        self._closing = asyncio.Event()

    @property
    def pace(self) -> float:
        """Seconds between two reports of one child, if every child reports."""
        return len(self._host.router.children) / REPORTS_PER_S

    def handlers(self, child: Callable[[Context, Caller], Link]) -> Sequence[grpc.GenericRpcHandler]:
        """The handlers for the node's server.

        Args:
            child: the child that makes a call, or raises a Refusal.
        """
        self._child = child
        unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
        status: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Tell": unary(self._tell),
            "Tree": unary(self._answer_tree),
            "Forget": unary(self._forget),
        }
        probe: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Ping": stream(self._ping),
            "Trace": stream(self._trace),
            "About": unary(self._about),
        }
        job: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Look": unary(self._answer_job),
            "CollectStacks": unary(self._collect_stacks),
        }
        return (
            grpc.method_handlers_generic_handler(STATUS_SERVICE, status),
            grpc.method_handlers_generic_handler(PROBE_SERVICE, probe),
            grpc.method_handlers_generic_handler(JOB_SERVICE, job),
        )

    def close(self) -> None:
        """End each series of probes after its next answer: a server waits for its streams."""
        self._closing.set()

    async def _tell(self, data: bytes, context: Context) -> bytes:
        host, caller = self._host, caller_of(context)
        if caller is None:
            return GONE
        try:
            return await self.report(data, partial(self._child, context, caller))
        except Violation as violation:
            host.perform(host.router.report_violation(caller.remote.place, violation))
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(violation))
        except Refusal as refusal:
            busy = refusal.code == Code.RECV_BUF_BUSY
            status = grpc.StatusCode.RESOURCE_EXHAUSTED if busy else grpc.StatusCode.INVALID_ARGUMENT
            await context.abort(status, str(refusal))

    async def report(self, data: bytes, child: Callable[[], Link]) -> bytes:
        """Take in a child's report. Returns the pace of further ones.

        Args:
            data: the report.
            child: the child that reports, or raises a Refusal.

        Raises:
            Refusal: 5001 it has too many under way, or their bytes are beyond its quota; the codes of `read_report`.
        """
        link = child()
        try:
            async with self._turn_of(link, len(data)):
                # Another peer may have taken the place of the child meanwhile.
                self._view.told(child(), wire.read_report(data))
        except Violation:
            raise
        except Refusal as refusal:
            if refusal.code != Code.RECV_BUF_BUSY:
                self._host.log.warning("status_refused", child=str(link.position), detail=str(refusal))
            raise
        seconds = self._view.reporters / REPORTS_PER_S
        return wire.write_pace(max(self._host.times.figures, seconds))

    @contextlib.asynccontextmanager
    async def _turn_of(self, link: Link, size: int) -> AsyncIterator[None]:
        """Charge a child for a report, and wait until it may be read."""
        if self._telling[link.id] >= REPORTS_AT_ONCE:
            text = f"{link.position} has {self._telling[link.id]} reports under way"
            raise Refusal(Code.RECV_BUF_BUSY, text)
        quota, cost = link.quota, REPORT_COPIES * size
        assert quota is not None
        if not quota.fits(cost):
            raise Refusal(Code.RECV_BUF_BUSY, f"too many bytes of reports of {link.position} wait here")
        self._telling[link.id] += 1
        quota.add(0, cost)
        try:
            pause = self._view.charge(link, size)
            if pause:
                await asyncio.sleep(pause)
            # Reports over a direct link come together, and one of the largest takes 15 ms.
            await self._turns.take(size)
            yield
        finally:
            quota.add(0, -cost)
            self._telling[link.id] -= 1
            if not self._telling[link.id]:
                del self._telling[link.id]

    async def _answer_tree(self, _: bytes, __: Context) -> bytes:
        return await self._tree.get()

    async def _look_at_tree(self) -> bytes:
        view = self._view
        await view.look_in_parts()
        return wire.write_mesh(self._host.router.identity, view.wall(), view.expected, view.records())

    async def _answer_job(self, _: bytes, context: Context) -> bytes:
        data = await self._job.get()
        if not data:
            await self._refuse_without_manager(context)
        return data

    async def _refuse_without_manager(self, context: Context) -> NoReturn:
        node = self._host.router.identity
        text = "decides nothing: it has no --job-id, or its Manager has not begun"
        if self._host.standby:
            text = f"decides nothing: it is a {self._host.standby}"
        text = f"{node} {text if node.role == Role.MGR else 'has no Manager: ask the Mgr'}"
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, text)
        raise AssertionError("abort raises")

    async def _collect_stacks(self, data: bytes, context: Context) -> bytes:
        caller, collect = caller_of(context), self._host.job_stacks
        if caller is None:
            return GONE
        if not self._may_collect(caller):
            text = f"{self._host.router.identity} collects stacks for those who ask on its own machine"
            text += ", or with a certificate of the Agents of all nodes"
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, text)
        if collect is None:
            await self._refuse_without_manager(context)
        try:
            return await collect(read_stacks_request(data), f"asked for from {caller.remote.place}")
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        except Refusal as refusal:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(refusal))

    def _may_collect(self, caller: Caller) -> bool:
        """True for a caller who may see the stacks of all ranks: they name the files and functions of a script."""
        if caller.remote.is_of_this_machine(self._listen):
            return True
        job, everywhere = self._host.router.membership.job_id, Position.agent(ANY)
        return any(name.covers(job, everywhere) for name in caller.names() or ())

    async def _look_at_job(self) -> bytes:
        """The state of the job; empty where this node has no Manager."""
        look = self._host.job_view
        return b"" if look is None else write_job(look())

    async def _forget(self, data: bytes, context: Context) -> bytes:
        host, view, router = self._host, self._view, self._host.router
        caller = caller_of(context)
        if caller is None:
            return GONE
        if not caller.remote.is_of_this_machine(self._listen):
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

    async def _ping(self, data: bytes, context: Context) -> None:
        try:
            series = probes.read_ping(data)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._send(self._pings(series), context)

    async def _trace(self, data: bytes, context: Context) -> None:
        try:
            to, timeout = probes.read_trace(data)
            to = one_node(to)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        await self._send(self._prober.trace(to, timeout), context)

    async def _about(self, _: bytes, context: Context) -> bytes:
        upstream = self._host.links.get(UP)
        parent = None if upstream is None else upstream.peer
        router = self._host.router
        about = About(router.position, __version__, time.time_ns(), parent, router.membership.job_id)
        return probes.write_about(about)

    async def _pings(self, series: ProbeSeries) -> AsyncIterator[Echo]:
        loop = asyncio.get_running_loop()
        sent = 0
        while True:
            began = loop.time()
            yield await self._prober.ping(series.to, series.timeout)
            sent += 1
            if sent == series.count:
                return
            share = max(1.0, self._running.total() / PROBE_SERIES_AT_FULL_RATE)
            pause = max(series.interval, PROBE_INTERVAL_S * share)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(began + pause - loop.time()):
                    await self._closing.wait()

    async def _send(self, echoes: AsyncIterator[Echo], context: Context) -> None:
        """Write each answer to the caller as it comes."""
        caller, most = caller_of(context), PROBE_SERIES_PER_CALLER
        if caller is None:
            return
        connection = caller.remote
        if self._running[connection] >= most or self._running.total() >= PROBE_SERIES:
            text = f"this node sends {most} series of probes for this connection already, or too many for others"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, text)
        self._running[connection] += 1
        try:
            async for echo in echoes:
                await context.write(probes.write_echo(echo))
                if self._closing.is_set():
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the node is closing")
        finally:
            self._running[connection] -= 1
            self._running += Counter()  # drops those without a series
