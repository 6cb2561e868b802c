"""The lease of the Manager that leads: taken, renewed, and given back."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from taskd_net import job_limits
from taskd_net.codes import ConfigError
from taskd_net.etcd.client import Etcd, EtcdError
from taskd_net.etcd.lease import Lease
from taskd_net.etcd.place import Place
from taskd_net.etcd.store import LEADER, created
from taskd_net.untrusted import json_value
from taskd_net.wire import etcd_pb2 as wire

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

    Attributes:
        lost: set when another Manager leads, or may: the lease has ended in etcd.
        leaders: number of leaders of this job so far, this one included.
    """

    def __init__(self, etcd: Etcd, place: Place, name: str, log: Any) -> None:
        self._etcd = etcd
        self._place = place
        self._name = name
        self._log = log
        self._lease: Lease | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._renewed = asyncio.Event()
        self.lost = asyncio.Event()
        self.leaders = 0

    @property
    def number(self) -> int:
        """The fencing number; 0 before this Manager leads."""
        return 0 if self._lease is None else self._lease.number

    def decides(self) -> bool:
        """True while nobody else can lead."""
        return self._lease is not None and not self.lost.is_set() and self._lease.decides(clock())

    async def confirmed(self) -> bool:
        """Wait until this Manager may decide. Returns False where it never may again."""
        while not self.lost.is_set():
            if self.decides():
                return True
            self._renewed.clear()
            await self._renewed.wait()
        return False

    async def take(self, seconds: float) -> None:
        """Begin to lead, as soon as nobody does, within some seconds.

        Raises:
            ConfigError: another Manager leads.
            EtcdError: etcd has not answered.
        """
        give_up = clock() + seconds
        while (holder := await self._claim()) is not None:
            if clock() >= give_up:
                text = f"expected no other Manager, but {holder} leads this job"
                raise ConfigError(f"state is '{self._place}'; {text}")
            await asyncio.sleep(job_limits.LEADER_LOOK_S)
        self._renewing = asyncio.create_task(self._renew(), name=f"renews the lease of {self._name}")

    async def give_back(self) -> None:
        """End the lease, so that the next Manager need not wait for its end. Idempotent."""
        self.lost.set()
        self._renewed.set()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            self._renewing = None
        lease, self._lease = self._lease, None
        if lease is not None:
            try:
                await self._etcd.revoke(wire.LeaseRevokeRequest(ID=lease.id))
            except EtcdError as error:
                self._log.warning("lease_not_given_back", reason=str(error), seconds=job_limits.LEASE_S)

    # ---- inside

    async def _claim(self) -> str | None:
        """Lead, unless another Manager does, whose name is returned then."""
        key = self._place.key(LEADER)
        found = await self._etcd.range(wire.RangeRequest(key=key))
        if found.kvs:
            return _name(found.kvs[0].value)
        sent = clock()
        granted = await self._etcd.grant(wire.LeaseGrantRequest(TTL=job_limits.LEASE_S))
        said = json.dumps({"leader": self._name, "since": round(time.time(), 3)}).encode()
        request = wire.TxnRequest()
        request.compare.append(created(key, 0))
        read = wire.RequestOp(request_range=wire.RangeRequest(key=self._place.key(LED)))
        for name, lease in ((LEADER, granted.ID), (LED, 0)):
            put = wire.PutRequest(key=self._place.key(name), value=said, lease=lease)
            request.success.append(wire.RequestOp(request_put=put))
        request.success.append(read)
        request.failure.append(wire.RequestOp(request_range=wire.RangeRequest(key=key)))
        answer = await self._etcd.txn(request)
        if not answer.succeeded:
            holder = answer.responses[0].response_range.kvs
            # An attempt whose answer was lost, at another member of etcd, may have made this process the leader.
            if not holder or holder[0].lease != granted.ID:
                return _name(holder[0].value) if holder else "another Manager"
            number = holder[0].create_revision
            self.leaders = (await self._etcd.range(read.request_range)).kvs[0].version
        else:
            number = answer.header.revision
            self.leaders = answer.responses[2].response_range.kvs[0].version
        self._lease = Lease(granted.ID, number, float(granted.TTL), sent)
        self._log.info("leads", leader=self._name, number=number, changes=self.leaders - 1)
        return None

    async def _renew(self) -> None:
        said = False
        while (lease := self._lease) is not None:
            await asyncio.sleep(max(0.0, lease.renews - clock()) if not said else job_limits.ETCD_AGAIN_S)
            sent = clock()
            try:
                answer = await self._etcd.keep_alive(wire.LeaseKeepAliveRequest(ID=lease.id))
            except EtcdError as error:
                if not said and not self.decides():
                    said = True
                    self._log.error("leader_decides_nothing", reason=str(error))
                await asyncio.sleep(job_limits.ETCD_AGAIN_S)
                continue
            if answer.TTL <= 0:
                self._log.error("lead_lost", leader=self._name, number=lease.number)
                self.lost.set()
                self._renewed.set()
                return
            self._lease = lease.renewed(sent, float(answer.TTL))
            self._renewed.set()
            if said:
                said = False
                self._log.info("leader_decides_again", number=lease.number)


def _name(value: bytes) -> str:
    try:
        read = json_value(value.decode())
    except ValueError:
        return "another Manager"
    return str(read.get("leader", "")) if isinstance(read, dict) else "another Manager"
