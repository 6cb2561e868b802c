"""The state of a job in etcd: one commit after another, each once, and of one leader alone."""

from __future__ import annotations

import asyncio
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net.base.codes import ConfigError
from taskd_net.base.logger import get_logger
from taskd_net.job.keep.client import EtcdError
from taskd_net.job.keep.leader import Leader
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import LEADER, Deposed, EtcdStore, created, require_job
from tests.etcd.double import Double

PLACE = Place.parse("etcd://127.0.0.1:2379/taskd/J")
LIMITS = EtcdLimits()


async def leads(etcd: Double, name: str, limits: EtcdLimits = LIMITS) -> EtcdStore:
    """The store of a Manager that has just begun to lead."""
    leader = Leader(etcd, PLACE, name, get_logger())
    assert await leader._claim(created(PLACE.key(LEADER), 0)) is None
    return EtcdStore(etcd, PLACE, "J", leader.number, limits)


async def committed(store: EtcdStore, parts: dict[str, str | None], attempts: int = 20) -> None:
    """Commit, as often as it takes."""
    store.begin(parts)
    for left in reversed(range(attempts)):
        try:
            await store.flush()
            return
        except EtcdError:
            if not left:
                raise


SMALL = EtcdLimits(commit_keys=2)
"""A commit of three keys takes several transactions."""


async def test_what_was_committed_is_read_by_the_next_leader() -> None:
    etcd = Double()
    first = await leads(etcd, "a")
    assert await first.open() == {}
    await committed(first, {"rest": "1", "agent/1": "a", "agent/2": "b", "agent/": "c"})
    await committed(first, {"agent/": None})
    await committed(first, {"rest": "2", "agent/1": None})
    etcd.now += LIMITS.lease_s
    second = await leads(etcd, "b")
    assert await second.open() == {"rest": "2", "agent/2": "b"}


async def test_leader_that_was_replaced_commits_nothing() -> None:
    etcd = Double()
    first = await leads(etcd, "a")
    await first.open()
    await committed(first, {"rest": "1"})
    etcd.now += LIMITS.lease_s
    second = await leads(etcd, "b")
    await second.open()
    with pytest.raises(Deposed, match='"leader": "b"'):
        await committed(first, {"rest": "of a"})
    await committed(second, {"rest": "2"})
    etcd.now += LIMITS.lease_s
    assert await (await leads(etcd, "c")).open() == {"rest": "2"}


async def test_late_attempt_of_an_answered_commit_changes_nothing() -> None:
    etcd = Double()
    store = await leads(etcd, "a")
    await store.open()
    etcd.answers = ["late"]
    await committed(store, {"rest": "1"})
    await committed(store, {"rest": "2"})
    (late,) = etcd.delayed
    assert not etcd.carry_out(late).succeeded
    etcd.now += LIMITS.lease_s
    assert await (await leads(etcd, "b")).open() == {"rest": "2"}


@pytest.mark.parametrize("last", range(9))
async def test_large_commit_of_a_leader_that_dies_is_there_as_a_whole_or_not_at_all(last: int) -> None:
    """The commit has 3 pieces: 8 transactions, of which the fourth one counts."""
    etcd = Double()
    first = await leads(etcd, "a", SMALL)
    await first.open()
    before = {f"agent/{rank}": "old" for rank in range(2)}
    await committed(first, dict(before))
    etcd.answers = ["ok"] * last + ["away"] * 30
    after = {f"agent/{rank}": "new" for rank in range(5)}
    if last < 8:
        with pytest.raises(EtcdError):
            await committed(first, dict(after))
    else:
        await committed(first, dict(after))
    etcd.answers = []
    etcd.now += LIMITS.lease_s
    second = await leads(etcd, "b", SMALL)
    assert await second.open() == (after if last >= 4 else before)
    await committed(second, {"agent/9": "next"})
    assert not [key for key in etcd.keys if b"/staged/" in key] or last < 4


ANSWERS = st.sampled_from(["ok", "away", "lost", "twice", "late"])
PARTS = st.dictionaries(st.sampled_from("abcdef"), st.none() | st.text("xyz", max_size=3), min_size=1, max_size=6)


PLAYS = st.tuples(st.sampled_from(["commit", "late", "end"]), PARTS, st.lists(ANSWERS, max_size=6))


@given(st.lists(PLAYS, max_size=12))
def test_any_order_of_two_leaders_and_of_answers(plays: list[tuple[str, dict[str, str | None], list[str]]]) -> None:
    """Every commit that is known to be done is there, and none of a leader that was replaced."""

    async def play() -> None:
        etcd = Double()
        stores = [await leads(etcd, "a", SMALL)]
        held = dict(await stores[0].open())
        unclear: dict[str, str | None] | None = None
        for what, parts, answers in plays:
            etcd.answers = list(answers)
            if what == "late" and etcd.delayed:
                etcd.carry_out(etcd.delayed.pop(0))
            elif what == "end":
                etcd.answers = []
                etcd.now += LIMITS.lease_s
                stores.append(await leads(etcd, "b", SMALL))
                read = await stores[-1].open()
                assert read in (held, _after(held, unclear))
                held, unclear = read, None
                with contextlib.suppress(Deposed):  # it may learn that its last commit is done
                    await stores[-2].flush()
                if not stores[-2].under_way:
                    with pytest.raises(Deposed):
                        await committed(stores[-2], {"a": "of the one before"})
            elif unclear is None:
                try:
                    await committed(stores[-1], parts, attempts=3)
                    held = _after(held, parts)
                except EtcdError:
                    unclear = parts
            else:
                try:
                    await stores[-1].flush()
                    held, unclear = _after(held, unclear), None
                except EtcdError:
                    """Still unclear."""
        etcd.answers = []
        etcd.now += LIMITS.lease_s
        assert await (await leads(etcd, "z", SMALL)).open() in (held, _after(held, unclear))

    asyncio.run(play())


def _after(held: dict[str, str], parts: dict[str, str | None] | None) -> dict[str, str]:
    return {name: text for name, text in {**held, **(parts or {})}.items() if text is not None}


async def test_state_of_another_job_and_foreign_keys_are_refused() -> None:
    etcd = Double()
    await require_job(etcd, PLACE, "J")
    await require_job(etcd, PLACE, "J")
    with pytest.raises(ConfigError, match="which has the state of job 'J'; expected that of 'K'"):
        await require_job(etcd, PLACE, "K")
    above = Place.parse("etcd://127.0.0.1:2379/taskd")
    with pytest.raises(ConfigError, match="which has the key 'taskd/J/job'"):
        await require_job(etcd, above, "J")


async def test_foreign_keys_that_are_no_text_are_refused_in_words() -> None:
    etcd = Double()
    etcd.put(PLACE.key("") + b"\xff\x00", b"\xfe")
    with pytest.raises(ConfigError, match=r"which has the key 'taskd/J/\\xff\\u0000', where it is no Manager's"):
        await require_job(etcd, PLACE, "J")


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (b"part/rest", b"\xff", r"the value of 'part/rest' is no text, 'utf-8' codec"),
        (b"part/rest\0second", b"1", "invalid literal for int"),
        (b"commit", b"1.1+many", "invalid literal for int"),
        (b"commit", b"\xff", "the value of 'commit' is no text"),
    ],
)
async def test_state_that_a_stranger_has_written_into_is_refused_in_words(
    key: bytes, value: bytes, reason: str
) -> None:
    etcd = Double()
    store = await leads(etcd, "a")
    etcd.put(PLACE.key("") + key, value)
    with pytest.raises(ConfigError, match=rf"state is '{PLACE}', which cannot be read: {reason}.*expected the keys"):
        await store.open()


async def test_commit_of_a_stranger_that_is_no_text_ends_the_lead() -> None:
    etcd = Double()
    store = await leads(etcd, "a")
    await store.open()
    etcd.put(PLACE.key("commit"), b"\xff")
    with pytest.raises(Deposed, match="follows none of this Manager's"):
        await committed(store, {"rest": "1"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("etcd://127.0.0.1:2379", "the prefix is ''"),
        ("etcd:///a", "expected etcd://HOST:PORT"),
        ("etcd://127.0.0.1/a", "expected host:port"),
        ("etcd://127.0.0.1:2379/a//b", "the prefix is 'a//b'"),
        ("etcd://127.0.0.1:2379,/a", "expected host:port"),
    ],
)
def test_place_that_cannot_be_read_is_said(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Place.parse(text)
