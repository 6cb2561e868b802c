"""The lease of the Manager that leads: taken, renewed, and given back."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Iterable
from typing import Any

from taskd_net.base.codes import ConfigError
from taskd_net.base.untrusted import json_value
from taskd_net.job.decide.state import SCHEMA, NewerRelease
from taskd_net.job.keep.client import Etcd, EtcdError, EtcdRefused
from taskd_net.job.keep.lease import Lease
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place
from taskd_net.job.keep.store import LEADER, created, in_words, require_job, written
from taskd_net.net.wire import etcd_pb2 as wire

LED = "led"


def clock() -> float:
    """Seconds by a clock that goes on while the machine is suspended, as etcd's leases do."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Leader:
    """The leadership of one job, as this process sees it.

    Args:
        etcd: takes the requests.
        place: the prefix.
        name: of this Manager, for people: the address at which it listens.
        log: takes the lines.
        limits: times of the lease.
        schema: of the state that this Manager writes.

    Attributes:
        etcd: takes the requests.
        place: the prefix.
        limits: as the argument.
        on_lost: called when another Manager leads, or has led.
        lost: set when another Manager leads, or has led.
        leaders: number of terms of leaders of this job so far, this one included.
    """

    def __init__(
        self, etcd: Etcd, place: Place, name: str, log: Any, limits: EtcdLimits = EtcdLimits(), schema: int = SCHEMA
    ) -> None:
        self._schema = schema
        self.etcd = etcd
        self.place = place
        self.limits = limits
        self._name = name
        self._log = log
        self.on_lost: Callable[[], None] = lambda: None
        self._lease: Lease | None = None
        # The leases of claims, with their seconds and the times at which they were asked for.
        self._granted: dict[int, tuple[float, float]] = {}
        self._renewing: asyncio.Task[None] | None = None
        self._renewed = asyncio.Event()
        self._doubted = asyncio.Event()
        self._ending = False
        self._closing: asyncio.Task[None] | None = None
        self.lost = asyncio.Event()
        self.leaders = 0
        self._since = 0.0  # by `clock`

    @property
    def name(self) -> str:
        """Name of the Manager that leads."""
        return self._name

    @property
    def since(self) -> float:
        """Begin of this term, in seconds since the epoch by the host's clock of now; 0 before the first."""
        return time.time() - (clock() - self._since) if self.leaders else 0.0

    @property
    def number(self) -> int:
        """The fencing number; 0 before this Manager leads."""
        return 0 if self._lease is None else self._lease.number

    def decides(self) -> bool:
        """True while nobody else can lead."""
        return self._lease is not None and not self.lost.is_set() and self._lease.decides(clock())

    async def confirmed(self) -> bool:
        """Wait until this Manager may decide. Returns False where it never may again, or ends."""
        return await self._leads_after(0)

    async def again(self, number: int) -> bool:
        """Wait, after a commit of a term was refused, for the next term of this Manager. Returns False where another
        Manager has led, or this one ends.
        """
        if self.number == number:
            self._doubted.set()
        return await self._leads_after(number)

    def end(self) -> None:
        """This Manager ends: nothing is waited for any more."""
        self._ending = True
        self._renewed.set()

    async def begin(self, job_id: str) -> str | None:
        """`claim` for the first time, where the prefix is that of this job.

        Raises:
            ConfigError: etcd does not answer, or refuses; the prefix is that of another job; or as in `claim`.
        """
        with in_words(self.place):
            await require_job(self.etcd, self.place, job_id)
            return await self.claim()

    async def holder(self) -> str | None:
        """Name of the Manager that leads; None for none.

        Raises:
            EtcdError: etcd has not answered.
        """
        found = (await self.etcd.range(wire.RangeRequest(key=self.place.key(LEADER)))).kvs
        return str(_said(found[0].value).get("leader", "another Manager")) if found else None

    async def claim(self) -> str | None:
        """Begin to lead, unless another Manager does, whose name is returned then.

        Raises:
            NewerRelease: the last Manager that has led is of a newer release, whose state this one cannot read.
            EtcdError: etcd has not answered. The claim may have arrived; the next one finds that out.
        """
        holder = await self._claim(created(self.place.key(LEADER), 0))
        if holder is None:
            self._renewing = asyncio.create_task(self._renew(), name=f"renews the lease of {self._name}")
            self._renewing.add_done_callback(self._renewing_ended)
        return holder

    async def take(self, seconds: float) -> None:
        """Begin to lead, as soon as nobody does, within some seconds.

        Raises:
            ConfigError: another Manager leads; or as in `claim`.
            EtcdError: etcd has not answered.
        """
        give_up = clock() + seconds
        while True:
            try:
                if (holder := await self.claim()) is None:
                    return
            except EtcdRefused:
                raise
            except EtcdError:
                if clock() >= give_up:
                    raise
            else:
                if clock() >= give_up:
                    text = f"expected no other Manager, but {holder} leads this job"
                    raise ConfigError(f"state is '{self.place}'; {text}")
            await asyncio.sleep(self.limits.look_s)

    async def give_back(self) -> None:
        """End the lease, so that the next Manager need not wait for its end. Idempotent."""
        self.end()
        lease, self._lease = None if self.lost.is_set() else self._lease, None
        self.lost.set()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
        if lease is not None:
            try:
                await self.etcd.revoke(wire.LeaseRevokeRequest(ID=lease.id))
            except EtcdError as error:
                self._log.warning("lease_not_given_back", reason=str(error), seconds=self.limits.lease_s)

    async def close(self) -> None:
        """Give the lease back, and close the connections. Idempotent: every caller waits for the same end."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name=f"gives back the lease of {self._name}")
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        await self.give_back()
        await self.etcd.close()

    async def _leads_after(self, number: int) -> bool:
        while not self.lost.is_set():
            if self.number > number and self.decides():
                return True
            if self._ending:
                return False
            self._renewed.clear()
            await self._renewed.wait()
        return False

    async def _claim(self, *compared: wire.Compare) -> str | None:
        """Lead, unless another Manager does, whose name is returned then.

        Args:
            compared: have to hold in etcd; that nobody leads is the first of them.
        """
        key = self.place.key
        # `led` is the key behind `leader`. A claim counts if nobody has led since this look.
        look = wire.RangeRequest(key=key(LEADER), range_end=key(LED) + b"\0")
        seen = {each.key: each for each in (await self.etcd.range(look)).kvs}
        last, leader = seen.get(key(LED)), seen.get(key(LEADER))
        if last is not None:
            self._require_schema(last.value)
        if leader is None:
            sent = clock()
            granted = await self.etcd.grant(wire.LeaseGrantRequest(TTL=self.limits.lease_s))
            self._granted[granted.ID] = (float(granted.TTL), sent)
            unchanged = written(key(LED), 0 if last is None else last.mod_revision)
            answer = await self.etcd.txn(self._request((*compared, unchanged), granted.ID))
            found = answer.responses[-1].response_range.kvs
            if not found:
                return "another Manager, for a moment,"
            leader = found[0]
        # It may be of an earlier claim of this process, whose answer was lost.
        if leader.lease not in self._granted:
            return str(_said(leader.value).get("leader", "another Manager"))
        seconds, sent = self._granted[leader.lease]
        led = (await self.etcd.range(wire.RangeRequest(key=key(LED)))).kvs
        self.leaders, self._since = led[0].version, clock()
        self._lease = Lease(leader.lease, leader.create_revision, seconds, sent, self.limits)
        self._granted = {self._lease.id: (seconds, sent)}
        self._log.info("leads", leader=self._name, number=self.number, changes=self.leaders - 1)
        return None

    def _require_schema(self, led: bytes) -> None:
        """Check that this Manager can read the state of the one that has led last. Without a number it is 1."""
        schema = _said(led).get("schema", 1)
        if type(schema) is int and schema > self._schema:
            text = f"schema {schema}, of a newer release; this one reads up to {self._schema}"
            raise NewerRelease(f"state is '{self.place}', which has {text}")

    def _request(self, compared: Iterable[wire.Compare], lease: int) -> wire.TxnRequest:
        """The transaction of a claim. Either way its last answer has the leader's key."""
        said = json.dumps({"leader": self._name, "since": round(time.time(), 3), "schema": self._schema}).encode()
        request = wire.TxnRequest(compare=compared)
        read = wire.RequestOp(request_range=wire.RangeRequest(key=self.place.key(LEADER)))
        for name, bound in ((LEADER, lease), (LED, 0)):
            put = wire.PutRequest(key=self.place.key(name), value=said, lease=bound)
            request.success.append(wire.RequestOp(request_put=put))
        request.success.append(read)
        request.failure.append(read)
        return request

    async def _renew(self) -> None:
        said = False
        while (lease := self._lease) is not None:
            await self._until(lease.renews if not said else clock() + self.limits.again_s)
            sent = clock()
            try:
                answer = await self.etcd.keep_alive(wire.LeaseKeepAliveRequest(ID=lease.id))
                if answer.TTL > 0 and not self._doubted.is_set():
                    self._lease = lease.renewed(sent, float(answer.TTL))
                elif not await self._lead_again(lease):
                    self._log.error("lead_lost", leader=self._name, number=lease.number)
                    self.lost.set()
                    self.on_lost()
                    return
            except EtcdError as error:
                if not said and not self.decides():
                    said = True
                    self._log.error("leader_decides_nothing", reason=str(error))
                await asyncio.sleep(self.limits.again_s)
                continue
            finally:
                self._renewed.set()
            if said:
                said = False
                self._log.info("leader_decides_again", number=self.number)

    def _renewing_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            # Without renewals the lease ends, and nobody would say so.
            self._log.error("lease_failed", leader=self._name, reason=repr(error), exc_info=error)
            self.lost.set()
            self._renewed.set()
            self.on_lost()

    async def _until(self, when: float) -> None:
        """Wait until a time, or a doubt."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, when - clock())):
                await self._doubted.wait()

    async def _lead_again(self, lease: Lease) -> bool:
        """The lease has ended in etcd, as after a long silence: take another one. False if somebody has led meanwhile.

        Nobody has, as long as the last term that etcd knows is this one. So the state in memory is that in etcd.

        Raises:
            EtcdError: etcd has not answered.
        """
        self._lease = lease.ended()
        key = self.place.key
        try:
            holder = await self._claim(created(key(LEADER), 0), written(key(LED), lease.number))
        except NewerRelease:
            return False
        # A commit that was refused while the key of this term stands follows one that is none of this Manager's.
        refused = self._doubted.is_set() and self.number == lease.number
        self._doubted.clear()
        return holder is None and not refused


def _said(value: bytes) -> dict[str, Any]:
    """The value of `leader` or `led`; empty where it is none of a Manager's."""
    try:
        read = json_value(value.decode())
    except ValueError:
        return {}
    return read if isinstance(read, dict) else {}
