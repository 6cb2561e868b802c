"""Sends that wait for the node to join: their order, their bounds, their retransmission, and how they are cancelled."""

from __future__ import annotations

import pytest

from taskd_net.base.codes import Code
from taskd_net.core.frame import Ack, Frame
from taskd_net.core.links import UP
from taskd_net.core.ready import Joined, Kind, Withdraw
from tests.core.driven import Action, Answer, Asked, Driven, Forward
from tests.core.routers import Caller, add_child, answers, at, everybody, frame, hops, join, joined, router, stand

NOT_JOINED = Code.NET_STREAM_NOT_INITED


def mine(uuid: str, to: str = "Mgr", *, sync: bool = True, size: int = 10) -> Frame:
    """A message of the Worker."""
    return frame(to, "Worker/0/0", uuid=uuid, sync=sync, size=size)


def worker_under(told: bool | None) -> Driven:
    """A Worker whose stream stands, and which has not joined: nobody has answered its announcement."""
    worker = router("Worker/0/0")
    assert stand(worker, "Proxy/0", told=told) == []
    return worker


def send(worker: Driven, *uuids: str, to: str = "Mgr", now: float = 0.0) -> list[str]:
    """Send messages. Returns the uuids of those that leave."""
    return left([each for uuid in uuids for each in worker.send(now, mine(uuid, to), Caller(uuid), 3.0)])


def left(actions: list[Action]) -> list[str]:
    """The uuids of the messages that leave; nothing else may happen."""
    forwards = [action for action in actions if isinstance(action, Forward)]
    assert len(forwards) == len([action for action in actions if not isinstance(action, Joined)]), actions
    return [forward.frame.uuid for forward in forwards]


def refused(worker: Driven, uuid: str, *, now: float = 0.0, by: str = "Proxy/0") -> list[Action]:
    """The parent answers 6002."""
    return worker.ack_arrived(now, UP, uuid, NOT_JOINED, at(by))


def accepted(worker: Driven) -> list[Action]:
    """The parent accepts the announcement of everything."""
    worker.announce_all(Caller(), "announces")
    return worker.announce_answered("up", 0, at("Mgr"))


def joins(worker: Driven) -> bool:
    """True if it has joined, at present."""
    return bool(worker.joined)


def test_node_has_joined_when_its_announcement_is_accepted_and_its_parent_has() -> None:
    worker = worker_under(told=False)
    assert Joined(True) not in accepted(worker)
    assert not joins(worker)
    assert (worker.parent_told(1.0, True), joins(worker)) == ([Joined(True)], True)
    assert worker.parent_told(2.0, True) == []
    assert (worker.parent_told(3.0, False), joins(worker)) == ([Joined(False)], False)
    assert worker.parent_told(4.0, True) == [Joined(True)]
    assert (worker.upstream_down(5.0, "up", []), joins(worker)) == ([Joined(False)], False)
    # The new stream's announcement has to be accepted anew.
    assert (stand(worker, "Proxy/0", now=6.0, told=True), joins(worker)) == ([], False)
    assert Joined(True) in accepted(worker)


def test_parent_that_does_not_tell_is_believed_to_have_joined() -> None:
    worker = worker_under(told=None)
    assert Joined(True) in accepted(worker)
    assert joins(worker)


def test_announcement_that_is_refused_is_no_join() -> None:
    worker = worker_under(told=True)
    worker.announce_all(Caller(), "announces")
    worker.announce_answered("up", Code.CLIENT_ERR, at("Proxy/0"))
    assert not joins(worker)
    accepted(worker)
    # A later one that is refused, on the same stream, takes nothing back: the parent has it all.
    worker.announce_all(Caller(), "announces")
    worker.announce_answered("up", Code.CLIENT_ERR, at("Proxy/0"))
    assert worker.joined


def test_root_has_always_joined() -> None:
    mgr = router("Mgr")
    assert mgr.joined
    assert answers(mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)) == [(Code.NO_ROUTE, "Mgr/0")]


def test_first_of_a_lane_is_tried_and_the_others_follow_when_the_node_joins() -> None:
    worker = worker_under(told=False)
    accepted(worker)
    assert send(worker, "a", "b") == ["a"]
    assert send(worker, "other", to="Agent/1") == ["other"], "another destination does not wait for this one"
    assert refused(worker, "a") == []
    assert send(worker, "c") == []
    assert left(worker.parent_told(0.01, True)) == ["a", "b", "c"]
    assert send(worker, "d") == ["d"]


def test_join_waits_for_the_answer_of_a_trial_that_is_on_its_way() -> None:
    """Else the message could be overtaken by those that were sent after it."""
    worker = worker_under(told=False)
    accepted(worker)
    assert send(worker, "a", "b") == ["a"]
    assert left(worker.parent_told(0.1, True)) == []
    assert send(worker, "c") == []
    assert refused(worker, "a", now=0.2) == []
    assert left(worker.tick(0.2)) == ["a", "b", "c"]


def test_trial_that_comes_through_lets_the_others_follow_without_the_mgr() -> None:
    worker = worker_under(told=False)
    accepted(worker)
    assert send(worker, "a", "b", "c", to="Worker/0/1") == ["a"]
    assert answers(worker.accepted(0.1, UP, ["a"])) == [(Code.OK, "Worker/0/1")]
    assert left(worker.tick(0.1)) == ["b", "c"]
    # One of them comes back: the destination has gone. Its place is before those that were sent after it.
    assert send(worker, "d", to="Worker/0/1", now=0.2) == ["d"]
    assert refused(worker, "c", now=0.3) == []
    assert answers(worker.accepted(0.3, UP, ["b"])) == [(Code.OK, "Worker/0/1")]
    assert send(worker, "e", to="Worker/0/1", now=0.3) == []
    assert refused(worker, "d", now=0.3) == []
    assert left(worker.parent_told(0.4, True)) == ["c", "d", "e"]


def test_trials_are_repeated_at_a_pace() -> None:
    """A destination below the same Proxy may come up while the Mgr is away."""
    worker = worker_under(told=False)
    assert send(worker, "a") == ["a"]
    now, pauses = 0.0, []
    for _ in range(6):
        assert refused(worker, "a", now=now) == []
        before, now = now, worker.next_deadline()
        pauses.append(round(now - before, 2))
        assert left(worker.tick(now)) == ["a"]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 0.8]
    assert refused(worker, "a", now=now) == []
    assert answers(worker.tick(3.0)) == [(NOT_JOINED, "Proxy/0")], "who said so last"


def test_no_trial_begins_so_late_that_it_would_be_cut_off() -> None:
    """Or the answer would be 6001, though the message was nowhere. Who stands behind is tried then."""
    worker = worker_under(told=False)
    assert left(worker.send(0.0, mine("a"), Caller("a"), 0.4)) == ["a"]
    assert send(worker, "b") == []
    now = 0.0
    for due in (0.05, 0.15):
        assert refused(worker, "a", now=now) == []
        now = worker.next_deadline()
        assert now == pytest.approx(due)
        assert left(worker.tick(now)) == ["a"]
    assert refused(worker, "a", now=0.2) == []
    assert worker.next_deadline() == 0.4
    actions = worker.tick(0.4)
    assert answers([action for action in actions if isinstance(action, Answer)]) == [(NOT_JOINED, "Proxy/0")]
    assert left([action for action in actions if isinstance(action, Forward)]) == ["b"]


def test_no_trial_begins_late_because_the_node_looks_late() -> None:
    """A busy loop looks at 0.33 s for a trial that was due at 0.15 s; the answer could not come within 0.07 s."""
    worker = worker_under(told=False)
    assert left(worker.send(0.0, mine("a"), Caller("a"), 0.4)) == ["a"]
    assert refused(worker, "a", now=0.0) == []
    assert left(worker.tick(0.05)) == ["a"]
    assert refused(worker, "a", now=0.06) == []
    assert worker.next_deadline() == pytest.approx(0.15)
    assert worker.tick(0.33) == []
    assert worker.next_deadline() == 0.4
    assert answers(worker.tick(0.4)) == [(NOT_JOINED, "Proxy/0")]


def test_node_that_joins_late_sends_all_the_same() -> None:
    """The message can arrive now: no time is too short for that."""
    worker = worker_under(told=False)
    accepted(worker)
    assert left(worker.send(0.0, mine("a"), Caller("a"), 0.4)) == ["a"]
    assert refused(worker, "a", now=0.0) == []
    assert left(worker.parent_told(0.39, True)) == ["a"]


def test_lane_waits_while_there_is_no_stream() -> None:
    worker = worker_under(told=False)
    assert send(worker, "a", "b") == ["a"]
    lost = worker.upstream_down(0.5, "up", [])
    assert [action.ack.code for action in lost if isinstance(action, Answer)] == [Code.NETWORK_ACK_LOST]
    assert worker.tick(0.5) == []
    assert worker.next_deadline() == 3.0
    assert left(stand(worker, "Proxy/0", now=1.0, told=False)) == ["b"]


@pytest.mark.parametrize("told", [True, None])
def test_broadcast_waits_for_the_join_and_is_not_tried(told: bool | None) -> None:
    worker = worker_under(told=told)
    assert send(worker, "all", to="Worker/All/All") == []
    assert Joined(True) in accepted(worker)
    assert left(worker.tick(0.5)) == ["all"]


def test_what_the_node_knows_to_arrive_without_the_mgr_does_not_wait() -> None:
    proxy = router("Proxy/1")
    child = add_child(proxy, "Worker/1/0")
    stand(proxy, "Proxy/0", told=False)

    def goes(to: str, uuid: str) -> list[int]:
        return hops(proxy.send(0.0, frame(to, "Proxy/1", uuid=uuid), Caller(), 1.0))

    assert goes("Worker/1/0", "a") == goes("Worker/1/0", "b") == [child.id]
    assert goes("Proxy/0", "c") == goes("Proxy/0", "d") == [UP]
    assert goes("Mgr", "e") == [UP]
    assert goes("Mgr", "f") == []


def test_way_that_is_learnt_meanwhile_frees_who_waits_for_it() -> None:
    proxy = router("Proxy/0")
    for uuid in "ab":
        assert proxy.send(0.0, frame("Worker/0/0", "Proxy/0", uuid=uuid), Caller(), 3.0) == []
    child = add_child(proxy, "Worker/0/0")
    assert left(proxy.tick(0.1)) == ["a", "b"]
    below = add_child(proxy, "Proxy/1", now=0.2)
    assert proxy.send(0.2, frame("Worker/1/0", "Proxy/0", uuid="c"), Caller(), 3.0) == []
    proxy.announced(0.3, below, Kind.ADD, everybody("Worker/1/0"), Caller(), "x")
    assert hops(proxy.tick(0.3)) == [below.id] != [child.id]


def test_who_wants_the_fast_answer_does_not_wait() -> None:
    worker = router("Worker/0/0")
    assert answers(worker.send(0.0, mine("a"), Caller(), 1.0, wait=False)) == [(NOT_JOINED, "Worker/0/0")]
    stand(worker, "Proxy/0", told=False)
    assert hops(worker.send(0.0, mine("b"), Caller(), 1.0, wait=False)) == [UP]
    assert answers(refused(worker, "b")) == [(NOT_JOINED, "Proxy/0")]


def test_nobody_waits_for_a_node_that_closes() -> None:
    worker = worker_under(told=False)
    assert send(worker, "a", "b") == ["a"]
    closed = answers(worker.close())
    assert closed == [(NOT_JOINED, "Worker/0/0"), (Code.NETWORK_ACK_LOST, "Proxy/0")]
    assert hops(worker.send(1.0, mine("c"), Caller(), 1.0)) == [UP]
    assert answers(refused(worker, "c")) == [(NOT_JOINED, "Proxy/0")]


def test_6002_of_a_parent_that_has_joined_is_the_answer() -> None:
    worker = joined("Worker/0/0", "Proxy/0")
    assert send(worker, "a") == ["a"]
    assert answers(refused(worker, "a")) == [(NOT_JOINED, "Proxy/0")]


@pytest.mark.parametrize("news", [[False], [False, True]])
def test_6002_that_follows_from_news_of_the_parent_is_not(news: list[bool]) -> None:
    """The message was on its way when the parent lost the Mgr; by now it may have it back."""
    worker = joined("Worker/0/0", "Proxy/0")
    assert send(worker, "a") == ["a"]
    for joins in news:
        worker.parent_told(0.1, joins)
    assert refused(worker, "a", now=0.2, by="Proxy/7") == []
    worker.parent_told(0.3, True)
    assert left(worker.tick(0.3)) == (["a"] if news[-1] else [])


def test_6002_of_a_parent_that_does_not_tell_is_sent_again() -> None:
    worker = joined("Worker/0/0", "Proxy/0", told=None)
    assert send(worker, "a") == ["a"]
    assert refused(worker, "a") == []
    assert left(worker.tick(0.05)) == ["a"]
    assert answers(refused(worker, "a", by="Mgr")) == [(NOT_JOINED, "Mgr/0")], "from further away it is the answer"


@pytest.mark.parametrize("sync", [True, False])
def test_over_calls_that_overtake_each_other_those_that_waited_go_one_by_one(sync: bool) -> None:
    worker = joined("Worker/0/0", "Proxy/0", told=None)
    messages = {uuid: mine(uuid, sync=sync) for uuid in "abcdef"}

    def sends(*uuids: str) -> list[str]:
        return left([each for uuid in uuids for each in worker.send(0.0, messages[uuid], Caller(), 3.0)])

    def ends(uuid: str, code: int, now: float) -> list[Action]:
        if sync:
            return worker.ack_arrived(now, UP, uuid, code, at("Proxy/0"))
        return worker.post_answered(now, UP, messages[uuid], code, at("Proxy/0"))

    assert sends("a") == ["a"]
    assert ends("a", NOT_JOINED, 0.0) == []
    assert sends("b", "c") == []
    assert left(worker.tick(0.05)) == ["a"]
    assert len(ends("a", 0, 0.1)) == 1
    assert left(worker.tick(0.1)) == ["b"]
    assert sends("d", "e") == []
    assert len(ends("b", 0, 0.2)) == 1
    assert left(worker.tick(0.2)) == ["c"]
    assert len(ends("c", 0, 0.3)) == 1
    assert left(worker.tick(0.3)) == ["d", "e"], "those did not wait together with the first"
    assert sends("f") == ["f"]


def test_broadcast_that_the_parent_refuses_is_sent_again() -> None:
    worker = joined("Worker/0/0", "Proxy/0", told=None)
    assert send(worker, "all", to="Worker/All/All") == ["all"]
    assert refused(worker, "all") == []
    assert left(worker.tick(0.05)) == ["all"]
    assert answers(worker.accepted(0.1, UP, ["all"])) == [(Code.OK, "Proxy/0")]


def test_own_stream_that_is_not_up_is_no_reason_to_send_again() -> None:
    proxy = joined("Proxy/0")
    child = add_child(proxy, "Worker/0/0", "Worker/0/0")
    proxy.link_down(0.0, child, "Worker/0/0", [])
    assert answers(proxy.send(0.0, frame("Worker/0/0", "Proxy/0"), Caller(), 1.0)) == [(NOT_JOINED, "Proxy/0")]
    proxy.parent_told(0.0, False)
    assert answers(proxy.send(0.0, frame("Worker/0/0", "Proxy/0"), Caller(), 1.0)) == [(NOT_JOINED, "Proxy/0")]


def test_own_child_that_is_not_up_is_no_reason_to_send_a_broadcast_again() -> None:
    proxy = joined("Proxy/0", told=None)
    child = add_child(proxy, "Worker/0/0", "Worker/0/0")
    proxy.link_down(0.0, child, "Worker/0/0", [])
    assert hops(proxy.send(0.0, frame("Worker/All/All", "Proxy/0", uuid="all"), Caller(), 1.0)) == [UP]
    assert answers(proxy.accepted(0.1, UP, ["all"])) == [(NOT_JOINED, "Proxy/0")]


def test_what_comes_back_and_finds_no_room_is_answered() -> None:
    worker = router("Worker/0/0", link_messages=2)
    join(worker, "Proxy/0")
    assert send(worker, "a") == ["a"]
    worker.written(UP, "up", 1, 10)
    worker.parent_told(0.0, False)
    worker.upstream_down(0.0, "up", [])
    assert send(worker, "b", "c") == []
    stand(worker, "Proxy/0", told=False)
    worker.written(UP, "up", 1, 10)
    assert send(worker, "d") == []
    assert answers(refused(worker, "b")) == [(NOT_JOINED, "Proxy/0")]


def test_send_that_waits_again_stays_open() -> None:
    worker = joined("Worker/0/0", "Proxy/0")
    assert send(worker, "a") == ["a"]
    worker.parent_told(0.1, False)
    assert refused(worker, "a", now=0.2, by="Proxy/7") == []
    assert len(worker.core._sends.open) == 1


def test_answer_to_a_cancelled_broadcast_goes_to_nobody() -> None:
    mgr = router("Mgr")
    sent = Asked(frame("Worker/All/All"), Caller(), 3.0)
    for rank in "01":
        add_child(mgr, f"Worker/0/{rank}", f"Worker/0/{rank}")
    mgr.submit(0.0, sent)
    send = next(iter(mgr.core._sends.open.values()))
    mgr.cancel(sent)
    mgr.core._sends.ended(send, Ack("u", Code.OK, at("Worker/0/0")))
    assert not mgr.core._decisions.ready.completed


def test_cancelled_send_that_waits_leaves_its_lane() -> None:
    worker = router("Worker/0/0", link_messages=2)
    sends = [Asked(mine(uuid), Caller(uuid), 3.0) for uuid in "abc"]
    for one in sends[:2]:
        assert worker.submit(0.0, one) == []
    assert answers(worker.cancel(sends[0])) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    assert worker.submit(0.0, sends[2]) == [], "its place is free"
    assert left(stand(worker, "Proxy/0", told=False)) == ["b"]
    assert answers(worker.cancel(sends[2])) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    assert answers(worker.accepted(0.1, UP, ["b"])) == [(Code.OK, "Mgr/0")]
    assert worker.tick(0.1) == worker.tick(3.0) == [] and worker.next_deadline() == float("inf")


def test_cancelled_send_that_is_on_its_way_leaves_the_lane_behind_it_alone() -> None:
    worker = joined("Worker/0/0", "Proxy/0")
    sent = Asked(mine("a"), Caller(), 3.0)
    assert left(worker.submit(0.0, sent)) == ["a"]
    worker.parent_told(0.0, False)
    assert send(worker, "b", "c") == ["b"]
    assert len(worker.cancel(sent)) == 2
    assert left(worker.tick(0.1)) == []
    assert answers(worker.accepted(0.1, UP, ["b"])) == [(Code.OK, "Mgr/0")]
    assert left(worker.tick(0.1)) == ["c"]


def test_cancelled_trial_lets_the_next_one_be_tried() -> None:
    worker = worker_under(told=False)
    sends = [Asked(mine(uuid), Caller(uuid), 3.0) for uuid in "ab"]
    assert left([*worker.submit(0.0, sends[0]), *worker.submit(0.0, sends[1])]) == ["a"]
    withdrawn, answer = worker.cancel(sends[0])
    assert withdrawn == Withdraw(UP, sends[0].frame)
    assert answers([answer]) == [(Code.NETWORK_ACK_LOST, "Worker/0/0")]
    worker.withdrawn(UP, "up", 10)
    assert left(worker.tick(0.1)) == ["b"]
    up = worker.upstream
    assert up is not None and (up.in_flight.count, up.queued_messages, up.queued_bytes) == (1, 1, 10)


def test_cancelled_send_leaves_the_link_and_frees_its_place() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    child.in_flight_limit = 1

    def times() -> bool:
        return child.timed is not None

    first, second = (Asked(frame("Worker/0/0", uuid=uuid), Caller(), 3.0) for uuid in "ab")
    assert hops(mgr.submit(0.0, first)) == [child.id]
    assert times()
    assert answers(mgr.submit(0.0, second)) == [(Code.RECV_BUF_BUSY, "Mgr/0")]
    assert mgr.cancel(first)[0] == Withdraw(child.id, first.frame)
    assert (child.in_flight.count, times()) == (0, False)
    assert hops(mgr.submit(0.05, second)) == [child.id]
    assert times()
    # It had been written after all: the answer comes, and nobody waits for it.
    assert mgr.accepted(0.1, child.id, ["a"]) == []
    assert mgr.statistics.late_acks == 1
    assert answers(mgr.accepted(0.1, child.id, ["b"])) == [(Code.OK, "Worker/0/0")]
    assert mgr.cancel(second) == [], "nothing is left to be withdrawn"


def test_of_two_sends_with_one_uuid_the_cancelled_one_goes() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    one, two, three = (Asked(frame("Worker/0/0"), Caller(name), 3.0) for name in ("one", "two", "three"))
    for sent in (one, two, three):
        mgr.submit(0.0, sent)
    assert mgr.cancel(two)[0] == Withdraw(child.id, two.frame)
    assert mgr.cancel(one)[0] == Withdraw(child.id, one.frame)
    assert child.in_flight.count == 1
    (answer,) = mgr.accepted(0.1, child.id, ["u"])
    assert isinstance(answer, Answer) and answer.reply is three.reply


def test_cancelled_send_whose_uuid_is_taken_waits_no_longer() -> None:
    """Over links without numbers a uuid that is in flight for another sender is waited for."""
    mgr = router("Mgr")
    child, other = add_child(mgr, "Worker/0/0"), add_child(mgr, "Worker/0/1", "Worker/0/1")
    mgr.frame_arrived(0.0, other.id, frame("Worker/0/0", "Worker/0/1"), Caller(), 3.0)
    sends = [Asked(frame("Worker/0/0"), Caller(), 3.0) for _ in range(3)]
    for sent in sends:
        assert mgr.submit(0.0, sent) == []
    assert child.queued_messages == 4
    for sent in sends[1::-1]:
        assert len(mgr.cancel(sent)) == 1
    assert child.queued_messages == 2
    assert mgr.cancel(sends[2]) and not child.in_flight.collisions
    assert (child.queued_messages, child.in_flight.count) == (1, 1)


def test_cancelled_send_leaves_a_link_with_numbers() -> None:
    mgr = router("Mgr")
    child = mgr.register(0.0, at("Worker/0/0"))
    mgr.link_up(0.0, child, "Worker/0/0", numbered=True)
    sends = [Asked(frame("Worker/0/0"), Caller(name), 3.0) for name in "ab"]
    for sent in sends:
        assert hops(mgr.submit(0.0, sent)) == [child.id]
    assert mgr.cancel(sends[0])[0] == Withdraw(child.id, sends[0].frame)
    assert mgr.accepted(0.1, child.id, [1]) == []
    assert answers(mgr.accepted(0.1, child.id, [2])) == [(Code.OK, "Worker/0/0")]


def test_cancelled_broadcast_leaves_every_link_and_the_line_before_the_inbox() -> None:
    proxy = joined("Proxy/0", inbox=1)
    children = [add_child(proxy, f"Worker/0/{rank}") for rank in range(2)]
    proxy.send(0.0, frame("Proxy/0", "Proxy/0", uuid="fills"), Caller(), 1.0)
    first = Asked(frame("Proxy/0", "Proxy/0", uuid="first"), Caller(), 3.0)
    many = Asked(frame("Proxy/0", "Proxy/0", uuid="second"), Caller(), 3.0)
    every = Asked(frame("Worker/All/All", "Proxy/0", uuid="all"), Caller(), 3.0)
    for sent in (first, many, every):
        proxy.submit(0.0, sent)
    withdrawn = proxy.cancel(every)
    assert {action.link for action in withdrawn if isinstance(action, Withdraw)} == {UP, *(c.id for c in children)}
    assert len(proxy.gate.line) == 2
    proxy.cancel(many)
    assert [waiting.frame.uuid for waiting in proxy.gate.line] == ["first"]
    proxy.cancel(many)
    assert [waiting.frame.uuid for waiting in proxy.gate.line] == ["first"]


def test_cancelled_broadcast_leaves_only_the_links_that_have_not_answered() -> None:
    """One child has answered, one was forgotten with its link, and one still has the message."""
    mgr = router("Mgr", grace=1.0)
    answered, gone, last = (add_child(mgr, f"Worker/0/{rank}") for rank in range(3))
    sent = Asked(frame("Worker/All/All"), Caller(), 30.0)
    assert hops(mgr.submit(0.0, sent)) == [answered.id, gone.id, last.id]
    assert mgr.accepted(0.1, answered.id, ["u"]) == []
    mgr.link_down(0.2, gone, gone.session, ())
    mgr.tick(2.0)
    assert gone.id not in mgr.children.by_id
    withdrawn, ack = mgr.cancel(sent)
    assert withdrawn == Withdraw(last.id, sent.frame)
    assert answers([ack]) == [(Code.NETWORK_ACK_LOST, "Mgr/0")]
    assert (answered.in_flight.count, last.in_flight.count) == (0, 0)


def test_frame_that_was_taken_out_of_another_stream_is_not_counted() -> None:
    mgr = router("Mgr")
    child = add_child(mgr, "Worker/0/0")
    mgr.send(0.0, frame("Worker/0/0"), Caller(), 1.0)
    mgr.withdrawn(child.id, "an older stream", 10)
    mgr.withdrawn(99, "Worker/0/0", 10)
    assert (child.queued_messages, child.queued_bytes) == (1, 10)
    mgr.withdrawn(child.id, "Worker/0/0", 10)
    assert (child.queued_messages, child.queued_bytes) == (0, 0)
