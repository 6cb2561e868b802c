"""Errors of messages that were not delivered."""

from __future__ import annotations

import pytest

from taskd_net import Code, MeshError, NetworkError, Position, ReceiverError, SenderError
from taskd_net.base.codes import describe
from taskd_net.base.mesh_errors import error_for


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
