"""The package's exports: documented names can be imported, and exported names are documented."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import taskd_net

ROOT = Path(__file__).resolve().parents[1]
# The other documents describe the inside.
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "SECURITY.md", "CHANGELOG.md")),
    *(ROOT / "docs" / f"{name}.md" for name in ("api", "diagnosis", "reliability", "security")),
    *(ROOT / "docs" / f"{name}.md" for name in ("status", "status-page")),
]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

pytestmark = [
    pytest.mark.skipif(not DOCUMENTS[0].exists(), reason="the documents are part of a checkout"),
    pytest.mark.oldest,
]


def code(document: Path) -> str:
    """The code in a document: blocks, and text in back-ticks."""
    return "\n".join(re.findall(r"```.*?```|`[^`\n]+`", document.read_text(), re.DOTALL))


def classes() -> set[str]:
    """Every public class of the package, apart from those that need torch."""
    return {
        node.name
        for path in Path(taskd_net.__file__).parent.rglob("*.py")
        if path.parent.name != "torch"
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }


def test_classes_that_documents_use_are_exported() -> None:
    """`Tls(...)`, `Statistics.lost`."""
    used = {name for path in DOCUMENTS for name in re.findall(r"\b([A-Z]\w+)(?=\(|\.[a-z])", code(path))}
    named = used & classes()
    assert {"Tls", "Retry", "Statistics", "Node", "NodeConfig"} <= named
    assert named - {"StatusPage"} <= set(taskd_net.__all__)


def test_errors_and_types_that_documents_name_are_exported() -> None:
    """Check names without brackets, too: `NodeForked`, `Command`."""
    api = ROOT / "docs" / "api.md"
    named = set(re.findall(r"`([A-Z]\w+)\b", api.read_text())) & classes()
    named -= {"Step", "Framework", "Devices"}  # keys of the profiling switch, and of an Agent's configuration
    assert {"Command", "Report", "NodeForked"} <= named <= set(taskd_net.__all__)


def test_calls_that_documents_name_are_exported() -> None:
    named = {
        name
        for path in DOCUMENTS
        for name in re.findall(r"\b((?:init|start|destroy|register|send|last)_\w+)(?=\()", code(path))
    }
    calls = {name for name in taskd_net.__all__ if re.match(r"(init|start|destroy|register|send|last)_", name)}
    assert calls <= named
    assert named - calls == {"send_all"}  # of Node


def test_imports_of_documents_and_examples_work() -> None:
    found = 0
    for path in (*DOCUMENTS, ROOT / "docs" / "design.md"):
        for module, names in re.findall(r"\bfrom (taskd_net[\w.]*) import (\w+(?:, \w+)*)", path.read_text()):
            found += 1
            for name in names.split(","):
                assert hasattr(importlib.import_module(module), name.strip()), f"{path.name}: {module}.{name}"
    assert found >= 3
    for path in EXAMPLES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module == "taskd_net":
                assert {alias.name for alias in node.names} <= set(taskd_net.__all__), path.name


# Each in an interpreter of its own, because an import changes the namespace.
def alone(code: str) -> object:
    """Run some code after `import taskd_net`, and return its output as JSON."""
    command = [sys.executable, "-c", f"import json, taskd_net\n{code}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(run.stdout)


def test_dotted_names_of_documents_are_there_after_the_import() -> None:
    named = {
        name
        for path in (*DOCUMENTS, *EXAMPLES)
        for name in re.findall(r"(?<!from )\btaskd_net\.(?!py\b)([a-z_]\w*(?:\.[a-z_]\w*)*)", path.read_text())
        if not name.startswith("torch")  # imports torch, which is installed for `make torch` alone
    } - {"code", "code_from", "plugins"}  # attributes of spans, a group of entry points
    assert {"logs.start", "init_taskd_worker", "send_to_manager"} <= named
    code = "import functools; found = lambda name: functools.reduce(getattr, name.split('.'), taskd_net)\n"
    assert alone(f"{code}print(json.dumps([name for name in {sorted(named)} if found(name)]))") == sorted(named)


def test_dir_shows_the_exports_and_nothing_else() -> None:
    assert alone("print(json.dumps(dir(taskd_net)))") == sorted(taskd_net.__all__)
    assert taskd_net.__all__ == sorted(taskd_net.__all__) and len(set(taskd_net.__all__)) == len(taskd_net.__all__)
    assert [name for name in taskd_net.__all__ if name.startswith("_")] == ["__version__"]
    code = "before = set(globals()); from taskd_net import *\nprint(json.dumps(sorted(set(globals()) - before)))"
    assert set(alone(code)) - {"before"} == set(taskd_net.__all__)  # type: ignore[call-overload]


def test_help_shows_the_documented_calls_and_nothing_private() -> None:
    code = "import pydoc; print(json.dumps(pydoc.render_doc(taskd_net, renderer=pydoc.plaintext)))"
    text = str(alone(code))
    functions = text[text.index("\nFUNCTIONS\n") : text.index("\nVERSION\n")]
    shown = re.findall(r"^    (\w+)\(", functions, re.MULTILINE)
    calls = [name for name in taskd_net.__all__ if re.match(r"(init|start|destroy|register|send|last)_", name)]
    assert shown == calls
    assert "Report to the Mgr from this process's Worker" in functions
    tree = text[text.index("\nCLASSES\n") : text.index("\n    class ")]
    assert re.findall(r"\b(?:_\w+)\(", tree) == [] and "taskd_net.net.tls.files.Tls" in tree
    assert "\nDATA\n" not in text


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'taskd_net' has no attribute 'init_taskd_wroker'"):
        _ = taskd_net.init_taskd_wroker  # type: ignore[attr-defined]
