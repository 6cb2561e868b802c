"""The documents, with their commands and Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from taskd_net.cli.group import group

ROOT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = tuple(
    path
    for pattern in (*("*.md", "docs/*.md", "docs/reference/*.md"), *("deploy/*.md", "benchmarks/*.md"))
    for path in sorted(ROOT.glob(pattern))
)
EXAMPLES: Final = tuple(sorted((ROOT / "examples").glob("*.py")))

PROGRAMS: Final = (
    *("taskd-net", ".venv/bin/taskd-net", "make", "python", "python3.11", "pytest", "pip", "/opt/taskd-net/bin/pip"),
    *("podman", "kubectl", "systemctl", "install", "vi", "ssh", "curl", "ss", "date", "jq", "tail", "nginx", "docker"),
    "msrun",
)
"""First words of commands; any other line in a block without a language is a picture or an output."""

_FENCED: Final = re.compile(r"(?ms)^```(\w*)\n(.*?)^```$")
_INLINE: Final = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
_ASSIGNED: Final = re.compile(r"[A-Z][A-Z_]*=")
_PLACEHOLDER: Final = re.compile(r"\b(DEST|ADDR|POSITION)\b|…")


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a document, without the rest of its pipe.

    Args:
        page: the document, relative to the checkout, or the command with this help.
        text: the whole line.
        variables: assignments in front of it.
        words: the program and its arguments.
        fed: True with piped or redirected input.
        shown: True in a block, as a command to type; else it is part of a sentence.
    """

    page: str
    text: str
    variables: dict[str, str]
    words: tuple[str, ...]
    fed: bool
    shown: bool

    @property
    def complete(self) -> bool:
        """True if it can be typed as it is, without placeholders."""
        return not _PLACEHOLDER.search(self.text)


def blocks(language: str) -> Iterator[tuple[str, str]]:
    """The code blocks of a language, "" for those without one: the document and the text."""
    for path in PAGES:
        for named, code in _FENCED.findall(path.read_text()):
            if named == language:
                yield path.relative_to(ROOT).as_posix(), code


def commands() -> list[Command]:
    """Every command in every document, in the help of the command line, and at the top of the examples."""
    found: list[Command] = []
    for language in ("", "console", "sh"):
        for page, code in blocks(language):
            found += [command for line in code.splitlines() for command in parsed(page, line, shown=True)]
    for path in PAGES:
        prose = _FENCED.sub("", path.read_text())
        for span in _INLINE.findall(prose):
            line = " ".join(span.split())
            if " " in line:
                found += parsed(path.relative_to(ROOT).as_posix(), line, shown=False)
    for name, text in _helps(group, "taskd-net"):
        for line in text.splitlines():
            found += parsed(f"{name} --help", line, shown=True)
    for path in EXAMPLES:
        for line in path.read_text().split('"""')[1].splitlines():
            found += parsed(path.relative_to(ROOT).as_posix(), line, shown=True)
    return found


def parsed(page: str, line: str, *, shown: bool) -> list[Command]:
    """The commands of a line; none unless it begins with a known program."""
    line = line.strip().removeprefix("$ ")
    if " ready, " in line:  # a daemon's ready line begins like the command
        return []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    try:
        words = list(lexer)
    except ValueError:  # a quotation mark in a sentence
        return []
    found: list[Command] = []
    fed = False
    for number, part in enumerate(_parts(words)):
        variables: dict[str, str] = {}
        while part and _ASSIGNED.match(part[0]):
            name, _, value = part.pop(0).partition("=")
            variables[name] = value
        if not part or part[0] not in PROGRAMS:
            return found if number else []
        fed = fed or "<" in part
        for redirection in ("<", ">"):
            while redirection in part:
                at = part.index(redirection)
                del part[at : at + 2]
        found.append(Command(page, line.partition("  #")[0].rstrip(), variables, tuple(part), fed, shown))
        fed = True
    return found


def _parts(words: list[str]) -> Iterator[list[str]]:
    part: list[str] = []
    for word in words:
        if word == "|":
            yield part
            part = []
        else:
            part.append(word)
    yield part


def _helps(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    yield name, command.epilog or ""
    if isinstance(command, click.Group):
        for sub, below in command.commands.items():
            yield from _helps(below, f"{name} {sub}")
