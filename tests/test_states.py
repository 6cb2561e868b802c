"""States: those of nodes that have left, and their definition in the document."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from taskd_net import Position
from taskd_net.base import states
from taskd_net.base.states import State, end_of

ROOT = Path(__file__).resolve().parents[1]


def test_leaves_finish_and_proxies_stop() -> None:
    ends = {role: end_of(Position(role, "0", "0")) for role in ("Proxy", "Agent", "Worker")}
    assert ends == {"Proxy": State.STOPPED, "Agent": State.FINISHED, "Worker": State.FINISHED}
    assert {state for state in State if state.ended} == set(ends.values())


def test_document_defines_each_state_as_the_code_does() -> None:
    page = (ROOT / "docs" / "status.md").read_text()
    documented = dict(
        re.findall(r"^\| `(\w+)` \| (.+) \|$", page.partition("## States")[2].partition("\n**")[0], re.MULTILINE)
    )
    body = next(
        node for node in ast.parse(Path(states.__file__).read_text()).body if isinstance(node, ast.ClassDef)
    ).body
    texts = [node.value.value for node in body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)][
        1:
    ]
    assert documented == dict(zip([state.value for state in State], texts, strict=True))
