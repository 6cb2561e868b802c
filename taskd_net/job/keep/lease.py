"""The time for which the holder of a lease may decide: a pure function of its own clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from taskd_net.job.keep.limits import EtcdLimits


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that etcd has granted, and the leadership bound to it.

    Args:
        id: etcd's name of it.
        number: the fencing number, the create revision of the leader's key; it grows with each leader.
        seconds: etcd ends the lease so long after it has received the last renewal.
        sent: time at which the last confirmed renewal was sent, by the holder's clock. etcd has received it later, so
            the lease ends later than `seconds` after this.
        limits: times of renewals, and before the end.
    """

    id: int
    number: int
    seconds: float
    sent: float
    limits: EtcdLimits = EtcdLimits()

    @property
    def ends(self) -> float:
        """Time from which the lease may have ended."""
        return self.sent + self.seconds

    def decides(self, now: float) -> bool:
        """True while nobody else can lead, whatever has been lost since."""
        return now < self.ends - self.limits.margin_s

    @property
    def renews(self) -> float:
        """Time of the next renewal."""
        return self.sent + self.limits.renew_s

    def ended(self) -> Lease:
        """The lease after etcd has ended it."""
        return replace(self, sent=-inf)

    def renewed(self, sent: float, seconds: float) -> Lease:
        """The lease after a renewal that was sent at a time, and confirmed. An older confirmation changes nothing."""
        return replace(self, sent=sent, seconds=seconds) if sent > self.sent else self
