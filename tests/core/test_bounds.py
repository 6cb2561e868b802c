"""The Router's limits on a child: at the limit, and one above."""

from __future__ import annotations

from taskd_net.base.codes import Code
from taskd_net.base.peer_limits import Limits
from taskd_net.core import links, topology
from taskd_net.core.links import Link
from taskd_net.core.ready import Kind
from taskd_net.core.router import RouterConfig
from tests.core.driven import Driven
from tests.core.routers import Caller, add_child, answers, at, everybody


def mgr(routes: int = topology.ROUTES, **limits: int) -> Driven:
    """A Mgr with these limits."""
    return Driven(at("Mgr"), upstream=False, config=RouterConfig(limits=Limits(**limits), routes=routes))


def announce(node: Driven, link: Link, *path: str, now: float = 0.0, kind: Kind = Kind.ADD) -> int:
    """The code that an announcement is answered with."""
    ((code, _),) = answers(node.announced(now, link, kind, everybody(*path), Caller(), "a"))
    return code


def test_routes_of_a_child() -> None:
    node = mgr(routes_per_child=3)
    proxy = add_child(node, "Proxy/0")
    assert announce(node, proxy, "Worker/0/0", "Worker/0/1", "Proxy/0") == 0
    assert announce(node, proxy, "Worker/0/0", "Worker/0/1", "Worker/0/1") == 0
    assert announce(node, proxy, "Worker/0/1", "Worker/0/2") == Code.EXCEED_MAX_REGISTRY_NUM
    assert node.routes.claimed(proxy.id) == 3
    assert announce(node, proxy, "Worker/0/1", kind=Kind.WITHDRAW) == 0
    assert announce(node, proxy, "Worker/0/2") == 0


def test_claims_that_are_not_the_route_count_too() -> None:
    """Two children that claim the same again and again shall not fill the memory with old claims."""
    node = mgr(routes_per_child=3)
    one, two = add_child(node, "Proxy/0"), add_child(node, "Proxy/1")
    assert announce(node, one, "Worker/0/0", "Worker/0/1") == 0
    assert announce(node, two, "Worker/0/0", "Worker/0/1") == 0
    assert node.routes.behind(one.id) == {at("Proxy/0")}
    assert announce(node, one, "Worker/0/2") == Code.EXCEED_MAX_REGISTRY_NUM


def test_announcements_in_a_second() -> None:
    node, most = mgr(), links.ANNOUNCEMENTS_PER_S
    proxy, other = add_child(node, "Proxy/0"), add_child(node, "Proxy/1")
    codes = [announce(node, proxy, "Proxy/0") for _ in range(most + 1)]
    assert codes == [0] * most + [Code.RECV_BUF_BUSY]
    assert announce(node, other, "Proxy/1") == 0
    assert announce(node, proxy, "Proxy/0", now=0.9 / most) == Code.RECV_BUF_BUSY
    assert announce(node, proxy, "Proxy/0", now=1.1 / most) == 0
    assert [announce(node, proxy, "Proxy/0", now=100.0) for _ in range(most + 1)].count(0) == most


def test_claims_of_all_children_are_bounded_with_a_fair_share_for_each() -> None:
    """One child has as many as a single one may; where many do, a newcomer still has room."""
    node = mgr(routes=1, routes_per_child=10)
    taken = []
    for server in range(5):
        link = add_child(node, f"Proxy/{server}")
        while announce(node, link, f"Worker/{server}/{node.routes.claimed(link.id)}") == 0:
            pass
        taken.append(node.routes.claimed(link.id))
    assert taken[:3] == [10, 10, 10]
    assert min(taken) > 1, "more than their own position"
    assert node.routes.total <= topology.ROUTES_SHARES * 10


def test_announcement_of_many_at_once_takes_half_of_what_is_left() -> None:
    node = mgr(routes=1, routes_per_child=10)
    for server in range(3):
        link = add_child(node, f"Proxy/{server}")
        assert announce(node, link, *(f"Worker/{server}/{rank}" for rank in range(9))) == 0
    link, many = add_child(node, "Proxy/3"), [f"Worker/3/{rank}" for rank in range(5)]
    assert topology.ROUTES_SHARES * 10 - node.routes.total - node.routes.claimed(link.id) == 8
    assert announce(node, link, *many) == Code.EXCEED_MAX_REGISTRY_NUM
    assert announce(node, link, *many[:4]) == 0
