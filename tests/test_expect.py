"""The size of a job, and who is therefore expected."""

from __future__ import annotations

import pytest

from taskd_net import ConfigError, Position
from taskd_net.base.expect import Expected


def expected(size: str, *present: str, below: str = "Mgr") -> list[str]:
    """The expected ranks."""
    known = [Position.parse(text) for text in present]
    return [str(position) for position in Expected.parse(size).positions(known, Position.parse(below))]


@pytest.mark.parametrize("text", ["4", "4x", "x8", "0x8", "4x-1", "4X8", "4x8x2", "4 x 8", "٤x8", "9999999x1", ""])
def test_a_size_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ConfigError, match=r"expect is .*; expected nodes x processes per node, e.g. 4x8"):
        Expected.parse(text)


def test_size_is_written_as_it_is_read() -> None:
    assert str(Expected.parse(" 4x8 ")) == "4x8" and Expected.parse("4x8") == Expected(4, 8)


def test_each_node_has_its_proxy_and_its_ranks() -> None:
    assert expected("2x2") == ["Proxy/0", "Worker/0/0", "Worker/0/1", "Proxy/1", "Worker/1/2", "Worker/1/3"]
    assert expected("2x0") == ["Proxy/0", "Proxy/1"]


def test_an_agent_is_expected_on_each_node_that_has_shown_one() -> None:
    assert expected("2x1", "Agent/1") == ["Proxy/0", "Proxy/1", "Agent/1"]
    # A stray one is of no node of the job, and says nothing of those that are.
    assert expected("2x0", "Agent/1000") == ["Proxy/0", "Proxy/1"]


def test_workers_are_expected_where_one_has_shown_or_no_agent_has() -> None:
    """A training script that does not rejoin is no part of the mesh; its Agent is."""
    assert expected("2x1", "Agent/0", "Worker/1/1") == ["Proxy/0", "Agent/0", "Worker/0/0", "Proxy/1", "Worker/1/1"]
    assert expected("1x2", "Agent/0") == ["Proxy/0", "Agent/0"]


def test_a_worker_is_expected_by_its_rank_wherever_it_is() -> None:
    assert expected("2x1", "Worker/0/1") == ["Proxy/0", "Worker/0/0", "Proxy/1", "Worker/0/1"]


def test_a_proxy_expects_its_own_node_alone() -> None:
    assert expected("3x2", below="Proxy/1") == ["Proxy/1", "Worker/1/2", "Worker/1/3"]
    assert expected("3x2", below="Proxy/7") == []
