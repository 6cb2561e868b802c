"""The kind of a peer, by its own metadata."""

from dataclasses import replace

import pytest

from taskd_net import Position, __version__
from taskd_net.base.states import State
from taskd_net.core.ready import Kind
from taskd_net.net.links import batched_kind, registry
from taskd_net.net.links import peer as peers

OFFER = ((peers.LINKS_KEY, batched_kind.OFFER), peers.NUMBERS)


def test_nodes_of_ours_recognise_each_other() -> None:
    child = peers.of_child(dict(peers.own_metadata()))
    assert child == peers.Peer(peers.OURS, __version__, probes=True, counts=True, numbers=True, hears=True)
    assert peers.of_child(dict(peers.own_metadata(service=True))) == replace(child, service=True)
    for batched in (True, False):
        parent = peers.of_parent(dict(peers.parent_metadata(3, OFFER if batched else ())))
        assert parent == peers.Peer(
            peers.OURS, __version__, 3, reports=True, probes=True, counts=True, numbers=batched, ends=True
        )
        assert [kind.name for kind in registry.usable("batched") if kind.offered(parent)] == (
            ["batched", "tasknet"] if batched else ["tasknet"]
        )


def test_parent_of_many_asks_for_longer_pauses() -> None:
    for pace, heard in ((0.0, 0.0), (2.0, 0.0), (7.6, 8.0), (5000.0, 999.0)):
        assert peers.of_parent(dict(peers.parent_metadata(0, OFFER, pace))).pace == heard
    said = dict(peers.parent_metadata(0, OFFER))
    for wrong in ("", "-1", "1000", "1e9", "nan", "9999", "²"):
        assert peers.of_parent(said | {peers.PACE_KEY: wrong}).pace == 0.0


def test_only_who_says_so_knows_probes() -> None:
    """An earlier node of ours would hand them to its application."""
    said = {peers.VERSION_KEY: "0.1.0"}
    for peer in (peers.of_child(said), peers.of_parent(said), peers.of_child({}), peers.of_parent({})):
        assert not peer.probes
    assert peers.of_child(dict(peers.own_metadata())).probes


def test_parent_of_an_earlier_version_is_told_nothing_and_offers_nothing() -> None:
    earlier = peers.of_parent({peers.VERSION_KEY: "0.0.9", peers.DEPTH_KEY: "2"})
    assert earlier == peers.Peer(peers.OURS, "0.0.9", 2)
    assert not (
        batched_kind.KIND.offered(earlier) or earlier.reports or earlier.probes or earlier.counts or earlier.numbers
    )
    assert not (earlier.ends or earlier.hears or earlier.service)


def test_child_that_says_nothing_keeps_the_contract() -> None:
    assert peers.of_child({"user-agent": "grpc-java/1.60"}) == peers.Peer(peers.CONTRACT)
    assert peers.of_child({}) == peers.Peer(peers.CONTRACT)


def test_nodes_of_the_originals_are_known() -> None:
    """A child by the library that it is written with, a parent by not saying that it is one of ours."""
    assert peers.of_child({"user-agent": "grpc-go/1.60"}) == peers.Peer(peers.ORIGINAL)
    assert peers.of_child({"user-agent": "python grpc-go/1.60"}) == peers.Peer(peers.CONTRACT)
    ours = {"user-agent": "grpc-go/1.60", peers.VERSION_KEY: "9.9"}
    assert peers.of_child(ours).profile is peers.OURS
    assert peers.of_parent({}) == peers.Peer(peers.ORIGINAL)


@pytest.mark.parametrize("depth", ["", "-1", "x", "1e3", "9999999999999999999", "\u0661"])
def test_depth_that_is_none_counts_as_the_top(depth: str) -> None:
    assert peers.of_parent({peers.VERSION_KEY: "9.9", peers.DEPTH_KEY: depth}).depth == 0


def test_binary_metadata_is_left_out() -> None:
    assert peers.read_metadata((("a", "1"), ("b-bin", b"\xff"))) == {"a": "1"}
    assert peers.read_metadata(None) == {}


def test_position_of_a_stream() -> None:
    position = Position.worker(3, 7)
    assert peers.stream_position(dict(peers.stream_metadata(position))) == position
    assert peers.stream_position({"role": "Proxy"}) == Position("Proxy", "", "")


@pytest.mark.parametrize("kind", Kind)
def test_kind_of_an_announcement(kind: Kind) -> None:
    assert peers.routes_kind(dict(peers.routes_metadata(kind))) is kind


@pytest.mark.parametrize("state", [State.FINISHED, State.STOPPED])
def test_end_of_the_child_that_announces(state: State) -> None:
    assert peers.end_of(dict(peers.end_metadata(state))) is state


@pytest.mark.parametrize("text", ["", "joined", "gone", "bored"])
def test_a_child_that_names_no_good_end_stays(text: str) -> None:
    assert peers.end_of({peers.END_KEY: text}) is None
    assert peers.end_of({}) is None


def test_kind_that_nobody_knows_is_an_addition() -> None:
    assert peers.routes_kind({peers.ROUTES_KEY: "shuffle"}) is Kind.ADD


def test_profiles_differ_in_who_checks_bodies_and_whose_answer_is_the_next_one() -> None:
    profiles = (peers.OURS, peers.CONTRACT, peers.ORIGINAL)
    assert [profile.checks for profile in profiles] == [True, False, False]
    assert [profile.next_ack for profile in profiles] == [False, False, True]
