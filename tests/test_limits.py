"""Constants that depend on each other, and on the contract."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from types import ModuleType

import pytest

from taskd_net import job_limits, limits, link_limits, observe_limits

MODULES = [limits, link_limits, job_limits, observe_limits]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_constant_has_a_reason(module: ModuleType) -> None:
    source = ast.parse(Path(module.__file__ or "").read_text()).body
    for before, after in itertools.pairwise(source):
        if isinstance(before, ast.AnnAssign):
            assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), ast.unparse(before)


def test_a_receiver_can_refuse_what_a_sender_must_not_send() -> None:
    assert limits.RECEIVE_BYTES > limits.MESSAGE_BYTES
    assert limits.LINK_BYTES >= limits.MESSAGE_BYTES


def test_a_hop_gives_up_before_its_parent_does() -> None:
    assert 0.0 < limits.ACK_TIMEOUT_PER_LEVEL < 1.0 and 0.0 < limits.ACK_BUDGET_PER_HOP < 1.0
    assert limits.ACK_TIMEOUT_S * limits.ACK_TIMEOUT_PER_LEVEL**6 > 0.7


def test_pauses_grow_to_their_bound() -> None:
    assert 0.0 < limits.BACKOFF_INITIAL_S < limits.BACKOFF_MAX_S <= 1.0


def test_roles_have_the_inboxes_of_the_contract() -> None:
    assert limits.INBOX == {"Mgr": 1024, "Proxy": 32, "Agent": 8, "Worker": 8}
