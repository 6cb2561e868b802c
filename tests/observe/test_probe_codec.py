"""Requests for probes and their answers, as bytes and back."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import Code, Position
from taskd_net.base import limits
from taskd_net.base.codes import Refusal
from taskd_net.core.frame import Failure
from taskd_net.observe import probe_codec
from taskd_net.observe.probe_codec import About, Echo, ProbeSeries

SECONDS = st.floats(0.0, limits.TIMEOUT_MAX_S)
RANKS = st.integers(0, 10**6)
POSITIONS = st.one_of(
    st.just(Position.mgr()), st.builds(Position.proxy, RANKS), st.builds(Position.worker, RANKS, RANKS)
)
CODES = st.sampled_from([int(code) for code in Code])


@given(st.builds(ProbeSeries, POSITIONS, SECONDS, st.integers(0, 2**32 - 1), SECONDS))
def test_request_for_a_series_comes_back(series: ProbeSeries) -> None:
    assert probe_codec.read_ping(probe_codec.write_ping(series)) == series


@given(POSITIONS, SECONDS)
def test_request_for_a_trace_comes_back(to: Position, timeout: float) -> None:
    assert probe_codec.read_trace(probe_codec.write_trace(to, timeout)) == (to, timeout)


@given(
    st.builds(
        Echo,
        CODES,
        POSITIONS,
        SECONDS,
        st.text(max_size=10),
        st.text(max_size=10),
        st.none() | st.integers(0, 2**31),
        st.lists(st.builds(Failure, POSITIONS, CODES), max_size=3).map(tuple),
    )
)
def test_answer_comes_back(echo: Echo) -> None:
    read = probe_codec.read_echo(probe_codec.write_echo(echo))
    assert read == echo and read.ok == (echo.code == 0)


@given(POSITIONS, st.integers(0, 2**62), st.none() | POSITIONS)
def test_description_comes_back(position: Position, time_ns: int, parent: Position | None) -> None:
    about = About(position, "1.2.3", time_ns, parent)
    assert probe_codec.read_about(probe_codec.write_about(about)) == about


@pytest.mark.parametrize("seconds", [-0.001, float("nan"), float("inf"), limits.TIMEOUT_MAX_S * 2])
def test_times_out_of_bounds_are_refused(seconds: float) -> None:
    to = Position.mgr()
    with pytest.raises(ValueError, match=r"timeout is .*; expected seconds from 0 to"):
        probe_codec.read_trace(probe_codec.write_trace(to, seconds))
    with pytest.raises(ValueError, match=r"interval is .*; expected seconds from 0 to"):
        probe_codec.read_ping(probe_codec.write_ping(ProbeSeries(to, 1.0, 1, seconds)))


def test_garbage_is_refused() -> None:
    with pytest.raises(ValueError, match="not a PingRequest"):
        probe_codec.read_ping(b"\xff")
    with pytest.raises(ValueError, match="not a TraceRequest"):
        probe_codec.read_trace(b"\xff")


@pytest.mark.parametrize("read", [probe_codec.read_echo, probe_codec.read_about])
@pytest.mark.parametrize("data", [b"\xff", b"\x12\x02\xff\xff", b""], ids=["no message", "no text", "no position"])
def test_answer_that_is_none_is_refused(read: Callable[[bytes], object], data: bytes) -> None:
    """A client ended with a traceback."""
    with pytest.raises(Refusal) as refused:
        read(data)
    assert refused.value.code == Code.CLIENT_ERR
