"""The time for which the holder of a lease decides."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.job.keep.lease import Lease
from taskd_net.job.keep.limits import EtcdLimits

LIMITS = EtcdLimits()
SECONDS = st.floats(0.0, 20.0)


def test_holder_stops_before_the_lease_may_have_ended() -> None:
    lease = Lease(1, 7, 5.0, sent=100.0)
    assert lease.decides(100.0 + 5.0 - LIMITS.margin_s - 0.001)
    assert not lease.decides(100.0 + 5.0 - LIMITS.margin_s)
    assert not lease.decides(108.0), "a process that was stopped for 8 s"
    assert lease.renews == 100.0 + LIMITS.renew_s


def test_confirmation_that_comes_late_counts_from_its_sending() -> None:
    lease = Lease(1, 7, 5.0, sent=100.0).renewed(101.6, 5.0)
    assert lease.ends == 106.6
    assert lease.renewed(101.0, 5.0) == lease, "an older one"


@given(st.lists(st.tuples(SECONDS, st.floats(0.0, 3.0)), max_size=12), SECONDS)
def test_two_leaders_never_decide_at_one_time(renewals: list[tuple[float, float]], look: float) -> None:
    """Each renewal is sent at a time, and arrives later. etcd's lease ends 5 s after the last arrival."""
    lease, ends = Lease(1, 7, 5.0, sent=0.0), 5.0
    for sent, way in sorted(renewals):
        if sent + way >= ends:
            break  # the lease has ended: etcd confirms none
        ends = max(ends, sent + way + 5.0)
        lease = lease.renewed(sent, 5.0)
    assert not lease.decides(max(look, ends)), "the next one leads from then on"


def test_lease_outlasts_a_renewal_that_takes_as_long_as_a_request_may() -> None:
    assert LIMITS.renew_s + LIMITS.call_s <= LIMITS.lease_s - LIMITS.margin_s
