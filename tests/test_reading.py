"""Faults that a reader survives, and the effect of its end."""

from __future__ import annotations

import asyncio
import re
import threading

import pytest

from taskd_net.base.codes import NodeClosed
from taskd_net.base.position import Position
from taskd_net.net.wire.codec import Message
from taskd_net.node.reading import Reading, Unreadable

MESSAGE = Message("u", "default", True, Position.proxy(7), Position.mgr(), 0, "")


class Inbox:
    """The part of a node that a reader needs."""

    position = Position.mgr()

    def __init__(self) -> None:
        self.open = True
        self.node_closed = False

    def close_inbox(self) -> None:
        """Take no more."""
        if self.node_closed:
            raise NodeClosed("closed")
        self.open = False


@pytest.fixture
def inbox() -> Inbox:
    """An inbox that is open."""
    return Inbox()


def reader(inbox: Inbox) -> Reading:
    """A reader of it."""
    return Reading(inbox)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [ValueError("x"), RecursionError(), MemoryError(), StopIteration(), NodeClosed("x")])
def test_what_a_handler_raises_is_logged(inbox: Inbox, error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with reader(inbox) as reading:
        with reading.survive(MESSAGE, code=5):
            raise error
        assert inbox.open
    assert re.search(r"event=handler_failed .*src=Proxy/7 uuid=u code=5", caplog.text)
    assert type(error).__name__ in caplog.text


def test_body_that_cannot_be_read_is_a_warning_without_a_stack(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    with reader(inbox).survive(MESSAGE):
        raise Unreadable("it is none")
    assert 'event=body_unreadable node=Mgr/0 reason="it is none" src=Proxy/7 uuid=u' in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_end_of_the_process_passes_in_the_main_thread_alone(
    inbox: Inbox, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(type(error)), reader(inbox) as reading, reading.survive(MESSAGE):
        raise error
    assert not inbox.open and caplog.text == ""
    survived = threading.Event()

    def handle() -> None:
        with reader(inbox).survive(MESSAGE):
            raise error
        survived.set()

    thread = threading.Thread(target=handle)
    thread.start()
    thread.join()
    assert survived.is_set() and "handler_failed" in caplog.text


async def test_cancelling_passes(inbox: Inbox) -> None:
    with pytest.raises(asyncio.CancelledError), reader(inbox).survive(MESSAGE):
        raise asyncio.CancelledError


def test_reader_that_ends_closes_the_inbox(inbox: Inbox, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OSError, match="gone"), reader(inbox):
        raise OSError("gone")
    assert not inbox.open
    assert "event=reader_failed node=Mgr/0 reason=OSError('gone')" in caplog.text


@pytest.mark.parametrize("error", [NodeClosed("x"), asyncio.CancelledError(), GeneratorExit(), SystemExit(), None])
def test_end_that_somebody_wanted_is_no_line(
    inbox: Inbox, error: BaseException | None, caplog: pytest.LogCaptureFixture
) -> None:
    inbox.node_closed = isinstance(error, NodeClosed)
    if error is None:
        with reader(inbox):
            pass
    else:
        with pytest.raises(type(error)), reader(inbox):
            raise error
    assert inbox.open == inbox.node_closed and caplog.text == ""
