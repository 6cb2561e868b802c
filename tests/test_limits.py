"""Constants that depend on each other, and on the contract."""

from __future__ import annotations

import ast
import itertools
from pathlib import Path
from typing import Final

import pytest

import taskd_net
from taskd_net.base import limits
from taskd_net.core import admission, router

PACKAGE: Final = Path(taskd_net.__file__).parent
STAGES: Final = {"demo"}
"""Folder with figures of a play."""

PATHS: Final = sorted(
    path
    for path in PACKAGE.rglob("*.py")
    if not STAGES & {*path.relative_to(PACKAGE).parts}
    and not path.stem.endswith("_pb2")
    and path.stem != "vocabulary"  # codes of the original, no limits
)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_limit_has_its_unit_and_a_reason(path: Path) -> None:
    for before, after in itertools.pairwise([*ast.parse(path.read_text()).body, None]):
        if isinstance(before, ast.AnnAssign) and _is_limit(before):
            assert isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant), ast.unparse(before)


def _is_limit(statement: ast.AnnAssign) -> bool:
    """True for a public constant that is a number, of literals or of other constants."""
    target, value = statement.target, statement.value
    if not isinstance(target, ast.Name) or not target.id.isupper() or target.id.startswith("_") or value is None:
        return False
    parts = [part for part in ast.walk(value) if isinstance(part, ast.Constant)]
    plain = not any(isinstance(part, (ast.Call, ast.JoinedStr, ast.Subscript, ast.Tuple)) for part in ast.walk(value))
    return plain and any(type(part.value) in (int, float) for part in parts)


def test_a_receiver_can_refuse_what_a_sender_must_not_send() -> None:
    assert limits.RECEIVE_BYTES > limits.MESSAGE_BYTES
    assert limits.LINK_BYTES >= limits.MESSAGE_BYTES


def test_a_hop_gives_up_before_its_parent_does() -> None:
    assert 0.0 < router.ACK_TIMEOUT_PER_LEVEL < 1.0 and 0.0 < admission.ACK_BUDGET_PER_HOP < 1.0
    assert limits.ACK_TIMEOUT_S * router.ACK_TIMEOUT_PER_LEVEL**6 > 0.7


def test_pauses_grow_to_their_bound() -> None:
    assert 0.0 < limits.BACKOFF_INITIAL_S < limits.BACKOFF_MAX_S <= 1.0


def test_roles_have_the_inboxes_of_the_contract() -> None:
    assert limits.INBOX == {"Mgr": 1024, "Proxy": 32, "Agent": 8, "Worker": 8}
