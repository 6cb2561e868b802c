"""The lease of a leader: taken, lost, taken again, and the Manager that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from taskd_net.base.codes import ConfigError
from taskd_net.base.logger import get_logger
from taskd_net.job.decide.state import SCHEMA, NewerRelease
from taskd_net.job.keep import leader as module
from taskd_net.job.keep.client import EtcdError
from taskd_net.job.keep.leader import LED, Leader
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import LEADER, Deposed, EtcdStore
from taskd_net.job.manager.etcd_keeping import EtcdKeeping
from taskd_net.net.wire import etcd_pb2 as wire
from taskd_net.observe.job_view import JobCounters
from tests.etcd.double import Double
from tests.peers.mesh import soon
from tests.polling import until

PLACE = Place.parse("etcd://127.0.0.1:2379/taskd/J")


LIMITS = EtcdLimits(renew_s=0.01, again_s=0.01, look_s=0.01)
"""Renewals and attempts follow each other at once."""


@pytest.fixture
async def leaders() -> AsyncIterator[list[Leader]]:
    """Leaders that give their leases back at the end."""
    made: list[Leader] = []
    yield made
    for each in made:
        await each.give_back()


def leader(etcd: Double, name: str, made: list[Leader]) -> Leader:
    """A Manager's side of the lease."""
    made.append(Leader(etcd, PLACE, name, get_logger(), LIMITS))
    return made[-1]


async def test_requests_without_an_answer_are_repeated(leaders: list[Leader]) -> None:
    etcd = Double(answers=["away"] * 4)
    first = leader(etcd, "a", leaders)
    await soon(first.take(10.0))
    assert first.decides() and first.leaders == 1


async def test_claim_whose_answer_was_lost_has_succeeded(leaders: list[Leader]) -> None:
    etcd = Double(answers=["ok", "ok", "lost"])
    first = leader(etcd, "a", leaders)
    await soon(first.take(10.0))
    assert first.leaders == 1 and len(etcd.leases) == 1


async def test_claim_that_arrives_late_is_known(leaders: list[Leader]) -> None:
    """The second claim is refused because of the first, which is this Manager's own."""
    etcd = Double(answers=["ok", "ok", "late", "ok"])
    first = leader(etcd, "a", leaders)
    taking = asyncio.create_task(first.take(10.0))
    await until(lambda: len(etcd.leases) == 2 or bool(etcd.delayed))
    etcd.carry_out(etcd.delayed.pop())
    await soon(taking)
    assert first.decides() and first.leaders == 1


async def test_other_leader_is_named(leaders: list[Leader]) -> None:
    etcd = Double()
    await leader(etcd, "a", leaders).take(0.0)
    with pytest.raises(ConfigError, match="but a leads this job"):
        await soon(leader(etcd, "b", leaders).take(0.0))


async def test_lease_that_ended_is_taken_again_where_nobody_has_led_meanwhile(leaders: list[Leader]) -> None:
    etcd = Double()
    first = leader(etcd, "a", leaders)
    await first.take(0.0)
    number, store = first.number, EtcdStore(etcd, PLACE, "J", first.number)
    await store.open()
    etcd.now += LIMITS.lease_s
    assert await soon(first.again(number))
    assert first.number > number and first.leaders == 2 and not first.lost.is_set()
    store.begin({"rest": "1"})
    with pytest.raises(Deposed):
        await store.flush()
    store.number = first.number
    await store.flush()
    assert await EtcdStore(etcd, PLACE, "J", first.number).open() == {"rest": "1"}


async def test_holder_that_learns_of_the_end_decides_nothing_until_it_leads_again(
    leaders: list[Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by an operator who revokes the lease. By its own clock, which stands here, it has not ended."""
    monkeypatch.setattr(module, "clock", lambda: 0.0)
    etcd = Double()
    first = leader(etcd, "a", leaders)
    await first.take(0.0)
    number = first.number
    assert first.decides()
    (lease,) = etcd.leases
    etcd.leases[lease] = (etcd.now, LIMITS.lease_s)
    away, etcd.range = etcd.range, never  # type: ignore[method-assign]
    await until(lambda: not first.decides())
    waits = asyncio.create_task(first.confirmed())
    await asyncio.sleep(0)
    assert not waits.done()
    etcd.range = away  # type: ignore[method-assign]
    assert await soon(waits) and first.number > number


async def never(request: wire.RangeRequest) -> wire.RangeResponse:
    """No answer of etcd."""
    raise EtcdError("no answer in time")


async def test_lease_is_not_taken_again_where_somebody_has_led(leaders: list[Leader]) -> None:
    etcd, told = Double(), asyncio.Event()
    first = Leader(etcd, PLACE, "a", get_logger(), LIMITS)
    first.on_lost = told.set
    leaders.append(first)
    await first.take(0.0)
    etcd.now += LIMITS.lease_s
    second = Leader(etcd, PLACE, "b", get_logger(), LIMITS)
    await second.take(0.0)
    await second.give_back()
    await soon(told.wait())
    assert not first.decides() and not await soon(first.confirmed())


async def test_leader_whose_key_was_removed_leads_again(leaders: list[Leader]) -> None:
    etcd = Double()
    first = leader(etcd, "a", leaders)
    await first.take(0.0)
    del etcd.keys[PLACE.key("leader")]
    assert await soon(first.again(first.number))


async def test_commit_of_a_stranger_below_a_leader_that_stands_ends_it(leaders: list[Leader]) -> None:
    etcd = Double()
    first = leader(etcd, "a", leaders)
    await first.take(0.0)
    assert not await soon(first.again(first.number))


def newer(etcd: Double, made: list[Leader]) -> Leader:
    """The side of a Manager of a newer release."""
    made.append(Leader(etcd, PLACE, "newer", get_logger(), LIMITS, schema=SCHEMA + 1))
    return made[-1]


async def test_job_that_a_newer_release_has_led_is_left_to_it(leaders: list[Leader]) -> None:
    etcd = Double()
    other, this = newer(etcd, leaders), leader(etcd, "a", leaders)
    await other.take(0.0)
    for leads in (True, False):
        if not leads:
            await other.give_back()
        with pytest.raises(NewerRelease, match=f"has schema {SCHEMA + 1}, of a newer release; this one reads up to"):
            await this.claim()
    assert len(etcd.leases) == 1, "it has asked for none"


@pytest.mark.parametrize("value", [b'{"leader": "b", "since": 1.0}', b'{"schema": "9"}', b"[]", b"\xff"])
async def test_last_leader_that_names_no_schema_is_of_the_first_one(leaders: list[Leader], value: bytes) -> None:
    etcd = Double()
    etcd.put(PLACE.key(LED), value)
    this = leader(etcd, "a", leaders)
    await this.take(0.0)
    assert this.leaders == 2


async def test_claim_does_not_count_where_a_newer_release_has_led_meanwhile(leaders: list[Leader]) -> None:
    etcd = Double(answers=["ok", "ok", "late"])
    with pytest.raises(EtcdError):
        await leader(etcd, "a", leaders).claim()
    other = newer(etcd, leaders)
    await other.take(0.0)
    await other.give_back()
    etcd.carry_out(etcd.delayed.pop())
    assert PLACE.key(LEADER) not in etcd.keys


async def test_leader_that_a_newer_release_has_followed_leads_no_more(leaders: list[Leader]) -> None:
    etcd, told = Double(), asyncio.Event()
    first = leader(etcd, "a", leaders)
    first.on_lost = told.set
    await first.take(0.0)
    etcd.now += LIMITS.lease_s
    await newer(etcd, leaders).take(0.0)
    await soon(told.wait())
    assert not first.decides() and not await soon(first.confirmed())


async def test_manager_that_ends_does_not_wait_for_the_lease() -> None:
    etcd = Double()
    first = Leader(etcd, PLACE, "a", get_logger(), LIMITS)
    keeping = EtcdKeeping(first, "J", JobCounters(), get_logger(), lambda: None)
    assert await keeping.load(0.0, dict) is None
    assert await soon(keeping.save(0.0, {"rest": "1"}))
    etcd.answers = ["away"] * 10_000
    assert keeping.leader._lease is not None
    keeping.leader._lease = keeping.leader._lease.ended()
    waiting = asyncio.create_task(keeping.confirmed())
    saving = asyncio.create_task(keeping.save(0.0, {"rest": "2"}))
    await asyncio.sleep(0)
    assert keeping.term() is None
    keeping.hurry()
    assert not await soon(waiting) and not await soon(saving)
    etcd.answers = []
    await keeping.leader.give_back()
