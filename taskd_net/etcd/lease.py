"""The time for which the holder of a lease may decide: a pure function of its own clock."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from taskd_net import job_limits


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease that etcd has granted, and the leadership bound to it.

    Args:
        id: etcd's name of it.
        number: the fencing number, the create revision of the leader's key; it grows with each leader.
        seconds: etcd ends the lease so long after it has received the last renewal.
        sent: time at which the last confirmed renewal was sent, by the holder's clock. etcd has received it later, so
            the lease ends later than `seconds` after this.
    """

    id: int
    number: int
    seconds: float
    sent: float

    @property
    def ends(self) -> float:
        """Time from which the lease may have ended."""
        return self.sent + self.seconds

    def decides(self, now: float) -> bool:
        """True while nobody else can lead, whatever has been lost since."""
        return now < self.ends - job_limits.LEASE_MARGIN_S

    @property
    def renews(self) -> float:
        """Time of the next renewal."""
        return self.sent + job_limits.LEASE_RENEW_S

    def ended(self) -> Lease:
        """The lease after etcd has ended it."""
        return replace(self, sent=-inf)

    def renewed(self, sent: float, seconds: float) -> Lease:
        """The lease after a renewal that was sent at a time, and confirmed. An older confirmation changes nothing."""
        return replace(self, sent=sent, seconds=seconds) if sent > self.sent else self
