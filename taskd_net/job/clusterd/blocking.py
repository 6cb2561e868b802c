"""`DLRecoverManager`: ClusterD's client for callers without an event loop (TaskD API reference, "断点续训相关接口")."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import weakref
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from taskd_net.base import fork, threads
from taskd_net.base.address import Address
from taskd_net.base.codes import ArgumentTypeError, NodeError, NodeForked
from taskd_net.base.logger import get_logger
from taskd_net.base.untrusted import shown
from taskd_net.job.clusterd import reports, rpcs
from taskd_net.job.clusterd.client import Client, ClusterdError, credentials
from taskd_net.job.clusterd.codes import Code, describe
from taskd_net.job.clusterd.controller import Controller, NoHandler, Ranks, call_of, carry_out, give_up, unknown_actions
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.clusterd.mindio import MindIO
from taskd_net.job.clusterd.pb import ClientInfo
from taskd_net.job.clusterd.place import PORT
from taskd_net.job.clusterd.reporter import Reporter, faults_of, has_continued, has_recovered, has_retry_failed
from taskd_net.job.decide.events import CHANGE_STRATEGY, KILL_MASTER, Event, Signal
from taskd_net.job.decide.orders import CONTINUE, EXIT, OpenFaults, Orders
from taskd_net.job.decide.traffic import Call
from taskd_net.net.wire import recover_pb2
from taskd_net.node.background import shared
from taskd_net.observe.job_view import ClusterdView

ORDERS_WAITING: Final = 16_384
"""Orders that wait for the application at most; ClusterD sends the next one after its machine has moved on."""

T = TypeVar("T")


class Info(Protocol):
    """The sender of a call: a `pb.ClientInfo`, or a generated one."""

    jobId: str
    role: str


class DLRecoverManager(Reporter):
    """A client of ClusterD. The functions `report_…` go through the last one that was made.

    Args:
        info: the job and the role; in Elastic-Agent's form TLS is on by default.
        server_addr: address of ClusterD, `host:port`; the port is 8899 where there is none.
        secure_conn: TLS; by default on for Elastic-Agent's form, and off for TaskD's.
        cert_path: PEM file with the certificate to trust; empty for those that the system trusts.
        controller: carries out the orders; by default MindIO's, if it is installed.
        killed: called in the thread of `start_subscribe` when ClusterD has sent killMaster.
        times: of the client.

    Raises:
        ArgumentError, ArgumentTypeError: the job or the role is of no use.
        ConfigError: the address or the file is of no use.

    Source: TaskD API reference; Elastic-Agent API reference.
    """

    def __init__(
        self,
        info: Info,
        server_addr: str,
        secure_conn: bool | None = None,
        cert_path: str = "",
        *,
        controller: Controller | None = None,
        killed: Callable[[], None] | None = None,
        times: ClusterdTimes = ClusterdTimes(),
    ) -> None:
        self._info = _on_wire(info)
        self._killed = killed
        super().__init__(self._info.jobId)
        if not isinstance(server_addr, str):
            raise ArgumentTypeError(f"server_addr is {shown(server_addr)}; expected a text such as 10.0.0.7:8899")
        self._address = address_of(server_addr)
        elastic = isinstance(info, ClientInfo) and info.is_elastic
        secure = elastic if secure_conn is None else secure_conn
        self._log = get_logger(clusterd=str(self._address), job=self._info.jobId)
        self._controller = MindIO.find(self._lost) if controller is None else controller
        self._orders = Orders()
        # A thread that reports sets it, the one that subscribes looks at it.
        self._decides_again = False
        # Orders with the number of their stream, and calls of the application.
        self._waiting: asyncio.Queue[tuple[Event | Call, int]] = asyncio.Queue(ORDERS_WAITING)
        self._times = times
        self._client = Client(
            self._address,
            self._info,
            self._arrived,
            credentials=credentials(cert_path) if secure else None,
            times=times,
            opened=self._opened,
            ended=self._ended,
        )
        # Only the loop's thread uses these.
        self._faults = OpenFaults()
        self._continuing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._changing = fork.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._user = object()
        self._closed = False
        self._running: asyncio.Task[None] | None = None
        self._calls: set[concurrent.futures.Future[Any]] = set()
        _open.add(self)
        _made.append(self)
        del _made[:-1]

    def register(self, request: Info) -> recover_pb2.Status:
        """Register the job at ClusterD.

        Args:
            request: the job and the role.

        Returns:
            The answer; code 0 is success.

        Raises:
            ClusterdError: there is no answer; its cause is gRPC's error.
        """
        return self._call(self._client.call(rpcs.REGISTER, _on_wire(request)))

    def init_clusterd(self) -> bool:
        """Call Init every 5 s until ClusterD has taken it.

        Returns:
            True; False where recovery is switched off for the job (403).

        Raises:
            NodeError: this client is closed, perhaps meanwhile.
        """
        return self._call(self._init())

    def start_subscribe(self, frame: str = "pytorch") -> None:
        """Subscribe to ClusterD's orders, and carry them out in this thread.

        It returns after `close`, or where recovery is switched off for the job (403). Orders are carried out one after
        another, each once; one that fails is reported as failed.

        Args:
            frame: the training framework, for the log.

        Raises:
            NodeError: this client is closed, or has subscribed before.
        """
        if not isinstance(frame, str):
            raise ArgumentTypeError(f"frame is {shown(frame)}; expected a text such as pytorch")
        self._call(self._begin())
        self._log.info("clusterd_subscribing", frame=frame)
        self._start_controller()
        try:
            while (order := self._next()) is not None:
                event, stream = order
                if isinstance(event, Signal):
                    self._handle(event, stream)
                elif isinstance(event, Call):
                    self._call_controller(event)
        finally:
            self._end_controller()

    def restart_controller(self) -> None:
        """Have the controller end and start again, after the orders so far, from any thread.

        Raises:
            NodeError: this client is closed.
        """
        self._call(self._waiting.put((Call("restart"), 0)))

    def statistics(self) -> ClusterdView:
        """The state and the counters of this client since it began, also after `close`."""
        return self._client.view()

    def close(self) -> None:
        """End every call of this client, and `start_subscribe`, from any thread. Idempotent."""
        if fork.forked():
            return
        with self._changing:
            if self._closed:
                return
            self._closed = True
            loop, self._loop = self._loop, None
        _open.discard(self)
        if loop is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), loop).result()
        threads.uninterrupted(partial(shared.release, self._user))

    def forked(self) -> None:
        """Take note that this is a forked child: it has no loop, and each call says so."""
        self._loop = None

    def _report(self, rpc: rpcs.Rpc[Any, recover_pb2.Status], request: Any) -> int:
        if (done := has_continued(request)) is not None:
            self._call(self._continued(done))
        if self._is_void(rpc, self._client.stream):
            self._client.counters.reports["void"] += 1
            self._log.info("clusterd_report_void", call=rpc.name)
            return Code.SERVER_INNER_ERROR
        self._decides_again = self._decides_again or has_retry_failed(request)
        return self._call(self._send(rpc, request))

    def _handle(self, signal: Signal, stream: int) -> None:
        """Carry out the new actions of a signal."""
        if self._decides_again:
            self._decides_again = False
            self._orders.decide_again()
        fresh = self._orders.fresh(signal)
        if signal.is_ghost:
            self._log.warning("clusterd_order_void", signal=signal.signal_type, ranks=sorted(signal.fault_ranks))
            return
        if fresh is None:
            self._client.counters.repeated += 1
            self._log.info("clusterd_order_repeated", signal=signal.signal_type, uuid=signal.uuid)
            return
        if signal.signal_type == KILL_MASTER:
            self._end_controller()
            if self._killed is not None:
                self._killed()
        elif not signal.actions:
            self._log.info("clusterd_order_without_actions", signal=signal.signal_type, uuid=signal.uuid)
        for action in unknown_actions(fresh):
            self._client.counters.unknown_actions += 1
            self._log.warning("clusterd_action_unknown", action=action)
        for action in fresh.actions:
            call = call_of(action, fresh)
            if call is None:
                continue
            self._ordered(call, stream)
            try:
                carry_out(self._controller, call, self)
            except Exception as error:  # noqa: BLE001 - the application's; reported
                self._client.counters.failed_actions += 1
                stack = None if isinstance(error, NoHandler) else error
                self._log.error("clusterd_action_failed", action=action, reason=repr(error), exc_info=stack)
                self._give_up(call, error)

    def _give_up(self, call: Any, error: Exception) -> None:
        try:
            give_up(call, str(error) or repr(error), self, nobody=isinstance(error, NoHandler))
        except (ClusterdError, NodeError) as failed:
            self._log.error("clusterd_report_failed", call=call.name, reason=str(failed))

    def _start_controller(self) -> None:
        if self._controller is None:
            self._log.warning("no_controller", reason="MindIO is not installed, and no other controller was given")
            return
        try:
            self._controller.start(self)
        except Exception as error:  # noqa: BLE001 - the application's; reported
            self._log.error("controller_failed", reason=repr(error), exc_info=error)
            self._controller = None

    def _call_controller(self, call: Call) -> None:
        try:
            carry_out(self._controller, call, self)
        except Exception as error:  # noqa: BLE001 - the application's; reported
            self._log.error("controller_failed", call=call.name, reason=repr(error), exc_info=error)

    def _lost(self, again: bool) -> None:
        """The training processes have lost MindIO's controller."""
        if again:
            with suppress(NodeError):
                self._call(self._waiting.put((Call("start"), 0)))

    def _end_controller(self) -> None:
        controller = self._controller
        if controller is None:
            return
        try:
            controller.close()
        except Exception as error:  # noqa: BLE001 - the application's; reported
            self._log.error("controller_failed", reason=repr(error), exc_info=error)

    async def _init(self) -> bool:
        """Call Init until it is taken. This and all coroutines below it belong to the background loop's thread."""
        while True:
            try:
                status = await self._client.call(rpcs.INIT, self._info)
            except ClusterdError as error:
                if self._closed:
                    raise
                self._log.warning("clusterd_lost", reason=str(error))
            else:
                if status.code in (Code.OK, Code.PROCESS_RESCHEDULE_OFF):
                    return status.code == Code.OK
                reason = describe(status.code, status.info)
                self._log.warning("clusterd_refused", call="Init", code=status.code, reason=reason)
            await asyncio.sleep(self._times.init)

    async def _begin(self) -> None:
        if self._running is not None:
            raise NodeError("this client has subscribed before; make a new one")
        self._running = asyncio.create_task(self._client.run(), name="subscribes to ClusterD")

    async def _continued(self, done: bool) -> None:
        self._faults.continued(done=done)
        self._bring_on()

    def _bring_on(self) -> None:
        """Bring a training on that ClusterD has stopped, and has forgotten; end it where it does not continue."""
        strategy = "" if self._closed else self._faults.strategy
        if strategy == CONTINUE and self._continuing:
            return
        self._continuing = strategy == CONTINUE
        if not strategy:
            return
        self._log.warning("stop_forgotten", strategy=strategy)
        if self._continuing:
            order = Signal("", CHANGE_STRATEGY, ("change_strategy",), change_strategy=strategy)
        else:
            order = Signal("", KILL_MASTER)
            self._faults.answered()
        self._spawn(self._waiting.put((order, 0)))

    async def _send(self, rpc: rpcs.Rpc[Any, recover_pb2.Status], request: Any) -> int:
        self._faults.reported(faults_of(request))
        if has_recovered(request):
            self._faults.answered()
        return (await self._client.report(rpc, request)).code

    def _opened(self) -> None:
        self._report_again(self._faults.begin())

    def _ended(self) -> None:
        self._faults.end()
        self._bring_on()

    def _report_again(self, ranks: Ranks) -> None:
        """Tell ClusterD of ranks that it has lost."""
        if not ranks:
            return
        self._log.info("clusterd_fault_reported", ranks=sorted(ranks))
        self._spawn(self._report_fault(reports.process_fault(self._job_id, ranks)))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _report_fault(self, request: recover_pb2.ProcessFaultRequest) -> None:
        try:
            await self._send(rpcs.PROCESS_FAULT, request)
        except ClusterdError as error:  # the next stream of signals is the next try
            self._log.error("clusterd_report_failed", call=rpcs.PROCESS_FAULT.name, reason=str(error))

    async def _arrived(self, event: Event) -> None:
        if isinstance(event, Signal):
            self._report_again(self._faults.take(event))
            if event.strategy == EXIT:  # carried out, also after the end of its stream
                self._faults.answered()
            self._bring_on()
        await self._waiting.put((event, self._client.stream))

    async def _next_order(self) -> tuple[Event | Call, int] | None:
        """The next order; None at the end."""
        running = self._running
        assert running is not None
        order = asyncio.ensure_future(self._waiting.get())
        try:
            await asyncio.wait({order, running}, return_when=asyncio.FIRST_COMPLETED)
            if order.done():
                return order.result()
        finally:
            order.cancel()
        if not running.cancelled() and (error := running.exception()) is not None:
            raise error
        return None

    async def _end(self) -> None:
        # The traceback of its end holds a call, and with grpcio 1.62 that call holds the connection open.
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.wait([running])
        await self._client.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for call in list(self._calls):
            call.cancel()

    def _next(self) -> tuple[Event | Call, int] | None:
        """Wait for the next order, in any thread; None at the end."""
        try:
            return self._call(self._next_order())
        except NodeError:
            if self._closed:
                return None
            raise

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the background loop, and wait for its end."""
        try:
            with self._changing:
                loop = self._ready()
                call = asyncio.run_coroutine_threadsafe(work, loop)
                self._calls.add(call)
        except NodeError:
            work.close()
            raise
        try:
            return call.result()
        except concurrent.futures.CancelledError:
            raise NodeError(_CLOSED) from None
        except ClusterdError as error:
            if self._closed:
                raise NodeError(_CLOSED) from error
            raise
        except BaseException:  # Ctrl-C
            call.cancel()
            raise
        finally:
            self._calls.discard(call)

    def _ready(self) -> asyncio.AbstractEventLoop:
        if fork.forked():
            raise NodeForked(fork.REASON)
        if self._closed:
            raise NodeError(_CLOSED)
        if shared.runs_here():
            raise NodeError("a call from the background thread would wait for itself")
        if self._loop is None:
            fork.protect(self)
            user = self._user
            self._loop = threads.uninterrupted(partial(shared.acquire, user), partial(shared.release, user))
        return self._loop


_CLOSED: Final = "the client of ClusterD is closed"


def address_of(text: str) -> Address:
    """The address of ClusterD in a text, with ClusterD's port where it has none.

    Raises:
        ConfigError: it is none.
    """
    bare = ":" not in text or text.endswith("]")
    return Address.parse(f"{text}:{PORT}" if bare else text, "server_addr")


def _on_wire(info: Info) -> recover_pb2.ClientInfo:
    if isinstance(info, ClientInfo):
        return info.on_wire()
    job, role = getattr(info, "jobId", None), getattr(info, "role", None)
    return reports.client_info(job, role)


def last_made() -> DLRecoverManager | None:
    """The client that was made last; None before the first."""
    return _made[-1] if _made else None


_made: Final[list[DLRecoverManager]] = []
_open: Final[weakref.WeakSet[DLRecoverManager]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for manager in list(_open):
        manager.close()
