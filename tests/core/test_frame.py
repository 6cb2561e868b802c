"""Answers."""

import pytest

from taskd_net.base.codes import Code
from taskd_net.base.mesh_errors import ReceiverError
from taskd_net.core.frame import Ack
from tests.core.routers import at


def test_code_0_is_ok() -> None:
    ack = Ack("u", 0, at("Mgr"))
    assert ack.ok
    ack.raise_for_code()


def test_any_other_code_is_raised_with_everything_that_is_known() -> None:
    ack = Ack("u", 5001, at("Worker/0/3"), "the inbox is full")
    assert not ack.ok
    with pytest.raises(ReceiverError) as error:
        ack.raise_for_code()
    raised = error.value
    known = (Code.RECV_BUF_BUSY, at("Worker/0/3"), "u", "the inbox is full")
    assert (raised.code, raised.src, raised.uuid, raised.detail) == known
