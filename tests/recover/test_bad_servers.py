"""Each of the 17 methods against servers that answer badly, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from typing import Any, Final

import grpc
import pytest
from google.protobuf.message import DecodeError

from taskd_net.base import limits
from taskd_net.base.address import Address
from taskd_net.job.clusterd import rpcs
from taskd_net.job.clusterd.client import Client, ClusterdError, credentials
from taskd_net.job.clusterd.life import ClusterdTimes
from taskd_net.job.clusterd.rpcs import Rpc
from taskd_net.job.decide.events import Event
from taskd_net.net.wire import datatrace_pb2
from taskd_net.net.wire import recover_pb2 as wire
from tests.peers import certificates
from tests.peers.clusterd import QUICK, RPCS, ClusterD

pytestmark = pytest.mark.oldest

INFO: Final = wire.ClientInfo(jobId="J", role="taskd")
GARBAGE: Final = b"\xff\xff"
FLOOD: Final = 10_000

UNARY: Final = [rpc for rpc in RPCS.values() if not rpc.streams]
STREAMS: Final = [rpc for rpc in RPCS.values() if rpc.streams]
ORDERS: Final[dict[str, Any]] = {
    rpcs.SIGNALS.name: wire.ProcessManageSignal(uuid="u", jobId="J", signalType="stopTrain"),
    rpcs.SWITCH_NIC_ORDERS.name: wire.SwitchRankList(rankID=["1"], op=[True], jobId="J"),
    rpcs.STRESS_TEST_ORDERS.name: wire.StressTestRankParams(jobId="J"),
    rpcs.PROFILING.name: datatrace_pb2.DataStatusRes(code=200),
}
"""A good message of each stream that the client reads by itself."""

each_call = pytest.mark.parametrize("rpc", UNARY, ids=lambda rpc: rpc.name)
ORDER_STREAMS: Final = [rpc for rpc in STREAMS if rpc.name in ORDERS]


def each(rpcs: Sequence[Rpc[Any, Any]]) -> pytest.MarkDecorator:
    """Run a test with each of these."""
    return pytest.mark.parametrize("rpc", rpcs, ids=lambda rpc: rpc.name)


def first(rpcs: Sequence[Rpc[Any, Any]]) -> pytest.MarkDecorator:
    """Run a test with each of these, those after the first in `make more`."""
    params = [pytest.param(rpc, marks=[pytest.mark.more] if number else []) for number, rpc in enumerate(rpcs)]
    return pytest.mark.parametrize("rpc", params, ids=[rpc.name for rpc in rpcs])


def test_all_methods_are_here() -> None:
    assert (len(UNARY), len(STREAMS)) == (11, 6)


@pytest.fixture
def clusterd() -> Iterator[ClusterD]:
    with ClusterD() as server:
        yield server


@contextlib.asynccontextmanager
async def client_of(
    address: str,
    take: Callable[[Event], Awaitable[None]] | None = None,
    trust: str | None = None,
    times: ClusterdTimes = QUICK,
) -> AsyncIterator[Client]:
    """A client with all streams of a Manager, which does not run yet."""
    trusted = None if trust is None else credentials(trust)
    put = asyncio.Queue[Event]().put if take is None else take
    client = Client(Address.parse(address), INFO, put, credentials=trusted, operations=True, times=times)
    try:
        yield client
    finally:
        await client.close()


@contextlib.asynccontextmanager
async def running(
    clusterd: ClusterD, take: Callable[[Event], Awaitable[None]], times: ClusterdTimes = QUICK
) -> AsyncIterator[Client]:
    """A client at work."""
    async with client_of(clusterd.address, take, times=times) as client:
        task = asyncio.create_task(client.run())
        try:
            yield client
        finally:
            task.cancel()
            await asyncio.wait([task])


async def nothing(_: bytes) -> None:
    """Take a message."""


async def attempt(client: Client, rpc: Rpc[Any, Any]) -> None:
    """Call a method, or read its stream to the end."""
    if rpc.streams:
        await client.read(rpc, rpc.request(), nothing)
    else:
        await client.call(rpc, rpc.request())


@each_call
@pytest.mark.parametrize("answer", [GARBAGE, bytes(limits.RECEIVE_BYTES + 1)], ids=["garbage", "huge"])
async def test_bad_answer_is_an_error_with_its_cause(clusterd: ClusterD, rpc: Rpc[Any, Any], answer: bytes) -> None:
    clusterd.answers[rpc.name].append(answer)
    async with client_of(clusterd.address) as client:
        with pytest.raises(ClusterdError, match=f"{rpc.name} at 127.0.0.1:") as raised:
            await client.call(rpc, rpc.request())
        assert isinstance(raised.value.__cause__, DecodeError if answer == GARBAGE else grpc.RpcError)
        assert (await client.call(rpc, rpc.request())).code == 0, "the next call is not affected"


@each(ORDER_STREAMS)
async def test_garbage_in_a_stream_of_orders_is_counted_and_the_next_order_is_taken(
    clusterd: ClusterD, rpc: Rpc[Any, Any], caplog: pytest.LogCaptureFixture
) -> None:
    taken: asyncio.Queue[Event] = asyncio.Queue()
    clusterd.first[rpc.name] = [GARBAGE, ORDERS[rpc.name]]
    async with running(clusterd, taken.put) as client:
        await taken.get()
        assert (client.view().unreadable, client.view().taken) == (1, 1)
    assert f"clusterd_order_unreadable clusterd={clusterd.address} job=J stream={rpc.name}" in caplog.text


@each(STREAMS)
@pytest.mark.parametrize("end", [grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNIMPLEMENTED, None])
async def test_stream_that_breaks_is_an_error_with_its_cause(
    clusterd: ClusterD, rpc: Rpc[Any, Any], end: grpc.StatusCode | None
) -> None:
    got: list[bytes] = []

    async def take(content: bytes) -> None:
        got.append(content)
        clusterd.end(rpc, end)

    clusterd.first[rpc.name] = [GARBAGE]
    async with client_of(clusterd.address) as client:
        if end is None:
            await client.read(rpc, rpc.request(), take)
        else:
            with pytest.raises(ClusterdError, match=f"{end.name}: as told") as raised:
                await client.read(rpc, rpc.request(), take)
            assert isinstance(raised.value.__cause__, grpc.RpcError)
    assert got == [GARBAGE]


@each(STREAMS)
async def test_huge_message_breaks_its_stream(clusterd: ClusterD, rpc: Rpc[Any, Any]) -> None:
    clusterd.first[rpc.name] = [bytes(limits.RECEIVE_BYTES + 1)]
    async with client_of(clusterd.address) as client:
        with pytest.raises(ClusterdError, match="RESOURCE_EXHAUSTED"):
            await client.read(rpc, rpc.request(), nothing)


@each_call
async def test_call_without_an_answer_ends_in_time_or_with_close(clusterd: ClusterD, rpc: Rpc[Any, Any]) -> None:
    silence = Flag()

    def wait() -> int:
        silence.wait()
        return 0

    clusterd.answers[rpc.name].extend([wait, wait])
    try:
        async with client_of(clusterd.address) as client:
            with pytest.raises(ClusterdError, match="DEADLINE_EXCEEDED"):
                await client.call(rpc, rpc.request(), 0.1)
            hanging = asyncio.create_task(client.call(rpc, rpc.request(), 3600.0))
            await asyncio.to_thread(clusterd.wait_for, rpc)
            await client.close()
            with pytest.raises(ClusterdError):
                await hanging
    finally:
        silence.set()


@each(STREAMS)
async def test_stream_that_never_speaks_ends_with_close(clusterd: ClusterD, rpc: Rpc[Any, Any]) -> None:
    async with client_of(clusterd.address) as client:
        reading = asyncio.create_task(client.read(rpc, rpc.request(), nothing))
        await asyncio.to_thread(clusterd.wait_for_stream, rpc)
        assert (await client.call(rpcs.HEALTH_CHECK, INFO)).code == 0, "calls go on beside it"
        await client.close()
        with pytest.raises(ClusterdError, match=r"given up|CANCELLED"):
            await reading
        with pytest.raises(ClusterdError, match="closed"):
            await client.read(rpc, rpc.request(), nothing)


@pytest.mark.parametrize("rpc", [rpcs.INIT, rpcs.REGISTER, rpcs.HEALTH_CHECK], ids=lambda rpc: rpc.name)
async def test_subscription_survives_a_step_without_an_answer(clusterd: ClusterD, rpc: Rpc[Any, Any]) -> None:
    silence = Flag()

    def wait() -> int:
        silence.wait()
        return 0

    clusterd.answers[rpc.name].append(wait)
    taken: asyncio.Queue[Event] = asyncio.Queue()
    try:
        async with running(clusterd, taken.put, replace(QUICK, call=0.5)):
            await asyncio.to_thread(clusterd.wait_for, rpc, 2)
            await asyncio.to_thread(clusterd.wait_for_stream, rpcs.SIGNALS)
    finally:
        silence.set()
    assert clusterd.names.count("Init") >= 2


@first(STREAMS)
async def test_flood_is_read_whole_and_delays_no_call(clusterd: ClusterD, rpc: Rpc[Any, Any]) -> None:
    got: list[bytes] = []

    async def take(content: bytes) -> None:
        got.append(content)

    async with client_of(clusterd.address) as client:
        reading = asyncio.create_task(client.read(rpc, rpc.request(), take))
        await asyncio.to_thread(clusterd.send, rpc, *(str(number).encode() for number in range(FLOOD)))
        assert (await client.call(rpcs.HEALTH_CHECK, INFO)).code == 0
        clusterd.end(rpc)
        await reading
    assert got == [str(number).encode() for number in range(FLOOD)]


@first(ORDER_STREAMS)
async def test_flood_of_orders_is_taken_whole(clusterd: ClusterD, rpc: Rpc[Any, Any]) -> None:
    taken: list[Event] = []
    done = asyncio.Event()

    async def take(event: Event) -> None:
        taken.append(event)
        if len(taken) == FLOOD:
            done.set()

    clusterd.first[rpc.name] = [ORDERS[rpc.name]] * FLOOD
    async with running(clusterd, take) as client:
        await done.wait()
        assert (client.view().taken, client.view().reconnects) == (FLOOD, 0)
    assert len(taken) == FLOOD


async def test_flood_of_garbage_is_counted_and_costs_few_log_lines(
    clusterd: ClusterD, caplog: pytest.LogCaptureFixture
) -> None:
    taken: asyncio.Queue[Event] = asyncio.Queue()
    clusterd.first[rpcs.SIGNALS.name] = [GARBAGE] * FLOOD + [ORDERS[rpcs.SIGNALS.name]]
    began = time.monotonic()
    async with running(clusterd, taken.put) as client:
        await taken.get()
        assert client.view().unreadable == FLOOD
    most = 10 + 10 * (time.monotonic() - began)
    assert caplog.text.count("clusterd_order_unreadable") < most


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterD]:
    files = certificates.Folder(tmp_path_factory.mktemp("clusterd"))
    files.issue(hosts=("clusterd.example",))
    pair = (Path(files.key).read_bytes(), Path(files.crt).read_bytes())
    with ClusterD(grpc.ssl_server_credentials([pair])) as server:
        server.trusted = files.ca
        yield server


@pytest.mark.parametrize("rpc", RPCS.values(), ids=lambda rpc: rpc.name)
async def test_certificate_that_does_not_fit_is_an_error(rpc: Rpc[Any, Any], secured: ClusterD, tmp_path: Path) -> None:
    strangers = certificates.Folder(tmp_path).ca
    for trust in (strangers, secured.trusted, None):
        async with client_of(secured.address, trust=trust) as client:
            with pytest.raises(ClusterdError, match=f"{rpc.name} at 127.0.0.1:.*UNAVAILABLE") as raised:
                await attempt(client, rpc)
            assert raised.value.status is grpc.StatusCode.UNAVAILABLE
            assert isinstance(raised.value.__cause__, grpc.RpcError)
    assert secured.calls == []
