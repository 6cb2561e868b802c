"""The page as one document: its parts, and its policy."""

from __future__ import annotations

import base64
import hashlib
import json
import re

from taskd_net.faces.page.app import SCRIPTS, Shell, _read
from taskd_net.observe.fields import Alarm, Form
from taskd_net.observe.records import Direction
from taskd_net.observe.series import FIELDS


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


def test_scripts_have_the_declarations_of_fields() -> None:
    document = Shell().document("{}", "{}")
    views = json.loads(between(document, "const VIEWS = ", ";\n"))
    assert [key for key, _ in views["Direction"]] == list(Direction._fields)
    assert dict(views["OwnFigures"])["lost"] == {
        "label": "lost",
        "form": "count",
        "phrase": "",
        "zero": False,
        "null": "",
        "flags": ["", ""],
        "alarm": "some",
        "place": "inbox",
    }
    rows = set(re.findall(r'rowsOf\("(\w+)"|phrasesOf\("(\w+)"', document))
    assert {name for pair in rows for name in pair if name} <= set(views)
    forms = between(document, "const WORDS = {", "};")
    assert all(form in forms for form in Form if form is not Form.FLAG)
    assert all(alarm in between(document, "const ALARMS = {", "};") for alarm in Alarm)


def test_scripts_have_the_declarations_of_columns() -> None:
    document = Shell().document("{}", "{}")
    columns = json.loads(between(document, "const COLUMNS = ", ";\n"))
    assert [column["name"] for column in columns] == list(FIELDS)
    flight = {"name": "in_flight", "figures": [["down", "in_flight"], ["up", "in_flight"]], "taken": "most"}
    assert flight | {"whole": "sum"} in columns


def test_scripts_have_commands_in_words() -> None:
    words = json.loads(between(Shell().document("{}", "{}"), "const COMMANDS = ", ";\n"))
    assert (words["203"], words["303"], words["711"]) == ("exit", "end epoch", "profiling")


def test_scripts_have_states_of_agents_in_words() -> None:
    words = json.loads(between(Shell().document("{}", "{}"), "const AGENTS = ", ";\n"))
    assert {"left", "finished", "faulty", "exited"} <= set(words)


def test_scripts_share_one_scope_and_no_name() -> None:
    """A name that two of them declare stops the whole page."""
    declared: dict[str, str] = {}
    for script in SCRIPTS:
        for name in re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", _read(f"{script}.js"), re.MULTILINE):
            assert name not in declared, f"{name} is declared in {declared[name]} and in {script}"
            declared[name] = script
    assert len(declared) > 100
