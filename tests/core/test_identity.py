"""A child's claims: its position, its messages' senders, the nodes below it."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code, Refusal
from taskd_net.base.position import Position, tool_ranks
from taskd_net.core.certificate_name import CertificateName
from taskd_net.core.frame import Ack
from taskd_net.core.identity import UNSHOWN, Credentials, Violation
from taskd_net.core.ready import Announce, Kind
from taskd_net.core.router import RouterConfig
from tests.core.driven import Answer, Driven
from tests.core.routers import Caller, accused, add_child, answered, at, child_from, everybody, joined, router

HERE, THERE = Credentials("10.0.0.1"), Credentials("10.0.0.2")


def certificate(*names: str, host: str = "10.0.0.1") -> Credentials:
    """The credentials of a connection with such a certificate."""
    return Credentials(host, frozenset(CertificateName.parse(name) for name in names))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (HERE, HERE, True),
        (HERE, THERE, False),
        (UNSHOWN, UNSHOWN, True),
        (certificate("taskd://j/Worker/0/0"), certificate("taskd://j/Worker/0/0", host="10.0.0.2"), True),
        (certificate("taskd://j/Worker/0/0"), certificate("taskd://j/Worker/0/*"), False),
        (certificate("taskd://j/Worker/0/0"), HERE, False),
        (HERE, certificate("taskd://j/Worker/0/0"), False),
        (certificate(), certificate(), True),
    ],
)
def test_same_peer(one: Credentials, other: Credentials, same: bool) -> None:
    assert one.same_peer(other) == same


def test_names_cover_positions_of_their_job() -> None:
    held = certificate("taskd://j/Worker/0/0", "taskd://j/Agent/0")
    covered = [held.covers("j", at(text)) for text in ("Worker/0/0", "Agent/0/start-time", "Worker/0/1", "Proxy/0")]
    assert covered == [True, True, False, False]
    assert not held.covers("other", at("Worker/0/0"))
    assert HERE.covers("j", at("Worker/0/0"))
    assert not certificate().covers("j", at("Worker/0/0"))


def test_a_tool_of_a_node_has_the_name_of_its_agent() -> None:
    one, every = (Position.agent(tool_ranks(node)[0]) for node in (1, None))
    agent = certificate("taskd://j/Agent/1", "taskd://j/Worker/1/*")
    assert agent.covers("j", one, service=True)
    assert not agent.covers("j", one), "a rank of the job is no tool"
    assert not agent.covers("other", one, service=True) and not agent.covers("j", every, service=True)
    assert not certificate("taskd://j/Agent/2", "taskd://j/Worker/1/*").covers("j", one, service=True)
    assert not agent.covers("j", at("Agent/1000000000"), service=True), "it is no tool of a node"
    assert all(certificate("taskd://j/Agent/*").covers("j", each) for each in (one, every))


def test_who_shows_no_certificate_where_names_are_asked_for_is_no_tool_of_a_node() -> None:
    plain, tool = Credentials("127.0.0.1", unproven=True), Position.agent(tool_ranks(1)[0])
    assert not plain.covers("j", tool, service=True)
    assert plain.covers("j", at("Worker/0/0")) and plain.covers("j", at("Agent/1000000000"))
    assert HERE.covers("j", tool), "nobody asks for names"


def refused_position(node: Driven, position: str, credentials: Credentials) -> int:
    """The code that a registration is refused with as a violation; 0 for a good one."""
    try:
        node.register(1.0, at(position), None, credentials)
    except Violation as violation:
        return violation.code
    return 0


def test_position_of_a_connected_child_is_for_the_same_peer_alone() -> None:
    mgr = router("Mgr")
    link = child_from(mgr, "Worker/0/0", HERE)
    assert refused_position(mgr, "Worker/0/0", THERE) == Code.NIL_POSITION
    assert (link.credentials, link.epoch) == (HERE, 1)
    assert refused_position(mgr, "Worker/0/0", HERE) == 0
    mgr.link_down(1.0, link, "Worker/0/0", ())
    assert refused_position(mgr, "Worker/0/0", THERE) == 0
    assert link.credentials == THERE


def test_place_that_waits_for_its_stream_goes_to_whoever_registers() -> None:
    mgr = router("Mgr")
    link = mgr.register(0.0, at("Worker/0/0"), None, HERE)
    assert refused_position(mgr, "Worker/0/0", THERE) == 0
    assert link.credentials == THERE


def test_certificate_has_to_name_the_position() -> None:
    mgr = Driven(at("Mgr"), upstream=False, config=RouterConfig(job="j"))
    mine = certificate("taskd://j/Worker/0/*")
    assert refused_position(mgr, "Worker/0/5", mine) == 0
    assert refused_position(mgr, "Worker/1/5", mine) == Code.NIL_POSITION
    assert refused_position(mgr, "Worker/0/5", certificate("taskd://other/Worker/0/5")) == Code.NIL_POSITION
    with pytest.raises(Refusal) as malformed:
        mgr.register(0.0, at("Worker/0/x"), None, mine)
    assert malformed.value.code == Code.DST_PROCESS_RANK_ILLEGAL
    # It is said to be no position before anything is said of the certificate.
    with pytest.raises(Refusal) as unnamed:
        mgr.register(0.0, at("Worker/x/5"), None, mine)
    assert unnamed.value.code == Code.DST_SRV_RANK_ILLEGAL


def test_proxy_of_the_same_host_takes_a_position_over_at_once() -> None:
    mgr = router("Mgr")
    child_from(mgr, "Worker/0/0", HERE)
    proxy = child_from(mgr, "Proxy/1", HERE, "Worker/0/0")
    assert mgr.routes.next_hop(at("Worker/0/0")) == proxy.id


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("leaf", ["Worker/0/0", "Agent/0"])
def test_leaf_announces_itself_alone(kind: Kind, leaf: str) -> None:
    mgr, ask = router("Mgr"), Caller()
    liar = add_child(mgr, leaf)
    actions = mgr.announced(0.0, liar, kind, everybody(leaf, "Worker/0/7"), ask, "a")
    assert (accused(actions), answered(actions)) == ([(leaf, Code.DST_TYPE_ILLEGAL)], [Code.DST_TYPE_ILLEGAL])
    assert at("Worker/0/7") not in mgr.routes
    assert answered(mgr.announced(0.0, liar, Kind.ADD, everybody(leaf), ask, "b")) == [0]


def test_one_bad_position_does_not_cost_the_others_of_a_proxy_their_routes() -> None:
    proxy = joined("Proxy/9")
    child = add_child(proxy, "Proxy/0")
    actions = proxy.announced(0.0, child, Kind.ADD, everybody("Proxy/9", "Worker/0/0", "Mgr"), Caller(), "a")
    assert accused(actions) == [("Proxy/0", Code.DST_TYPE_ILLEGAL)]
    (announce,) = [action for action in actions if isinstance(action, Announce)]
    assert announce.positions == everybody("Worker/0/0", "Proxy/9")


def test_announcing_without_a_registration_accuses_nobody() -> None:
    mgr, ask = router("Mgr"), Caller()
    actions = mgr.announced(0.0, None, Kind.ADD, everybody("Worker/0/0"), ask, "a")
    text = "the announcing child is not registered here"
    assert actions == [Answer(ask, Ack("a", Code.CLIENT_ERR, at("Mgr"), text, 0))]
