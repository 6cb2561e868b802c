"""docs/migration.md has every name that a user of TaskD or Elastic-Agent may look for."""

from __future__ import annotations

import inspect
import re
from typing import Final

import pytest

from taskd.python.utils import validator
from tests.compat.environment import COMPAT
from tests.compat.test_aliases import ALIASES, NEED_TORCH, OWN, SIGNATURES, WITH_EFFECT

PAGE: Final = COMPAT.parent / "docs" / "migration.md"
SERVICE: Final = ("Register", "PathDiscovery", "TransferMessage", "InitServerDownStream")

pytestmark = pytest.mark.skipif(not PAGE.exists(), reason="the documents are part of a checkout")


def code() -> list[str]:
    """The texts in back-ticks."""
    return re.findall(r"`([^`\n]+)`", PAGE.read_text())


def test_every_module_and_call_is_there() -> None:
    named = set(code())
    assert {*ALIASES, *OWN, *WITH_EFFECT, *SERVICE} - NEED_TORCH <= named
    calls = {path.partition(":")[2].partition(".")[0] for path in SIGNATURES}
    assert calls | {"patch_torch_methods", "run_log", "init_grpc_client", "register_callbacks"} <= named


def test_every_validator_is_there_with_its_checks() -> None:
    texts = code()
    kinds = {name: kind for name, kind in vars(validator).items() if name.endswith("Validator") and name[0] != "_"}
    assert {text.partition("(")[0] for text in texts if "Validator(" in text} == set(kinds)
    methods = {
        name
        for kind in kinds.values()
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods <= {text.partition("(")[0] for text in texts}
