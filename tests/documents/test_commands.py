"""Every command in every document exists: program, subcommand, flags, targets, files, extras."""

from __future__ import annotations

import ast
import importlib.util
import re
import tomllib
from typing import Final

import click
import pytest

from taskd_net import __version__
from taskd_net.cli.group import group
from tests.documents.pages import PAGES, ROOT, Command, commands, parsed

pytestmark = pytest.mark.skipif(len(PAGES) < 10, reason="the documents are part of a checkout")

ELSEWHERE: Final = {
    "curl": "the reader's own program, towards an address of the reader's",
    "date": "of the system: its output is piped into a command that is tried",
    "docker": "takes what podman takes",
    "jq": "of the system: what it reads is tried",
    "kubectl": "needs a cluster; what it runs within one is looked at",
    "msrun": "MindSpore's own: `make mindspore` runs it",
    "nginx": "not ours",
    "ss": "of the system",
    "ssh": "needs a second machine",
    "systemctl": "needs systemd and root; the unit's name is looked at",
    "tail": "of the system",
    "vi": "the reader's own program",
}
"""Programs of others: only arguments of ours are checked. Each has the reason."""


def wrong(command: Command) -> str:
    """The fault of a command; empty without one."""
    program = command.words[0].rpartition("/")[2]
    match program:
        case "taskd-net":
            return wrong_arguments(command.words[1:], group)
        case "make":
            return wrong_target(command.words[1:])
        case "python" | "python3.11":
            return wrong_python(command.words[1:])
        case "pip":
            return wrong_extras(command.words)
        case "podman" | "install" | "pytest" | "systemctl" | "kubectl":
            return wrong_files(command.words)
        case _:
            return "" if program in ELSEWHERE else f"nobody has said why {program} is not looked at"


def wrong_arguments(words: tuple[str, ...], command: click.Command) -> str:
    """The fault in the arguments of a command of ours, which does not run. Values are not checked."""
    words = tuple(word for word in words if not re.fullmatch(r"\[[A-Z]+\]", word))
    context = click.Context(command, info_name=command.name, **command.context_settings)
    try:
        _, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        return error.format_message()
    if isinstance(command, click.Group):
        if not rest:
            return ""
        below = command.commands.get(rest[0])
        return wrong_arguments(tuple(rest[1:]), below) if below else f"no command {rest[0]}"
    return f"nothing takes {rest[0]!r}" if rest else ""


def wrong_target(words: tuple[str, ...]) -> str:
    """The fault in the arguments of `make`."""
    text = (ROOT / "Makefile").read_text()
    for word in words:
        name, assigned, value = word.partition("=")
        if assigned and not re.search(rf"\$\((?:or )?\$?\(?{name}\b", text):
            return f"the Makefile reads no variable {name}"
        if not assigned and not re.search(rf"^{re.escape(name)}:.* ## ", text, re.MULTILINE):
            return f"the Makefile has no target {name}"
        if name == "ARGS" and words[0] in ("bench", "demo"):
            return wrong_arguments(tuple(value.split()), group.commands[words[0]])
    return ""


def wrong_python(words: tuple[str, ...]) -> str:
    """The fault in a Python module or script, and in its flags."""
    if words[0] == "-m":
        if words[1] == "venv":
            return ""
        found = importlib.util.find_spec(words[1])
        if found is None or found.origin is None:
            return f"there is no module {words[1]}"
        source, flags = found.origin, words[2:]
    else:
        name = words[0].removeprefix("examples/")
        source, flags = str(next(iter(ROOT.glob(f"**/examples/{name}")), "")), words[1:]
        if not source:
            return f"there is no script {words[0]}"
    known = _strings(source)
    missing = [flag for flag in flags if flag.startswith("--") and flag not in known]
    return f"{source} takes no {missing[0]}" if missing else ""


def _strings(source: str) -> set[str]:
    """All texts of a module."""
    with open(source, encoding="utf-8") as file:  # noqa: PTH123
        nodes = list(ast.walk(ast.parse(file.read())))
    return {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}


def wrong_extras(words: tuple[str, ...]) -> str:
    """The fault in the packages for pip."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for word in words[2:]:
        if of := re.search(r"\[([\w,]+)\]$", word):
            missing = set(of[1].split(",")) - set(project["optional-dependencies"])
            if missing:
                return f"there is no extra {missing}"
        if of := re.match(r"taskd_net-(.*?)-", word):
            return "" if of[1] == __version__ else f"this is {__version__}"
    return ""


def wrong_files(words: tuple[str, ...]) -> str:
    """The fault in a program's files, in options of pytest, and in commands of ours."""
    for word in words[1:]:
        if re.match(r"(deploy|tests|examples)/", word) and not (ROOT / word).exists():
            return f"there is no {word}"
        if word in ("taskd-net-proxy", "taskd-net-mgr") and not (ROOT / "deploy/systemd" / f"{word}.service").exists():
            return f"there is no unit {word}"
        if words[0] == "pytest" and word.startswith("--") and word not in _strings(str(ROOT / "tests" / "conftest.py")):
            return f"pytest has no option {word}"
        if word.startswith("taskd-net:") and word != f"taskd-net:{__version__}":
            return f"this is {__version__}"
    for before in ("--", f"taskd-net:{__version__}"):
        if before in words:
            inner = words[words.index(before) + 1 :]
            inner = inner[1:] if inner[:1] == ("taskd-net",) else inner
            if inner and not inner[0].startswith("."):
                return wrong_arguments(inner, group)
    return ""


def test_every_command_is_one_that_there_is() -> None:
    known = commands()
    assert len(known) > 150
    faults = {f"{command.page}: {command.text}": wrong(command) for command in known}
    assert {text: fault for text, fault in faults.items() if fault} == {}


@pytest.mark.parametrize(
    "line",
    [
        "taskd-net tree 10.0.0.7:9601",
        "taskd-net tree --where 10.0.0.7:9601",
        "taskd-net forest",
        "taskd-net certs sell",
        "taskd-net doctor proxy --flag",
        "make nothing",
        "make soak HOURS=1",
        'make bench ARGS="--fast"',
        "python -m benchmarks.nothing",
        "python -m benchmarks.hop --faster",
        "python nothing.py",
        "python train.py --leaps 3",
        "pip install 'taskd-net[everything]'",
        "pip install 'taskd_net-99.0-py3-none-any.whl[cli]'",
        "podman build -f deploy/Dockerfile .",
        "podman run --rm taskd-net:99 proxy",
        "kubectl exec job/train-node-0 -- taskd-net tree 10.0.0.7:9601",
        "pytest tests/nothing",
        "pytest --rewrite-nothing",
    ],
)
def test_a_command_that_there_is_not_is_found(line: str) -> None:
    (command,) = parsed("a document", line, shown=True)
    assert wrong(command)


def test_what_is_not_looked_at_is_somewhere() -> None:
    assert set(ELSEWHERE) <= {command.words[0] for command in commands()} | {"nginx", "docker", "ss"}
