"""Permissions of calls, by connection: whose streams stand there, who registered there, and what the peer shows."""

from __future__ import annotations

import pytest

from taskd_net import Code, Position
from taskd_net.core.certificate_name import CertificateName
from taskd_net.core.identity import Credentials, Violation
from taskd_net.core.links import Link
from taskd_net.core.ready import Kind
from taskd_net.core.router import Router
from taskd_net.net.joining.permissions import Permissions
from taskd_net.net.links.connections import Connections
from taskd_net.net.links.peer import CONTRACT, Peer
from taskd_net.net.links.remote import Caller, Remote, remote_of
from tests.links.pipes import frame

# Two connections of one host, and one of another host.
A, A_AGAIN, B = map(remote_of, ("ipv4:10.0.0.1:40001", "ipv4:10.0.0.1:40002", "ipv4:10.0.0.2:40001"))
NAMES = frozenset({CertificateName.parse("taskd://*/Worker/0/0")})
NOBODY = f"{int(Code.NIL_POSITION)} for u"
OTHERS = frozenset({CertificateName.parse("taskd://*/Worker/0/*")})


def caller(remote: Remote, names: frozenset[CertificateName] | None = None) -> Caller:
    """The far end of a connection."""
    return Caller(remote, lambda: names)


class Parent:
    """A Mgr, its children, and their connections."""

    def __init__(self, *, certified: bool = False) -> None:
        self.router = Router(Position.mgr(), upstream=False)
        self.connections = Connections()
        self.permissions = Permissions(self.router, self.connections, certified=certified)

    def child(self, position: str, remote: Remote, *behind: str, stream: bool = True) -> Link:
        """A child that has registered over a connection, with its stream there or without one, and what is behind."""
        credentials = self.permissions.shown(caller(remote))
        link_id = self.router.register(0.0, Position.parse(position), credentials=credentials).link
        assert link_id is not None
        self.connections.came_over(remote, link_id, Peer(CONTRACT))
        if stream:
            self.connections.stream_stands(remote, link_id)
        if behind:
            self.router.announced(0.0, link_id, Kind.ADD, [Position.parse(node) for node in behind], 1, "u")
        return self.router.children.by_id[link_id]

    def bringer(self, src: str, remote: Remote) -> str:
        """The child that brings a message of this sender; for none, the refusal with the message's uuid."""
        try:
            link = self.permissions.bringer(frame(src=src, to="Mgr"), caller(remote))
        except Violation as violation:
            return f"{int(violation.code)} for {violation.uuid}"
        return str(self.router.children.by_id[link].position)


@pytest.mark.parametrize(("certified", "names"), [(True, NAMES), (False, None)])
def test_names_count_only_where_positions_go_by_certificate(
    certified: bool, names: frozenset[CertificateName] | None
) -> None:
    shown = Parent(certified=certified).permissions.shown(caller(A, NAMES))
    assert shown == Credentials("ipv4:10.0.0.1", names)


def test_connection_with_streams_speaks_for_their_children_and_those_who_registered_over_it() -> None:
    parent = Parent()
    one, two = parent.child("Worker/0/0", A), parent.child("Worker/0/1", A)
    registered = parent.child("Worker/0/2", A, stream=False)
    beside = parent.child("Worker/0/3", A_AGAIN)
    speaks = [parent.permissions.speaks_for(caller(A), link) for link in (one, two, registered, beside)]
    assert speaks == [True, True, True, False], "also where the host is the same"


def test_connection_without_a_stream_speaks_for_the_children_of_its_host() -> None:
    parent = Parent()
    worker = parent.child("Worker/0/0", A)
    assert parent.permissions.speaks_for(caller(A_AGAIN), worker)
    assert not parent.permissions.speaks_for(caller(B), worker)


@pytest.mark.parametrize(("names", "speaks"), [(NAMES, True), (OTHERS, False), (None, False)])
def test_connection_without_a_stream_speaks_for_the_children_of_its_certificate(
    names: frozenset[CertificateName] | None, speaks: bool
) -> None:
    parent = Parent(certified=True)
    link_id = parent.router.register(0.0, Position.worker(0, 0), credentials=Credentials(A.place, NAMES)).link
    assert link_id is not None
    worker = parent.router.children.by_id[link_id]
    # From another host: the names decide.
    assert parent.permissions.speaks_for(caller(B, names), worker) is speaks


def test_only_child_with_a_stream_over_a_connection_brings_all_that_comes_over_it() -> None:
    """The Router decides on permission, as for every message."""
    parent = Parent()
    parent.child("Worker/0/0", A)
    parent.child("Worker/0/1", B)
    for src in ("Worker/0/0", "Worker/0/1", "Worker/9/9"):
        assert parent.bringer(src, A) == "Worker/0/0"


def test_several_children_over_one_connection_each_bring_their_own() -> None:
    parent = Parent()
    parent.child("Proxy/1", A, "Worker/1/1")
    parent.child("Worker/0/0", A)
    brings = [parent.bringer(src, A) for src in ("Worker/0/0", "Worker/1/1", "Proxy/1")]
    assert brings == ["Worker/0/0", "Proxy/1", "Proxy/1"]


def test_message_of_nobody_that_is_known_comes_from_a_child_that_may_have_others_below_it() -> None:
    parent = Parent()
    parent.child("Worker/0/0", A)
    parent.child("Proxy/1", A)
    assert parent.bringer("Worker/9/9", A) == "Proxy/1"


def test_child_that_joins_again_brings_messages_before_its_stream_stands() -> None:
    parent = Parent()
    parent.child("Worker/0/0", A, stream=False)
    assert parent.bringer("Worker/0/0", A) == "Worker/0/0"
    # Over a connection of its own for each call, as behind a proxy that is none of ours.
    assert parent.bringer("Worker/0/0", A_AGAIN) == "Worker/0/0"


def test_route_alone_gives_no_permission_to_another_host() -> None:
    parent = Parent()
    parent.child("Worker/0/0", A)
    assert parent.bringer("Worker/0/0", B) == NOBODY


def test_host_of_a_child_brings_no_messages_of_unknown_senders() -> None:
    parent = Parent()
    parent.child("Worker/0/0", A)
    assert parent.bringer("Worker/9/9", A_AGAIN) == NOBODY


def test_connection_whose_child_was_forgotten_brings_nothing() -> None:
    """Its stream has not ended yet."""
    parent = Parent()
    worker = parent.child("Worker/0/0", A)
    del parent.router.children.by_id[worker.id]
    assert parent.bringer("Worker/0/0", A) == NOBODY
