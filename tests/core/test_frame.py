"""Answers, and their errors."""

from __future__ import annotations

import pytest

from taskd_net import Code, MeshError, NetworkError, Position, ReceiverError, SenderError
from taskd_net.base.codes import describe
from taskd_net.core.frame import Ack, error_for
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


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_error_of_a_code_carries_what_is_known(code: Code) -> None:
    error = error_for(code, Position.worker(0, 3), "some-uuid", "words")
    assert type(error) is {4: SenderError, 5: ReceiverError, 6: NetworkError}[code // 1000]
    assert (error.code, error.src, error.uuid, error.detail) == (code, Position.worker(0, 3), "some-uuid", "words")
    assert str(error) == f"{describe(code)} (from Worker/0/3, uuid some-uuid): words"


def test_error_of_an_unknown_code_is_still_a_mesh_error() -> None:
    error = error_for(7123, Position.mgr(), "u")
    assert type(error) is MeshError
    assert str(error) == "7123: a code that this version does not know (from Mgr/0, uuid u)"
