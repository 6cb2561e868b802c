"""A leader that is killed with -9: its standby leads, all nodes come back, and a round under way is done once."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median

import pytest

from taskd_net import Retry
from taskd_net.base.body import Body
from taskd_net.base.vocabulary import EXIT, RESTART_ALL, START
from tests.etcd.managers import RESTARTS, Job, Managers
from tests.etcd.server import ETCD, WHY_NOT, etcd_members
from tests.etcd.traffic import Traffic
from tests.faults.figures import Figures
from tests.manager.cluster import Leaf
from tests.peers.mesh import soon

pytestmark = [pytest.mark.skipif(ETCD is None, reason=WHY_NOT), pytest.mark.timeout(1800)]

ROUND_S = 90.0
"""Seconds for a round, in which leaders may be killed more than once."""

POINTS = 24
"""Boundaries of messages in a round, about: a leader dies at one of the first of them, by chance."""

SILENCE_S = 4.0
"""Seconds without a command at the end: longer than the pause before a resend."""


class Rounds:
    """Rounds of rescheduling, one after another: Agent 1 reports a fault, leaves, and comes back.

    Args:
        managers: one of them leads.
        zero, one: the Agents.

    Attributes:
        done: rounds that have ended.
        got: the commands that each Agent got: code and message, in their order.
    """

    def __init__(self, managers: Managers, zero: Leaf, one: Leaf) -> None:
        self._managers = managers
        self._agents = (zero, one)
        self.done = 0
        self.got: tuple[list[tuple[int, str]], list[tuple[int, str]]] = ([], [])

    @property
    def expected(self) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
        """The commands of the rounds, if each is carried out once, and takes one restart off."""
        lefts = [str(RESTARTS - number) for number in range(1, self.done + 1)]
        first = (START, str(RESTARTS))
        others = [command for left in lefts for command in ((EXIT, ""), (START, left))]
        return [first, *((RESTART_ALL, left) for left in lefts)], [first, *others]

    async def begin(self) -> None:
        """Both Agents start."""
        for rank in range(2):
            await self._register(rank)

    async def play(self) -> None:
        """One round.

        It begins when the one before is over: a fault in an open round belongs to that, and Agent 0 has its command.
        A new leader knows that only when the Proxy of Agent 0 is back, maybe later than that of Agent 1.
        """
        async with asyncio.timeout(ROUND_S):
            await self._managers.round_over()
            await self._report(1, "STATUS", 202, json.dumps({"fault_ranks": [4], "restart_times": -1}))
            await self._take(1)
            await self._take(0)
            await self._register(1)
        self.done += 1

    async def silence(self) -> None:
        """Take the commands that come although nothing has happened."""
        for rank in range(2):
            try:
                async with asyncio.timeout(SILENCE_S / 2):
                    while True:
                        await self._take(rank)
            except TimeoutError:
                continue

    async def _register(self, rank: int) -> None:
        await self._report(rank, "REGISTER", 0, Incarnation=f"process {rank}-{self.done}-{len(self.got[rank])}")
        await self._report(rank, "STATUS", 201, str(RESTARTS))
        await self._take(rank)

    async def _report(self, rank: int, msg_type: str, code: int, message: str = "", **extension: str) -> None:
        body = Body(msg_type, code, message, extension).to_json()
        ack = await self._agents[rank].node.send(body, to="Mgr", retry=Retry(attempts=10_000, within=ROUND_S))
        assert ack.ok, ack

    async def _take(self, rank: int) -> None:
        body = Body.parse((await self._agents[rank].node.receive()).body)
        self.got[rank].append((body.code, body.message))


@asynccontextmanager
async def at_work(folder: Path) -> AsyncIterator[tuple[Managers, Job]]:
    """A leader, a standby, and a job below them."""
    async with AsyncExitStack() as stack:
        members = await stack.enter_async_context(etcd_members(folder / "etcd"))
        managers = await stack.enter_async_context(Managers(members, folder))
        await managers.start(0)
        await managers.leads(0)
        await managers.start(1)
        yield managers, await stack.enter_async_context(Job.below(managers, folder))


@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.long)], ids=["once", "many"])
async def test_standby_leads_and_all_come_back(tmp_path: Path, figures: Figures, times: int) -> None:
    led, back = [], []
    async with at_work(tmp_path) as (managers, job), Traffic(*job.workers[:2]) as traffic:
        await managers.back(0, job.size)
        for number in range(times):
            leader, standby = number % 2, 1 - number % 2
            killed = managers.kill(leader)
            leads = await managers.leads(standby)
            led.append(leads - killed)
            back.append(await managers.back(standby, job.size) - leads)
            await managers.start(leader)
        for agent in job.agents:  # each is asked through the Manager that leads now
            await soon(agent.report("KEEP_ALIVE", 0))
    assert traffic.sent > times * 100
    promised = times > 1
    figures.add("failover", "the standby leads after: p50", median(led), "s")
    figures.add("failover", "the longest", max(led), "s", at_most=6.0 if promised else None)
    figures.add("failover", f"all {job.size} nodes are back then in: p50", median(back), "s")
    figures.add("failover", "the longest", max(back), "s", at_most=3.0 if promised else None)
    figures.add("failover", "messages below one Proxy meanwhile:", traffic.sent)
    figures.add("failover", "of these failed:", traffic.failed, at_most=0)
    assert not traffic.failed


@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.long)], ids=["twice", "many"])
async def test_rounds_in_which_leaders_are_killed_are_carried_out_once(
    tmp_path: Path, figures: Figures, times: int
) -> None:
    """The ledger: each Manager kills itself at a boundary of messages that chance has chosen."""
    chance = random.Random(times)
    async with at_work(tmp_path) as (managers, job), Traffic(*job.workers[:2]) as traffic:
        rounds = Rounds(managers, job.agents[0], job.agents[1])
        await rounds.begin()
        killed = 0

        async def kills() -> None:
            """End each leader, the first ones by a signal and others by their own point, and start it again."""
            nonlocal killed
            managers.kill(0)
            leader = 0
            while True:
                await managers.of(leader).exit_code()
                killed += 1
                standby = 1 - leader
                await managers.leads(standby)
                if killed >= times:
                    return
                # The one that leads at the end lives.
                await managers.start(leader, chance.randint(1, POINTS) if killed < times - 1 else 0)
                leader = standby
                if killed == 1:
                    managers.kill(leader)  # the first standby has no point

        killing = asyncio.create_task(kills())
        try:
            while not killing.done():
                await rounds.play()
            await killing
        finally:
            killing.cancel()
        for which in range(2):
            if not managers.of(which).alive:
                await managers.start(which)
        await rounds.play()
        await rounds.silence()
        found = await managers.document()
    zero, one = (got - expected for got, expected in _counted(rounds.got, rounds.expected))
    missing = sum((expected - got).total() for got, expected in _counted(rounds.got, rounds.expected))
    figures.add("ledger", "fail-overs:", killed)
    figures.add("ledger", "rounds:", rounds.done)
    figures.add("ledger", "commands:", sum(map(len, rounds.got)))
    figures.add("ledger", "lost:", missing, at_most=0)
    figures.add("ledger", "carried out twice:", zero.total() + one.total(), at_most=0)
    off = RESTARTS - found["restarts_left"] - rounds.done
    figures.add("ledger", "restarts counted twice:", off, at_most=0, at_least=0)
    figures.add("ledger", "messages below one Proxy:", traffic.sent)
    figures.add("ledger", "of these failed:", traffic.failed, at_most=0)
    assert rounds.got == rounds.expected and not off and not traffic.failed
    assert found["trouble"] == [] and found["leader"]["changes"] >= times


def _counted(
    got: tuple[list[tuple[int, str]], ...], expected: tuple[list[tuple[int, str]], ...]
) -> list[tuple[Counter[tuple[int, str]], Counter[tuple[int, str]]]]:
    return [(Counter(one), Counter(other)) for one, other in zip(got, expected, strict=True)]
