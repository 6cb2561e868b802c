"""Ranks that a Manager gives to launchers: over real sockets, to several at once, and when nobody is there."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from queue import SimpleQueue

import pytest

from taskd_net import ArgumentError, Body, Node, NodeConfig, Position
from taskd_net.base import vocabulary
from taskd_net.job import node_rank
from taskd_net.job.manager import Manager, ManagerConfig
from taskd_net.job.manager.dispatch import read_request
from taskd_net.job.node_rank import NoRank, held_rank, read_rank
from tests.manager.cluster import SOON, managed
from tests.polling import until
from tests.ports import free_address


class Launcher:
    """A launcher in a thread: it asks, and holds its rank until `end`.

    Args:
        upstream: address of the Mgr.
        host: name of its host.
        rank: that it has; None for none.
        seconds: for an answer.
    """

    def __init__(self, upstream: str, host: str, rank: int | None = None, seconds: float = SOON) -> None:
        self._seconds = seconds
        self.lost: list[NoRank] = []
        self._given: Future[int] = Future()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(upstream, host, rank))
        self._thread.start()

    async def rank(self) -> int:
        async with asyncio.timeout(SOON):
            return await asyncio.wrap_future(self._given)

    async def end(self) -> None:
        self._ending.set()
        await asyncio.to_thread(self._thread.join)

    def _run(self, upstream: str, host: str, own: int | None) -> None:
        try:
            with held_rank(upstream, "", None, own, self.lost.append, host=host, seconds=self._seconds) as rank:
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


async def test_of_two_launchers_with_one_rank_the_first_stays_while_it_lives() -> None:
    config = ManagerConfig(job_id="J", nodes=2, processes_per_node=1)
    launchers: list[Launcher] = []
    async with managed(config) as (node, manager):
        address = node.address or ""
        with none_left(launchers):
            launchers += [Launcher(address, "a", 1), Launcher(address, "b", 0)]
            assert [await each.rank() for each in launchers] == [1, 0]
            second = Launcher(address, "c", 1)
            launchers.append(second)
            with pytest.raises(NoRank, match=rf"^node 1 of this job is run by a, pid {os.getpid()}$"):
                await second.rank()
            await launchers[0].end()
            await until(lambda: len(manager._launchers()) == 1)
            launchers.append(Launcher(address, "c", 1))
            assert await launchers[-1].rank() == 1
            assert not any(each.lost for each in launchers)


HOLDS = """
import sys
from taskd_net.job.node_rank import held_rank
with held_rank(sys.argv[1], "", None, 1, lambda lost: print(lost, flush=True), host="a"):
    print("held", flush=True)
    sys.stdin.read()
"""
"""A launcher in a process of its own."""


async def test_launcher_that_does_not_answer_for_two_seconds_gives_its_rank_up() -> None:
    """It is stopped; its place in the mesh lasts longer. When it goes on, it learns who has its rank."""
    async with managed(ManagerConfig(job_id="J", nodes=2, processes_per_node=1)) as (node, manager):
        first = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            HOLDS,
            node.address or "",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert first.stdout is not None
        try:
            async with asyncio.timeout(SOON):
                assert await first.stdout.readline() == b"held\n"
            first.send_signal(signal.SIGSTOP)
            launchers = [Launcher(node.address or "", "c", 1)]
            with none_left(launchers):
                assert await launchers[0].rank() == 1
                assert len(manager._launchers()) == 1
                first.send_signal(signal.SIGCONT)
                async with asyncio.timeout(SOON):
                    line = await first.stdout.readline()
                assert line.decode() == f"node 1 of this job is run by c, pid {os.getpid()}\n"
                assert not launchers[0].lost
        finally:
            first.kill()
            await first.communicate()


@pytest.mark.parametrize("own", [None, 1])
async def test_launcher_that_comes_before_the_manager_has_begun_waits_for_it(own: int | None) -> None:
    """The Mgr listens before."""
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0", confirms=True)) as node:
        launchers = [Launcher(node.address or "", "a", own)]
        with none_left(launchers):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2.0):
                    await asyncio.shield(asyncio.wrap_future(launchers[0]._given))
            async with Manager(node, ManagerConfig(job_id="J", nodes=2, processes_per_node=1)) as manager:
                assert await launchers[0].rank() == (own or 0)
                assert len(manager._launchers()) == 1


async def test_launcher_goes_on_where_no_manager_of_this_version_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_rank, "BEGIN_S", 0.5)
    async with Node(NodeConfig.mgr(listen="127.0.0.1:0")) as node:
        launchers = [Launcher(node.address or "", "a", 1), Launcher(node.address or "", "a")]
        with none_left(launchers):
            assert await launchers[0].rank() == 1
            with pytest.raises(NoRank, match=r"^the Manager at .* gives no ranks; expected --node-rank$"):
                await launchers[1].rank()

    def claim() -> int:
        with held_rank(free_address(), "", None, 1, print, seconds=0.2) as rank:
            return rank

    assert await asyncio.to_thread(claim) == 1


async def test_manager_that_comes_later_knows_both_and_the_second_ends() -> None:
    address = free_address()
    launchers: list[Launcher] = []

    def claim(host: str) -> None:
        launchers.append(Launcher(address, host, 1, seconds=0.1))

    with none_left(launchers):
        for host in "ab":
            claim(host)
        assert [await each.rank() for each in launchers] == [1, 1]
        async with managed(ManagerConfig(job_id="J", nodes=2), listen=address):
            await until(lambda: any(each.lost for each in launchers), SOON)
            (lost,) = [error for each in launchers for error in each.lost]
            assert str(lost).startswith("node 1 of this job is run by ")


async def test_nobody_there_is_one_line() -> None:
    address = free_address()

    def ask() -> None:
        with held_rank(address, "", None, None, print, host="a", seconds=0.5):
            raise AssertionError("a rank")

    with pytest.raises(NoRank, match=rf"given this node a rank within 0.5 s: Register: nobody listens at {address}$"):
        await asyncio.to_thread(ask)


@pytest.mark.parametrize("own", [None, 1])
async def test_launcher_that_was_started_for_another_size_is_refused(own: int | None) -> None:
    def ask(upstream: str) -> None:
        with held_rank(upstream, "", None, own, print, host="a", nodes=3):
            raise AssertionError("a rank")

    async with managed(ManagerConfig(job_id="J", nodes=2, processes_per_node=1)) as (node, _):
        with pytest.raises(NoRank, match=r"^this node was started for 3 nodes, and the Manager for 2$"):
            await asyncio.to_thread(ask, node.address or "")


@pytest.mark.parametrize("own", [None, 1])
async def test_launcher_that_turns_out_to_be_late_ends(own: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Mgr of a later attempt answers when it has begun to wait already; with a rank it may be past that wait."""
    monkeypatch.setattr(node_rank, "LATE_S", 0.1)
    answers = ["", "a later attempt runs"]
    lost: SimpleQueue[NoRank] = SimpleQueue()

    def ask() -> None:
        late = partial(answers.pop, 0)
        with held_rank(free_address(), "", None, own, lost.put, host="a", late=late, seconds=0.05 if own else SOON):
            raise lost.get(timeout=SOON)

    with pytest.raises(NoRank, match=r"^a later attempt runs$"):
        await asyncio.to_thread(ask)


@pytest.mark.parametrize(
    ("src", "message", "host", "said"),
    [
        ("Worker/0/1", "k", "a", "Worker/0/1 asks for the rank of a node; expected an Agent"),
        ("Agent/1", "", "a", "message is ''; expected a text of 1 to 253 characters"),
        ("Agent/1", "k", "", "Host is ''; expected a text of 1 to 253 characters"),
        ("Agent/1", "k", "a Rank=-1", "Rank is '-1'; expected a whole number"),
        ("Agent/1", "k", "a Pid=x", "Pid is 'x'; expected a whole number"),
        ("Agent/1", "k", "a Rank=65536", "Rank is 65536; expected less than 65536"),
        ("Agent/1", "k", "h" * 254, "expected a text of 1 to 253 characters"),
    ],
)
def test_other_requests_are_refused(src: str, message: str, host: str, said: str) -> None:
    name, *more = host.split(" ")
    extension = {vocabulary.HOST: name} | dict(each.split("=") for each in more)
    body = Body(vocabulary.NODE_RANK, 0, message, extension)
    with pytest.raises(ArgumentError, match=said):
        read_request(Position.parse(src), body)


@pytest.mark.parametrize("answer", [Body("ACTION", 308, "x"), Body("ACTION", 308), Body("ACTION", 203, "1")])
def test_other_answers_are_refused(answer: Body) -> None:
    with pytest.raises(ArgumentError, match="expected a rank"):
        read_rank(answer)
