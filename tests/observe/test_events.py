"""Events of nodes: their order, and each of their bounds."""

from __future__ import annotations

from taskd_net.observe.events import EventLog, NodeEvent


def log(each: int = 3, most: int = 10, text_bytes: int = 20, all_bytes: int = 1000) -> EventLog:
    """A log with small bounds."""
    return EventLog(each, most, text_bytes, all_bytes)


def kinds(events: EventLog, name: str) -> list[str]:
    """The kinds of a node's events."""
    return [event.event for event in events.of(name)]


def test_events_of_a_node_come_by_their_time() -> None:
    events = log()
    events.add("a", NodeEvent(5.0, "lost", "closed by the child"))
    events.add("a", NodeEvent(3.0, "joined"))
    events.add("b", NodeEvent(4.0, "joined"))
    assert events.of("a") == [NodeEvent(3.0, "joined"), NodeEvent(5.0, "lost", "closed by the child")]
    assert (kinds(events, "b"), kinds(events, "c"), len(events)) == (["joined"], [], 3)


def test_a_node_has_a_bounded_number_and_takes_none_from_others() -> None:
    events = log(each=3)
    events.add("quiet", NodeEvent(0.0, "joined"))
    for number in range(100):
        events.add("flapping", NodeEvent(float(number), str(number)))
    assert kinds(events, "flapping") == ["97", "98", "99"]
    assert kinds(events, "quiet") == ["joined"]
    assert (len(events), events.dropped) == (4, 97)


def test_all_nodes_have_a_bounded_number_and_the_oldest_make_room() -> None:
    events = log(most=4)
    for number in range(6):
        events.add(f"n{number}", NodeEvent(float(number), "joined"))
    assert [name for name in map("n{}".format, range(6)) if events.of(name)] == ["n2", "n3", "n4", "n5"]
    assert (len(events), events.dropped) == (4, 2)


def test_texts_are_bounded_in_bytes_each_and_together() -> None:
    events = log(text_bytes=10, all_bytes=25)
    events.add("a", NodeEvent(0.0, "lost", "ü" * 1_000_000))
    # A letter that would be cut in two is left out; lone surrogates have no bytes of their own.
    assert events.of("a")[0].text == "ü" * 5
    events.add("b", NodeEvent(1.0, "lost", "x" + "ü" * 50))
    assert events.of("b")[0].text == "x" + "ü" * 4
    assert events.bytes == 19
    events.add("c", NodeEvent(2.0, "lost", "\ud800" * 50))
    assert events.of("c")[0].text == "?" * 10
    assert (kinds(events, "a"), events.bytes, events.dropped) == ([], 19, 1)


def test_an_event_that_repeats_is_counted_in_one_place() -> None:
    events = log()
    events.add("a", NodeEvent(0.0, "joined"))
    for number in range(1, 1001):
        events.repeat("a", NodeEvent(float(number), "refused", f"for the {number}th time"))
    assert events.of("a")[1] == NodeEvent(1000.0, "refused", "for the 1000th time", 1000)
    assert (len(events), events.bytes, events.dropped) == (2, 19, 0)
    events.add("a", NodeEvent(1001.0, "lost"))
    events.repeat("a", NodeEvent(1002.0, "refused", "again"))
    assert [event.times for event in events.of("a")] == [1000, 1, 1]
    events.repeat("b", NodeEvent(1003.0, "refused"))
    assert [event.times for event in events.of("b")] == [1]


def test_events_outlive_their_node_for_a_while() -> None:
    events = log()
    events.add("known", NodeEvent(0.0, "joined"))
    events.add("old", NodeEvent(0.0, "joined"))
    events.add("old", NodeEvent(9.0, "lost", "why"))
    events.add("late", NodeEvent(11.0, "joined"))
    events.forget(10.0, {"known"})
    assert [name for name in ("known", "old", "late") if events.of(name)] == ["known", "late"]
    assert (events.bytes, events.dropped) == (0, 0)
