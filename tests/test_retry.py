"""Sending again with the same uuid: how often, how long, after which answers, and that nothing arrives twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from taskd_net import Ack, BlockingNode, Code, NodeConfig, Position, Retry
from taskd_net.net.retry import repeat
from tests.peers.mesh import Mesh, soon
from tests.peers.parent import RawParent

pytestmark = [pytest.mark.timeout(180), pytest.mark.oldest]


@pytest.fixture
async def mesh() -> AsyncIterator[Mesh]:
    """Nodes in this process."""
    async with Mesh() as mesh:
        yield mesh


async def attempts(retry: Retry, *codes: int) -> tuple[int, int]:
    """Make attempts that are answered with these codes, the last one for ever: how many were made, and the result."""
    made = 0

    async def attempt(_: float) -> Ack:
        nonlocal made
        made += 1
        return Ack("uuid", codes[min(made, len(codes)) - 1], Position.mgr())

    ack = await soon(retry.run(attempt))
    return made, ack.code


@pytest.mark.parametrize("code", [code for code in Code if code >= 5000])
async def test_far_side_and_network_are_tried_again(code: Code) -> None:
    assert await attempts(Retry(attempts=3), code, Code.OK) == (2, 0)
    assert await attempts(Retry(attempts=3), code) == (3, code)


@pytest.mark.parametrize("code", [code for code in Code if code < 5000])
async def test_success_and_errors_of_the_sender_are_final(code: Code) -> None:
    assert await attempts(Retry(), code) == (1, code)


async def test_time_is_bounded_whatever_the_attempts() -> None:
    began = asyncio.get_running_loop().time()
    made, code = await attempts(Retry(attempts=1_000_000, within=0.2), Code.NO_ROUTE)
    assert (made > 1, code) == (True, Code.NO_ROUTE)
    # Wide of the mark only if it is not bounded at all: a million attempts with pauses.
    assert asyncio.get_running_loop().time() - began < 10.0


async def test_pauses_are_random_and_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    for _ in range(200):
        await attempts(Retry(attempts=8, within=1000.0), Code.NO_ROUTE)
    assert len(pauses) == 7 * 200
    by_turn = [pauses[turn::7] for turn in range(7)]
    for turn, bound in enumerate((0.05, 0.1, 0.2, 0.4, 0.8, 0.8, 0.8)):
        assert 0.9 * bound < max(by_turn[turn]) <= bound
        assert min(by_turn[turn]) < 0.1 * bound


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"attempts": 0}, "attempts is 0; expected a whole number, at least 1"),
        ({"attempts": 1.5}, "attempts is 1.5; expected"),
        ({"attempts": True}, "attempts is True; expected"),
        ({"within": 0}, "within is 0; expected a number of seconds above 0"),
        ({"within": float("inf")}, "within is inf; expected"),
        ({"within": float("nan")}, "within is nan; expected"),
        ({"within": "5"}, "within is '5'; expected"),
    ],
)
def test_bad_values_are_named(wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Retry(**wrong)


async def test_full_inbox_is_outlasted(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    worker = await mesh.worker(0, 0, await mesh.proxy(0, mgr), inbox=1)
    assert (await mgr.send("first", to=worker.position)).ok
    sending = asyncio.create_task(mgr.send("second", to=worker.position, retry=Retry()))
    await mesh.until(lambda: mgr.statistics.sent >= 4)
    assert [await worker.take_all(2), (await soon(sending)).code] == [["first", "second"], 0]
    assert worker.waiting() == 0


async def test_node_that_starts_later_is_waited_for(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    proxy = await mesh.proxy(0, mgr)
    sending = asyncio.create_task(mgr.send("x", to="Worker/0/0", retry=Retry(), uuid="chosen"))
    await mesh.until(lambda: mgr.statistics.sent >= 2)
    worker = await mesh.worker(0, 0, proxy)
    ack = await soon(sending)
    assert (ack.code, ack.uuid, (await worker.take()).uuid) == (0, "chosen", "chosen")


async def test_every_attempt_carries_the_same_uuid(mesh: Mesh) -> None:
    async with RawParent() as parent:
        worker = await mesh.worker(0, 0, parent.address)
        parent.refuse["TransferMessage"] = Code.RECV_BUF_BUSY
        ack = await worker.send("x", to="Mgr", retry=Retry(attempts=4))
        uuids = [(await parent.requested("TransferMessage")).header.uuid for _ in range(4)]
        assert (ack.code, uuids) == (Code.RECV_BUF_BUSY, [ack.uuid] * 4)
        assert parent.requests["TransferMessage"].empty()


async def test_each_attempt_ends_with_the_time_for_all_of_them(mesh: Mesh) -> None:
    worker = await mesh.worker(0, 0, "127.0.0.1:1", join=False)
    ack = await soon(worker.send("x", to="Mgr", timeout=1000.0, retry=Retry(within=0.2)))
    assert ack.code == Code.NET_STREAM_NOT_INITED


async def test_closing_ends_it(mesh: Mesh) -> None:
    mgr = await mesh.mgr()
    sending = asyncio.create_task(mgr.send("x", to="Worker/0/0", retry=Retry(attempts=1_000_000, within=1000.0)))
    await mesh.until(lambda: mgr.statistics.sent >= 2)
    await mgr.close()
    assert (await soon(sending)).code == Code.CLIENT_ERR


def test_blocking_node_has_it_too() -> None:
    with BlockingNode(NodeConfig.mgr(listen="127.0.0.1:0")) as mgr:
        assert mgr.send("x", to="Worker/0/0", retry=Retry(attempts=3)).code == Code.NO_ROUTE
        assert mgr.statistics.sent == 3


@pytest.mark.parametrize(("codes", "made"), [([0], 1), ([5001, 0], 2), ([4999, 4999, 4999, 0], 3)])
async def test_attempts_end_with_success_or_with_the_pauses(codes: list[int], made: int) -> None:
    answers = iter(codes)

    async def attempt() -> Ack:
        return Ack("uuid", next(answers), Position.mgr())

    ack = await soon(repeat(attempt, [0.0, 0.0]))
    assert ack.code == codes[made - 1] and len(list(answers)) == len(codes) - made
