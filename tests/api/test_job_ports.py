"""The ports that follow from the id of a job."""

from __future__ import annotations

from taskd_net.job.ports import ports_of

PINNED = {"a": (27060, 27061), "b": (24756, 24757), "Jöb 1": (26544, 26545)}


def test_job_without_an_id_has_the_ports_of_taskd() -> None:
    assert ports_of("") == (9601, 9602)


def test_ports_of_an_id_stay_from_release_to_release() -> None:
    """The nodes of a job have to agree, whatever Python and whatever version computes them."""
    assert {job: tuple(ports_of(job)) for job in ("a", "b", "Jöb 1")} == PINNED


def test_ports_are_in_their_range_and_spread() -> None:
    ports = [ports_of(f"job-{number}") for number in range(2000)]
    assert all(each.proxy == each.mgr + 1 and 20_000 <= each.mgr < each.proxy <= 28_191 for each in ports)
    assert len(set(ports)) > 1500
