"""A double of etcd with its semantics: revisions, versions, transactions, and leases under a clock of the test's."""

from __future__ import annotations

from dataclasses import dataclass, field

from taskd_net.job.keep.client import EtcdError, EtcdRefused, LeaseEnded
from taskd_net.net.wire import etcd_pb2 as wire

OPERATIONS = 128
"""Operations in a transaction at most, as etcd's default."""

REQUEST_BYTES = 1_572_864
"""Bytes of a request at most, as etcd's default."""


class Away(EtcdError):
    """No member answers."""


@dataclass
class Double:
    """One etcd. `answers` has what becomes of the next requests; then all are answered.

    Args:
        now: the time; leases end by it.
        answers: of each further request: `ok`, `away` (not carried out), `lost` (carried out, and never answered), or
            `twice` (carried out two times; the first answer counts).
    """

    now: float = 0.0
    revision: int = 1
    keys: dict[bytes, wire.KeyValue] = field(default_factory=dict)
    leases: dict[int, tuple[float, int]] = field(default_factory=dict)
    answers: list[str] = field(default_factory=list)
    delayed: list[wire.TxnRequest] = field(default_factory=list)
    transactions: int = 0

    async def range(self, request: wire.RangeRequest) -> wire.RangeResponse:
        self._arrive()
        return self._range(request)

    async def txn(self, request: wire.TxnRequest) -> wire.TxnResponse:
        answer = self.answers.pop(0) if self.answers else "ok"
        if answer == "away":
            raise Away("no member answers")
        if answer == "late":
            self.delayed.append(request)
            raise Away("no answer in time")
        done = self.carry_out(request)
        if answer == "twice":
            self.carry_out(request)
        if answer == "lost":
            raise Away("no answer in time")
        return done

    async def grant(self, request: wire.LeaseGrantRequest) -> wire.LeaseGrantResponse:
        self._arrive()
        number = 1000 + len(self.leases)
        self.leases[number] = (self.now + request.TTL, request.TTL)
        return wire.LeaseGrantResponse(ID=number, TTL=request.TTL)

    async def keep_alive(self, request: wire.LeaseKeepAliveRequest) -> wire.LeaseKeepAliveResponse:
        self._arrive()
        self._expire()
        ends, seconds = self.leases[request.ID]
        if ends <= self.now:
            return wire.LeaseKeepAliveResponse(ID=request.ID, TTL=0)
        self.leases[request.ID] = (self.now + seconds, seconds)
        return wire.LeaseKeepAliveResponse(ID=request.ID, TTL=seconds)

    async def revoke(self, request: wire.LeaseRevokeRequest) -> wire.LeaseRevokeResponse:
        self._arrive()
        self.leases[request.ID] = (self.now, self.leases[request.ID][1])
        self._expire()
        return wire.LeaseRevokeResponse()

    async def close(self) -> None:
        """There are no connections."""

    def put(self, key: bytes, value: bytes) -> None:
        """Write a key, as somebody else does."""
        request = wire.RequestOp(request_put=wire.PutRequest(key=key, value=value))
        assert self.carry_out(wire.TxnRequest(success=[request])).succeeded

    def carry_out(self, request: wire.TxnRequest) -> wire.TxnResponse:
        """Carry out a transaction that arrives now."""
        self._expire()
        self.transactions += 1
        written = [each for each in request.success if not each.HasField("request_range")]
        if len(request.success) > OPERATIONS or request.ByteSize() > REQUEST_BYTES:
            raise EtcdRefused("etcdserver: too many operations in txn request, or the request is too large")
        names = [each.request_put.key for each in written if each.HasField("request_put")]
        if len(names) != len(set(names)):
            raise EtcdRefused("etcdserver: duplicate key given in txn request")
        succeeded = all(map(self._holds, request.compare))
        operations = request.success if succeeded else request.failure
        if any(self._ended(each.request_put.lease) for each in operations if each.request_put.lease):
            raise LeaseEnded("etcdserver: requested lease not found")
        if any(not each.HasField("request_range") for each in operations):
            self.revision += 1
        answer = wire.TxnResponse(succeeded=succeeded)
        for each in operations:
            answer.responses.append(self._operate(each))
        answer.header.revision = self.revision
        return answer

    def _ended(self, lease: int) -> bool:
        return lease not in self.leases or self.leases[lease][0] <= self.now

    def _arrive(self) -> None:
        if self.answers and self.answers.pop(0) != "ok":
            raise Away("no member answers")
        self._expire()

    def _expire(self) -> None:
        for number, (ends, _) in self.leases.items():
            gone = [key for key, each in self.keys.items() if each.lease == number and ends <= self.now]
            for key in gone:
                self.revision += 1
                del self.keys[key]

    def _range(self, request: wire.RangeRequest) -> wire.RangeResponse:
        found = sorted(self._among(request.key, request.range_end))
        limit = request.limit or len(found)
        answer = wire.RangeResponse(kvs=[self.keys[key] for key in found[:limit]], more=len(found) > limit)
        answer.header.revision = self.revision
        return answer

    def _operate(self, operation: wire.RequestOp) -> wire.ResponseOp:
        if operation.HasField("request_range"):
            return wire.ResponseOp(response_range=self._range(operation.request_range))
        if operation.HasField("request_delete_range"):
            gone = self._among(operation.request_delete_range.key, operation.request_delete_range.range_end)
            for key in gone:
                del self.keys[key]
            return wire.ResponseOp(response_delete_range=wire.DeleteRangeResponse(deleted=len(gone)))
        put = operation.request_put
        before = self.keys.get(put.key)
        self.keys[put.key] = wire.KeyValue(
            key=put.key,
            value=put.value,
            lease=put.lease,
            create_revision=self.revision if before is None else before.create_revision,
            mod_revision=self.revision,
            version=1 if before is None else before.version + 1,
        )
        return wire.ResponseOp(response_put=wire.PutResponse())

    def _among(self, key: bytes, end: bytes) -> list[bytes]:
        return [each for each in self.keys if (key <= each < end if end else each == key)]

    def _holds(self, compare: wire.Compare) -> bool:
        there = self.keys.get(compare.key)
        if compare.target == wire.Compare.VALUE:
            return there is not None and there.value == compare.value
        if compare.target == wire.Compare.MOD:
            return (0 if there is None else there.mod_revision) == compare.mod_revision
        assert compare.target == wire.Compare.CREATE
        return (0 if there is None else there.create_revision) == compare.create_revision
