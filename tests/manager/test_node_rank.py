"""Ranks that a Manager gives to launchers: over real sockets, to several at once, and when nobody is there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager

import pytest

from taskd_net import ArgumentError, Body, Position
from taskd_net.base import vocabulary
from taskd_net.job.manager import ManagerConfig
from taskd_net.job.manager.dispatch import read_request
from taskd_net.job.node_rank import NoRank, given_rank, read_rank
from tests.manager.cluster import SOON, managed
from tests.polling import until
from tests.ports import free_address


class Launcher:
    """A launcher in a thread: it asks, and holds its rank until `end`.

    Args:
        upstream: address of the Mgr.
        host: name of its host.
    """

    def __init__(self, upstream: str, host: str) -> None:
        self._given: Future[int] = Future()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(upstream, host))
        self._thread.start()

    async def rank(self) -> int:
        async with asyncio.timeout(SOON):
            return await asyncio.wrap_future(self._given)

    async def end(self) -> None:
        self._ending.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self, upstream: str, host: str) -> None:
        try:
            with given_rank(upstream, "", None, host, SOON) as rank:
                self._given.set_result(rank)
                self._ending.wait()
        except NoRank as error:
            self._given.set_exception(error)


@contextmanager
def none_left(launchers: list[Launcher]) -> Iterator[None]:
    """No launcher outlives its test."""
    try:
        yield
    finally:
        for each in launchers:
            each._ending.set()
            each._thread.join()


async def test_launchers_get_ranks_and_a_host_that_returns_its_own() -> None:
    config = ManagerConfig(job_id="J", nodes=2, processes_per_node=1)
    launchers: list[Launcher] = []
    async with managed(config) as (node, manager):
        address = node.address or ""
        with none_left(launchers):
            launchers += [Launcher(address, "a"), Launcher(address, "b")]
            ranks = [await each.rank() for each in launchers]
            assert sorted(ranks) == [0, 1]
            third = Launcher(address, "c")
            launchers.append(third)
            names = dict(zip(ranks, "ab", strict=True))
            with pytest.raises(NoRank, match=rf"^all 2 ranks are taken, by {names[0]} \(0\), {names[1]} \(1\)$"):
                await third.rank()
            await launchers[0].end()
            await until(lambda: len(manager._launchers()) == 1)
            launchers.append(Launcher(address, "a"))
            assert await launchers[-1].rank() == ranks[0]
            assert manager.view().agents_known == 0


async def test_nobody_there_is_one_line() -> None:
    address = free_address()

    def ask() -> None:
        with given_rank(address, "", None, "a", 0.5):
            raise AssertionError("a rank")

    with pytest.raises(NoRank, match=rf"^no Manager at {address} has given this node a rank within 0.5 s$"):
        await asyncio.to_thread(ask)


@pytest.mark.parametrize(
    ("src", "message", "host", "said"),
    [
        ("Worker/0/1", "k", "a", "Worker/0/1 asks for the rank of a node; expected an Agent"),
        ("Agent/1", "", "a", "message is ''; expected a text of 1 to 253 characters"),
        ("Agent/1", "k", "", "Host is ''; expected a text of 1 to 253 characters"),
        ("Agent/1", "k", "h" * 254, "expected a text of 1 to 253 characters"),
    ],
)
def test_other_requests_are_refused(src: str, message: str, host: str, said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        read_request(Position.parse(src), Body(vocabulary.NODE_RANK, 0, message, {vocabulary.HOST: host}))


@pytest.mark.parametrize("answer", [Body("ACTION", 308, "x"), Body("ACTION", 308), Body("ACTION", 203, "1")])
def test_other_answers_are_refused(answer: Body) -> None:
    with pytest.raises(ArgumentError, match="expected a rank"):
        read_rank(answer)
