"""Register and PathDiscovery: the very bytes of the generated classes, and nothing but refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import Code, Position
from taskd_net.codes import Refusal
from taskd_net.wire import requests
from taskd_net.wire import tasknet_pb2 as pb
from tests.wire.test_codec import GOOD, NODES, TEXT, refusal_of, wire

pytestmark = pytest.mark.compat


@given(st.binary(max_size=60), st.sampled_from([requests.read_register, requests.read_announcement]))
def test_garbage_is_refused_and_never_more(data: bytes, read: Callable[[bytes], object]) -> None:
    with contextlib.suppress(Refusal):
        read(data)


@given(TEXT, NODES)
def test_registration_comes_back(uuid: str, position: Position) -> None:
    data = requests.write_register(uuid, position)
    assert data == pb.RegisterReq(uuid=uuid, pos=wire(position)).SerializeToString(deterministic=True)
    assert requests.read_register(data) == (uuid, position)


def test_registration_that_is_none() -> None:
    assert refusal_of(requests.read_register, b"\xff").code == Code.NIL_MESSAGE
    refusal = refusal_of(requests.read_register, pb.RegisterReq(uuid="u").SerializeToString())
    assert (refusal.code, refusal.uuid) == (Code.NIL_POSITION, "u")


@given(TEXT, NODES, st.lists(NODES, min_size=1, max_size=5))
def test_announcement_comes_back(uuid: str, proxy: Position, path: list[Position]) -> None:
    data = requests.write_announcement(uuid, proxy, path)
    assert requests.read_announcement(data) == requests.Announcement(uuid, proxy, path)


@pytest.mark.parametrize(
    "request_",
    [
        pb.PathDiscoveryReq(uuid="u"),
        pb.PathDiscoveryReq(uuid="u", proxyPos=wire(GOOD)),
        pb.PathDiscoveryReq(uuid="u", path=[wire(GOOD)]),
    ],
    ids=["nothing", "no path", "no proxyPos"],
)
def test_announcement_that_says_nothing(request_: Any) -> None:
    refusal = refusal_of(requests.read_announcement, request_.SerializeToString())
    assert (refusal.code, refusal.uuid) == (Code.NIL_POSITION, "u")


def test_announcement_that_is_none() -> None:
    assert refusal_of(requests.read_announcement, b"\xff").code == Code.NIL_MESSAGE
