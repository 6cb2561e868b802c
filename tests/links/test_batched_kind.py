"""The batched kind: its offer in one version, and the session of each end as the two have agreed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import pytest

from taskd_net import Position
from taskd_net.net.links import batched_kind
from taskd_net.net.links import peer as peers
from taskd_net.net.links.batched import BatchedLink
from taskd_net.net.links.batched_kind import KIND
from taskd_net.net.links.kind import Parent
from taskd_net.net.links.remote import Caller, remote_of
from taskd_net.net.links.session import Host
from taskd_net.net.links.traced import TracedLink
from tests.links.pipes import FakeNode, FakePipe
from tests.peers.mesh import Mesh, batched_only
from tests.ports import free_address

HERE = Caller(remote_of("ipv4:10.0.0.1:40001"), lambda: None)


def offer() -> peers.Metadata:
    """The offer of a parent to any child."""
    return KIND.acceptor(cast(Parent, None)).offer(1, HERE)


def test_child_reads_the_offer_that_a_parent_makes() -> None:
    peer = peers.of_parent(dict(peers.parent_metadata(0, offer())))
    assert KIND.offered(peer)
    assert peer.numbers, "answers go by number"


@pytest.mark.parametrize("said", [{}, {peers.LINKS_KEY: ""}, {peers.LINKS_KEY: "batched/1"}])
def test_another_version_is_no_offer(said: dict[str, str]) -> None:
    assert not KIND.offered(peers.of_parent({peers.VERSION_KEY: "9.9"} | said))


def test_parent_serves_the_stream_of_the_kind_alone() -> None:
    assert list(KIND.acceptor(cast(Parent, None)).handlers()) == [batched_kind.STREAM]


@pytest.mark.parametrize("numbered", [False, True])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("traces", [False, True])
async def test_session_is_that_of_what_both_ends_know(numbered: bool, counts: bool, traces: bool) -> None:
    node = FakeNode("Mgr")
    node.tracer = cast(Any, object()) if traces else None
    peer = replace(peers.of_child({peers.VERSION_KEY: "9.9"}), numbers=numbered, counts=counts)
    link = batched_kind._session(cast(Host, node), 1, Position.worker(0, 0), FakePipe(), peer)
    assert type(link) is (TracedLink if traces else BatchedLink)
    assert (link.terms.numbered, link.terms.counts) == (numbered, counts)


@batched_only
async def test_child_of_ours_hears_with_its_stream_whether_the_parent_has_joined(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, parent_joined = list[bool | None](), peers.parent_joined

    def listen(metadata: Mapping[str, str]) -> bool | None:
        heard.append(parent_joined(metadata))
        return heard[-1]

    monkeypatch.setattr(peers, "parent_joined", listen)
    mgr = await mesh.mgr()
    await mesh.worker(0, 0, mgr)
    lonely = await mesh.proxy(0, free_address(), join=False)
    await mesh.worker(0, 1, lonely, join=False)
    await mesh.until(lambda: len(heard) == 2)
    assert heard == [True, False]
