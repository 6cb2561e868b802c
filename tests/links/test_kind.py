"""The interface of a kind of link: a kind that defines the least is offered, serves nothing, and needs nothing."""

from __future__ import annotations

from typing import cast

import pytest

from taskd_net.base.codes import TaskdNetError
from taskd_net.net.links import peer as peers
from taskd_net.net.links import registry
from taskd_net.net.links.kind import End, Failed, LinkKind, Opened, Parent, Unreachable, Way
from taskd_net.net.links.remote import Caller, remote_of
from tests.links import memory

HERE = Caller(remote_of("ipv4:10.0.0.1:40001"), lambda: None)


class Least(LinkKind):
    """A kind that defines what it must."""

    name, probed = "least", 9

    async def open(self, way: Way) -> Opened:
        """It is never there."""
        raise Unreachable("nothing there")


def test_kind_has_to_be_opened_in_its_own_way() -> None:
    with pytest.raises(TypeError, match="open"):
        LinkKind()  # type: ignore[abstract]


@pytest.mark.parametrize(
    "peer", [peers.Peer(peers.ORIGINAL), peers.Peer(peers.CONTRACT), peers.Peer(peers.OURS, "9.9")]
)
def test_kind_that_looks_for_no_offer_is_every_parents(peer: peers.Peer) -> None:
    assert Least().offered(peer)


async def test_acceptor_that_defines_nothing_adds_nothing_to_a_parent() -> None:
    acceptor = Least().acceptor(cast(Parent, None))
    assert (acceptor.offer(1, HERE), dict(acceptor.handlers())) == ((), {})
    assert not acceptor.busy
    assert not acceptor.catching_up
    acceptor.forget(1)
    acceptor.close()


def test_way_that_is_not_there_is_also_an_attempt_that_failed() -> None:
    """So who knows no other kind may treat both alike."""
    assert issubclass(Unreachable, Failed)
    assert issubclass(Failed, TaskdNetError)


def test_reasons_to_end_a_link_are_told_apart_by_their_text() -> None:
    """The wire has no more than that for parents of the original's."""
    assert len({end.value for end in End}) == len(End)


def test_kinds_are_told_apart_by_name_and_by_probe() -> None:
    with memory.registered():
        kinds = registry.usable(memory.KIND.name)
    assert len({kind.name for kind in kinds}) == len({kind.probed for kind in kinds}) == len(kinds) == 4
    assert all(kind.probed not in (0, *range(4000, 7000)) for kind in kinds)
