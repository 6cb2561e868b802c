"""Commands and replies on their way: order, resends, what replaces what."""

from __future__ import annotations

import json

from taskd_net.job.decide.outbox import COMMAND_RETRY_S, INFINITY, Outbox, Sending, uuid_of
from taskd_net.job.decide.traffic import Command, Reply


def box(*commands: tuple[str, str, int]) -> Outbox:
    outbox = Outbox()
    for uuid, to, code in commands:
        outbox.add(0.0, Command(to, code, uuid=uuid))
    return outbox


def test_an_empty_one_is_never_due() -> None:
    outbox = Outbox()
    assert outbox.wake == INFINITY and list(outbox.due(1e9)) == []


def test_what_is_due_comes_in_the_order_of_the_tries() -> None:
    outbox = box(("a", "Agent/1", 203))
    outbox.add(1.0, Reply("r", "true", "b"))
    assert outbox.wake == COMMAND_RETRY_S
    (first,) = _taken(outbox, 3.5)
    assert (uuid_of(first), first.tries, first.due) == ("a", 2, 6.5)
    assert outbox.wake == 4.0
    assert [uuid_of(sending) for sending in _taken(outbox, 7.0)] == ["b", "a"]


def _taken(outbox: Outbox, now: float) -> list[Sending]:
    taken = []
    for sending in outbox.due(now):
        outbox.again(now, sending, sending.tries + 1)
        taken.append(sending)
    return taken


def test_a_removed_one_leaves_no_trace() -> None:
    outbox = box(("a", "Agent/1", 209), ("b", "Agent/1", 213), ("c", "Agent/2", 209))
    outbox.add(0.0, Reply("r", "true", "d"))
    for uuid in "adcb":
        assert outbox.remove(uuid) is not None
    assert outbox.remove("a") is None
    assert outbox == Outbox()


def test_a_process_that_is_replaced_gets_nothing() -> None:
    outbox = box(("a", "Agent/1", 209), ("b", "Agent/1", 213), ("c", "Agent/2", 209))
    outbox.void("Agent/1")
    outbox.void("Agent/9")
    assert (list(outbox.sending), outbox.withdrawn) == (["c"], ["a", "b"])


def test_later_commands_replace_those_that_have_lost_their_meaning() -> None:
    for code in (203, 208):
        outbox = box(("a", "Agent/1", 209), ("b", "Agent/1", 213), ("c", "Agent/2", 209), ("d", "Agent/1", code))
        assert list(outbox.sending) == ["c", "d"], code
    outbox = box(("a", "Agent/1", 209), ("b", "Agent/1", 213), ("c", "Agent/1", 209))
    assert list(outbox.sending) == ["b", "c"]
    outbox = Outbox()
    for uuid, code, ranks in (("a", 213, ["2"]), ("b", 213, ["3"]), ("c", 209, ["3"]), ("d", 213, ["3", "4"])):
        message = json.dumps(ranks)
        outbox.add(0.0, Command("Agent/1", code, message, uuid=uuid))
    assert list(outbox.sending) == ["a", "c", "d"], "a command on other ranks is another command"
    outbox = box(("a", "Worker/All/All", 700), ("b", "Worker/All/All", 204), ("c", "Worker/All/All", 711))
    assert list(outbox.sending) == ["b", "c"]
    assert outbox.has("Worker/All/All", 711) and not outbox.has("Worker/All/All", 700)


def test_a_receiver_is_gone_once() -> None:
    outbox = box(("a", "Agent/0", 203))
    assert not outbox.receiver_gone("unknown")
    assert outbox.receiver_gone("a")
    assert not outbox.receiver_gone("a")
