"""The parts of a job's state below a prefix in etcd, read and committed by the leader alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from taskd_net.base.codes import ConfigError, TaskdNetError
from taskd_net.base.untrusted import printable, shown
from taskd_net.job.keep import commits
from taskd_net.job.keep.client import Etcd, EtcdError, EtcdRefused
from taskd_net.job.keep.commits import Change, Slices, Transaction
from taskd_net.job.keep.limits import EtcdLimits
from taskd_net.job.keep.place import Place, end_of
from taskd_net.net.wire import etcd_pb2 as wire

LEADER = "leader"
COMMIT = "commit"
JOB = "job"


class Deposed(TaskdNetError):
    """Another Manager leads, or has led meanwhile: this one commits nothing any more."""


class EtcdStore:
    """The state of one job in etcd, for one term of a leader.

    Args:
        etcd: takes the requests.
        place: the prefix.
        job_id: the job.
        number: the leader's fencing number. It may grow, where the same leader has taken a new lease.
        limits: sizes of requests.
    """

    def __init__(self, etcd: Etcd, place: Place, job_id: str, number: int, limits: EtcdLimits = EtcdLimits()) -> None:
        self._etcd = etcd
        self._place = place
        self._job_id = job_id
        self.number = number
        self._last = ""
        self._commits = 0
        self._limits = limits
        self._slices = Slices(limits=limits)
        self._steps: list[Transaction] = []

    async def open(self) -> dict[str, str]:
        """Read all parts, after a commit that the leader before has staged is written out.

        Raises:
            ConfigError: a key or a value is none of a Manager's.
            EtcdError: it cannot be read.
            Deposed: another Manager leads.
        """
        try:
            return await self._open()
        except ValueError as error:
            text = f"which cannot be read: {error}; expected the keys and values of a Manager"
            raise ConfigError(f"state is '{self._place}', {text}") from None

    async def _open(self) -> dict[str, str]:
        self._last = (await self._read(COMMIT)).get(COMMIT, "")
        if names := commits.pieces(self._last):
            texts = [(await self._read(name)).get(name) for name in names]
            # A commit's token stands after all its pieces, and they go after all that they say is written.
            if None in texts:
                raise EtcdError(f"a piece of the commit {self._last} is missing below {self._place}/{commits.STAGED}")
            self._steps = commits.write_out(self._last, [text for text in texts if text is not None])
            await self.flush()
        parts, self._slices = Slices.joined(await self._read(commits.PART, below=True), self._limits)
        return parts

    def begin(self, parts: Mapping[str, str | None]) -> None:
        """Begin a commit of parts; None removes one. `flush` carries it out. The one before has been flushed."""
        assert not self._steps, "one commit at a time"
        self._commits += 1
        token = f"{self.number}.{self._commits}"
        self._steps = commits.steps(self._slices.cut(parts), self._last, token, self._limits)

    async def flush(self) -> None:
        """Carry out the commit that was begun. After an EtcdError call it again: what was carried out stays so.

        Raises:
            EtcdError: etcd has not answered; the commit is done in part, or unclear.
            Deposed: another Manager leads; nothing more is carried out.
        """
        while self._steps:
            await self._carry_out(self._steps[0])
            self._last = self._steps.pop(0).becomes

    @property
    def under_way(self) -> bool:
        """True while a commit was begun and is not known to be done."""
        return bool(self._steps)

    async def _carry_out(self, step: Transaction) -> None:
        key = self._place.key
        request = wire.TxnRequest()
        request.compare.append(created(key(LEADER), self.number))
        request.compare.append(holds(key(COMMIT), step.follows))
        for change in step.changes:
            request.success.append(self._operation(change))
        if step.becomes != step.follows:
            request.success.append(self._operation((COMMIT, step.becomes)))
        for name in (LEADER, COMMIT):
            request.failure.append(wire.RequestOp(request_range=wire.RangeRequest(key=key(name))))
        answer = await self._etcd.txn(request)
        if answer.succeeded:
            return
        leader, commit = (list(each.response_range.kvs) for each in answer.responses)
        stands = commit[0].value.decode(errors="replace") if commit else ""
        # An attempt before this one has been carried out, and its answer was lost.
        if step.becomes != step.follows and stands == step.becomes:
            return
        if not leader or leader[0].create_revision != self.number:
            raise Deposed(leader[0].value.decode(errors="replace") if leader else "")
        raise Deposed(f"the commit {stands} follows none of this Manager's")

    def _operation(self, change: Change) -> wire.RequestOp:
        name, value = change
        key = self._place.key(name)
        if value is not None:
            return wire.RequestOp(request_put=wire.PutRequest(key=key, value=value.encode()))
        end = end_of(key) if name == commits.STAGED else b""
        return wire.RequestOp(request_delete_range=wire.DeleteRangeRequest(key=key, range_end=end))

    async def _read(self, name: str, *, below: bool = False) -> dict[str, str]:
        """The values of a key, or of all keys that begin with it, of one revision.

        Raises:
            EtcdError: etcd has not answered.
            ValueError: a value is no text.
        """
        key = self._place.key(name)
        end, found, revision = end_of(key) if below else b"", dict[str, str](), 0
        while True:
            request = wire.RangeRequest(key=key, range_end=end, limit=self._limits.read_keys, revision=revision)
            answer = await self._etcd.range(request)
            for each in answer.kvs:
                name = self._place.name(each.key)
                try:
                    found[name] = each.value.decode()
                except UnicodeDecodeError as error:
                    raise ValueError(f"the value of {shown(name)} is no text, {error}") from None
            if not answer.more:
                return found
            # Nobody else commits: a later page of another revision would be the same, but for a leader before.
            revision, key = answer.header.revision, answer.kvs[-1].key + b"\0"


@contextmanager
def in_words(place: Place) -> Iterator[None]:
    """Raise a ConfigError that names the setting in place of an error of etcd."""
    try:
        yield
    except EtcdRefused as error:
        expected = "an etcd user with rights below the prefix" if error.rights else "an etcd with the v3 interface"
        raise ConfigError(f"state is '{place}'; expected {expected}, but {error}") from None
    except (EtcdError, Deposed) as error:
        raise ConfigError(f"state is '{place}'; expected an etcd that answers, but {error}") from None


async def require_job(etcd: Etcd, place: Place, job_id: str) -> None:
    """Check that a prefix is free, or has the state of this job.

    Raises:
        ConfigError: it has that of another job, or keys of somebody else.
        EtcdError: it cannot be read.
    """
    for _ in range(2):
        answer = await etcd.range(wire.RangeRequest(key=place.key(JOB)))
        if answer.kvs:
            other = answer.kvs[0].value.decode(errors="replace")
            if other != job_id:
                text = f"which has the state of job {other!r}; expected that of {job_id!r}, or a prefix without keys"
                raise ConfigError(f"state is '{place}', {text}")
            return
        every = place.key("")
        foreign = await etcd.range(wire.RangeRequest(key=every, range_end=end_of(every), limit=1))
        request = wire.TxnRequest()
        request.compare.append(created(place.key(JOB), 0))
        put = wire.PutRequest(key=place.key(JOB), value=job_id.encode())
        request.success.append(wire.RequestOp(request_put=put))
        if foreign.kvs:
            name = place.name(foreign.kvs[0].key)
            if name != JOB:
                text = "where it is no Manager's; expected a prefix without keys, or that of a Manager"
                raise ConfigError(f"state is '{place}', which has the key '{place.prefix}/{printable(name)}', {text}")
        elif (await etcd.txn(request)).succeeded:
            return
    raise EtcdError(f"two Managers begin at {place} at the same time")


def created(key: bytes, revision: int) -> wire.Compare:
    """The comparison of the revision that made a key; 0 for no such key."""
    return wire.Compare(key=key, target=wire.Compare.CREATE, result=wire.Compare.EQUAL, create_revision=revision)


def written(key: bytes, revision: int) -> wire.Compare:
    """The comparison of the revision that wrote a key last."""
    return wire.Compare(key=key, target=wire.Compare.MOD, result=wire.Compare.EQUAL, mod_revision=revision)


def holds(key: bytes, value: str) -> wire.Compare:
    """The comparison of a key's value; an empty one for no such key."""
    if not value:
        return created(key, 0)
    return wire.Compare(key=key, target=wire.Compare.VALUE, result=wire.Compare.EQUAL, value=value.encode())
