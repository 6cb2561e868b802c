"""Every event of a Router and what it decides. The invariants are checked after each (`Driven`)."""

from __future__ import annotations

import pytest

from taskd_net.base import limits
from taskd_net.base.codes import Code, Refusal
from taskd_net.core.counters import Statistics
from taskd_net.core.frame import Ack
from taskd_net.core.links import UP
from taskd_net.core.ready import Announce, Forgot, Joined, Kind
from taskd_net.core.topology import LOCAL
from tests.core.driven import Answer, Deliver, Forward
from tests.core.routers import (
    STRANGER,
    Caller,
    add_child,
    answers,
    at,
    everybody,
    frame,
    hops,
    join,
    joined,
    router,
    stand,
)

INF = float("inf")


def test_rule_1_a_message_for_this_node_goes_into_the_inbox() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    for came_from in (UP, child.id, STRANGER):
        message = frame("Proxy/0", "Worker/0/0", uuid=str(came_from))
        actions = proxy.frame_arrived(1.0, came_from, message, ask)
        assert actions == [Deliver(message), Answer(ask, Ack(message.uuid, Code.OK, at("Proxy/0"), receivers=1))]


def test_rule_2_a_known_way_goes_down() -> None:
    proxy = joined("Proxy/0")
    worker = add_child(proxy, "Worker/0/0")
    other = add_child(proxy, "Proxy/7", "Worker/7/70")
    assert hops(proxy.frame_arrived(1.0, UP, frame("Worker/0/0"), Caller())) == [worker.id]
    assert hops(proxy.frame_arrived(1.0, UP, frame("Worker/7/70", uuid="v"), Caller())) == [other.id]
    assert hops(proxy.frame_arrived(1.0, worker.id, frame("Worker/7/70", "Worker/0/0"), Caller())) == [other.id]


def test_rule_3_an_unknown_way_goes_up_if_the_message_came_from_below_or_from_here() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    for uuid, came_from in enumerate((child.id, STRANGER)):
        message = frame("Worker/9/99", "Worker/0/0", uuid=str(uuid))
        assert hops(proxy.frame_arrived(1.0, came_from, message, Caller())) == [UP]
    assert hops(proxy.send(1.0, frame("Worker/9/99", "Proxy/0", uuid="own"), Caller(), 1.0)) == [UP]


@pytest.mark.parametrize("to", ["Worker/9/99", "Mgr", "Agent/0", "Worker/All/0,1", "Proxy/All", "Worker/All/All"])
@pytest.mark.parametrize("sync", [True, False])
def test_rule_4_a_message_from_above_never_goes_up_again(to: str, sync: bool) -> None:
    proxy = joined("Proxy/3")
    ask = Caller()
    message = frame(to, "Proxy/3", sync=sync)
    assert answers(proxy.frame_arrived(1.0, UP, message, ask)) == [(Code.NO_ROUTE, "Proxy/3")]
    assert proxy.statistics.forwarded == 0


def test_rule_4_the_root_has_nowhere_else_to_send_it() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0")
    assert answers(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]
    message = frame("Worker/0/0", "Proxy/0")
    assert answers(mgr.frame_arrived(0.0, child.id, message, Caller())) == [(Code.NO_ROUTE, "Mgr/0")]


def test_split_horizon_a_message_never_goes_back_where_it_came_from() -> None:
    """The child does not know the way either: it would send it up again for ever."""
    for parent in (router("Mgr"), joined("Proxy/0")):
        child = add_child(parent, "Proxy/1", "Worker/1/8", "Worker/1/9")
        message = frame("Worker/1/8", "Worker/1/9")
        expected = [(Code.NO_ROUTE, str(parent.position))]
        assert answers(parent.frame_arrived(1.0, child.id, message, Caller())) == expected


def test_roles_other_than_worker_are_found_whatever_their_process_rank() -> None:
    mgr = router("Mgr")
    link = mgr.register(0.0, at("Agent/0/start-time"))
    mgr.link_up(0.0, link, "s")
    assert hops(mgr.send(0.0, frame("Agent/0"), Caller(), 1.0)) == [link.id]


def test_an_agent_never_gets_a_workers_message() -> None:
    mgr = router("Mgr")
    add_child(mgr, "Agent/0")
    assert answers(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_known_next_hop_without_a_stream_is_6002() -> None:
    mgr = router("Mgr")
    mgr.register(0.0, at("Worker/0/0"))
    assert answers(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [(Code.NET_STREAM_NOT_INITED, "Mgr/0")]


def test_message_from_below_while_the_upstream_is_away_is_6002() -> None:
    proxy = router("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    expected = [(Code.NET_STREAM_NOT_INITED, "Proxy/0")]
    for sync in (True, False):
        message = frame("Mgr", "Worker/0/0", sync=sync)
        assert answers(proxy.frame_arrived(1.0, child.id, message, Caller())) == expected


def test_send_before_joining_waits_for_the_join() -> None:
    worker, ask = router("Worker/0/0"), Caller()
    messages = [frame("Mgr", "Worker/0/0", uuid=str(i), sync=i != 1) for i in range(3)]
    broadcast = frame("Worker/All/All", "Worker/0/0", uuid="all")
    for message in (*messages, broadcast):
        assert worker.send(0.0, message, ask, 2.0) == []
    assert worker.next_deadline() == 2.0
    # In order, and with what is left of each one's time. The first one shows that the others can follow.
    assert join(worker, "Proxy/0", now=0.5) == [Forward(UP, message, 1.5) for message in (messages[0], broadcast)]
    assert answers(worker.accepted(0.5, UP, ["0"])) == [(Code.OK, "Mgr/0")]
    assert worker.tick(0.5) == [Forward(UP, message, 1.5) for message in messages[1:]]
    assert worker.statistics.sent == 4


def test_send_that_waits_for_the_join_longer_than_its_timeout_is_6002() -> None:
    worker = router("Worker/0/0")
    worker.send(0.0, frame("Mgr", "Worker/0/0", uuid="long"), Caller(), 2.0)
    worker.send(0.0, frame("Mgr", "Worker/0/0", uuid="short"), Caller(), 1.0)
    assert answers(worker.tick(1.0)) == [(Code.NET_STREAM_NOT_INITED, "Worker/0/0")]
    assert worker.next_deadline() == 2.0
    assert hops(join(worker, now=1.5)) == [UP]


@pytest.mark.parametrize("bounds", [{"link_messages": 2}, {"link_bytes": 29}])
def test_sends_that_wait_for_the_join_are_bounded(bounds: dict[str, int]) -> None:
    worker = router("Worker/0/0", **bounds)
    for uuid in "ab":
        assert worker.send(0.0, frame("Mgr", "Worker/0/0", uuid=uuid), Caller(), 1.0) == []
    full = frame("Mgr", "Worker/0/0", uuid="c")
    assert answers(worker.send(0.0, full, Caller(), 1.0)) == [(Code.RECV_BUF_BUSY, "Worker/0/0")]
    worker.tick(1.0)
    assert worker.send(1.0, full, Caller(), 1.0) == []


def test_send_to_somebody_below_does_not_wait_for_the_join() -> None:
    proxy = router("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    assert hops(proxy.send(0.0, frame("Worker/0/0", "Proxy/0"), Caller(), 1.0)) == [child.id]
    assert proxy.send(0.0, frame("Worker/All/All", "Proxy/0", uuid="all"), Caller(), 1.0) == []


def test_registering_beyond_the_maximum_is_5003() -> None:
    mgr = router("Mgr", max_children=2)
    add_child(mgr, "Proxy/0"), add_child(mgr, "Proxy/1")
    with pytest.raises(Refusal) as refused:
        mgr.register(0.0, at("Proxy/2"))
    assert refused.value.code == Code.EXCEED_MAX_REGISTRY_NUM
    assert at("Proxy/2") not in mgr.routes
    assert mgr.register(0.0, at("Proxy/1/newer")).id == 2  # known: has its place


def test_registration_without_a_stream_holds_its_place_for_10_seconds() -> None:
    mgr = router("Mgr")
    link = mgr.register(100.0, at("Worker/0/0"))
    assert mgr.next_deadline() == 110.0
    assert mgr.tick(109.9) == []
    assert mgr.tick(110.0) == [Forgot(link.id, at("Worker/0/0"), 1)]
    assert (len(mgr.children), len(mgr.routes), mgr.next_deadline()) == (0, 0, INF)


def test_registration_without_a_stream_is_renewed_by_each_announcement() -> None:
    mgr = router("Mgr")
    link = mgr.register(100.0, at("Worker/0/0"))
    announced = mgr.announced(109.0, link, Kind.ADD, everybody("Worker/0/0"), Caller(), "a")
    assert answers(announced) == [(Code.OK, "Mgr/0")]
    assert mgr.tick(110.0) == []
    assert mgr.next_deadline() == 119.0
    assert [type(action) for action in mgr.tick(119.0)] == [Forgot]


def test_child_whose_stream_is_gone_is_forgotten_after_30_seconds_with_everything_behind_it() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0", "Worker/0/0", "Worker/0/1")
    assert mgr.tick(100.0) == []
    mgr.link_down(100.0, child, "Proxy/0", [])
    assert mgr.next_deadline() == 130.0
    assert mgr.tick(129.9) == []
    assert answers(mgr.send(129.9, frame("Worker/0/0"), Caller(), 0.1)) == [(Code.NET_STREAM_NOT_INITED, "Mgr/0")]
    assert mgr.tick(130.0) == [Forgot(child.id, at("Proxy/0"), 3)]
    assert answers(mgr.send(130.0, frame("Worker/0/0"), Caller(), 0.1)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_routes_outlive_a_re_registration_and_a_short_loss_of_the_stream() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Proxy/0", "Worker/0/0")
    mgr.link_down(100.0, child, "Proxy/0", [])
    assert mgr.register(129.0, at("Proxy/0")) is child
    assert mgr.tick(131.0) == []
    mgr.link_up(131.0, child, "newer")
    assert mgr.tick(1e9) == []
    assert hops(mgr.send(1e9, frame("Worker/0/0"), Caller(), 1.0)) == [child.id]


@pytest.mark.parametrize(
    ("position", "code"),
    [
        ("Boss/0", 4003),
        ("Worker/x/0", 4004),
        ("Worker/0/x", 4005),
        ("Worker/0/All", 4005),
        ("Worker/0,1/0", 4004),
    ],
)
def test_announcement_of_what_is_no_node_is_refused_whole(position: str, code: int) -> None:
    proxy = joined("Proxy/1")
    child = add_child(proxy, "Proxy/2")
    path = everybody("Worker/2/2", position)
    assert answers(proxy.announced(0.0, child, Kind.ADD, path, Caller(), "a")) == [(code, "Proxy/1")]
    assert at("Worker/2/2") not in proxy.routes


def test_announcement_of_somebody_who_has_not_registered_is_refused() -> None:
    mgr = router("Mgr")
    actions = mgr.announced(0.0, None, Kind.ADD, everybody("Worker/0/0"), Caller(), "a")
    assert answers(actions) == [(Code.CLIENT_ERR, "Mgr/0")]


def test_proxy_answers_an_announcement_when_its_own_upstream_has() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    actions = proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "a")
    assert actions == [Announce(Kind.ADD, everybody("Worker/0/0", "Proxy/0"))]
    for code in (Code.OK, Code.NO_ROUTE):
        assert proxy.announce_answered("up", code, at("Mgr")) == [Answer(ask, Ack("a", code, at("Mgr")))]
        proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "a")


def test_announcement_while_there_is_no_upstream_is_4999_and_the_route_is_known_all_the_same() -> None:
    proxy = router("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    announced = proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), Caller(), "a")
    assert answers(announced) == [(Code.CLIENT_ERR, "Proxy/0")]
    assert at("Worker/0/0") in proxy.routes


def test_announcement_waits_for_an_upstream_as_long_as_the_child_does() -> None:
    proxy, ask = router("Proxy/0"), Caller()
    child = add_child(proxy, "Worker/0/0")
    assert proxy.announced(5.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "a", 2.5) == []
    assert proxy.next_deadline() == 7.5
    assert proxy.tick(7.4) == []
    assert answers(proxy.tick(7.5)) == [(Code.CLIENT_ERR, "Proxy/0")]
    assert proxy.announced(8.0, child, Kind.ADD, everybody("Worker/0/0"), ask, "b", 2.5) == []
    stand(proxy)
    assert proxy.announce_all(Caller(), "c") == [Announce(Kind.COMPLETE, everybody("Worker/0/0", "Proxy/0"))]
    assert proxy.announce_answered("up", Code.OK, at("Mgr"))[0] == Answer(ask, Ack("b", Code.OK, at("Mgr")))


def test_stream_that_goes_on_as_another_one_loses_nothing() -> None:
    mgr, ask = router("Mgr"), Caller()
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), ask, 1.0)
    mgr.renewed(child.id, "second")
    assert mgr.link_down(0.1, child, "Worker/0/0", []) == []
    assert mgr.accepted(0.2, child.id, ["u"]) == [Answer(ask, Ack("u", Code.OK, at("Worker/0/0"), receivers=1))]


def test_one_announcement_is_under_way_at_a_time_and_the_next_says_what_came_up_meanwhile() -> None:
    proxy = joined("Proxy/0")
    asked = [Caller(str(i)) for i in range(4)]
    children = [add_child(proxy, f"Worker/0/{i}") for i in range(4)]
    actions = []
    for i, child in enumerate(children):
        actions += proxy.announced(0.0, child, Kind.ADD, everybody(f"Worker/0/{i}"), asked[i], str(i))
    assert actions == [Announce(Kind.ADD, everybody("Worker/0/0", "Proxy/0"))]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [
        Answer(asked[0], Ack("0", Code.OK, at("Mgr"))),
        Announce(Kind.ADD, everybody("Worker/0/1", "Proxy/0", "Worker/0/2", "Worker/0/3")),
    ]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [
        Answer(asked[i], Ack(str(i), Code.OK, at("Mgr"))) for i in (1, 2, 3)
    ]


def test_everything_below_is_announced_in_requests_of_a_bounded_size() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    workers = [f"Worker/0/{i}" for i in range(2 * limits.ANNOUNCE_POSITIONS)]
    child = proxy.register(0.0, at("Proxy/1"))
    proxy.link_up(0.0, child, "s")
    proxy._topology.learn(0.0, child, Kind.ADD, everybody(*workers))
    said: list[str] = []
    actions = proxy.announce_all(ask, "all")
    for kind in (Kind.ADD, Kind.ADD, Kind.COMPLETE):
        (announce,) = actions
        assert isinstance(announce, Announce)
        assert announce.kind is kind
        assert len(announce.positions) <= limits.ANNOUNCE_POSITIONS
        said += map(str, announce.positions)
        actions = proxy.announce_answered("up", Code.OK, at("Mgr"))
    assert actions == [Answer(ask, Ack("all", Code.OK, at("Mgr")))]
    assert sorted(said) == sorted([*workers, "Proxy/0", "Proxy/1"])


def test_announcing_everything_without_a_stream_is_6002() -> None:
    for node in (router("Proxy/0"), router("Mgr")):
        assert answers(node.announce_all(Caller(), "a")) == [(Code.NET_STREAM_NOT_INITED, str(node.position))]


def test_answer_to_an_announcement_on_an_older_stream_is_ignored() -> None:
    proxy = joined("Proxy/0")
    proxy.announce_all(Caller(), "a")
    assert proxy.announce_answered("older", Code.OK, at("Mgr")) == []
    assert router("Mgr").announce_answered("older", Code.OK, at("Mgr")) == []
    assert answers(proxy.announce_answered("up", Code.OK, at("Mgr"))) == [(Code.OK, "Mgr/0")]


def test_losing_the_upstream_answers_whoever_waits_for_an_announcement_with_4999() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    for uuid in "ab":
        proxy.announced(0.0, child, Kind.ADD, everybody("Worker/0/0"), Caller(), uuid)
    *told, left = proxy.upstream_down(1.0, "up", [])
    assert (answers(told), left) == ([(Code.CLIENT_ERR, "Proxy/0")] * 2, Joined(False))
    stand(proxy)
    assert proxy.announce_all(Caller(), "c") == [Announce(Kind.COMPLETE, everybody("Worker/0/0", "Proxy/0"))]


def test_complete_forgets_what_an_earlier_life_announced() -> None:
    """And what is gone is withdrawn further up before what is there is announced."""
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Proxy/1", "Worker/1/1", "Worker/1/2")
    assert proxy.register(1.0, at("Proxy/1")) is child
    actions = proxy.announced(1.0, child, Kind.COMPLETE, everybody("Worker/1/2", "Proxy/1"), ask, "a")
    assert actions == [Announce(Kind.WITHDRAW, everybody("Worker/1/1"))]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [
        Announce(Kind.ADD, everybody("Worker/1/2", "Proxy/1", "Proxy/0"))
    ]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == [Answer(ask, Ack("a", Code.OK, at("Mgr")))]
    assert set(proxy.routes) == {at("Proxy/1"), at("Worker/1/2")}


def test_withdrawal_is_passed_on_and_answered_at_once() -> None:
    proxy, ask = joined("Proxy/0"), Caller()
    child = add_child(proxy, "Proxy/1", "Worker/1/1")
    path = everybody("Worker/1/1", "Worker/7/7")
    assert proxy.announced(1.0, child, Kind.WITHDRAW, path, ask, "a") == [
        Announce(Kind.WITHDRAW, everybody("Worker/1/1")),
        Answer(ask, Ack("a", Code.OK, at("Proxy/0"))),
    ]
    assert proxy.announce_answered("up", Code.OK, at("Mgr")) == []


def test_withdrawal_by_a_child_that_no_longer_leads_there_changes_nothing() -> None:
    mgr = router("Mgr")
    old, new = add_child(mgr, "Proxy/0", "Worker/0/0"), add_child(mgr, "Proxy/1", "Worker/0/0")
    mgr.announced(0.0, old, Kind.WITHDRAW, everybody("Worker/0/0"), Caller(), "a")
    assert hops(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [new.id]


@pytest.mark.parametrize("understands", [True, False])
def test_forgotten_child_is_withdrawn_from_a_parent_that_understands_it(understands: bool) -> None:
    proxy = router("Proxy/0")
    join(proxy, withdraws=understands)
    child = add_child(proxy, "Worker/0/0")
    proxy.link_down(0.0, child, "Worker/0/0", [])
    forgot = Forgot(child.id, at("Worker/0/0"), 1)
    withdraw = Announce(Kind.WITHDRAW, everybody("Worker/0/0"))
    assert proxy.tick(30.0) == ([forgot, withdraw] if understands else [forgot])


def test_forgotten_child_is_not_withdrawn_while_the_upstream_is_away() -> None:
    """COMPLETE says it when the node joins again."""
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0")
    proxy.link_down(0.0, child, "Worker/0/0", [])
    proxy.upstream_down(1.0, "up", [])
    assert [type(action) for action in proxy.tick(30.0)] == [Forgot]
    join(proxy, now=31.0)
    assert proxy.announce_all(Caller(), "a") == [Announce(Kind.COMPLETE, everybody("Proxy/0"))]


def test_closing_answers_everything_that_waits() -> None:
    proxy = router("Proxy/0", inbox=1)
    child = add_child(proxy, "Worker/0/0")
    asked = {name: Caller(name) for name in ("held", "line", "in flight")}
    proxy.send(0.0, frame("Mgr", "Proxy/0"), asked["held"], 9.0)
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0", uuid="in"), Caller())
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0", uuid="line"), asked["line"])
    proxy.send(0.0, frame("Worker/0/0", "Proxy/0"), asked["in flight"], 9.0)
    actions = proxy.close()
    assert [(repr(action.reply), action.ack.code) for action in actions if isinstance(action, Answer)] == [
        ("held", Code.NET_STREAM_NOT_INITED),
        ("line", Code.RECV_BUF_NIL),
        ("in flight", Code.NETWORK_ACK_LOST),
    ]
    assert proxy.close() == []
    assert proxy.tick(1e9) == []


def test_closing_answers_who_waits_for_an_announcement() -> None:
    proxy = joined("Proxy/0")
    proxy.announce_all(Caller(), "a")
    proxy.send(0.0, frame("Mgr", "Proxy/0"), Caller(), 9.0)
    assert answers(proxy.close()) == [(Code.CLIENT_ERR, "Proxy/0"), (Code.NETWORK_ACK_LOST, "Mgr/0")]


def test_counters() -> None:
    proxy = joined("Proxy/0", inbox=1, link_messages=1)
    child = add_child(proxy, "Worker/0/0")
    assert proxy.statistics == Statistics()
    proxy.send(0.0, frame("Mgr", "Proxy/0"), Caller(), 1.0)
    assert proxy.statistics == Statistics(sent=1, forwarded=1)
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0"), Caller())
    proxy.frame_arrived(0.0, child.id, frame("Proxy/0", "Worker/0/0"), Caller())
    assert proxy.statistics == Statistics(sent=1, forwarded=1, delivered=1, duplicates=1)
    proxy.ack_arrived(0.0, UP, "unheard of", 0, at("Mgr"))
    for uuid in "ab":
        proxy.frame_arrived(0.0, UP, frame("Worker/0/0", uuid=uuid, sync=False), None)
    assert proxy.statistics == Statistics(1, forwarded=2, delivered=1, duplicates=1, late_acks=1, lost=1)


def test_tick_before_its_time_does_nothing_and_time_out_of_the_blue_is_harmless() -> None:
    mgr = router("Mgr")
    assert mgr.next_deadline() == INF
    assert mgr.tick(1e12) == []
    add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)
    assert mgr.tick(0.5) == []
    assert mgr.tick(-1.0) == []
    assert answers(mgr.tick(1e12)) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]


def test_position_has_to_name_one_node() -> None:
    for position in ("Boss/0", "Proxy/All", "Worker/0/1,2"):
        with pytest.raises(Refusal):
            router(position)


def test_own_message_to_nobody_is_not_held() -> None:
    assert LOCAL not in (UP, STRANGER)
    mgr = router("Mgr")
    assert answers(mgr.send(0.0, frame("Worker/0/0", sync=False), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]
    assert mgr.next_deadline() == INF


def test_node_is_one_level_below_the_mgr_unless_its_depth_is_given() -> None:
    unsaid, first, second = (router("Proxy/0").core for _ in range(3))
    unsaid.upstream_up(0.0, "up", at("Mgr"))
    first.upstream_up(0.0, "up", at("Mgr"), depth=1)
    second.upstream_up(0.0, "up", at("Mgr"), depth=2)
    assert unsaid._hop_timeout == first._hop_timeout > second._hop_timeout
