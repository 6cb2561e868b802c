"""The connection to ClusterD: calls, and the streams of orders, for as long as `run` runs.

`life` decides on each step; this module does it. One connection at a time: each attempt gets a channel of its own, so
gRPC's back-off does not add to ours.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from taskd_net.base import limits
from taskd_net.base.address import Address
from taskd_net.base.bounded_file import read_file
from taskd_net.base.codes import ConfigError, NodeError, TaskdNetError
from taskd_net.base.logger import get_logger
from taskd_net.base.untrusted import shown
from taskd_net.job.clusterd import orders, rpcs
from taskd_net.job.clusterd.codes import Code, describe
from taskd_net.job.clusterd.life import ClusterdTimes, Life, LifeStep
from taskd_net.job.clusterd.operations import OPERATIONS
from taskd_net.job.clusterd.rpcs import Rpc
from taskd_net.job.decide import events
from taskd_net.job.decide.events import Event, Signal
from taskd_net.job.decide.plugins.actions import IN_PLACE
from taskd_net.net.joining.channel import open_channel
from taskd_net.net.wire import datatrace_pb2, recover_pb2
from taskd_net.observe.job_view import AWAY, OFF, SUBSCRIBED, ClusterdView

RequestT = TypeVar("RequestT", bound=Message)
UnaryCall: TypeAlias = "grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]"
StreamCall: TypeAlias = "grpc.aio.UnaryStreamMultiCallable[bytes, bytes]"

_CALLS: Final = {LifeStep.INIT: rpcs.INIT, LifeStep.REGISTER: rpcs.REGISTER, LifeStep.HEALTH_CHECK: rpcs.HEALTH_CHECK}
_TAKEN_OVER: Final = ("taken over",)


class ClusterdError(TaskdNetError):
    """A call of ClusterD has no answer. gRPC's own error is the cause.

    Attributes:
        status: gRPC's status; None where the answer cannot be read, or the client is closed.
    """

    def __init__(self, text: str, status: grpc.StatusCode | None = None) -> None:
        super().__init__(text)
        self.status = status


async def _nothing() -> None:
    """Do nothing when the client has registered."""


class Client:
    """A client of ClusterD for one job, in one event loop. `run` it in a task, cancel that, and `close`.

    Args:
        address: of ClusterD.
        info: the job and the role.
        take: takes each order; orders wait in ClusterD meanwhile.
        credentials: for TLS; None for plain text.
        operations: subscribe to switches of cards, stress tests and the profiling switch too, as a Manager does.
        off_again, times: as for `Life`.
        registered: is awaited before each stream of signals begins.
        opened: is called when a stream of signals has begun. ClusterD knows nothing of what was reported before.
        ended: is called when the stream of signals has ended, or is given up.

    Attributes:
        counters: what has happened so far.
    """

    def __init__(
        self,
        address: Address,
        info: recover_pb2.ClientInfo,
        take: Callable[[Event], Awaitable[None]],
        *,
        credentials: grpc.ChannelCredentials | None = None,
        operations: bool = False,
        off_again: float | None = None,
        times: ClusterdTimes = ClusterdTimes(),
        registered: Callable[[], Awaitable[None]] = _nothing,
        opened: Callable[[], None] = lambda: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.address = address
        self.counters = ClusterdCounters()
        self._info = info
        self._take = take
        self._credentials = credentials
        self._operations = operations
        self._registered = registered
        self._opened = opened
        self._ended = ended
        self._times = times
        self._life = Life(off_again, times)
        self._log = get_logger(clusterd=str(address), job=info.jobId)
        self._channel: grpc.aio.Channel | None = None
        self._streams: list[asyncio.Task[None]] = []
        self._under_way: set[str] = set()
        self._has_switch = False
        # Calls whose answer is missing.
        self._answers: set[asyncio.Future[None]] = set()
        self._ending: dict[asyncio.Task[None], grpc.aio.Channel] = {}
        self._closed = False
        self._stale = False
        # The last Init of this connection was answered.
        self._initialized = asyncio.Event()
        self._settled = 0.0
        self._fragile = 0.0
        self._round_over = False
        self._said: tuple[object, ...] = ()
        self._refused = ""

    @property
    def stream(self) -> int:
        """Number of the stream of signals that stands; 0 for none. ClusterD's machine is reset between two of them."""
        return self.counters.streams if self._life.is_reading else 0

    @property
    def profiling(self) -> bool:
        """True while ClusterD has the profiling switch: its stream stands beside the signals, or has brought one.

        Without signals (403) a stream that says nothing does not count: ClusterD may serve it to no such job.
        """
        return self._has_switch or (self._life.is_reading and rpcs.PROFILING.name in self._under_way)

    def view(self) -> ClusterdView:
        """The state and the counters of this client at this moment."""
        subscribed = self._life.is_reading and bool(self._streams)
        state = SUBSCRIBED if subscribed else OFF if self._life.is_off else AWAY
        return self.counters.view(str(self.address), state, self._refused)

    async def call(
        self, rpc: Rpc[RequestT, recover_pb2.Status], request: RequestT, seconds: float | None = None
    ) -> recover_pb2.Status:
        """Make one call.

        Args:
            rpc: its method.
            request: its request.
            seconds: for its answer; None for that of `times`.

        Raises:
            ClusterdError: there is no answer in time.
        """
        if rpc is rpcs.PROCESS_FAULT:
            await asyncio.sleep(self._settled - time.monotonic())
        if self._closed:
            raise ClusterdError(f"{rpc.name}: the client is closed")
        outcome = "unanswered"
        try:
            status = await self._answer(rpc, request, self._times.call if seconds is None else seconds)
            outcome = "sent" if status.code == Code.OK else "refused"
            return status
        finally:
            if rpc in rpcs.REPORTS:
                self.counters.reports[outcome] += 1

    async def report(self, rpc: Rpc[RequestT, recover_pb2.Status], request: RequestT) -> recover_pb2.Status:
        """Make a report. If ClusterD does not take it, register, and make it once more.

        Raises:
            ClusterdError: there is no answer in time.
        """
        status = await self.call(rpc, request, self._times.report)
        if status.code == Code.OK:
            return status
        await self.call(rpcs.REGISTER, self._info)
        return await self.call(rpc, request, self._times.report)

    async def read(self, rpc: Rpc[RequestT, Any], request: RequestT, take: Callable[[bytes], Awaitable[None]]) -> None:
        """Read one stream until its end. It has no deadline, and ends with `close` at the latest.

        Args:
            rpc: its method.
            request: its request.
            take: takes each message as bytes; the next ones wait in ClusterD meanwhile.

        Raises:
            ClusterdError: it has broken.
        """
        if self._closed:
            raise ClusterdError(f"{rpc.name}: the client is closed")
        call: StreamCall = self._open().unary_stream(rpc.path)
        stream = call(request.SerializeToString())
        self._under_way.add(rpc.name)
        try:
            async for content in stream:
                await take(content)
        except grpc.aio.AioRpcError as error:
            raise _error(rpc, self.address, error) from error
        except asyncio.CancelledError:
            raise self._given_up(rpc) from None
        finally:
            self._under_way.discard(rpc.name)

    async def close(self) -> None:
        """End every call and stream, at once or `times.fragile` after an order to recover in place.

        Idempotent.
        """
        self._closed = True
        await self._drop()
        for ending, channel in list(self._ending.items()):
            ending.cancel()
            await channel.close()

    async def _answer(
        self, rpc: Rpc[RequestT, recover_pb2.Status], request: RequestT, seconds: float
    ) -> recover_pb2.Status:
        call: UnaryCall = self._open().unary_unary(rpc.path)
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._answers.add(answered)
        try:
            answer = await call(request.SerializeToString(), timeout=seconds)
            return recover_pb2.Status.FromString(answer)
        except grpc.aio.AioRpcError as error:
            raise _error(rpc, self.address, error) from error
        except DecodeError as error:
            raise ClusterdError(f"{rpc.name} at {self.address}: the answer cannot be read") from error
        except asyncio.CancelledError:
            raise self._given_up(rpc) from None
        finally:
            self._answers.discard(answered)
            answered.set_result(None)

    def _given_up(self, rpc: Rpc[Any, Any]) -> BaseException:
        """The error for a call that was cancelled: that of the task, or of the channel, whose end cancels its calls."""
        task = asyncio.current_task()
        if task is None or task.cancelling():
            return asyncio.CancelledError()
        return ClusterdError(f"{rpc.name} at {self.address}: the connection was given up")

    def _open(self) -> grpc.aio.Channel:
        if self._channel is None:
            try:
                self._channel = open_channel(self.address, self._credentials, None, pings=True)
            except NodeError as error:
                raise ClusterdError(str(error)) from None
        return self._channel

    async def _drop(self) -> None:
        """End the streams, and the connection. Another call may open a next one, which waits for gRPC's own pause."""
        self._stale = True
        self._initialized.clear()
        self._has_switch = False
        await self._end_streams()
        channel, self._channel = self._channel, None
        if channel is not None:
            ending = asyncio.create_task(_end(channel, set(self._answers), self._times.report))
            self._ending[ending] = channel
            ending.add_done_callback(self._ending.pop)

    async def _end_streams(self) -> None:
        """End the stream of signals and those beside it; the profiling switch has one of its own."""
        if self._streams:
            # ClusterD ends where the stream does so too early after its order to recover in place.
            await asyncio.wait(self._streams[:1], timeout=max(self._fragile - time.monotonic(), 0.0))
        streams, self._streams = self._streams, []
        for stream in streams:
            stream.cancel()
        if streams:
            self._ended()
            await asyncio.wait(streams)

    async def run(self) -> None:
        """Keep the subscription, until recovery turns out to be switched off, or the task is cancelled."""
        # ClusterD serves it to jobs without recovery too.
        profiling = asyncio.create_task(self._keep(rpcs.PROFILING)) if self._operations else None
        try:
            while True:
                step, at = self._life.next
                if await self._broken(at - time.monotonic()):
                    continue
                if step is LifeStep.END:
                    return
                await self._do(step)
        finally:
            if profiling is not None:
                profiling.cancel()
                await asyncio.wait([profiling])
            await self._drop()

    async def _broken(self, seconds: float) -> bool:
        """Wait; True as soon as the stream of signals has ended, which is said to `life`."""
        if not self._life.is_reading:
            await asyncio.sleep(max(seconds, 0.0))
            return False
        signals = self._streams[0]
        await asyncio.wait([signals], timeout=max(seconds, 0.0))
        if not signals.done():
            return False
        await self._stream_ended(signals)
        return True

    async def _do(self, step: LifeStep) -> None:
        now = time.monotonic
        if step is LifeStep.CONNECT:
            if await self._can_connect():
                self._life.reached(now())
            else:
                self._life.failed(now(), step, unreachable=True)
            return
        if step is LifeStep.SUBSCRIBE:
            await self._subscribe()
            return
        if step is LifeStep.INIT and self._stale:
            await self._drop()
            self._stale = False
        try:
            status = await self.call(_CALLS[step], self._info)
        except ClusterdError as error:
            if step is LifeStep.HEALTH_CHECK and self._streams[0].done():
                await self._stream_ended(self._streams[0])
                return
            if self._is_news("lost", str(error)):
                self._log.warning("clusterd_lost", reason=str(error))
            await self._drop()
            self._life.failed(now(), step, unreachable=error.status is grpc.StatusCode.UNAVAILABLE)
            return
        if status.code != Code.OK and self._is_news(step, status.code):
            if status.code == Code.PROCESS_RESCHEDULE_OFF and step is LifeStep.INIT:
                self._log.warning("clusterd_recovery_off", reason=describe(status.code, status.info))
            else:
                call, reason = _CALLS[step].name, describe(status.code, status.info)
                self._log.warning("clusterd_refused", call=call, code=status.code, reason=reason)
        if step is LifeStep.HEALTH_CHECK and status.code != Code.OK:
            await self._drop()
        if step is LifeStep.INIT:
            self._initialized.set()
        if step is not LifeStep.HEALTH_CHECK:
            is_refused = status.code not in (Code.OK, Code.PROCESS_RESCHEDULE_OFF)
            self._refused = (
                f"{_CALLS[step].name} {status.code}, {describe(status.code, status.info)}" if is_refused else ""
            )
        self._life.answered(now(), step, status.code)

    async def _subscribe(self) -> None:
        await self._registered()
        streams = [asyncio.create_task(self._orders(rpcs.SIGNALS, self._info), name="reads signals of ClusterD")]
        if self._operations:
            beside = [each.orders for each in OPERATIONS]
            streams += [asyncio.create_task(self._keep(rpc), name=f"reads {rpc.name}") for rpc in beside]
        self._streams = streams
        self.counters.streams += 1
        self.counters.rounds += self._round_over
        now, self._round_over = time.monotonic(), False
        self._settled = now + self._times.settled
        self._life.opened(now)
        self._opened()
        # Two clients that take the stream from each other are said once.
        if self._said != _TAKEN_OVER and self._is_news("subscribed"):
            self._log.info("clusterd_subscribed")

    async def _stream_ended(self, signals: asyncio.Task[None]) -> None:
        error = signals.exception()
        if error is None:
            await self._end_streams()
            self._round_over = self._life.over(time.monotonic())
            if self._round_over:
                self._log.info("clusterd_round_over")
            elif self._is_news(*_TAKEN_OVER):
                self._log.warning("clusterd_taken_over", reason="another client of this job has subscribed, it seems")
            return
        if not isinstance(error, ClusterdError):
            raise error
        await self._drop()
        if self._is_news("lost", str(error)):
            self._log.warning("clusterd_lost", reason=str(error))
        self._life.ended(time.monotonic(), unreachable=error.status is grpc.StatusCode.UNAVAILABLE)

    async def _can_connect(self) -> bool:
        """True where something listens at the address."""
        try:
            async with asyncio.timeout(self._times.look):
                _, writer = await asyncio.open_connection(self.address.host, self.address.port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    async def _keep(self, rpc: Rpc[Any, Any]) -> None:
        """Read a stream beside the signals; open it again after a pause, while the connection stands.

        ClusterD ends it with OK together with the signals, and may end one that it has just begun.
        """
        request = rpc.request(jobId=self._info.jobId, role=self._info.role)
        breaks, said = 0, ""
        while True:
            if rpc is rpcs.PROFILING:
                await self._initialized.wait()
            before, reason = self.counters.orders, ""
            try:
                await self._orders(rpc, request)
            except ClusterdError as error:
                reason = str(error)
                if error.status is grpc.StatusCode.UNIMPLEMENTED:
                    self._log.info("clusterd_stream_unknown", stream=rpc.name)
                    return
            finally:
                if rpc is rpcs.PROFILING:
                    self._has_switch = False
            breaks = 1 if self.counters.orders > before else breaks + 1
            if breaks == 1 and not reason:
                await asyncio.sleep(self._times.settled)
                continue
            reason = reason or "ClusterD has ended the stream again and again"
            if breaks == 1 or reason != said:
                self._log.info("clusterd_stream_lost", stream=rpc.name, reason=reason)
                said = reason
            pause = breaks * self._times.pause
            await asyncio.sleep(min(pause, self._times.pause_most))

    async def _orders(self, rpc: Rpc[Any, Any], request: Message) -> None:
        await self.read(rpc, request, functools.partial(self._arrived, rpc))

    async def _arrived(self, rpc: Rpc[Any, Any], content: bytes) -> None:
        try:
            message: orders.Message = rpc.answer.FromString(content)
            job = orders.job_of(message)
            event = orders.read(message) if job in (None, "", self._info.jobId) else None
        except (DecodeError, ValueError) as error:
            self.counters.dropped["unreadable"] += 1
            self._log.warning("clusterd_order_unreadable", stream=rpc.name, reason=str(error))
            return
        if rpc is rpcs.SIGNALS:
            self._life.heard()
        if event is None:
            self.counters.dropped["foreign"] += 1
            self._log.warning("clusterd_order_of_another_job", stream=rpc.name, other=job)
        elif isinstance(event, Signal) and event.signal_type == events.KEEP_ALIVE:
            self.counters.dropped["keep-alive"] += 1
        else:
            self._has_switch = self._has_switch or isinstance(message, datatrace_pb2.DataStatusRes)
            self.counters.orders += 1
            if rpc is rpcs.SIGNALS:
                if isinstance(event, Signal) and event.strategy and IN_PLACE in event.extra_params:
                    self._fragile = time.monotonic() + self._times.fragile
                self._life.ordered()
                self._said = () if self._said == _TAKEN_OVER else self._said
            await self._take(event)

    def _is_news(self, *state: object) -> bool:
        """True where the connection's state differs from the last one: a state that lasts is said once."""
        news, self._said = state != self._said, state
        return news


async def _end(channel: grpc.aio.Channel, answers: Collection[asyncio.Future[None]], seconds: float) -> None:
    """End a connection. Reports that ClusterD may have taken get their answers before."""
    if answers:
        await asyncio.wait(answers, timeout=seconds)
    await channel.close()


def _error(rpc: Rpc[Any, Any], address: Address, error: grpc.aio.AioRpcError) -> ClusterdError:
    status = error.code()
    return ClusterdError(f"{rpc.name} at {address}: {status.name}: {error.details() or ''}", status)


@dataclass(slots=True)
class ClusterdCounters:
    """Events of a client since it began.

    Args:
        orders: messages that were handed on.
        repeated: those of them that had come before.
        dropped: messages that were not handed on, by reason: `keep-alive`, `foreign`, `unreadable`.
        unknown_actions: actions of signals that this release does not know.
        failed_actions: actions whose controller or handler has raised, or does not exist.
        reports: attempts at reports and results, by outcome: `sent`, `refused`, `unanswered`; `void` ones are not sent.
        streams: streams of signals that were opened.
        rounds: those of them that were opened at the end of a round.
    """

    orders: int = 0
    repeated: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    unknown_actions: int = 0
    failed_actions: int = 0
    reports: Counter[str] = field(default_factory=Counter)
    streams: int = 0
    rounds: int = 0

    def view(self, address: str, state: str, refused: str) -> ClusterdView:
        """The counters at this moment.

        Args:
            address: of ClusterD.
            state, refused: of the client, as in `ClusterdView`.
        """
        return ClusterdView(
            address=address,
            state=state,
            refused=refused,
            taken=self.orders - self.repeated,
            repeated=self.repeated,
            foreign=self.dropped["foreign"],
            unreadable=self.dropped["unreadable"],
            keep_alives=self.dropped["keep-alive"],
            unknown_actions=self.unknown_actions,
            failed_actions=self.failed_actions,
            reports_sent=self.reports["sent"],
            reports_refused=self.reports["refused"],
            reports_unanswered=self.reports["unanswered"],
            reports_void=self.reports["void"],
            reconnects=max(self.streams - 1 - self.rounds, 0),
            rounds=self.rounds,
        )


def credentials(cert_path: str) -> grpc.ChannelCredentials:
    """Credentials for TLS to ClusterD.

    Args:
        cert_path: PEM file with the certificate to trust; empty for those that the system trusts.

    Raises:
        ConfigError: the file cannot be read.
    """
    path = cert_path or ssl.get_default_verify_paths().cafile
    if not path:
        return grpc.ssl_channel_credentials()  # gRPC brings some with it
    try:
        content = read_file(path, limits.CONFIG_BYTES, limits.CONFIG_READ_S)
    except (OSError, ValueError) as error:
        raise ConfigError(f"cert_path is {shown(path)}; it cannot be read: {error}") from None
    return grpc.ssl_channel_credentials(content.data)
