"""The client of etcd: the next member where one gives no answer, over unary calls and over streams."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc
import pytest

from taskd_net.job.keep.client import EtcdClient, EtcdError, EtcdRefused
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.net.wire import etcd_pb2 as wire
from tests.ports import free_address

Context = grpc.aio.ServicerContext[bytes, bytes]
Answers = Callable[[AsyncIterator[bytes], Context], Awaitable[None]]


@asynccontextmanager
async def member(answers: Answers) -> AsyncIterator[str]:
    """One member that serves the renewals of leases alone."""
    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(answers)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("etcdserverpb.Lease", {"LeaseKeepAlive": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


async def renews(requests: AsyncIterator[bytes], context: Context) -> None:
    """Renews each lease for 5 s."""
    async for request in requests:
        read = wire.LeaseKeepAliveRequest.FromString(request)
        await context.write(wire.LeaseKeepAliveResponse(ID=read.ID, TTL=5).SerializeToString())


async def ends(requests: AsyncIterator[bytes], context: Context) -> None:
    """Ends the stream in good order, without an answer."""


async def waits(requests: AsyncIterator[bytes], context: Context) -> None:
    """Answers nothing, as a member that is stopped."""
    await asyncio.Event().wait()


async def has_no_leader(requests: AsyncIterator[bytes], context: Context) -> None:
    """Ends the stream as a member that is cut off from the others."""
    await context.abort(grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")


async def refuses(requests: AsyncIterator[bytes], context: Context) -> None:
    """Refuses for want of rights."""
    await context.abort(grpc.StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")


async def renewed(*members: str) -> int:
    """The seconds of a lease that these members renew."""
    client = EtcdClient(Place.parse(f"etcd://{','.join(members)}/taskd/J"))
    try:
        return (await client.keep_alive(wire.LeaseKeepAliveRequest(ID=7))).TTL
    finally:
        await client.close()


@pytest.mark.parametrize("first", [ends, has_no_leader])
async def test_next_member_renews_the_lease(first: Answers) -> None:
    async with member(first) as one, member(renews) as other:
        assert await renewed(one, other) == 5
    async with member(first) as one:
        with pytest.raises(EtcdError, match=r"stream has ended without|no leader|INTERNAL"):
            await renewed(one)


async def test_member_that_is_away_is_passed_over() -> None:
    async with member(renews) as other:
        assert await renewed(free_address(), other) == 5


async def test_call_that_fails_ends_no_other_one() -> None:
    """They share a connection, whose member does not answer to either; the first one to fail leaves it."""
    async with member(waits) as one, member(renews) as other:
        client = EtcdClient(Place.parse(f"etcd://{one},{other}/taskd/J"))
        try:
            renewing = asyncio.create_task(client.keep_alive(wire.LeaseKeepAliveRequest(ID=7)))
            await asyncio.sleep(0)
            client.limits = EtcdLimits(member_s=0.1)
            assert (await client.keep_alive(wire.LeaseKeepAliveRequest(ID=8))).ID == 8
            assert (await renewing).ID == 7
        finally:
            await client.close()


async def test_refusal_is_an_answer() -> None:
    async with member(refuses) as one, member(renews) as other:
        with pytest.raises(EtcdRefused, match="permission denied") as refused:
            await renewed(one, other)
        assert refused.value.rights


async def test_requests_end_in_time() -> None:
    place = Place.parse(f"etcd://{free_address()}/taskd/J")
    client = EtcdClient(place, limits=EtcdLimits(call_s=0.2))
    with pytest.raises(EtcdError, match="Range at 127"):
        await client.range(wire.RangeRequest(key=b"x"))
    await client.close()
