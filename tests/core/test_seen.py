"""The duplicate window."""

from hypothesis import given
from hypothesis import strategies as st

from taskd_net.core.seen import Seen
from taskd_net.position import Position
from tests.core.routers import at

MESSAGES = st.tuples(st.sampled_from("abcdefgh"), st.sampled_from([at("Mgr"), at("Worker/0/0")]))


@given(st.integers(1, 6), st.lists(MESSAGES))
def test_last_messages_that_went_in_are_known_and_no_others(window: int, messages: list[tuple[str, Position]]) -> None:
    """As a receiver uses it: what is known is not added again."""
    seen = Seen(window)
    went_in: list[tuple[str, Position]] = []
    for message in messages:
        if message not in seen:
            seen.add(message)
            went_in.append(message)
    assert all(message in seen for message in went_in[-window:])
    assert len(seen) == min(window, len(went_in))


def test_message_is_known_by_uuid_and_sender() -> None:
    seen = Seen(8)
    seen.add(("1", at("Worker/0/0")))
    assert ("1", at("Worker/0/0")) in seen
    assert ("1", at("Worker/0/1")) not in seen
    assert ("2", at("Worker/0/0")) not in seen
