"""The state of a job on its way into etcd: a commit is waited for, because nothing may be decided without one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from taskd_net.base.codes import ConfigError
from taskd_net.job.decide.outbox import INFINITY
from taskd_net.job.keep.client import EtcdError
from taskd_net.job.keep.leader import Leader, clock
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import Deposed, EtcdStore, in_words, require_job
from taskd_net.job.manager.keeping import UNMARKED
from taskd_net.observe.job_view import JobCounters, LeaderView

T = TypeVar("T")


class EtcdKeeping:
    """The state in etcd, while a Manager leads. Its interface is that of `Keeping`.

    A file's disk that fails costs durability alone. Here a commit that fails stops the decisions until it is done: what
    another Manager cannot find in etcd must not have happened.

    Args:
        leader: the lease; `load` takes it where this Manager does not lead yet.
        job_id: the job.
        counters: count failures, and say whether etcd has everything.
        log: takes the lines.
        on_lost: called when another Manager leads, or has led.

    Attributes:
        again: time before which no commit is tried: none, as `save` itself goes on.
    """

    again = INFINITY

    def __init__(
        self, leader: Leader, job_id: str, counters: JobCounters, log: Any, on_lost: Callable[[], None]
    ) -> None:
        self.leader = leader
        leader.on_lost = on_lost
        self._job_id = job_id
        self._counters = counters
        self._log = log
        self._store: EtcdStore | None = None
        self._written: dict[str, str] = {}
        self._committed = 0.0
        self._closing = False

    @property
    def path(self) -> Place:
        """The place of the state, for people."""
        return self.leader.place

    async def load(self, now: float, read: Callable[[Mapping[str, str]], T]) -> T | None:
        """Begin to lead, and read the state; None where there is none.

        Args:
            now: the time.
            read: makes the state of its parts.

        Raises:
            ConfigError: etcd does not answer, or refuses; another Manager leads; the prefix is that of another job; the
                state cannot be read.
        """
        leader = self.leader
        with in_words(leader.place):
            if not leader.number:
                await require_job(leader.etcd, leader.place, self._job_id)
                await leader.take(leader.limits.gone_s)
            self._store = EtcdStore(leader.etcd, leader.place, self._job_id, leader.number, leader.limits)
            parts = await self._store.open()
        self._written = {name: parts[name] for name in UNMARKED if name in parts}
        try:
            return read(parts) if parts else None
        except ConfigError as error:
            raise ConfigError(f"state is '{leader.place}', but {error}") from None

    async def save(self, now: float, parts: Mapping[str, str | None]) -> bool:
        """Commit what has changed. Returns False where this Manager may decide nothing more: what it has decided since
        the last commit is void.
        """
        store, begun = self._store, clock()
        assert store is not None, "loaded"
        changed = {name: text for name, text in parts.items() if text is None or self._written.get(name) != text}
        if changed and not self.lost:
            store.begin(changed)
        while store.under_way:
            if self.lost:
                return False
            store.number = self.leader.number
            try:
                await store.flush()
            except EtcdError as error:
                self._failed(str(error))
                if self._closing:
                    return False
                await asyncio.sleep(self.leader.limits.again_s)
            except Deposed as error:
                self._failed(f"this Manager does not lead: {error}")
                if not await self.leader.again(store.number):
                    return False
        if changed:
            self._committed = now + clock() - begun
        self._written |= {name: text for name, text in changed.items() if text is not None and name in UNMARKED}
        if not self._counters.durable:
            self._counters.durable = True
            self._log.info("state_durable", file=str(self.path))
        return await self.confirmed()

    @property
    def lost(self) -> bool:
        """True where another Manager leads, or has led."""
        return self.leader.lost.is_set()

    async def confirmed(self) -> bool:
        """Wait until the lease allows to act on what is committed. A Manager that ends does not wait."""
        return await self.leader.confirmed()

    def term(self) -> int | None:
        """The fencing number; None while another Manager may lead."""
        return self.leader.number if self.leader.decides() else None

    def leader_view(self) -> LeaderView:
        """The lead, for faces."""
        leader = self.leader
        changes = max(0, leader.leaders - 1)
        return LeaderView(leader.name, leader.number, leader.since, changes, self.term() is not None, self._committed)

    def move(self, then: float, now: float) -> None:
        """Take note that the clock has moved: the last commit is not in the future."""
        self._committed = min(self._committed, now)

    def hurry(self) -> None:
        """The Manager ends: no commit is waited for beyond its present attempt."""
        self._closing = True
        self.leader.end()

    async def close(self) -> None:
        """Give the lead back, and close the connections."""
        self._closing = True
        await self.leader.close()

    def _failed(self, reason: str) -> None:
        self._counters.store_failures += 1
        if self._counters.durable:
            self._counters.durable = False
            self._log.error("state_not_stored", file=str(self.path), reason=reason)
