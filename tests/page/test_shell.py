"""The page as one document: its parts, and its policy."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from taskd_net.faces.page.app import SCRIPTS, Shell, _read


def between(text: str, opening: str, closing: str) -> str:
    """The one text between two others."""
    (found,) = re.findall(re.escape(opening) + "(.*?)" + re.escape(closing), text, flags=re.DOTALL)
    return str(found)


def test_tree_cannot_end_its_element() -> None:
    document = Shell().document('{"name":"</script><!--"}', '{"text":"</script><!--"}')
    for element, key in (("told", "name"), ("past", "text")):
        told = between(document, f'<script type="application/json" id="{element}">', "</script>")
        assert "<" not in told
        assert json.loads(told) == {key: "</script><!--"}


def test_document_has_every_script_in_order() -> None:
    document = Shell().document("{}", "{}")
    places = [document.index(_read(f"{name}.js")) for name in SCRIPTS]
    assert places == sorted(places)
    assert not re.search(r"/\* (style|script|tree|past) \*/", document)


def test_policy_has_the_hashes_of_style_and_script() -> None:
    shell = Shell()
    document = shell.document("{}", "{}")
    for directive, opening, closing in (("style-src", "<style>", "</style>"), ("script-src", "<script>", "</script>")):
        digest = hashlib.sha256(between(document, opening, closing).encode()).digest()
        assert f"{directive} 'sha256-{base64.b64encode(digest).decode()}'" in shell.policy
    assert shell.policy.startswith("default-src 'none'; ")
