"""Register and PathDiscovery: the very bytes of the generated classes, and nothing but refusals."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskd_net import Code, Position
from taskd_net.base.codes import Refusal
from taskd_net.core.topology import ROUTES_SLICE
from taskd_net.net.wire import requests
from taskd_net.net.wire import tasknet_pb2 as pb
from taskd_net.net.wire.positions import read_position
from taskd_net.net.wire.requests import HEAD_FIELDS, POSITION_BYTES, SHORT
from tests.wire.test_codec import GOOD, NODES, TEXT, refusal_of, wire

pytestmark = pytest.mark.oldest


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
    read = requests.read_announcement(data)
    assert (read.uuid, read.proxy, [position for part in read.slices() for position in part.read()]) == (
        uuid,
        proxy,
        path,
    )


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


def test_path_is_cut_into_slices_that_are_counted_before_they_are_read() -> None:
    path = [Position.worker(rank // 8, rank) for rank in range(2 * ROUTES_SLICE + 1)]
    parts = list(requests.read_announcement(requests.write_announcement("u", path[0], path)).slices())
    assert [part.fields for part in parts] == [part.cost for part in parts] == [ROUTES_SLICE, ROUTES_SLICE, 1]
    assert [position for part in parts for position in part.read()] == path


def test_slice_costs_as_much_as_its_bytes_could_be_positions() -> None:
    long = Position("Proxy", "7" * 100 * POSITION_BYTES)
    (part,) = requests.read_announcement(requests.write_announcement("u", GOOD, [long])).slices()
    assert (part.fields, part.cost) == (1, 100)


def test_path_that_is_too_long_is_refused_before_its_slice_is_read() -> None:
    data = requests.write_announcement("u", GOOD, [GOOD] * (ROUTES_SLICE + 3))
    parts = requests.read_announcement(data, ROUTES_SLICE + 2).slices()
    assert next(parts).fields == ROUTES_SLICE
    refusal = refusal_of(list, parts)
    assert (refusal.code, refusal.uuid) == (Code.DST_TYPE_ILLEGAL, "u")


@pytest.mark.parametrize("rest", [b"\x1a\x05ab", b"\x1a", b"\x0b", b"\x1a\x02\x0a\x01", b"\x1a\x03\x0a\x01\xff"])
def test_path_that_is_none_is_refused_where_it_is_read(rest: bytes) -> None:
    data = requests.write_announcement("u", GOOD, [GOOD]) + rest
    announcement = requests.read_announcement(data)
    assert announcement.path is None
    assert refusal_of(lambda: [part.read() for part in announcement.slices()]).code == Code.NIL_MESSAGE


def test_short_path_is_there_at_once_and_is_one_slice() -> None:
    data = requests.write_announcement("u", GOOD, [GOOD] * 3)
    announcement = requests.read_announcement(data, 3)
    assert announcement.path == [GOOD] * 3
    assert [(part.cost, part.read()) for part in announcement.slices()] == [(3, [GOOD] * 3)]
    long = requests.write_announcement("u", GOOD, [GOOD] * (SHORT + 1))
    for other, most in ((data, 2), (long, requests.PATH_POSITIONS)):
        assert requests.read_announcement(other, most).path is None


@pytest.mark.parametrize("fields", [HEAD_FIELDS - 2, HEAD_FIELDS - 1])
def test_fields_of_another_version_in_front_of_a_long_path(fields: int) -> None:
    written = requests.write_announcement("", GOOD, [GOOD] * POSITION_BYTES * SHORT)
    head = pb.PathDiscoveryReq(proxyPos=wire(GOOD)).SerializeToString()
    data = head + b"\x20\x01" * fields + written[len(head) :]
    if fields < HEAD_FIELDS - 1:
        assert requests.read_announcement(data).proxy == GOOD
    else:
        assert refusal_of(requests.read_announcement, data).code == Code.NIL_POSITION


@given(st.binary(max_size=80))
def test_what_is_read_by_slices_is_what_the_generated_class_reads(rest: bytes) -> None:
    data = requests.write_announcement("u", GOOD, [GOOD]) + rest
    try:
        path = [position for part in requests.read_announcement(data).slices() for position in part.read()]
    except Refusal:
        return
    assert path == [read_position(position) for position in pb.PathDiscoveryReq.FromString(data).path]


def test_neighbours_share_the_text_of_their_node_rank() -> None:
    path = [Position.worker(80 + rank // 300, rank) for rank in range(600)]
    announcement = requests.read_announcement(requests.write_announcement("a", Position.proxy(80), path))
    read = [position for part in announcement.slices() for position in part.read()]
    assert read == path
    assert len({id(position.server_rank) for position in read}) <= 2 + len(path) // ROUTES_SLICE
